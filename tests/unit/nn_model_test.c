/* The FP32 models against the FP64 reference models, tensor by tensor: loss, logits, gradients. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "nn/gpt.h"
#include "nn/mlp.h"
#include "support/reference_model.h"
#include "support/tensor.h"
#include "support/test.h"

static const double tolerance = 1e-4;

enum { SAMPLES = 3, MICRO_BATCH = 4 };

/* What a backward hands out, added up over its calls, and how often each element came. */
typedef struct collected {
    float *sum;
    int32_t *times;
} collected;

static void collect(void *context, int64_t offset, int64_t count, const float *addend)
{
    collected *c = context;

    for (int64_t i = 0; i < count; i++) {
        c->sum[offset + i] += addend[i];
        c->times[offset + i]++;
    }
}

/* Random weights around the initial ones, so that no gain is exactly 1 and no bias exactly 0. */
static void random_parameters(const ls__model *model, float *parameters, double *doubles)
{
    double *noise = ls__random_doubles(model->tensors.total, 0.3);

    ls__tensors_initialise(&model->tensors, 11, parameters);
    for (int64_t i = 0; i < model->tensors.total; i++) {
        parameters[i] += (float)noise[i];
        doubles[i] = (double)parameters[i];
    }
}

/* The largest relative error among the tensors, which is named. */
static double worst_tensor(const ls__tensors *tensors, const float *actual, const double *expected,
                           const char **where)
{
    double worst = 0;

    for (int i = 0; i < tensors->count; i++) {
        const ls__tensor *tensor = &tensors->tensor[i];
        double *wide = ls__doubles(tensor->count);
        for (int64_t j = 0; j < tensor->count; j++)
            wide[j] = (double)actual[tensor->offset + j];
        double error = ls__relative_error(wide, expected + tensor->offset, tensor->count);
        if (!(error <= worst)) {
            worst = error;
            *where = tensor->name;
        }
    }
    return worst;
}

/* ---- GPT ---- */

typedef struct gpt_case {
    ls__gpt_shape shape;
    double loss_error;
    double gradient_error;
    char where[LS__TENSOR_NAME];
} gpt_case;

static void compare_gpt(gpt_case *c)
{
    const ls__gpt_shape *s = &c->shape;
    ls__reference_gpt_shape reference = {s->layers, s->heads, s->width, s->context, s->vocabulary};
    ls__arena *arena = NULL;
    ls__model *model = NULL;

    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&model, s, MICRO_BATCH, 42, arena));
    int64_t total = model->tensors.total;
    assert_int_equal(total, ls__reference_gpt_parameters(&reference));
    float *parameters = ls__test_floats(total);
    double *doubles = ls__doubles(total);
    double *expected = ls__doubles(total);
    collected got = {ls__test_floats(total), ls__ints(total)};
    random_parameters(model, parameters, doubles);

    ls__batch batch = {.samples = SAMPLES,
                       .length = s->context,
                       .tokens = ls__random_ints(SAMPLES * s->context, s->vocabulary),
                       .targets = ls__random_ints(SAMPLES * s->context, s->vocabulary),
                       .ordinal = 5};
    ls__reference_dropout dropout = {.rate = s->dropout, .seed = 42, .first_sample = 5};
    double loss = ls__model_loss(model, parameters, &batch, true);
    ls__model_backward(model, parameters, &batch, (ls__gradient_sink){collect, &got});
    double right = ls__reference_gpt(&reference, doubles, expected, batch.tokens, batch.targets,
                                     SAMPLES, dropout);

    c->loss_error = fabs(loss / right - 1);
    const char *where = "";
    c->gradient_error = worst_tensor(&model->tensors, got.sum, expected, &where);
    snprintf(c->where, sizeof c->where, "%s", where);
    /* The tied weight comes twice, everything else once. */
    for (int64_t i = 0; i < total; i++)
        assert_int_equal(got.times[i], i < s->vocabulary * s->width ? 2 : 1);
    ls__model_close(model);
    ls__arena_close(arena);
}

/* In 16 bits, weights, activations and their gradients are rounded on the way: errors are of the
 * size of the format's spacing, which is 8 times finer in f16 than in bf16. */
static void test_gpt_in_16_bits(void **state)
{
    gpt_case cases[] = {
        {.shape = {.layers = 3, .heads = 4, .width = 32, .context = 17, .vocabulary = 65}},
        {.shape = {.layers = 2,
                   .heads = 4,
                   .width = 64,
                   .context = 64,
                   .vocabulary = 65,
                   .dropout = 0.1}},
    };
    static const double spacing[] = {[LS__BF16] = 0x1p-7, [LS__F16] = 0x1p-10};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int format = LS__BF16; format <= LS__F16; format++) {
            ls__seed_tensors(ls__test_seed(31338));
            cases[i].shape.format = (ls__format)format;
            compare_gpt(&cases[i]);
            ls__figure("gradients of the whole GPT in %s against FP64: %.1e relative, worst in %s",
                       ls__format_name((ls__format)format), cases[i].gradient_error,
                       cases[i].where);
            assert_true(cases[i].loss_error < spacing[format]);
            assert_true(cases[i].gradient_error < 16 * spacing[format]);
            assert_true(cases[i].gradient_error > spacing[format] / 64); /* it is not FP32 */
        }
}

static void test_gpt(void **state)
{
    gpt_case cases[] = {
        {.shape = {1, 1, 4, 1, 2, 0, LS__F32, false}},
        {.shape = {2, 2, 8, 5, 7, 0, LS__F32, false}},
        {.shape = {3, 4, 32, 17, 65, 0, LS__F32, false}},
        {.shape = {1, 3, 33, 16, 10, 0, LS__F32, false}},
        {.shape = {2, 2, 16, 8, 65, 0.2, LS__F32, false}},
        {.shape = {2, 4, 64, 64, 65, 0.1, LS__F32, false}},
    };

    (void)state;
    ls__seed_tensors(ls__test_seed(31337));
    double worst = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        compare_gpt(&cases[i]);
        if (cases[i].gradient_error > tolerance || cases[i].loss_error > tolerance)
            print_error("case %zu: loss off by %.2e, gradient of %s by %.2e\n", i,
                        cases[i].loss_error, cases[i].where, cases[i].gradient_error);
        assert_true(cases[i].loss_error < tolerance);
        assert_true(cases[i].gradient_error < tolerance);
        worst = fmax(worst, cases[i].gradient_error);
    }
    ls__figure("gradients of the whole GPT, FP32 against FP64: %.1e relative, worst tensor", worst);
}

/* ---- MLP ---- */

static double compare_mlp(ls__activation activation, const int64_t *widths, int layers)
{
    ls__reference_mlp_shape reference = {layers, widths, activation == LS__GELU};
    ls__mlp_shape shape = {.inputs = widths[0],
                           .hidden_count = layers - 1,
                           .classes = widths[layers],
                           .activation = activation};
    ls__arena *arena = NULL;
    ls__model *model = NULL;
    const char *where = "";

    for (int i = 0; i < layers - 1; i++)
        shape.hidden[i] = widths[i + 1];
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__mlp_open(&model, &shape, MICRO_BATCH, arena));
    int64_t total = model->tensors.total;
    assert_int_equal(total, ls__reference_mlp_parameters(&reference));
    float *parameters = ls__test_floats(total);
    float *images = ls__test_floats((SAMPLES * widths[0]));
    double *doubles = ls__doubles(total);
    double *expected = ls__doubles(total);
    double *in = ls__random_doubles(SAMPLES * widths[0], 1);
    collected got = {ls__test_floats(total), ls__ints(total)};
    random_parameters(model, parameters, doubles);
    for (int64_t i = 0; i < SAMPLES * widths[0]; i++) {
        images[i] = (float)in[i];
        in[i] = (double)images[i];
    }

    ls__batch batch = {.samples = SAMPLES,
                       .length = 1,
                       .images = images,
                       .targets = ls__random_ints(SAMPLES, widths[layers])};
    double loss = ls__model_loss(model, parameters, &batch, true);
    ls__model_backward(model, parameters, &batch, (ls__gradient_sink){collect, &got});
    double right = ls__reference_mlp(&reference, doubles, expected, in, batch.targets, SAMPLES);
    assert_true(fabs(loss / right - 1) < tolerance);
    double error = worst_tensor(&model->tensors, got.sum, expected, &where);
    for (int64_t i = 0; i < total; i++)
        assert_int_equal(got.times[i], 1);
    ls__model_close(model);
    ls__arena_close(arena);
    return error;
}

static void test_mlp(void **state)
{
    static const int64_t narrow[] = {1, 2};
    static const int64_t middle[] = {13, 7, 5, 3};
    static const int64_t wide[] = {64, 48, 33, 17, 10};
    double worst = 0;

    (void)state;
    ls__seed_tensors(ls__test_seed(4711));
    for (int activation = LS__RELU; activation <= LS__GELU; activation++) {
        worst = fmax(worst, compare_mlp((ls__activation)activation, narrow, 1));
        worst = fmax(worst, compare_mlp((ls__activation)activation, middle, 3));
        worst = fmax(worst, compare_mlp((ls__activation)activation, wide, 4));
    }
    ls__figure("gradients of the whole MLP, FP32 against FP64: %.1e relative, worst tensor", worst);
    assert_true(worst < tolerance);
}

/* ---- what a model promises ---- */

/* A shorter sequence sees the same as a longer one's beginning: attention looks back only. To
 * rounding, as products of another shape have other bits. */
static void test_gpt_is_causal(void **state)
{
    ls__gpt_shape shape = {.layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = 11};
    ls__arena *arena = NULL;
    ls__model *model = NULL;
    float before[12 * 11];

    (void)state;
    ls__seed_tensors(ls__test_seed(5));
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&model, &shape, 1, 1, arena));
    float *parameters = ls__test_floats(model->tensors.total);
    random_parameters(model, parameters, ls__doubles(model->tensors.total));
    ls__batch batch = {.samples = 1, .length = 12, .tokens = ls__random_ints(12, 11)};
    ls__model_logits(model, parameters, &batch);
    memcpy(before, model->logits.at, sizeof before);
    for (int64_t length = 1; length < 12; length++) {
        batch.length = length;
        ls__model_logits(model, parameters, &batch);
        const float *logits = model->logits.at;
        for (int64_t i = 0; i < length * 11; i++)
            assert_true(fabsf(logits[i] - before[i]) < 1e-4f * fmaxf(1, fabsf(before[i])));
    }
    ls__model_close(model);
    ls__arena_close(arena);
}

/* Dropout is keyed by the sample's ordinal: a sample has the same loss whichever batch it is in,
 * another mask at another ordinal, and none outside training. */
static void test_gpt_dropout_is_keyed(void **state)
{
    ls__gpt_shape shape = {
        .layers = 1, .heads = 2, .width = 16, .context = 8, .vocabulary = 11, .dropout = 0.3};
    ls__arena *arena = NULL;
    ls__model *model = NULL;

    (void)state;
    ls__seed_tensors(ls__test_seed(6));
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&model, &shape, 1, 1, arena));
    float *parameters = ls__test_floats(model->tensors.total);
    random_parameters(model, parameters, ls__doubles(model->tensors.total));
    ls__batch batch = {.samples = 1,
                       .length = 8,
                       .tokens = ls__random_ints(8, 11),
                       .targets = ls__random_ints(8, 11),
                       .ordinal = 3};
    double first = ls__model_loss(model, parameters, &batch, true);
    double plain = ls__model_loss(model, parameters, &batch, false);
    assert_true(ls__model_loss(model, parameters, &batch, true) == first);
    assert_true(first != plain);
    batch.ordinal = 4;
    assert_true(ls__model_loss(model, parameters, &batch, true) != first);
    assert_true(ls__model_loss(model, parameters, &batch, false) == plain);
    ls__model_close(model);
    ls__arena_close(arena);
}

/* Radford et al. 2019: 0.02, residual projections smaller by sqrt(2 layers), norms 1 and 0. */
static void test_gpt_initial_values(void **state)
{
    ls__gpt_shape shape = {.layers = 4, .heads = 4, .width = 128, .context = 64, .vocabulary = 65};
    ls__arena *arena = NULL;
    ls__model *model = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&model, &shape, 1, 1, arena));
    float *flat = ls__test_floats(model->tensors.total);
    ls__tensors_initialise(&model->tensors, 1337, flat);
    for (int i = 0; i < model->tensors.count; i++) {
        const ls__tensor *tensor = &model->tensors.tensor[i];
        bool residual = strstr(tensor->name, "c_proj.weight") != NULL;
        double std = residual ? 0.02 / sqrt(8) : 0.02;
        double squares = 0;
        for (int64_t j = 0; j < tensor->count; j++)
            squares += pow((double)flat[tensor->offset + j], 2);
        if (tensor->dimensions == 2)
            assert_true(fabs(sqrt(squares / (double)tensor->count) / std - 1) < 0.05);
        else
            assert_true(squares == (strstr(tensor->name, "ln_") && strstr(tensor->name, "weight")
                                        ? (double)tensor->count
                                        : 0));
    }
    ls__model_close(model);
    ls__arena_close(arena);
}

/* The gradient of a batch, in the order in which it came. */
static float *gradient_of(const ls__gpt_shape *shape, const float *parameters,
                          const ls__batch *batch, int64_t *total)
{
    ls__arena *arena = NULL;
    ls__model *model = NULL;

    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&model, shape, MICRO_BATCH, 42, arena));
    *total = model->tensors.total;
    collected got = {ls__test_floats(*total), ls__ints(*total)};
    ls__model_loss(model, parameters, batch, true);
    ls__model_backward(model, parameters, batch, (ls__gradient_sink){collect, &got});
    ls__model_close(model);
    ls__arena_close(arena);
    return got.sum;
}

/* Neither recomputation nor the number of threads changes a bit, in any format; the format does. */
static void test_gpt_has_one_gradient(void **state)
{
    ls__gpt_shape shape = {
        .layers = 3, .heads = 2, .width = 48, .context = 150, .vocabulary = 65, .dropout = 0.2};
    float *in_format[LS__F16 + 1];
    int64_t total = 0;

    (void)state;
    ls__seed_tensors(ls__test_seed(7));
    float *parameters = ls__to_floats(ls__random_doubles(100000, 0.1), 100000);
    ls__batch batch = {.samples = SAMPLES,
                       .length = shape.context,
                       .tokens = ls__random_ints(SAMPLES * shape.context, 65),
                       .targets = ls__random_ints(SAMPLES * shape.context, 65),
                       .ordinal = 9};
    for (int format = LS__F32; format <= LS__F16; format++) {
        shape.format = (ls__format)format;
        shape.recompute = false;
        in_format[format] = gradient_of(&shape, parameters, &batch, &total);
        assert_true(total < 100000);
        for (int threads = 1; threads <= 3; threads++) {
            assert_ok(ls__threads_start(threads));
            shape.recompute = threads > 1;
            assert_memory_equal(gradient_of(&shape, parameters, &batch, &total), in_format[format],
                                (size_t)total * sizeof(float));
        }
        assert_ok(ls__threads_start(1));
    }
    size_t bytes = (size_t)total * sizeof(float);
    assert_memory_not_equal(in_format[LS__F32], in_format[LS__BF16], bytes);
    assert_memory_not_equal(in_format[LS__BF16], in_format[LS__F16], bytes);
}

/* Batch x context x 4 width of 2^31 floats: refused with the bytes, before any is taken. */
static void test_gpt_refuses_before_allocating(void **state)
{
    ls__gpt_shape shape = {
        .layers = 1, .heads = 16, .width = 64, .context = 1 << 22, .vocabulary = 65};
    ls__gpt_shape beyond = {
        .layers = 4096, .heads = 1, .width = 1 << 20, .context = 1 << 20, .vocabulary = 65536};
    ls__arena *arena = NULL;
    ls__model *model = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, INT64_C(8) << 30));
    assert_fails(ls__gpt_open(&model, &shape, 2, 1, arena), LS_NO_MEMORY, "activations need");
    assert_fails(ls__gpt_open(&model, &beyond, 1024, 1, arena), LS_NO_MEMORY, "activations need");
    ls__arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gpt, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_in_16_bits, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_has_one_gradient, ls__free_tensors),
        cmocka_unit_test_teardown(test_mlp, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_is_causal, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_dropout_is_keyed, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_initial_values, ls__free_tensors),
        cmocka_unit_test_teardown(test_gpt_refuses_before_allocating, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
