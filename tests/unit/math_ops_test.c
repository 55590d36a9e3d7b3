/* Every FP32 operation, forward and backward, against its FP64 reference; and that its bits depend
 * on its inputs alone. */
#include <math.h>
#include <string.h>

#include "math/gemm.h"
#include "math/ops.h"
#include "support/math_ops.h"
#include "support/tensor.h"
#include "support/test.h"

static const ls__scratch none = {0}; /* FP32 operations that need no scratch */

static double error_of(const float *actual, const double *expected, int64_t count)
{
    return ls__relative_error(ls__to_doubles(actual, count), expected, count);
}

static double worst_error(const ls__math_op *op, const ls__op_shape *shape)
{
    ls__op_sizes sizes = ls__op_sizes_of(op, shape);
    ls__op64 reference = ls__op_random(op, shape);
    ls__op32 fast = ls__op_in_fp32(op, &reference, 0);
    double worst;

    op->forward64(&reference);
    op->backward64(&reference);
    op->forward32(&fast);
    op->backward32(&fast);
    worst = error_of(fast.out, reference.out, sizes.out);
    for (int i = 0; i < LS__OP_INPUTS; i++)
        worst = fmax(worst, error_of(fast.d_in[i], reference.d_in[i], sizes.in[i]));
    return worst;
}

static void test_fp32_against_reference(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240503));
    for (int i = 0; i < ls__math_op_count; i++) {
        const ls__math_op *op = &ls__math_ops[i];
        double worst = 0;

        for (const ls__op_shape *shape = op->shapes; shape->rows > 0; shape++)
            worst = fmax(worst, worst_error(op, shape));
        worst = fmax(worst, worst_error(op, &op->large));
        ls__figure("%-15s FP32 against FP64, forward and backward: %.1e", op->name, worst);
        assert_true(worst < 1e-4);
        ls__free_tensors(NULL);
    }
}

static void assert_same_bits(const float *a, const float *b, int64_t count)
{
    if (count > 0)
        assert_memory_equal(a, b, (size_t)count * sizeof *a);
}

static void run(const ls__math_op *op, ls__op32 *tensors)
{
    op->forward32(tensors);
    op->backward32(tensors);
}

/* Twice at the same addresses' alignment, and at each other alignment of a float. */
static void test_same_bits_at_any_alignment(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240504));
    for (int i = 0; i < ls__math_op_count; i++) {
        const ls__math_op *op = &ls__math_ops[i];

        for (const ls__op_shape *shape = op->shapes; shape->rows > 0; shape++) {
            ls__op_sizes sizes = ls__op_sizes_of(op, shape);
            ls__op64 inputs = ls__op_random(op, shape);
            ls__op32 first = ls__op_in_fp32(op, &inputs, 0);

            run(op, &first);
            for (int64_t offset = 0; offset < 16; offset += 3) {
                ls__op32 again = ls__op_in_fp32(op, &inputs, offset);

                run(op, &again);
                assert_same_bits(again.out, first.out, sizes.out);
                for (int k = 0; k < LS__OP_INPUTS; k++)
                    assert_same_bits(again.d_in[k], first.d_in[k], sizes.in[k]);
            }
            ls__free_tensors(NULL);
        }
    }
}

/* The tensors of row r alone: an input that grows with the rows is entered at row r. */
static ls__op32 one_row(const ls__math_op *op, const ls__op64 *inputs, int64_t r)
{
    ls__op32 one = ls__op_in_fp32(op, inputs, 0);
    ls__op_sizes all = ls__op_sizes_of(op, &one.shape);

    one.shape.rows = 1;
    ls__op_sizes row = ls__op_sizes_of(op, &one.shape);
    for (int i = 0; i < LS__OP_INPUTS; i++)
        if (row.in[i] != all.in[i])
            one.in[i] += r * row.in[i];
    one.d_out += r * row.out;
    return one;
}

static void test_rows_do_not_know_each_other(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240505));
    for (int i = 0; i < ls__math_op_count; i++) {
        const ls__math_op *op = &ls__math_ops[i];
        ls__op_shape shape = {.rows = 7, .width = 33, .T = 11, .heads = 2};
        ls__op64 inputs = ls__op_random(op, &shape);
        ls__op32 all = ls__op_in_fp32(op, &inputs, 0);

        if (!op->by_row)
            continue;
        run(op, &all);
        for (int64_t r = 0; r < shape.rows; r++) {
            ls__op32 one = one_row(op, &inputs, r);
            ls__op_sizes row = ls__op_sizes_of(op, &one.shape);

            run(op, &one);
            assert_same_bits(one.out, all.out + r * row.out, row.out);
            assert_same_bits(one.d_in[0], all.d_in[0] + r * row.in[0], row.in[0]);
        }
        ls__free_tensors(NULL);
    }
}

static void test_layer_norm_backward_adds_to_d_in(void **state)
{
    enum { ROWS = 3, WIDTH = 20, COUNT = ROWS * WIDTH };

    ls__seed_tensors(ls__test_seed(20240506));
    float *in = ls__to_floats(ls__random_doubles(COUNT, 1), COUNT);
    float *d_out = ls__to_floats(ls__random_doubles(COUNT, 1), COUNT);
    float *gain = ls__to_floats(ls__random_doubles(WIDTH, 1), WIDTH);
    float *from_zero = ls__test_floats(COUNT);
    float *from_one = ls__test_floats(COUNT);
    float *d_gain = ls__test_floats(WIDTH);
    float *d_shift = ls__test_floats(WIDTH);
    float *out = ls__test_floats(COUNT);
    float mean[ROWS];
    float rstd[ROWS];
    ls__scratch scratch = {.shared = ls__test_floats(ls__ops_shared(ROWS, WIDTH))};

    (void)state;
    for (int i = 0; i < COUNT; i++)
        from_one[i] = 1;
    ls__layer_norm_forward(ls__floats(out), mean, rstd, ls__floats(in), gain, gain, ROWS, WIDTH,
                           scratch);
    ls__layer_norm_backward(ls__floats(from_zero), d_gain, d_shift, ls__floats(d_out),
                            ls__floats(in), gain, mean, rstd, ROWS, WIDTH, scratch);
    ls__layer_norm_backward(ls__floats(from_one), d_gain, d_shift, ls__floats(d_out),
                            ls__floats(in), gain, mean, rstd, ROWS, WIDTH, scratch);
    for (int i = 0; i < COUNT; i++)
        assert_true(from_one[i] == 1 + from_zero[i]);
}

/* What ops.h allows: out may be in, d_in may be d_out. */
static void test_in_place(void **state)
{
    enum { COUNT = 133 };

    ls__seed_tensors(ls__test_seed(20240507));
    float *in = ls__to_floats(ls__random_doubles(COUNT, 2), COUNT);
    float *d_out = ls__to_floats(ls__random_doubles(COUNT, 1), COUNT);
    float *apart = ls__test_floats(COUNT);
    float *place = ls__test_floats(COUNT);

    (void)state;
    ls__gelu_forward(ls__floats(apart), ls__floats(in), COUNT, none);
    memcpy(place, in, COUNT * sizeof *in);
    ls__gelu_forward(ls__floats(place), ls__floats(place), COUNT, none);
    assert_same_bits(place, apart, COUNT);

    ls__gelu_backward(ls__floats(apart), ls__floats(d_out), ls__floats(in), COUNT, none);
    memcpy(place, d_out, COUNT * sizeof *in);
    ls__gelu_backward(ls__floats(place), ls__floats(place), ls__floats(in), COUNT, none);
    assert_same_bits(place, apart, COUNT);

    ls__relu_backward(ls__floats(apart), ls__floats(d_out), ls__floats(in), COUNT, none);
    memcpy(place, d_out, COUNT * sizeof *in);
    ls__relu_backward(ls__floats(place), ls__floats(place), ls__floats(in), COUNT, none);
    assert_same_bits(place, apart, COUNT);
}

/* The sum and its norm in one pass are those in two. */
static void test_add_norm(void **state)
{
    enum { ROWS = 130, WIDTH = 20, COUNT = ROWS * WIDTH };

    ls__seed_tensors(ls__test_seed(20240509));
    float *in = ls__to_floats(ls__random_doubles(COUNT, 1), COUNT);
    float *branch = ls__to_floats(ls__random_doubles(COUNT, 1), COUNT);
    float *gain = ls__to_floats(ls__random_doubles(WIDTH, 1), WIDTH);
    float *sum = ls__test_floats(COUNT);
    float *apart = ls__test_floats(COUNT);
    float *norm = ls__test_floats(COUNT);
    float *statistics = ls__test_floats(4 * ROWS);

    (void)state;
    for (int i = 0; i < COUNT; i++)
        sum[i] = in[i] + branch[i];
    ls__layer_norm_forward(ls__floats(apart), statistics, statistics + ROWS, ls__floats(sum), gain,
                           gain, ROWS, WIDTH, none);
    ls__add_norm_forward(ls__floats(in), ls__floats(norm), statistics + 2 * ROWS,
                         statistics + 3 * ROWS, ls__floats(in), ls__floats(branch), gain, gain,
                         ROWS, WIDTH, none);
    assert_same_bits(in, sum, COUNT);
    assert_same_bits(norm, apart, COUNT);
    assert_same_bits(statistics + 2 * ROWS, statistics, 2 * ROWS);
}

/* The gradient of the input that nobody asks for changes no other result. */
static void test_linear_without_d_in(void **state)
{
    enum { ROWS = 5, IN = 7, OUT = 6 };

    ls__seed_tensors(ls__test_seed(20240508));
    float *in = ls__to_floats(ls__random_doubles(ROWS * IN, 1), ROWS * IN);
    float *weight = ls__to_floats(ls__random_doubles(OUT * IN, 1), OUT * IN);
    float *d_out = ls__to_floats(ls__random_doubles(ROWS * OUT, 1), ROWS * OUT);
    float *d_in = ls__test_floats(ROWS * IN);
    float *d_weight = ls__test_floats(OUT * IN);
    float *d_weight_alone = ls__test_floats(OUT * IN);

    (void)state;
    ls__linear_backward(ls__floats(d_in), d_weight, NULL, ls__floats(d_out), ls__floats(in),
                        ls__floats(weight), ROWS, IN, OUT, none);
    ls__linear_backward(ls__floats(NULL), d_weight_alone, NULL, ls__floats(d_out), ls__floats(in),
                        ls__floats(weight), ROWS, IN, OUT, none);
    assert_same_bits(d_weight_alone, d_weight, OUT * IN);
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
        cmocka_unit_test_teardown(test_fp32_against_reference, ls__free_tensors),
        cmocka_unit_test_teardown(test_same_bits_at_any_alignment, ls__free_tensors),
        cmocka_unit_test_teardown(test_rows_do_not_know_each_other, ls__free_tensors),
        cmocka_unit_test_teardown(test_layer_norm_backward_adds_to_d_in, ls__free_tensors),
        cmocka_unit_test_teardown(test_in_place, ls__free_tensors),
        cmocka_unit_test_teardown(test_add_norm, ls__free_tensors),
        cmocka_unit_test_teardown(test_linear_without_d_in, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, start_gemm, NULL);
}
