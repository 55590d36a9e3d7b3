/* What the threads of a rank share outside the model: exact sums under addends that spill on every
 * element, FP32 sums, norm, clipping and both optimizers. The bits are those of one thread. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/threads.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "support/test.h"
#include "train/sums.h"

enum { COUNT = 7 * LS__THREADS_PIECE + 1234, ADDENDS = 5, RANGES = 6, THREADS_MOST = 5 };

/* Within a piece, over a border, from border to border, all but the ends, nothing, all. */
static const int64_t ranges[RANGES][2] = {{100, 1000},
                                          {LS__THREADS_PIECE - 70, 141},
                                          {LS__THREADS_PIECE, 3 * LS__THREADS_PIECE},
                                          {1, COUNT - 2},
                                          {5000, 0},
                                          {0, COUNT}};

static uint64_t seed;
static float values[ADDENDS][COUNT];

/* Of any size, so that nearly every sum spills; the first, a quarter of them, of like size. */
static float draw(int k, int64_t i)
{
    ls__random4 words = ls__random(seed, LS__STREAM_SAMPLE, (uint32_t)k, (uint64_t)i);
    double mantissa = ls__uniform(words.word[0], words.word[1]) - 0.5;

    return (float)ldexp(mantissa, i < COUNT / 4 ? 0 : (int)(words.word[2] % 200) - 100);
}

static int fill(void **state)
{
    (void)state;
    seed = ls__test_seed(4711);
    for (int k = 0; k < ADDENDS; k++)
        for (int64_t i = 0; i < COUNT; i++)
            values[k][i] = draw(k, i);
    return 0;
}

static int end_threads(void **state)
{
    (void)state;
    return ls__threads_start(1) != LS_OK;
}

static void *zeros(int64_t count, size_t size)
{
    void *at = calloc((size_t)count, size);

    assert_non_null(at);
    return at;
}

/* ---- exact sums ---- */

/* All that sums are made by, on as many threads as there are; *spills is how many were left. */
static float *sum(int64_t *spills)
{
    double *lanes = zeros(COUNT, sizeof *lanes);
    double *others = zeros(COUNT, sizeof *others);
    float *out = zeros(COUNT, sizeof *out);
    ls_exact *exact = NULL;

    for (int64_t i = 0; i < COUNT; i++)
        others[i] = (double)values[0][COUNT - 1 - i] + (double)values[1][i];
    assert_ok(ls_exact_open(&exact, COUNT, lanes));
    for (int again = 0; again < 2; again++) { /* lanes are not fresh, then are again */
        ls_exact_reset(exact);
        for (int k = 0; k < ADDENDS; k++)
            for (int i = 0; i < RANGES; i++)
                ls__sums_add(exact, ranges[i][0], values[k] + ranges[i][0], ranges[i][1]);
        for (int i = 0; i < RANGES; i++)
            ls__sums_combine(exact, ranges[i][0], others + ranges[i][0], ranges[i][1]);
    }
    *spills = ls_exact_spills(exact, 0, COUNT);
    for (int i = 0; i < RANGES; i++)
        ls__sums_round(exact, ranges[i][0], ranges[i][1], 12, out + ranges[i][0]);
    ls_exact_close(exact);
    free(others);
    free(lanes);
    return out;
}

static void test_exact_sums(void **state)
{
    int64_t spills = 0;
    int64_t again = 0;

    (void)state;
    float *expected = sum(&spills);
    assert_true(spills > COUNT / 2);
    for (int threads = 2; threads <= THREADS_MOST; threads++) {
        assert_ok(ls__threads_start(threads));
        float *found = sum(&again);
        assert_memory_equal(found, expected, COUNT * sizeof *found);
        assert_int_equal(again, spills);
        free(found);
    }
    free(expected);
}

/* ---- FP32 ---- */

static void check_floats(const float *expected)
{
    float *found = zeros(COUNT, sizeof *found);

    for (int k = 0; k < ADDENDS; k++)
        for (int i = 0; i < RANGES; i++)
            ls__sums_add_floats(found + ranges[i][0], values[k] + ranges[i][0], ranges[i][1]);
    ls__sums_divide_floats(found + 3, 12, COUNT - 3);
    ls__clip(found + 1, COUNT - 1, 0.37f);
    assert_memory_equal(found, expected, COUNT * sizeof *found);
    free(found);
}

static void test_float_sums(void **state)
{
    float *expected = zeros(COUNT, sizeof *expected);

    (void)state;
    for (int k = 0; k < ADDENDS; k++)
        for (int i = 0; i < RANGES; i++)
            for (int64_t at = ranges[i][0]; at < ranges[i][0] + ranges[i][1]; at++)
                expected[at] += values[k][at];
    for (int64_t i = 0; i < COUNT; i++) {
        expected[i] = i >= 3 ? expected[i] / 12 : expected[i];
        expected[i] = i >= 1 ? expected[i] * 0.37f : expected[i];
    }
    for (int threads = 1; threads <= THREADS_MOST; threads++) {
        assert_ok(ls__threads_start(threads));
        check_floats(expected);
    }
    free(expected);
}

/* As the header says: blocks in order. Long enough for more than one stretch of them. */
static void test_norm(void **state)
{
    int64_t count = (int64_t)3 << 20;
    float *vector = zeros(count + 99, sizeof *vector);

    (void)state;
    count += 99;
    for (int64_t i = 0; i < count; i++)
        vector[i] = values[i % ADDENDS][i % (COUNT / 4)];
    for (int threads = 1; threads <= 4; threads++) {
        assert_ok(ls__threads_start(threads));
        for (int64_t length = 1; length <= count; length = length * 5 + 3) {
            double squares = 0;

            for (int64_t i = 0; i < length; i += LS__NORM_BLOCK)
                squares += ls__norm_block(vector + i, length - i < LS__NORM_BLOCK ? length - i
                                                                                  : LS__NORM_BLOCK);
            assert_true(ls__norm(vector, length) == sqrt(squares));
        }
    }
    assert_true(ls__norm(vector, 0) == 0);
    free(vector);
}

/* ---- optimizers ---- */

/* Three steps over two shares that divide tensors. */
static float *optimise(ls__optimizer_kind kind)
{
    ls__tensors tensors = {0};
    ls__optimizer_settings settings = {.kind = kind,
                                       .weight_decay = 0.1,
                                       .beta1 = 0.9,
                                       .beta2 = 0.99,
                                       .epsilon = 1e-8,
                                       .momentum = 0.9};
    float *parameters = zeros(COUNT, sizeof *parameters);
    int64_t share = 2 * LS__THREADS_PIECE + 777;
    ls__optimizer optimizer;
    ls__arena *arena = NULL;
    int64_t offset = 0;

    assert_ok(ls__tensors_add_matrix(&tensors, "weight", COUNT - 50000, 1, 1, &offset));
    assert_ok(ls__tensors_add_vector(&tensors, "bias", 50000, 0, &offset));
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__optimizer_open(&optimizer, &settings, &tensors, COUNT, arena));
    for (int64_t i = 0; i < COUNT; i++)
        parameters[i] = (float)(i % 1000) * 1e-3f;
    for (int step = 1; step <= 3; step++) {
        ls__optimizer_step(&optimizer, parameters, values[step], 0.01, step, 0, share, 0);
        ls__optimizer_step(&optimizer, parameters, values[step], 0.01, step, share, COUNT - share,
                           share);
    }
    ls__arena_close(arena);
    ls__tensors_free(&tensors);
    return parameters;
}

static void check_optimizer(ls__optimizer_kind kind)
{
    assert_ok(ls__threads_start(1));
    float *expected = optimise(kind);
    for (int threads = 2; threads <= THREADS_MOST; threads++) {
        assert_ok(ls__threads_start(threads));
        float *found = optimise(kind);
        assert_memory_equal(found, expected, COUNT * sizeof *found);
        free(found);
    }
    free(expected);
}

static void test_optimizers(void **state)
{
    (void)state;
    check_optimizer(LS__ADAMW);
    check_optimizer(LS__SGD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_exact_sums, end_threads),
        cmocka_unit_test_teardown(test_float_sums, end_threads),
        cmocka_unit_test_teardown(test_norm, end_threads),
        cmocka_unit_test_teardown(test_optimizers, end_threads),
    };

    return cmocka_run_group_tests(tests, fill, NULL);
}
