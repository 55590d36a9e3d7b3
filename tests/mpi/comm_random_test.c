/* Every algorithm with random counts, over MPI messages and over shared memory, as many all-reduces
 * in flight together as training has: always the sums that whole numbers have in any order. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/collective.h"
#include "lockstep/transport_mpi.h"
#include "lockstep/transport_shm.h"
#include "support/mpi_main.h"

enum { COUNT_MAX = 40000, TOGETHER = 4, ROUNDS = 3, TIMEOUT = 50 };

typedef struct one_sum {
    ls_allreduce *sum;
    float *data; /* (COUNT_MAX) */
    void *scratch;
    int64_t count;
    bool done;
} one_sum;

static uint64_t seed;

/* Whole numbers, so small that their float sum is exact. */
static float addend(int rank, int64_t index, int which)
{
    return (float)((index * 5 + rank * 3 + which) % 17 - 8);
}

static float exact_sum(int ranks, int64_t index, int which)
{
    float sum = 0;

    for (int rank = 0; rank < ranks; rank++)
        sum += addend(rank, index, which);
    return sum;
}

/* Of all lengths alike, from none to some thousand. */
static int64_t random_count(uint64_t draw)
{
    ls__random4 words = ls__random(seed, LS__STREAM_SAMPLE, 0, draw);
    int64_t limit = (int64_t)1 << words.word[2] % 16;

    return (int64_t)ls__bounded(words, (uint64_t)limit);
}

static void open_sum(one_sum *one, ls_transport *transport, const ls_algorithm *algorithm,
                     int which, uint64_t draw)
{
    ls_layout layout = ls_transport_layout(transport);

    one->count = random_count(draw);
    one->done = false;
    one->scratch =
        malloc((size_t)ls_allreduce_scratch(algorithm, layout, one->count, &ls_sum_f32) + 1);
    assert_non_null(one->scratch);
    ls_payload payload = {.data = one->data,
                          .count = one->count,
                          .type = &ls_sum_f32,
                          .scratch = one->scratch,
                          .channel = which};
    assert_ok(ls_allreduce_open(&one->sum, transport, algorithm, &payload));
    for (int64_t i = 0; i < one->count; i++)
        one->data[i] = addend(transport->rank, i, which);
}

static void check_sum(const one_sum *one, const ls_transport *transport,
                      const ls_algorithm *algorithm, int which)
{
    for (int64_t i = 0; i < one->count; i++)
        if (one->data[i] != exact_sum(transport->ranks, i, which))
            fail_msg("%s over %s, %lld elements: element %lld is %g", algorithm->name,
                     transport->table->name, (long long)one->count, (long long)i,
                     (double)one->data[i]);
}

/* In flight together, each advanced in turn, and waited for in the other order. */
static void sum_together(one_sum *sums, ls_transport *transport, const ls_algorithm *algorithm,
                         uint64_t draw)
{
    for (int i = 0; i < TOGETHER; i++)
        open_sum(&sums[i], transport, algorithm, i, draw * TOGETHER + (uint64_t)i);
    for (int i = 0; i < TOGETHER; i++)
        assert_ok(ls_allreduce_start(sums[i].sum));
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < TOGETHER; i++)
            assert_ok(ls_allreduce_advance(sums[i].sum, &sums[i].done));
    for (int i = TOGETHER - 1; i >= 0; i--)
        assert_ok(ls_allreduce_wait(sums[i].sum, TIMEOUT));
    for (int i = 0; i < TOGETHER; i++) {
        check_sum(&sums[i], transport, algorithm, i);
        ls_allreduce_close(sums[i].sum);
        free(sums[i].scratch);
    }
}

static void always_right(ls_transport *transport)
{
    one_sum sums[TOGETHER];
    uint64_t draw = 0;

    seed = ls__test_seed(20261129);
    for (int i = 0; i < TOGETHER; i++)
        assert_ok(ls_transport_memory(transport, COUNT_MAX * 4, (void **)&sums[i].data));
    for (int a = 0; a < LS_ALGORITHM_COUNT; a++)
        for (int round = 0; round < ROUNDS; round++)
            sum_together(sums, transport, ls_algorithm_at(a), draw++);
    ls__figure("%s, N = %d: %d algorithms, %d sums each, none wrong", transport->table->name,
               transport->ranks, LS_ALGORITHM_COUNT, ROUNDS * TOGETHER);
    ls_transport_close(transport);
}

static void test_over_mpi(void **state)
{
    ls_transport *transport = NULL;

    (void)state;
    assert_ok(ls_transport_open_mpi(&transport, MPI_COMM_WORLD, NULL));
    always_right(transport);
}

static void test_over_shared_memory(void **state)
{
    ls_transport *transport = NULL;

    (void)state;
    assert_ok(ls_transport_open_shm(&transport, MPI_COMM_WORLD));
    always_right(transport);
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_over_mpi),
        cmocka_unit_test(test_over_shared_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

LS__MPI_MAIN(run_cases())
