/* The order of samples: each once an epoch, another order each epoch, resumable at any moment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "data/sampler.h"
#include "support/test.h"

enum { POPULATION_MAX = 70000 };

static uint8_t seen[POPULATION_MAX];

static void check_bijection(uint64_t seed, int64_t population, int64_t epoch)
{
    memset(seen, 0, (size_t)population);
    for (int64_t i = 0; i < population; i++) {
        int64_t sample = ls__sample_at(seed, population, epoch * population + i);
        assert_in_range(sample, 0, population - 1);
        assert_int_equal(seen[sample], 0);
        seen[sample] = 1;
    }
}

static void test_each_sample_once_an_epoch(void **state)
{
    static const int64_t populations[] = {1,   2,   3,    4,    5,    7,     8,     9,     15,
                                          16,  17,  31,   63,   64,   65,    97,    255,   256,
                                          257, 997, 1023, 1024, 1025, 10007, 65535, 65536, 65537};
    uint64_t seed = ls__test_seed(11);

    (void)state;
    for (size_t i = 0; i < sizeof populations / sizeof populations[0]; i++)
        for (int64_t epoch = 0; epoch < 3; epoch++)
            check_bijection(seed + i, populations[i], epoch);
    for (int64_t population = 1; population <= 300; population++)
        check_bijection(seed, population, population);
}

static int64_t count_equal(uint64_t seed_a, int64_t epoch_a, uint64_t seed_b, int64_t epoch_b,
                           int64_t population)
{
    int64_t equal = 0;

    for (int64_t i = 0; i < population; i++)
        equal += ls__sample_at(seed_a, population, epoch_a * population + i) ==
                 ls__sample_at(seed_b, population, epoch_b * population + i);
    return equal;
}

/* Two random permutations agree in one place on average, whatever their size. */
static void test_epochs_and_seeds_differ(void **state)
{
    uint64_t seed = ls__test_seed(12);

    (void)state;
    assert_true(count_equal(seed, 0, seed, 1, 1000) < 20);
    assert_true(count_equal(seed, 1, seed, 2, 1000) < 20);
    assert_true(count_equal(seed, 0, seed + 1, 0, 1000) < 20);
    assert_int_equal(count_equal(seed, 5, seed, 5, 1000), 1000);
}

/* All six orders of three samples come up about equally often: chi-squared with 5 degrees of
 * freedom is above 30 once in 67,000 times. */
static void test_small_permutations_are_uniform(void **state)
{
    enum { EPOCHS = 6000 };
    uint64_t seed = ls__test_seed(13);
    int64_t count[9] = {0};
    double chi_squared = 0;

    (void)state;
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++)
        count[3 * ls__sample_at(seed, 3, 3 * epoch) + ls__sample_at(seed, 3, 3 * epoch + 1)]++;
    for (int i = 0; i < 9; i++) {
        if (i % 4 == 0) /* the same sample twice */
            assert_int_equal(count[i], 0);
        else
            chi_squared += pow((double)count[i] - EPOCHS / 6.0, 2) / (EPOCHS / 6.0);
    }
    ls__figure("sampler: orders of 3 samples, chi-squared %.1f at 5 degrees of freedom",
               chi_squared);
    assert_true(chi_squared < 30);
}

/* Where each sample stands: the correlation of place and sample is near 0, and each hundredth of
 * an epoch draws from all of the population. */
static void test_large_permutations_look_random(void **state)
{
    enum { POPULATION = 60000, PARTS = 100 };
    uint64_t seed = ls__test_seed(14);
    static double cell[PARTS][PARTS];
    double products = 0;
    double chi_squared = 0;
    double expected = (double)POPULATION / (PARTS * PARTS);

    (void)state;
    memset(cell, 0, sizeof cell);
    for (int64_t i = 0; i < POPULATION; i++) {
        int64_t sample = ls__sample_at(seed, POPULATION, i);
        products += ((double)i / POPULATION - 0.5) * ((double)sample / POPULATION - 0.5);
        cell[i * PARTS / POPULATION][sample * PARTS / POPULATION]++;
    }
    for (int i = 0; i < PARTS * PARTS; i++)
        chi_squared += pow(cell[i / PARTS][i % PARTS] - expected, 2) / expected;
    /* 99 * 99 degrees of freedom: mean 9801, standard deviation 140. */
    ls__figure("sampler: correlation %.4f, chi-squared %.0f at 9801 degrees of freedom",
               12 * products / POPULATION, chi_squared);
    assert_true(fabs(12 * products / POPULATION) < 5 / sqrt((double)POPULATION));
    assert_true(fabs(chi_squared - 9801) < 5 * 140);
}

/* CASES 4: a run is stopped and resumed twice. Its samples are those of one that went on, so none
 * is repeated and none skipped. Each part knows only the step at which it starts. */
static void test_resumed_runs_continue(void **state)
{
    enum { POPULATION = 500, BATCH = 12, STEPS = 100 };
    static const int64_t parts[] = {0, 37, 38, STEPS};
    uint64_t seed = ls__test_seed(15);
    int64_t whole[STEPS * BATCH];
    int64_t resumed[STEPS * BATCH];

    (void)state;
    for (int64_t i = 0; i < STEPS * BATCH; i++)
        whole[i] = ls__sample_at(seed, POPULATION, i);
    for (size_t part = 0; part + 1 < sizeof parts / sizeof parts[0]; part++)
        for (int64_t step = parts[part]; step < parts[part + 1]; step++)
            for (int64_t i = 0; i < BATCH; i++)
                resumed[step * BATCH + i] = ls__sample_at(seed, POPULATION, step * BATCH + i);
    assert_memory_equal(resumed, whole, sizeof whole);
}

/* 64-bit populations and ordinals, at the ends of their range. */
static void test_huge_populations(void **state)
{
    static const int64_t populations[] = {INT64_C(1) << 40, (INT64_C(1) << 62) + 1, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof populations / sizeof populations[0]; i++) {
        int64_t first = ls__sample_at(1, populations[i], 0);
        int64_t last = ls__sample_at(1, populations[i], populations[i] - 1);
        assert_true(first >= 0 && first < populations[i]);
        assert_true(last >= 0 && last < populations[i]);
        assert_true(first != last);
        assert_true(ls__sample_at(1, populations[i], INT64_MAX) < populations[i]);
    }
    assert_int_equal(ls__sample_at(1, 1, INT64_MAX), 0);
}

static void test_windows(void **state)
{
    (void)state;
    assert_int_equal(ls__window_population(65, 64), 1);
    assert_int_equal(ls__window_population(64, 64), 0);
    assert_int_equal(ls__window_population(0, 64), 0);
    assert_int_equal(ls__window_population(1000, 64), 936);
    assert_int_equal(ls__eval_windows(0, 64), 0);
    assert_int_equal(ls__eval_windows(64, 64), 0);
    assert_int_equal(ls__eval_windows(65, 64), 1);
    assert_int_equal(ls__eval_windows(128, 64), 1);
    assert_int_equal(ls__eval_windows(129, 64), 2);
}

/* All of them in order where all are wanted; else rising, without repeats, from the first on. */
static void test_spread(void **state)
{
    (void)state;
    for (int64_t count = 1; count <= 40; count++)
        for (int64_t wanted = 1; wanted <= count; wanted++) {
            assert_int_equal(ls__spread_at(count, wanted, 0), 0);
            for (int64_t i = 1; i < wanted; i++) {
                int64_t step =
                    ls__spread_at(count, wanted, i) - ls__spread_at(count, wanted, i - 1);
                assert_in_range(step, count / wanted, (count + wanted - 1) / wanted);
            }
            assert_in_range(ls__spread_at(count, wanted, wanted - 1), wanted - 1, count - 1);
        }
    assert_true(ls__spread_at(INT64_MAX, INT64_MAX, INT64_MAX - 1) == INT64_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_once_an_epoch),
        cmocka_unit_test(test_epochs_and_seeds_differ),
        cmocka_unit_test(test_small_permutations_are_uniform),
        cmocka_unit_test(test_large_permutations_look_random),
        cmocka_unit_test(test_resumed_runs_continue),
        cmocka_unit_test(test_huge_populations),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_spread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
