/* Values that are not ordinary: a NaN or an infinity in an input stays visible in the output, and
 * large finite inputs give finite outputs. */
#include <math.h>
#include <string.h>

#include "math/gemm.h"
#include "math/ops.h"
#include "support/math_ops.h"
#include "support/tensor.h"
#include "support/test.h"

static const ls__scratch no_scratch = {0}; /* FP32 operations that need no scratch */

static bool all_finite(const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Puts `value` in the middle of each input in turn. */
static void check_forward_shows(const ls__math_op *op, float value)
{
    const ls__op_shape *shape = &op->large;
    ls__op_sizes sizes = ls__op_sizes_of(op, shape);
    ls__op64 inputs = ls__op_random(op, shape);

    for (int i = 0; i < LS__OP_INPUTS; i++) {
        ls__op32 fast = ls__op_in_fp32(op, &inputs, 0);

        if (sizes.in[i] == 0)
            continue;
        fast.in[i][sizes.in[i] / 2] = value;
        op->forward32(&fast);
        assert_false(all_finite(fast.out, sizes.out));
    }
    ls__free_tensors(NULL);
}

/* The embedding shows only rows that are looked up: some token has the vocabulary's middle row with
 * 256 tokens of 65. */
static void test_forward_shows_what_is_not_finite(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240511));
    for (int i = 0; i < ls__math_op_count; i++) {
        check_forward_shows(&ls__math_ops[i], NAN);
        check_forward_shows(&ls__math_ops[i], INFINITY);
    }
}

static void test_backward_shows_what_is_not_finite(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240512));
    for (int i = 0; i < ls__math_op_count; i++) {
        const ls__math_op *op = &ls__math_ops[i];
        ls__op_sizes sizes = ls__op_sizes_of(op, &op->large);
        ls__op64 inputs = ls__op_random(op, &op->large);
        ls__op32 fast = ls__op_in_fp32(op, &inputs, 0);
        int64_t middle = sizes.out / 2;

        /* ReLU blocks the gradient of a negative input whatever it is. */
        fast.in[0][sizes.in[0] / 2] = 1;
        op->forward32(&fast);
        fast.d_out[middle] = NAN;
        op->backward32(&fast);
        assert_false(all_finite(fast.d_in[0], sizes.in[0]));
        ls__free_tensors(NULL);
    }
}

static void test_negative_nan_shows_in_cross_entropy(void **state)
{
    float logits[] = {1, -NAN, 2};
    int32_t target = 0;
    float loss;

    (void)state;
    ls__cross_entropy_forward(&loss, ls__floats(logits), &target, 1, 3, no_scratch);
    assert_true(isnan(loss));
    assert_true(isnan(logits[0]));
}

static void test_gelu_of_large_inputs(void **state)
{
    float in[] = {1e20f, -1e20f, 3e38f, -3e38f, 0, -0.0f, 12, -12};
    float d_out[] = {1, 1, 1, 1, 1, 1, 1, 1};
    float expected[] = {1e20f, 0, 3e38f, 0, 0, 0, 12, 0};
    float slope[] = {1, 0, 1, 0, 0.5f, 0.5f, 1, 0};
    float out[8];

    (void)state;
    ls__gelu_forward(ls__floats(out), ls__floats(in), 8, no_scratch);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == expected[i]);
    ls__gelu_backward(ls__floats(out), ls__floats(d_out), ls__floats(in), 8, no_scratch);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == slope[i]);
}

static void test_huge_logits(void **state)
{
    float logits[] = {3e38f, -3e38f, 3e38f, 0, 1e4f, 0};
    int32_t targets[] = {0, 1};
    float loss[2];

    (void)state;
    ls__cross_entropy_forward(loss, ls__floats(logits), targets, 2, 3, no_scratch);
    assert_float_equal(loss[0], 0.6931472f, 1e-6);
    assert_float_equal(loss[1], 0, 0);
    assert_true(all_finite(logits, 6));
}

/* exp(-1e4) is zero in FP32: its logarithm comes from the logits. */
static void test_loss_of_a_tiny_probability(void **state)
{
    float logits[] = {0, 1e4f, -5};
    int32_t target = 0;
    float loss;

    (void)state;
    ls__cross_entropy_forward(&loss, ls__floats(logits), &target, 1, 3, no_scratch);
    assert_true(loss == 1e4f);
    assert_true(logits[0] == 0 && logits[1] == 1);
    ls__cross_entropy_backward(ls__floats(logits), &target, 0.5f, 1, 3, no_scratch);
    assert_true(logits[0] == -0.5f && logits[1] == 0.5f && logits[2] == 0);
}

/* Scores of 1e8: probabilities are 0 and 1, and above the diagonal exactly 0, so that each row of
 * the output is one of v's rows up to its own. */
static void test_attention_with_huge_scores(void **state)
{
    enum { T = 149, WIDTH = 4, COUNT = T * 3 * WIDTH };
    ls__attention_dropout none = {.rate = 0};

    ls__seed_tensors(ls__test_seed(20240513));
    float *qkv = ls__to_floats(ls__random_doubles(COUNT, 1e4), COUNT);
    float *statistics = ls__test_floats(2 * T);
    int64_t floats = ls__attention_scratch(LS__F32, T, WIDTH);
    float *out = ls__test_floats(T * WIDTH);

    (void)state;
    ls__attention_forward(ls__floats(out), statistics, ls__floats(qkv), 1, T, 1, WIDTH, none,
                          (ls__scratch){.at = ls__test_floats(floats), .floats = floats});
    for (int r = 0; r < T; r++) {
        bool found = false;

        for (int c = 0; c <= r; c++)
            found |= memcmp(out + r * WIDTH, qkv + (3 * c + 2) * WIDTH, WIDTH * sizeof *out) == 0;
        assert_true(found);
        assert_true(statistics[T + r] == 1);
    }
}

/* A row of equal numbers has variance 0: the shift comes out, not a division by zero. */
static void test_layer_norm_of_a_constant_row(void **state)
{
    float in[] = {5, 5, 5, 5, 5};
    float gain[] = {1, 2, 3, 4, 5};
    float shift[] = {5, 4, 3, 2, 1};
    float out[5];
    float mean;
    float rstd;

    (void)state;
    ls__layer_norm_forward(ls__floats(out), &mean, &rstd, ls__floats(in), gain, shift, 1, 5,
                           no_scratch);
    assert_memory_equal(out, shift, sizeof out);
    assert_true(mean == 5);
}

static int start_gemm(void **state)
{
    (void)state;
    ls__gemm_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_forward_shows_what_is_not_finite, ls__free_tensors),
        cmocka_unit_test_teardown(test_backward_shows_what_is_not_finite, ls__free_tensors),
        cmocka_unit_test(test_negative_nan_shows_in_cross_entropy),
        cmocka_unit_test(test_gelu_of_large_inputs),
        cmocka_unit_test(test_huge_logits),
        cmocka_unit_test(test_loss_of_a_tiny_probability),
        cmocka_unit_test_teardown(test_attention_with_huge_scores, ls__free_tensors),
        cmocka_unit_test(test_layer_norm_of_a_constant_row),
    };

    return cmocka_run_group_tests(tests, start_gemm, NULL);
}
