/* The negative controls of the promise: what the first law of DESIGN.md forbids must differ in bits
 * on the BLAS core in use, or the law would be for nothing and the tests of equality blind. A
 * control that happens to agree is reported, and is no pass. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lockstep/exact.h"
#include "math/gemm.h"
#include "nn/gpt.h"
#include "support/test.h"

/* OpenBLAS's own, which the program calls in one place only, and there with 1. */
void openblas_set_num_threads(int threads);

enum { PARTS = 8, PAIR = 2, VOCABULARY = 65 };

static const ls__gpt_shape shape = {
    .layers = 2, .heads = 4, .width = 128, .context = 64, .vocabulary = VOCABULARY};

static ls__arena *arena;
static ls__model *one;  /* takes one sample at a time */
static ls__model *pair; /* takes two */
static float *parameters;
static float *addends; /* (PARTS, total) the gradient of each sample */
static int64_t total;
static int32_t *tokens;  /* (PARTS, context) */
static int32_t *targets; /* (PARTS, context) */
static uint64_t seed;

static int set_up(void **state)
{
    int64_t count = PARTS * shape.context;

    (void)state;
    ls__gemm_start();
    seed = ls__test_seed(20261130);
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&one, &shape, 1, seed, arena));
    assert_ok(ls__gpt_open(&pair, &shape, PAIR, seed, arena));
    total = one->tensors.total;
    assert_ok(ls__arena_take(arena, LS__PARAMETERS, total, sizeof(float), &parameters));
    assert_ok(ls__arena_take(arena, LS__GRADIENTS, PARTS * total, sizeof(float), &addends));
    assert_ok(ls__arena_take(arena, LS__DATA, count, sizeof(int32_t), &tokens));
    assert_ok(ls__arena_take(arena, LS__DATA, count, sizeof(int32_t), &targets));
    ls__tensors_initialise(&one->tensors, seed, parameters);
    for (int64_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)((seed + (uint64_t)(i * i * 7 + i / 3)) % VOCABULARY);
        targets[i] = (int32_t)((seed + (uint64_t)(i * 11 + i / 5)) % VOCABULARY);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ls__model_close(one);
    ls__model_close(pair);
    ls__arena_close(arena);
    return 0;
}

/* ---- gradients ---- */

/* Addends of one micro-batch are put together exactly, as the trainer does: a tied weight has two.
 */
static void add(void *exact, int64_t offset, int64_t count, const float *addend)
{
    ls_exact_add(exact, offset, addend, count);
}

static void add_gradient(ls_exact *exact, ls__model *model, int64_t first, int64_t samples)
{
    ls__batch batch = {.samples = samples,
                       .length = shape.context,
                       .tokens = tokens + first * shape.context,
                       .targets = targets + first * shape.context,
                       .ordinal = (uint64_t)first};

    ls__model_loss(model, parameters, &batch, true);
    ls__model_backward(model, parameters, &batch, (ls__gradient_sink){add, exact});
}

/* The mean of the gradients of `parts` batches of `samples` samples each. */
static void mean_gradient(float *mean, ls__model *model, int64_t parts, int64_t samples)
{
    double *lanes = calloc((size_t)total, sizeof *lanes);
    ls_exact *exact = NULL;

    assert_non_null(lanes);
    assert_ok(ls_exact_open(&exact, total, lanes));
    for (int64_t i = 0; i < parts; i++)
        add_gradient(exact, model, i * samples, samples);
    ls_exact_round(exact, 0, total, (double)parts, mean);
    ls_exact_close(exact);
    free(lanes);
}

static float *take(void)
{
    float *values = calloc((size_t)total, sizeof *values);

    assert_non_null(values);
    return values;
}

static int64_t elements_that_differ(const float *a, const float *b)
{
    int64_t count = 0;

    for (int64_t i = 0; i < total; i++)
        count += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return count;
}

/* A control that agrees cannot tell: skipped, so that it is not counted as passed. */
static void judge(const char *what, int64_t differing, int64_t of)
{
    if (differing > 0) {
        ls__figure("control on %s: %s: %lld of %lld elements differ", ls__gemm_core(), what,
                   (long long)differing, (long long)of);
        return;
    }
    ls__figure("control on %s: %s: the same bits, could not tell", ls__gemm_core(), what);
    skip();
}

/* ---- what must be equal, or the controls below prove nothing ---- */

static void test_the_same_arithmetic_gives_the_same_bits(void **state)
{
    float *first = take();
    float *second = take();

    (void)state;
    mean_gradient(first, one, PAIR, 1);
    mean_gradient(second, one, PAIR, 1);
    assert_int_equal(elements_that_differ(first, second), 0);
    free(first);
    free(second);
}

/* ---- the controls ---- */

static void test_two_micro_batches_in_one_gemm(void **state)
{
    float *apart = take();
    float *together = take();

    (void)state;
    mean_gradient(apart, one, PAIR, 1);
    mean_gradient(together, pair, 1, PAIR);
    int64_t differing = elements_that_differ(apart, together);
    free(apart);
    free(together);
    judge("two micro-batches in one GEMM", differing, total);
}

/* Sums of products over few rows need not be split between threads, so the shapes are those of
 * larger models too. */
static int64_t gemm_that_differs(int64_t m, int64_t n, int64_t k)
{
    float *a = malloc((size_t)(m * k) * sizeof *a);
    float *b = malloc((size_t)(k * n) * sizeof *b);
    float *c[2] = {malloc((size_t)(m * n) * sizeof(float)),
                   malloc((size_t)(m * n) * sizeof(float))};
    int64_t differing = 0;

    assert_true(a && b && c[0] && c[1]);
    for (int64_t i = 0; i < m * k; i++)
        a[i] = (float)((i * 7919 + (int64_t)(seed % 1000)) % 2003 - 1001) / 1001;
    for (int64_t i = 0; i < k * n; i++)
        b[i] = (float)((i * 6007 + 5) % 1009 - 504) / 504;
    for (int threads = 1; threads <= 2; threads++) {
        openblas_set_num_threads(threads);
        ls__gemm(LS__AS_IS, LS__TRANSPOSED, m, n, k, 1, a, k, b, k, 0, c[threads - 1], n);
    }
    openblas_set_num_threads(1);
    for (int64_t i = 0; i < m * n; i++)
        differing += memcmp(&c[0][i], &c[1][i], sizeof(float)) != 0;
    free(a);
    free(b);
    free(c[0]);
    free(c[1]);
    return differing;
}

static void test_two_blas_threads_in_a_product(void **state)
{
    static const int64_t sizes[][3] = {{64, 384, 128}, {256, 1152, 384}, {255, 257, 1000}};
    int64_t differing = 0;
    int64_t of = 0;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        differing += gemm_that_differs(sizes[i][0], sizes[i][1], sizes[i][2]);
        of += sizes[i][0] * sizes[i][1];
    }
    judge("two BLAS threads, three products", differing, of);
}

static void test_two_blas_threads_in_a_step(void **state)
{
    float *single = take();
    float *threaded = take();

    (void)state;
    mean_gradient(single, one, PAIR, 1);
    openblas_set_num_threads(2);
    mean_gradient(threaded, one, PAIR, 1);
    openblas_set_num_threads(1);
    int64_t differing = elements_that_differ(single, threaded);
    free(single);
    free(threaded);
    judge("two BLAS threads, a model's gradient", differing, total);
}

/* The addends of a sample: the last stretch that the sink hears of an element is added, in FP32, to
 * those before. */
static void add_in_float(void *sums, int64_t offset, int64_t count, const float *addend)
{
    float *sum = (float *)sums + offset;

    for (int64_t i = 0; i < count; i++)
        sum[i] += addend[i];
}

static void test_fp32_sums_in_two_orders(void **state)
{
    float *forwards = take();
    float *backwards = take();

    (void)state;
    for (int64_t i = 0; i < PARTS; i++) {
        ls__batch batch = {.samples = 1,
                           .length = shape.context,
                           .tokens = tokens + i * shape.context,
                           .targets = targets + i * shape.context};
        ls__model_loss(one, parameters, &batch, true);
        ls__model_backward(one, parameters, &batch,
                           (ls__gradient_sink){add_in_float, addends + i * total});
    }
    for (int64_t i = 0; i < PARTS; i++) {
        add_in_float(forwards, 0, total, addends + i * total);
        add_in_float(backwards, 0, total, addends + (PARTS - 1 - i) * total);
    }
    int64_t differing = elements_that_differ(forwards, backwards);
    free(forwards);
    free(backwards);
    judge("FP32 sums in two orders", differing, total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_arithmetic_gives_the_same_bits),
        cmocka_unit_test(test_two_micro_batches_in_one_gemm),
        cmocka_unit_test(test_two_blas_threads_in_a_product),
        cmocka_unit_test(test_two_blas_threads_in_a_step),
        cmocka_unit_test(test_fp32_sums_in_two_orders),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
