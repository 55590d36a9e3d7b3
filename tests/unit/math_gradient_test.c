/* The backward of every FP64 reference against central differences of its forward, and wrong
 * backwards that the check must catch. */
#include <math.h>
#include <string.h>

#include "support/math_ops.h"
#include "support/tensor.h"
#include "support/test.h"

static const double tolerance = 1e-6;
static const double step = 2e-3; /* balances truncation, step^4, against rounding, 1e-16 / step */

typedef struct loss_context {
    const ls__math_op *op;
    ls__op64 *tensors;
    int64_t out_size;
} loss_context;

static double loss(void *context)
{
    loss_context *c = context;
    double sum = 0;

    c->op->forward64(c->tensors);
    for (int64_t i = 0; i < c->out_size; i++)
        sum += c->tensors->d_out[i] * c->tensors->out[i];
    return sum;
}

/* The largest error over the operation's inputs; per input as ls__relative_error defines it. */
static double gradient_error(const ls__math_op *op, const ls__op_shape *shape)
{
    ls__op_sizes sizes = ls__op_sizes_of(op, shape);
    ls__op64 tensors = ls__op_random(op, shape);
    loss_context context = {op, &tensors, sizes.out};
    double worst = 0;

    op->forward64(&tensors);
    op->backward64(&tensors);
    for (int i = 0; i < LS__OP_INPUTS; i++) {
        double *expected =
            ls__central_differences(loss, &context, tensors.in[i], sizes.in[i], step);

        worst = fmax(worst, ls__relative_error(tensors.d_in[i], expected, sizes.in[i]));
    }
    return worst;
}

static void test_reference_against_central_differences(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240501));
    for (int i = 0; i < ls__math_op_count; i++) {
        const ls__math_op *op = &ls__math_ops[i];
        double worst = 0;

        for (const ls__op_shape *shape = op->shapes; shape->rows > 0; shape++) {
            worst = fmax(worst, gradient_error(op, shape));
            ls__free_tensors(NULL);
        }
        ls__figure("gradient of %-15s FP64 against central differences: %.1e", op->name, worst);
        assert_true(worst < tolerance);
    }
}

static const ls__math_op *op_named(const char *name)
{
    for (int i = 0; i < ls__math_op_count; i++)
        if (strcmp(ls__math_ops[i].name, name) == 0)
            return &ls__math_ops[i];
    fail_msg("no operation is called %s", name);
    return NULL;
}

/* Layer norm whose backward forgets that the mean depends on the input. */
static void forgetful_layer_norm(ls__op64 *op)
{
    int64_t width = op->shape.width;

    op_named("layer norm")->backward64(op);
    for (int64_t r = 0; r < op->shape.rows; r++) {
        double sum = 0;

        for (int64_t c = 0; c < width; c++)
            sum += op->d_out[r * width + c] * op->in[1][c];
        for (int64_t c = 0; c < width; c++)
            op->d_in[0][r * width + c] += op->saved[1][r] * sum / (double)width;
    }
}

static void negated_attention(ls__op64 *op)
{
    op_named("attention")->backward64(op);
    for (int64_t i = 0; i < ls__op_sizes_of(op_named("attention"), &op->shape).in[0]; i++)
        op->d_in[0][i] = -op->d_in[0][i];
}

/* GELU's derivative with the slope of its argument taken as constant. */
static void slack_gelu(ls__op64 *op)
{
    for (int64_t i = 0; i < op->shape.rows * op->shape.width; i++) {
        double x = op->in[0][i];
        double c = sqrt(2 / acos(-1));
        double t = tanh(c * (x + 0.044715 * x * x * x));

        op->d_in[0][i] = op->d_out[i] * ((1 + t) / 2 + x / 2 * (1 - t * t) * c);
    }
}

static void test_wrong_backwards_are_caught(void **state)
{
    static const struct {
        const char *name;
        void (*backward)(ls__op64 *op);
    } controls[] = {
        {"layer norm", forgetful_layer_norm},
        {"attention", negated_attention},
        {"gelu", slack_gelu},
    };

    (void)state;
    ls__seed_tensors(ls__test_seed(20240502));
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++) {
        ls__math_op wrong = *op_named(controls[i].name);
        double error;

        assert_true(gradient_error(&wrong, &wrong.shapes[2]) < tolerance);
        wrong.backward64 = controls[i].backward;
        error = gradient_error(&wrong, &wrong.shapes[2]);
        ls__figure("a wrong gradient of %-10s is off by %.1e", wrong.name, error);
        assert_true(error > 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_reference_against_central_differences, ls__free_tensors),
        cmocka_unit_test_teardown(test_wrong_backwards_are_caught, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
