/* The gradient's mean over ranks under the worst addends: spreads that spill on every element,
 * cancellation, infinities. Every algorithm, bucket size and kind of sharing gives the bits of one
 * exact sum over all addends, which each rank makes by itself; FP32 sums, the control, do not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/threads.h"
#include "lockstep/exact.h"
#include "support/mpi_main.h"
#include "train/reduce.h"

/* Not whole units, more spills a rank than one message holds, and more than one thread's piece. */
enum { COUNT = 66 * LS__REDUCE_UNIT + 77, ADDENDS = 3 };

static ls__world *world;
static uint64_t seed;
static bool gentle; /* addends that never spill */

static int open_world(void **state)
{
    (void)state;
    return ls__world_open(&world, 50) != LS_OK;
}

static int close_world(void **state)
{
    (void)state;
    ls__world_close(world);
    return 0;
}

/* A reducer's shared memory lives as long as the world. */
static void reopen_world(void)
{
    ls__world_close(world);
    assert_ok(ls__world_open(&world, 50));
}

/* Addend `k` of a rank for an element: any FP32 magnitude, so that nearly every sum spills; every
 * seventh element cancels to almost nothing over the addends. */
static float addend(int rank, int k, int64_t element)
{
    ls__random4 words =
        ls__random(seed, LS__STREAM_SAMPLE, (uint32_t)(rank * ADDENDS + k), (uint64_t)element);
    double mantissa = 1 + ls__uniform(words.word[0], words.word[1]);
    int exponent = (int)(words.word[2] % 240) - 130;

    if (gentle)
        return (float)((rank + k + element) % 17);
    if (element % 7 == 0)
        mantissa = k == 0 ? 1.5 : k == 1 ? -1.5 : mantissa, exponent = k == 2 ? -149 : 100;
    return (float)ldexp(words.word[3] & 1 && element % 7 ? -mantissa : mantissa, exponent);
}

static void fill(float *values, int rank, int k)
{
    for (int64_t i = 0; i < COUNT; i++)
        values[i] = addend(rank, k, i);
}

/* What all must get: one exact sum over all ranks' addends. */
static void make_expected(float *expected, float *values, double *lanes)
{
    ls_exact *exact = NULL;
    int ranks = ls__world_ranks(world);

    assert_ok(ls_exact_open(&exact, COUNT, lanes));
    for (int rank = 0; rank < ranks; rank++)
        for (int k = 0; k < ADDENDS; k++) {
            fill(values, rank, k);
            ls_exact_add(exact, 0, values, COUNT);
        }
    ls_exact_round(exact, 0, COUNT, ranks * ADDENDS, expected);
    ls_exact_close(exact);
}

/* As backward does: in pieces, from the end to the beginning. */
static void hand_out(const ls__gradient_sink *sink, const float *values)
{
    enum { PIECE = 20000 };

    for (int64_t end = COUNT; end > 0; end -= PIECE) {
        int64_t offset = end > PIECE ? end - PIECE : 0;
        sink->ready(sink->context, offset, end - offset, values + offset);
    }
}

static void add_all(ls__reducer *reducer, float *values)
{
    ls__gradient_sink sink = ls__reducer_start(reducer);

    for (int k = 0; k < ADDENDS; k++) {
        ls__reducer_next(reducer, k == ADDENDS - 1);
        fill(values, ls__world_rank(world), k);
        hand_out(&sink, values);
    }
}

/* One way to take the mean, in the second step, in which buckets leave while addends still come;
 * `shared` NULL: all of it is shared, else each rank copies what it owns into `shared`, which is
 * shared. */
static ls_status take_mean(const ls__train_settings *settings, float *shared, float *values,
                           float *mean, double *norm, int64_t *spilled)
{
    ls__arena *arena = NULL;
    ls__reducer *reducer = NULL;
    int rank = ls__world_rank(world);

    LS_TRY(ls__arena_open(&arena, 0));
    LS_TRY(ls__reducer_open(&reducer, settings, COUNT, shared, world, arena));
    add_all(reducer, values);
    LS_TRY(ls__reducer_gather(reducer));
    LS_TRY(ls__reducer_share(reducer));
    add_all(reducer, values);
    LS_TRY(ls__reducer_gather(reducer));
    for (int64_t i = 0; shared && i < ls__reducer_buckets(reducer); i++) {
        ls_range own = ls__reducer_owned(reducer, i, rank);
        memcpy(shared + own.offset, ls__reducer_mean(reducer) + own.offset,
               (size_t)own.count * sizeof *shared);
    }
    if (!shared)
        LS_TRY(ls__reducer_share(reducer));
    LS_TRY(ls__reducer_norm(reducer, norm));
    if (shared)
        LS_TRY(ls__reducer_share(reducer));
    memcpy(mean, shared ? shared : ls__reducer_mean(reducer), COUNT * sizeof *mean);
    *spilled = ls__reducer_spilled(reducer);
    ls__reducer_close(reducer);
    ls__arena_close(arena);
    return LS_OK;
}

static ls__train_settings settings_of(int reduce, int algorithm, int64_t bucket, bool sharded)
{
    static ls__train_settings settings;

    ls__options_preset(&ls__train_options, &settings);
    settings.batch = (int64_t)ls__world_ranks(world) * ADDENDS;
    settings.micro_batch = 1;
    settings.reduce = reduce;
    settings.allreduce = 1 + algorithm;
    settings.bucket = bucket;
    settings.shard_optimizer = sharded;
    return settings;
}

static float values[COUNT];
static float expected[COUNT];
static float mean[COUNT];
static float shared[COUNT + LS__REDUCE_UNIT];
static double lanes[COUNT];

static void test_every_way_has_the_same_bits(void **state)
{
    enum { WAYS = LS_ALGORITHM_COUNT * 3 * 2 };
    static const int64_t buckets[] = {1, 7 * 1024, 1 << 30};
    double first_norm = 0;
    int64_t most_spilled = 0;

    (void)state;
    seed = ls__test_seed(2718);
    ls__threads_look(false); /* there are more of them than cores */
    make_expected(expected, values, lanes);
    for (int way = 0; way < WAYS; way++) {
        int algorithm = way % LS_ALGORITHM_COUNT;
        bool sharded = way / LS_ALGORITHM_COUNT / 3 == 1;
        ls__train_settings settings = settings_of(LS__REDUCE_EXACT, algorithm,
                                                  buckets[way / LS_ALGORITHM_COUNT % 3], sharded);
        double norm = 0;
        int64_t spilled = 0;
        memset(shared, 0, sizeof shared);
        reopen_world();
        assert_ok(ls__threads_start(1 + way % 3));
        assert_ok(take_mean(&settings, sharded ? shared : NULL, values, mean, &norm, &spilled));
        assert_memory_equal(mean, expected, sizeof mean);
        if (way == 0)
            first_norm = norm;
        assert_memory_equal(&norm, &first_norm, sizeof norm);
        most_spilled = spilled > most_spilled ? spilled : most_spilled;
    }
    assert_ok(ls__threads_start(1));
    if (ls__world_ranks(world) > 1)
        assert_true(most_spilled > 0);
    ls__figure("exact mean on %d ranks, %d algorithms x 3 bucket sizes x sharded or not, on 1 to 3 "
               "threads: the bits of "
               "one exact sum; up to %lld spills posted",
               ls__world_ranks(world), LS_ALGORITHM_COUNT, (long long)most_spilled);
}

static void test_fp32_sums_differ(void **state)
{
    ls__train_settings settings = settings_of(LS__REDUCE_F32, 0, 1 << 30, false);
    double norm = 0;
    int64_t spilled = 0;

    (void)state;
    seed = ls__test_seed(2718);
    make_expected(expected, values, lanes);
    assert_ok(take_mean(&settings, NULL, values, mean, &norm, &spilled));
    assert_memory_not_equal(mean, expected, sizeof mean);
}

/* Both phases of the ring on lanes: 8 (N-1)/N bytes an element to the owner, 4 (N-1)/N back. */
static void test_bytes(void **state)
{
    ls__train_settings settings = settings_of(LS__REDUCE_EXACT, 0, 1 << 30, false);
    int ranks = ls__world_ranks(world);
    const ls_traffic *traffic = &ls__world_transport(world)->traffic;
    int64_t before = traffic->sent_bytes;
    int64_t padded = ls__reducer_padded(COUNT);
    double mine = 0;
    double all[64];
    double norm = 0;
    int64_t spilled = 0;
    double sum = 0;

    (void)state;
    gentle = true;
    assert_ok(take_mean(&settings, NULL, values, mean, &norm, &spilled));
    gentle = false;
    mine = (double)(traffic->sent_bytes - before) / 2; /* of two steps */
    assert_ok(ls__world_all_gather(world, &mine, all, sizeof mine));
    for (int rank = 0; rank < ranks; rank++)
        sum += all[rank];
    assert_true(sum == 12.0 * (ranks - 1) * (double)padded);
    ls__figure(
        "exact ring on %d ranks: %.6f bytes sent an element, mean of ranks; 12 (N-1)/N = %.6f",
        ranks, sum / ranks / (double)padded, 12.0 * (ranks - 1) / ranks);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_has_the_same_bits),
        cmocka_unit_test(test_fp32_sums_differ),
        cmocka_unit_test(test_bytes),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}

LS__MPI_MAIN(run_all())
