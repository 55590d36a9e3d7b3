/* The conformance suite on the MPI transport, with messages whole and split. */
#include "base/clock.h"
#include "comm/engine.h"
#include "lockstep/transport_mpi.h"
#include "lockstep/transport_shm.h"
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

static void conform(ls_transport *transport, ls__fleet_memory memory)
{
    ls__fleet fleet = {
        .memory = memory,
        .ranks = transport->ranks,
        .first = transport->rank,
        .end = transport->rank + 1,
        .run = run,
    };
    fleet.transport[transport->rank] = transport;
    ls__conformance(&fleet);
    ls_transport_close(transport);
}

static void conform_mpi(int64_t longest_message)
{
    ls_mpi_options options = {.longest_message = longest_message};
    ls_transport *transport = NULL;

    assert_ok(ls_transport_open_mpi(&transport, MPI_COMM_WORLD, &options));
    conform(transport, LS__MEMORY_OF_CALLER);
}

static void test_whole_messages(void **state)
{
    (void)state;
    conform_mpi(0);
}

static void test_messages_split_at_1000_bytes(void **state)
{
    (void)state;
    conform_mpi(1000);
}

static void conform_shm(ls__fleet_memory memory)
{
    ls_transport *transport = NULL;

    assert_ok(ls_transport_open_shm(&transport, MPI_COMM_WORLD));
    assert_int_equal(transport->per_node, transport->ranks);
    conform(transport, memory);
}

static void test_shared_memory(void **state)
{
    (void)state;
    conform_shm(LS__MEMORY_OF_TRANSPORT);
}

/* Messages from elsewhere go over MPI, in order with those that do not. */
static void test_memory_that_is_not_shared(void **state)
{
    (void)state;
    conform_shm(LS__MEMORY_OF_CALLER);
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
    cmocka_unit_test(test_whole_messages),   cmocka_unit_test(test_messages_split_at_1000_bytes),
    cmocka_unit_test(test_shared_memory),    cmocka_unit_test(test_memory_that_is_not_shared),
    cmocka_unit_test(test_unusable_options),
};

LS__MPI_MAIN(cmocka_run_group_tests(tests, NULL, NULL))
