/* The algorithms on simulated ranks, N = 1 to 64, random counts, random order of delivery: always
 * the right sums, always the same bits. Broken schedules must show. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "comm/transport_sim.h"
#include "lockstep/collective.h"
#include "support/test.h"

enum { RANKS_MAX = 64, COUNTS_PER_N = 8, LARGE_COUNT = 3000 };

/* ---- all ranks of one all-reduce ---- */

typedef struct crowd {
    ls__sim *sim;
    int ranks;
    int64_t count;
    float *data;        /* (ranks, count) */
    char *scratch;      /* (ranks, scratch_bytes) */
    ls_allreduce **sum; /* (ranks) */
    bool *begun;        /* (ranks) */
} crowd;

static void open_crowd(crowd *all, const ls__sim_options *options, const ls_algorithm *algorithm,
                       int64_t count)
{
    size_t ranks = (size_t)options->ranks;
    int64_t scratch = ls_allreduce_scratch(
        algorithm, (ls_layout){options->ranks, options->per_node ? options->per_node : 1}, count,
        &ls_sum_f32);

    *all = (crowd){.ranks = options->ranks, .count = count};
    all->data = calloc(ranks * (size_t)count + 1, sizeof *all->data);
    all->scratch = calloc(ranks * (size_t)scratch + 1, 1);
    all->sum = calloc(ranks, sizeof *all->sum);
    all->begun = calloc(ranks, sizeof *all->begun);
    assert_true(all->data && all->scratch && all->sum && all->begun);
    assert_ok(ls__sim_open(&all->sim, options));
    for (int rank = 0; rank < all->ranks; rank++) {
        ls_payload payload = {
            .data = all->data + rank * count,
            .count = count,
            .type = &ls_sum_f32,
            .scratch = all->scratch + rank * scratch,
        };
        assert_ok(ls_allreduce_open(&all->sum[rank], ls__sim_transport(all->sim, rank), algorithm,
                                    &payload));
    }
}

static void close_crowd(crowd *all)
{
    for (int rank = 0; rank < all->ranks; rank++)
        ls_allreduce_close(all->sum[rank]);
    ls__sim_close(all->sim);
    free(all->begun);
    free(all->sum);
    free(all->scratch);
    free(all->data);
}

static ls_status step(void *context, int rank, bool *done)
{
    crowd *all = context;

    if (!all->begun[rank]) {
        all->begun[rank] = true;
        LS_TRY(ls_allreduce_start(all->sum[rank]));
    }
    return ls_allreduce_advance(all->sum[rank], done);
}

/* ---- exact sums ---- */

static float addend(int rank, int64_t index)
{
    return (float)((index * 5 + rank * 3) % 17 + 1);
}

/* Fills in, runs, and counts the elements that are not the exact sum. */
static int64_t count_wrong(crowd *all)
{
    int64_t wrong = 0;

    for (int rank = 0; rank < all->ranks; rank++)
        for (int64_t i = 0; i < all->count; i++)
            all->data[rank * all->count + i] = addend(rank, i);
    assert_ok(ls__sim_run(all->sim, step, all));
    for (int64_t i = 0; i < all->count; i++) {
        float sum = 0;
        for (int rank = 0; rank < all->ranks; rank++)
            sum += addend(rank, i);
        for (int rank = 0; rank < all->ranks; rank++)
            wrong += all->data[rank * all->count + i] != sum;
    }
    return wrong;
}

/* Any order of delivery: jitter far above everything else. */
static ls__sim_options disorder(int ranks, uint64_t seed)
{
    return (ls__sim_options){
        .ranks = ranks,
        .seed = seed,
        .latency = 1e-6,
        .seconds_per_byte = 1e-9,
        .jitter = 1,
    };
}

/* The ranks stand on as few nodes of at most four as the number allows. */
static int64_t wrong_in_disorder(const ls_algorithm *algorithm, int ranks, int64_t count,
                                 uint64_t seed)
{
    ls__sim_options options = disorder(ranks, seed);

    options.per_node = ranks % 4 == 0 ? 4 : ranks % 3 == 0 ? 3 : ranks % 2 == 0 ? 2 : 1;
    crowd all;

    open_crowd(&all, &options, algorithm, count);
    int64_t wrong = count_wrong(&all);
    close_crowd(&all);
    return wrong;
}

/* Zero, below N, N and its neighbours, then anything. */
static int64_t random_count(int ranks, int choice, uint64_t seed)
{
    ls__random4 words = ls__random(seed, LS__STREAM_SAMPLE, (uint32_t)ranks, (uint64_t)choice);

    switch (choice) {
    case 0:
        return 0;
    case 1:
        return (int64_t)ls__bounded(words, (uint64_t)ranks);
    case 2:
        return ranks - 1 + (int64_t)ls__bounded(words, 3);
    default:
        return (int64_t)ls__bounded(words, LARGE_COUNT);
    }
}

static void always_right(const ls_algorithm *algorithm, uint64_t seed)
{
    int64_t runs = 0;

    for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (int choice = 0; choice < COUNTS_PER_N; choice++, runs++) {
            int64_t count = random_count(ranks, choice, seed);
            int64_t wrong = wrong_in_disorder(algorithm, ranks, count, seed + (uint64_t)runs);
            if (wrong)
                fail_msg("%s, %d ranks, %lld elements: %lld wrong", algorithm->name, ranks,
                         (long long)count, (long long)wrong);
        }
    ls__figure("%s, simulated, N = 1..%d, random order of delivery: %lld runs, none wrong",
               algorithm->name, RANKS_MAX, (long long)runs);
}

static void test_always_right(void **state)
{
    (void)state;
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++)
        if (ls_algorithm_at(i)->reduce)
            always_right(ls_algorithm_at(i), ls__test_seed((uint64_t)i + 1));
}

/* Segments of 100 bytes, so that blocks have many; their number need not divide anything. */
static void test_segments_are_always_right(void **state)
{
    ls_schedule reduce = *ls_algorithm_ring_seg.reduce;
    ls_schedule distribute = *ls_algorithm_ring_seg.distribute;
    ls_algorithm fine = ls_algorithm_ring_seg;

    (void)state;
    fine.name = "fine";
    fine.reduce = &reduce;
    fine.distribute = &distribute;
    reduce.segment = 100;
    distribute.segment = 100;
    always_right(&fine, ls__test_seed(11));
}

/* Whoever takes scratch for the largest of several counts has enough for all of them. */
static void test_scratch_never_shrinks(void **state)
{
    (void)state;
    for (int a = 0; a < LS_ALGORITHM_COUNT; a++)
        for (int ranks = 1; ranks <= 9; ranks++)
            for (int per_node = 1; per_node <= ranks; per_node += ranks - 1 > 0 ? ranks - 1 : 1) {
                ls_layout layout = {ranks, per_node};
                int64_t before = 0;
                for (int64_t count = 0; count < 600000; count += 251) {
                    int64_t bytes =
                        ls_allreduce_scratch(ls_algorithm_at(a), layout, count, &ls_sum_f32);
                    if (bytes < before)
                        fail_msg("%s, %d ranks: %lld elements need less than fewer",
                                 ls_algorithm_at(a)->name, ranks, (long long)count);
                    before = bytes;
                }
            }
}

/* ---- negative controls ---- */

static ls_round last_round_copies(ls_layout layout, int rank, int64_t index)
{
    ls_round round = ls_algorithm_ring.reduce->round(layout, rank, index);

    round.combine = index != layout.ranks - 2;
    return round;
}

static void test_wrong_schedule_shows(void **state)
{
    ls_schedule reduce = *ls_algorithm_ring.reduce;
    ls_algorithm broken = ls_algorithm_ring;

    (void)state;
    reduce.round = last_round_copies;
    broken.reduce = &reduce;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
        assert_true(wrong_in_disorder(&broken, ranks, 500, (uint64_t)ranks) > 0);
}

static int64_t waves_of_four(ls_layout layout)
{
    (void)layout;
    return 4;
}

/* A ring that says its rounds need not wait for each other: only the order of delivery can tell. */
static void test_wrong_waves_show(void **state)
{
    ls_schedule reduce = *ls_algorithm_ring.reduce;
    ls_algorithm broken = ls_algorithm_ring;
    uint64_t seed = ls__test_seed(3);
    int caught = 0;

    (void)state;
    reduce.wave = waves_of_four;
    broken.reduce = &reduce;
    for (uint64_t i = 0; i < 20; i++)
        caught += wrong_in_disorder(&broken, 6, 600, seed + i) > 0;
    assert_true(caught > 0);
    ls__figure("a ring with wrong waves is caught in %d of 20 orders of delivery", caught);
}

/* ---- the same bits in any order of delivery ---- */

static void test_same_bits_in_any_order(void **state)
{
    enum { RANKS = 7, COUNT = 1000 };
    static float first[RANKS * COUNT];
    uint64_t seed = ls__test_seed(4);

    (void)state;
    for (uint64_t k = 0; k < 10; k++) {
        ls__sim_options options = disorder(RANKS, seed + k);
        crowd all;
        open_crowd(&all, &options, &ls_algorithm_ring, COUNT);
        for (uint64_t i = 0; i < RANKS * COUNT; i++)
            all.data[i] = (float)ls__normal(seed, LS__STREAM_INIT, i);
        assert_ok(ls__sim_run(all.sim, step, &all));
        if (k == 0)
            memcpy(first, all.data, sizeof first);
        assert_memory_equal(first, all.data, sizeof first);
        close_crowd(&all);
    }
}

/* ---- the clock ---- */

/* Without contention the ring takes 2(N-1) (latency + D/N seconds_per_byte): see src/comm/ring.c.
 */
static void test_time_is_the_formula(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        ls__sim_options options = {
            .ranks = ranks,
            .latency = 2e-6,
            .seconds_per_byte = 1 / 12.5e9,
        };
        double block = 100 * sizeof(float) * options.seconds_per_byte;
        double expected = 2 * (ranks - 1) * (options.latency + block);
        crowd all;
        open_crowd(&all, &options, &ls_algorithm_ring, 100 * ranks);
        assert_int_equal(count_wrong(&all), 0);
        assert_true(fabs(ls__sim_clock(all.sim) - expected) <= 1e-9 * expected);
        close_crowd(&all);
    }
}

static void test_many_ranks(void **state)
{
    enum { RANKS = 1024 };

    (void)state;
    assert_int_equal(wrong_in_disorder(&ls_algorithm_ring, RANKS, 100, 5), 0);
    assert_int_equal(wrong_in_disorder(&ls_algorithm_naive, RANKS, 100, 6), 0);
}

/* ---- deadlocks and failures ---- */

static ls_round everyone_receives_first(ls_layout layout, int rank, int64_t index)
{
    ls_round round = ls_algorithm_ring.reduce->round(layout, rank, index);

    round.send_to = LS_NO_PEER;
    round.send = (ls_span){0, 0};
    return round;
}

static void test_deadlock_is_reported(void **state)
{
    ls_schedule reduce = *ls_algorithm_ring.reduce;
    ls_algorithm broken = ls_algorithm_ring;
    ls__sim_options options = disorder(3, 7);
    crowd all;

    (void)state;
    reduce.round = everyone_receives_first;
    broken.reduce = &reduce;
    open_crowd(&all, &options, &broken, 30);
    assert_fails(ls__sim_run(all.sim, step, &all), LS_COMM, "deadlock: rank ");
    close_crowd(&all);
}

static ls_status fail_on_rank_2(void *context, int rank, bool *done)
{
    (void)context;
    LS_FAIL_IF(rank == 2, LS_IO, "rank 2's disk is gone");
    *done = true;
    return LS_OK;
}

static void test_failure_names_its_rank(void **state)
{
    ls__sim_options options = disorder(4, 8);
    ls__sim *sim = NULL;

    (void)state;
    assert_ok(ls__sim_open(&sim, &options));
    assert_fails(ls__sim_run(sim, fail_on_rank_2, NULL), LS_IO, "disk is gone");
    assert_int_equal(ls_last_error()->rank, 2);
    ls__sim_close(sim);
}

static void test_no_library_all_reduce_here(void **state)
{
    ls__sim_options options = disorder(2, 9);
    ls_payload payload = {.type = &ls_sum_f32};
    ls_allreduce *sum = NULL;
    ls__sim *sim = NULL;

    (void)state;
    assert_ok(ls__sim_open(&sim, &options));
    assert_fails(ls_allreduce_open(&sum, ls__sim_transport(sim, 0), &ls_algorithm_mpi, &payload),
                 LS_BAD_USAGE, "choose another of ring");
    ls__sim_close(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_always_right),
        cmocka_unit_test(test_segments_are_always_right),
        cmocka_unit_test(test_scratch_never_shrinks),
        cmocka_unit_test(test_wrong_schedule_shows),
        cmocka_unit_test(test_wrong_waves_show),
        cmocka_unit_test(test_same_bits_in_any_order),
        cmocka_unit_test(test_time_is_the_formula),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_deadlock_is_reported),
        cmocka_unit_test(test_failure_names_its_rank),
        cmocka_unit_test(test_no_library_all_reduce_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
