/* The conformance suite on the MPI transport, with messages whole and split. */
#include "base/clock.h"
#include "comm/engine.h"
#include "lockstep/transport_mpi.h"
#include "support/conformance.h"
#include "support/mpi_main.h"

static ls_status run(ls__fleet *fleet, ls__fleet_step *step, void *context)
{
    double deadline = ls__clock_seconds() + 30;
    bool done = false;

    for (;;) {
        LS_TRY(step(context, fleet->first, &done));
        if (done)
            return LS_OK;
        LS_FAIL_IF(ls__yield_until(deadline), LS_TIMEOUT, "rank %d is not done after 30 s",
                   fleet->first);
    }
}

static void conform(int64_t longest_message)
{
    ls_mpi_options options = {.longest_message = longest_message};
    ls_transport *transport = NULL;

    assert_ok(ls_transport_open_mpi(&transport, MPI_COMM_WORLD, &options));
    ls__fleet fleet = {
        .ranks = transport->ranks,
        .first = transport->rank,
        .end = transport->rank + 1,
        .run = run,
    };
    fleet.transport[transport->rank] = transport;
    ls__conformance(&fleet);
    ls_transport_close(transport);
}

static void test_whole_messages(void **state)
{
    (void)state;
    conform(0);
}

static void test_messages_split_at_1000_bytes(void **state)
{
    (void)state;
    conform(1000);
}

static void test_unusable_options(void **state)
{
    ls_mpi_options options = {.longest_message = 7};
    ls_transport *transport = NULL;

    (void)state;
    assert_fails(ls_transport_open_mpi(&transport, MPI_COMM_WORLD, &options), LS_BAD_USAGE,
                 "not 7");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_whole_messages),
    cmocka_unit_test(test_messages_split_at_1000_bytes),
    cmocka_unit_test(test_unusable_options),
};

LS__MPI_MAIN(cmocka_run_group_tests(tests, NULL, NULL))
