/* The gradients of both whole reference models against central differences, every parameter of
 * tiny ones, tensor by tensor. */
#include <math.h>

#include "support/reference_model.h"
#include "support/tensor.h"
#include "support/test.h"

static const double tolerance = 1e-6;

/* The largest of the tensors' relative errors; `sizes` ends with 0. */
static double worst_tensor(const double *actual, const double *expected, const int64_t *sizes)
{
    double worst = 0;

    for (; *sizes > 0; sizes++) {
        worst = fmax(worst, ls__relative_error(actual, expected, *sizes));
        actual += *sizes;
        expected += *sizes;
    }
    return worst;
}

enum { BATCH = 2, LAYERS = 2, HEADS = 2, C = 6, T = 5, VOCABULARY = 7 };

static const ls__reference_gpt_shape gpt_shape = {LAYERS, HEADS, C, T, VOCABULARY};

/* The layout once more, as a list. */
#define LAYER_SIZES C, C, 3 * C *C, 3 * C, C *C, C, C, C, 4 * C *C, 4 * C, 4 * C *C, C
static const int64_t gpt_sizes[] = {VOCABULARY * C, T *C, LAYER_SIZES, LAYER_SIZES, C, C, 0};

typedef struct gpt_context {
    double *params;
    const int32_t *tokens;
    const int32_t *targets;
    ls__reference_dropout dropout;
} gpt_context;

static double gpt_loss(void *context)
{
    gpt_context *c = context;

    return ls__reference_gpt(&gpt_shape, c->params, NULL, c->tokens, c->targets, BATCH, c->dropout);
}

static double gpt_error(double rate)
{
    int64_t count = ls__reference_gpt_parameters(&gpt_shape);
    double *grads = ls__doubles(count);
    gpt_context context = {
        .params = ls__random_doubles(count, 0.5),
        .tokens = ls__random_ints(BATCH * T, VOCABULARY),
        .targets = ls__random_ints(BATCH * T, VOCABULARY),
        .dropout = {.rate = rate, .seed = 42, .first_sample = 1000},
    };

    ls__reference_gpt(&gpt_shape, context.params, grads, context.tokens, context.targets, BATCH,
                      context.dropout);
    return worst_tensor(
        grads, ls__central_differences(gpt_loss, &context, context.params, count, 1e-3), gpt_sizes);
}

static void test_gpt_gradients(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240514));
    double plain = gpt_error(0);
    double dropped = gpt_error(0.2);

    ls__figure("gradients of the whole GPT, FP64 against central differences: %.1e, with dropout "
               "%.1e",
               plain, dropped);
    assert_true(plain < tolerance);
    assert_true(dropped < tolerance);
}

static void test_gpt_layout_is_complete(void **state)
{
    int64_t sum = 0;

    (void)state;
    for (const int64_t *size = gpt_sizes; *size > 0; size++)
        sum += *size;
    assert_int_equal(sum, ls__reference_gpt_parameters(&gpt_shape));
}

/* Weights near zero give near even odds. */
static void test_gpt_starts_near_even_odds(void **state)
{
    int64_t count = ls__reference_gpt_parameters(&gpt_shape);
    const int32_t *tokens = ls__random_ints(BATCH * T, VOCABULARY);
    ls__reference_dropout none = {.rate = 0};
    double loss =
        ls__reference_gpt(&gpt_shape, ls__doubles(count), NULL, tokens, tokens, BATCH, none);

    (void)state;
    assert_true(fabs(loss - log(VOCABULARY)) < 1e-12);
}

/* The samples of a batch are independent: the batch's loss is the mean of theirs, with dropout's
 * masks by ordinal. */
static void test_gpt_batch_is_its_samples(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240515));
    double *params = ls__random_doubles(ls__reference_gpt_parameters(&gpt_shape), 0.5);
    const int32_t *tokens = ls__random_ints(BATCH * T, VOCABULARY);
    const int32_t *targets = ls__random_ints(BATCH * T, VOCABULARY);
    ls__reference_dropout dropout = {.rate = 0.3, .seed = 3, .first_sample = 8};
    double whole = ls__reference_gpt(&gpt_shape, params, NULL, tokens, targets, BATCH, dropout);
    double sum = 0;

    for (int b = 0; b < BATCH; b++) {
        sum += ls__reference_gpt(&gpt_shape, params, NULL, tokens + b * T, targets + b * T, 1,
                                 dropout);
        dropout.first_sample++;
    }
    assert_true(fabs(whole - sum / BATCH) < 1e-12);
}

enum { IMAGES = 4 };

static const int64_t widths[] = {6, 5, 4, 3};
static const int64_t mlp_sizes[] = {30, 5, 20, 4, 12, 3, 0};

typedef struct mlp_context {
    ls__reference_mlp_shape shape;
    double *params;
    const double *in;
    const int32_t *labels;
} mlp_context;

static double mlp_loss(void *context)
{
    mlp_context *c = context;

    return ls__reference_mlp(&c->shape, c->params, NULL, c->in, c->labels, IMAGES);
}

static double mlp_error(bool gelu)
{
    ls__reference_mlp_shape shape = {3, widths, gelu};
    int64_t count = ls__reference_mlp_parameters(&shape);
    double *grads = ls__doubles(count);
    mlp_context context = {
        .shape = shape,
        .params = ls__random_doubles(count, 0.7),
        .in = ls__random_doubles(IMAGES * widths[0], 1),
        .labels = ls__random_ints(IMAGES, widths[3]),
    };

    ls__reference_mlp(&shape, context.params, grads, context.in, context.labels, IMAGES);
    /* A short step, so that no sum crosses the kink of ReLU. */
    return worst_tensor(
        grads, ls__central_differences(mlp_loss, &context, context.params, count, 1e-5), mlp_sizes);
}

static void test_mlp_gradients(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240516));
    double relu = mlp_error(false);
    double gelu = mlp_error(true);

    ls__figure("gradients of the whole MLP, FP64 against central differences: relu %.1e, gelu %.1e",
               relu, gelu);
    assert_true(relu < tolerance);
    assert_true(gelu < tolerance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gpt_gradients, ls__free_tensors),
        cmocka_unit_test(test_gpt_layout_is_complete),
        cmocka_unit_test_teardown(test_gpt_starts_near_even_odds, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_batch_is_its_samples, ls__free_tensors),
        cmocka_unit_test_teardown(test_mlp_gradients, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
