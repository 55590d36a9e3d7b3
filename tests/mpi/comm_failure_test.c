/* What ranks see when another does not do its part: a status code within the timeout. */
#include <string.h>

#include "base/clock.h"
#include "comm/world.h"
#include "lockstep/collective.h"
#include "lockstep/transport_mpi.h"
#include "support/mpi_main.h"

enum { COUNT = 1000 };

static const double timeout = 0.5;

static ls_transport *transport;
static float data[COUNT + 1];
static float scratch[16 * (COUNT + 17)];

static int open_transport(void **state)
{
    (void)state;
    return ls_transport_open_mpi(&transport, MPI_COMM_WORLD, NULL) != LS_OK;
}

/* A barrier first: nobody closes while another still waits for its timeout. */
static int close_transport(void **state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
    ls_transport_close(transport);
    return 0;
}

static ls_allreduce *open_sum(const ls_algorithm *algorithm, int64_t count)
{
    ls_payload payload = {
        .data = data,
        .count = count,
        .type = &ls_sum_f32,
        .scratch = scratch,
    };
    ls_allreduce *sum = NULL;

    assert_ok(ls_allreduce_open(&sum, transport, algorithm, &payload));
    return sum;
}

/* The last rank never starts. The one after it in the ring names it; nobody hangs. */
static void test_absent_rank_is_named(void **state)
{
    int absent = transport->ranks - 1;
    char says[64];

    (void)state;
    if (transport->rank == absent)
        return;
    snprintf(says, sizeof says, "rank %d did not send", transport->rank == 0 ? absent : 0);
    ls_allreduce *sum = open_sum(&ls_algorithm_ring, COUNT);
    double start = ls__clock_seconds();
    assert_ok(ls_allreduce_start(sum));
    ls_status status = ls_allreduce_wait(sum, timeout);
    assert_int_equal(status, LS_TIMEOUT);
    assert_true(ls__clock_seconds() - start < timeout + 5);
    if (transport->rank < 2)
        assert_fails(status, LS_TIMEOUT, says);
    ls_allreduce_close(sum);
}

static void test_absent_rank_at_the_check(void **state)
{
    int absent = transport->ranks - 1;

    (void)state;
    if (transport->rank == absent)
        return;
    ls_allreduce *sum = open_sum(&ls_algorithm_ring, COUNT);
    assert_fails(ls_allreduce_check(sum, timeout), LS_TIMEOUT, "naive");
    ls_allreduce_close(sum);
}

/* Counts n and n + 1 without the check: whoever notices says so, and nobody ends as if all had gone
 * well whose sums are not complete. */
static void check_mismatched_counts(const ls_algorithm *algorithm)
{
    int noticed = 0;

    assert_int_equal(open_transport(NULL), 0);
    ls_allreduce *sum = open_sum(algorithm, COUNT + (transport->rank == 0));
    ls_status status = ls_allreduce_start(sum);
    if (status == LS_OK)
        status = ls_allreduce_wait(sum, timeout);
    assert_true(status == LS_COMM || status == LS_TIMEOUT);
    if (status == LS_COMM) {
        noticed = 1;
        assert_non_null(strstr(ls_last_error()->text, "every rank must use the same count"));
    }
    MPI_Allreduce(MPI_IN_PLACE, &noticed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    assert_true(noticed > 0);
    ls_allreduce_close(sum);
    close_transport(NULL);
}

static void test_mismatched_counts(void **state)
{
    (void)state;
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++)
        if (ls_algorithm_at(i)->reduce)
            check_mismatched_counts(ls_algorithm_at(i));
}

/* The late rank joins afterwards, so that MPI itself can end: the barrier is then complete, or it
 * hears that the others gave up. */
static void test_barrier_times_out(void **state)
{
    ls__world *world = NULL;
    char says[MPI_MAX_PROCESSOR_NAME + 64];

    (void)state;
    assert_ok(ls__world_open(&world, timeout));
    int absent = ls__world_ranks(world) - 1;
    snprintf(says, sizeof says, "rank %d (%s) did not arrive within 0.5 s", absent,
             ls__world_host(world, absent));
    if (ls__world_rank(world) != ls__world_ranks(world) - 1)
        assert_fails(ls__world_barrier(world), LS_TIMEOUT, says);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ls__world_rank(world) == ls__world_ranks(world) - 1) {
        ls_status late = ls__world_barrier(world);
        assert_true(late == LS_OK || late == LS_TIMEOUT);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    ls__world_close(world);
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_absent_rank_is_named, open_transport, close_transport),
        cmocka_unit_test_setup_teardown(test_absent_rank_at_the_check, open_transport,
                                        close_transport),
        cmocka_unit_test(test_mismatched_counts),
        cmocka_unit_test(test_barrier_times_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

LS__MPI_MAIN(run_cases())
