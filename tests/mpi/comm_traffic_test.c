/* Bytes that the ring sends, by the MPI transport's own counters, and results against
 * MPI_Allreduce, which the ring's must equal on inputs whose float sum is exact. */
#include <stdlib.h>

#include "lockstep/collective.h"
#include "lockstep/transport_mpi.h"
#include "support/mpi_main.h"

enum { PER_RANK = 5040, TIMEOUT = 30 };

static ls_transport *transport;

static int open_transport(void **state)
{
    (void)state;
    return ls_transport_open_mpi(&transport, MPI_COMM_WORLD, NULL) != LS_OK;
}

static int close_transport(void **state)
{
    (void)state;
    ls_transport_close(transport);
    return 0;
}

/* Sums `data` by `algorithm`; *sent = the bytes that this rank sent for it. */
static void all_reduce(const ls_algorithm *algorithm, float *data, int64_t count, int64_t *sent)
{
    int64_t bytes =
        ls_allreduce_scratch(algorithm, ls_transport_layout(transport), count, &ls_sum_f32);
    ls_payload payload = {.data = data, .count = count, .type = &ls_sum_f32};
    ls_allreduce *sum = NULL;

    payload.scratch = malloc((size_t)bytes + 1);
    assert_non_null(payload.scratch);
    assert_ok(ls_allreduce_open(&sum, transport, algorithm, &payload));
    assert_ok(ls_allreduce_check(sum, TIMEOUT));
    int64_t before = transport->traffic.sent_bytes;
    assert_ok(ls_allreduce_start(sum));
    assert_ok(ls_allreduce_wait(sum, TIMEOUT));
    *sent = transport->traffic.sent_bytes - before;
    ls_allreduce_close(sum);
    free(payload.scratch);
}

static void fill(float *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)((i + 7 * transport->rank) % 31 - 15);
}

static void check_against_mpi(const ls_algorithm *algorithm, int64_t count, int64_t *sent)
{
    float *data = malloc((size_t)count * sizeof *data);
    float *expected = malloc((size_t)count * sizeof *expected);

    assert_true(data && expected);
    fill(data, count);
    fill(expected, count);
    all_reduce(algorithm, data, count, sent);
    MPI_Allreduce(MPI_IN_PLACE, expected, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    assert_memory_equal(data, expected, (size_t)count * sizeof *data);
    free(expected);
    free(data);
}

static void test_ring_bytes(void **state)
{
    int64_t ranks = transport->ranks;
    int64_t count = ranks * PER_RANK;
    int64_t data_bytes = count * 4;
    int64_t sent = 0;

    (void)state;
    check_against_mpi(&ls_algorithm_ring, count, &sent);
    assert_true(sent * ranks == 2 * (ranks - 1) * data_bytes);
    ls__figure("ring, N = %lld: each rank sent %lld bytes of %lld = %.6f, 2(N-1)/N = %.6f",
               (long long)ranks, (long long)sent, (long long)data_bytes,
               (double)sent / (double)data_bytes, 2 * (double)(ranks - 1) / (double)ranks);
}

static void test_equal_to_mpi(void **state)
{
    (void)state;
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++)
        for (int64_t count = 1; count < 200000; count = count * 7 + 3) {
            int64_t sent = 0;
            check_against_mpi(ls_algorithm_at(i), count, &sent);
        }
}

/* In pieces of 1,000 elements, as counts above INT_MAX are cut. */
static void test_blocking_in_pieces(void **state)
{
    static const int64_t counts[] = {0, 1, 999, 1000, 1001, 5678};
    ls_mpi_options options = {.longest_message = 1000 * (int64_t)sizeof(float)};
    ls_transport *short_messages = NULL;
    float data[5678];
    float expected[5678];

    (void)state;
    assert_ok(ls_transport_open_mpi(&short_messages, MPI_COMM_WORLD, &options));
    for (int i = 0; i < 6; i++) {
        fill(data, counts[i]);
        fill(expected, counts[i]);
        assert_ok(ls_mpi_all_reduce(short_messages, data, counts[i], &ls_sum_f32));
        MPI_Allreduce(MPI_IN_PLACE, expected, (int)counts[i], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        assert_memory_equal(data, expected, (size_t)counts[i] * sizeof *data);
    }
    ls_transport_close(short_messages);
}

static void test_blocking_of_unknown_type(void **state)
{
    ls_element_type odd = {.name = "odd", .size = 4};
    float data = 0;

    (void)state;
    assert_fails(ls_mpi_all_reduce(transport, &data, 1, &odd), LS_BAD_USAGE, "type odd");
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_bytes),
        cmocka_unit_test(test_equal_to_mpi),
        cmocka_unit_test(test_blocking_in_pieces),
        cmocka_unit_test(test_blocking_of_unknown_type),
    };

    return cmocka_run_group_tests(tests, open_transport, close_transport);
}

LS__MPI_MAIN(run_cases())
