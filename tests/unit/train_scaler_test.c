/* Loss scaling: the scaler against a table made by hand, the flags, and that a power of two leaves
 * no trace in the mean gradient, where another factor does. */
#include "train/scaler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "lockstep/exact.h"
#include "math/gemm.h"
#include "nn/gpt.h"
#include "nn/mlp.h"
#include "support/test.h"
#include "train/settings.h"

/* ---- the scaler ---- */

/* What a step brings, and the state after it. */
static const struct row {
    bool overflow;
    bool taken; /* as the scaler says: skipped, not diverged; always with a good step */
    double scale;
    int64_t good;
    int64_t skipped;
} table[] = {
    {false, true, 8, 1, 0}, {false, true, 8, 2, 0}, {false, true, 16, 0, 0}, /* grows */
    {true, true, 8, 0, 1},  {false, true, 8, 1, 1}, {false, true, 8, 2, 1},
    {true, true, 4, 0, 2},                                                  /* forgets the two */
    {false, true, 4, 1, 2}, {true, true, 2, 0, 3},  {true, false, 2, 0, 3}, /* the floor */
    {true, false, 2, 0, 3}, {false, true, 2, 1, 3}, {true, false, 2, 1, 3},
    {false, true, 2, 2, 3}, {false, true, 4, 0, 3}, {false, true, 4, 1, 3},
    {false, true, 4, 2, 3}, {false, true, 8, 0, 3}, {true, true, 4, 0, 4},
};

static void test_table(void **state)
{
    ls__scaler scaler = ls__scaler_begin(8, 3, 2);

    (void)state;
    assert_true(ls__scaler_active(&scaler));
    assert_true(scaler.scale == 8 && scaler.good == 0 && scaler.skipped == 0);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        bool taken = true;
        if (table[i].overflow)
            taken = ls__scaler_overflow(&scaler);
        else
            ls__scaler_good(&scaler);
        assert_int_equal(taken, table[i].taken);
        assert_true(scaler.scale == table[i].scale);
        assert_int_equal(scaler.good, table[i].good);
        assert_int_equal(scaler.skipped, table[i].skipped);
    }
    assert_int_equal(ls__scaler_update(&scaler, 20), 16);
}

/* The scale neither grows nor shrinks beyond its limits. */
static void test_limits(void **state)
{
    ls__scaler scaler = ls__scaler_begin(0x1p63, 1, LS__SCALE_MIN);
    int halved = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        ls__scaler_good(&scaler);
    assert_true(scaler.scale == LS__SCALE_MAX);
    while (ls__scaler_overflow(&scaler))
        halved++;
    assert_int_equal(halved, 128);
    assert_true(scaler.scale == LS__SCALE_MIN);
}

static void test_no_scaling(void **state)
{
    static const double none[] = {0, (double)NAN};

    (void)state;
    for (int i = 0; i < 2; i++) {
        ls__scaler scaler = ls__scaler_begin(none[i], 1, 1);
        ls__scaler_good(&scaler);
        assert_false(ls__scaler_active(&scaler));
        assert_false(ls__scaler_overflow(&scaler));
        assert_true(scaler.scale == 1);
        assert_int_equal(scaler.skipped, 0);
        assert_int_equal(ls__scaler_update(&scaler, 7), 7);
    }
}

static void test_resume(void **state)
{
    ls__scaler whole = ls__scaler_begin(8, 3, 1);
    ls__scaler resumed = ls__scaler_begin(8, 3, 1);

    (void)state;
    for (int step = 0; step < 40; step++) {
        if (step % 7 == 4)
            ls__scaler_overflow(&whole);
        else
            ls__scaler_good(&whole);
        if (step == 20)
            ls__scaler_resume(&resumed, whole.scale, whole.good, whole.skipped);
        else if (step > 20 && step % 7 == 4)
            ls__scaler_overflow(&resumed);
        else if (step > 20)
            ls__scaler_good(&resumed);
    }
    assert_memory_equal(&resumed, &whole, sizeof whole);
}

/* ---- flags ---- */

static ls__train_settings settings; /* large */

/* Names and values, closed with NULL. */
static ls_status resolve(const char *const *flags)
{
    ls__options_preset(&ls__train_options, &settings);
    for (; flags[0]; flags += 2)
        LS_TRY(ls__options_set(&ls__train_options, &settings, flags[0], flags[1]));
    return ls__train_settings_resolve_step(&settings);
}

/* The defaults are those of torch.cuda.amp.GradScaler. */
static void test_defaults(void **state)
{
    (void)state;
    assert_ok(resolve((const char *[]){"precision", "f16", NULL}));
    assert_true(settings.loss_scale == 65536);
    assert_int_equal(settings.loss_scale_growth, 2000);
    assert_true(settings.loss_scale_floor == 1);
    assert_ok(resolve((const char *[]){"precision", "bf16", NULL}));
    assert_true(settings.loss_scale == 0);
    assert_ok(resolve((const char *[]){NULL}));
    assert_true(settings.loss_scale == 0);
    assert_ok(resolve((const char *[]){"precision", "f16", "loss-scale", "0", NULL}));
    assert_true(settings.loss_scale == 0);
    assert_ok(resolve((const char *[]){"loss-scale", "1024", NULL}));
    assert_true(settings.loss_scale == 1024);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_fails(resolve((const char *[]){"loss-scale", "1000", NULL}), LS_BAD_USAGE,
                 "--loss-scale 1000 is not a power of two: use 512 or 1024");
    assert_fails(resolve((const char *[]){"loss-scale", "3", "loss-scale-floor", "0.3", NULL}),
                 LS_BAD_USAGE, "--loss-scale-floor 0.3 is not a power of two: use 0.25 or 0.5");
    assert_fails(resolve((const char *[]){"loss-scale", "2", "loss-scale-floor", "4", NULL}),
                 LS_BAD_USAGE, "--loss-scale 2 is below --loss-scale-floor 4");
    assert_fails(resolve((const char *[]){"loss-scale", "-2", NULL}), LS_BAD_USAGE, "loss-scale");
    assert_fails(resolve((const char *[]){"loss-scale", "1e30", NULL}), LS_BAD_USAGE, "loss-scale");
    assert_fails(resolve((const char *[]){"loss-scale-floor", "0", NULL}), LS_BAD_USAGE,
                 "loss-scale-floor");
    assert_fails(resolve((const char *[]){"loss-scale-growth", "0", NULL}), LS_BAD_USAGE,
                 "loss-scale-growth");
}

/* ---- the same bits ---- */

enum { PARTS = 4, CONTEXT = 16, VOCABULARY = 33, INPUTS = 20, CLASSES = 10 };

static ls__arena *arena;
static ls__model *models[3]; /* a GPT, an MLP, the GPT in FP16 */
static int32_t tokens[PARTS * CONTEXT];
static int32_t targets[PARTS * CONTEXT];
static float images[PARTS * INPUTS];

static int set_up(void **state)
{
    ls__gpt_shape gpt = {
        .layers = 2, .heads = 2, .width = 32, .context = CONTEXT, .vocabulary = VOCABULARY};
    ls__mlp_shape mlp = {
        .inputs = INPUTS, .hidden = {17}, .hidden_count = 1, .classes = CLASSES, .activation = 1};

    (void)state;
    ls__gemm_start();
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__gpt_open(&models[0], &gpt, 1, 1, arena));
    assert_ok(ls__mlp_open(&models[1], &mlp, 1, arena));
    gpt.format = LS__F16;
    assert_ok(ls__gpt_open(&models[2], &gpt, 1, 1, arena));
    for (int i = 0; i < PARTS * CONTEXT; i++) {
        tokens[i] = (i * i * 7 + i / 3) % VOCABULARY;
        targets[i] = (i * 11 + i / 5) % CLASSES;
    }
    for (int i = 0; i < PARTS * INPUTS; i++)
        images[i] = (float)(i * i % 19) / 19;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ls__model_close(models[0]);
    ls__model_close(models[1]);
    ls__model_close(models[2]);
    ls__arena_close(arena);
    return 0;
}

static void add(void *exact, int64_t offset, int64_t count, const float *addend)
{
    ls_exact_add(exact, offset, addend, count);
}

static void *take(int64_t count, size_t size)
{
    void *values = calloc((size_t)count, size);

    assert_non_null(values);
    return values;
}

/* The mean over `parts` samples, in memory of the caller's, with a scale on its way. */
static float *mean_gradient(int which, int parts, double scale)
{
    ls__model *model = models[which];
    int64_t total = model->tensors.total;
    float *parameters = take(total, sizeof *parameters);
    float *mean = take(total, sizeof *mean);
    double *lanes = take(total, sizeof *lanes);
    ls_exact *exact = NULL;

    ls__tensors_initialise(&model->tensors, 5, parameters);
    assert_ok(ls_exact_open(&exact, total, lanes));
    model->loss_scale = (float)scale;
    ls__model_parameters_changed(model);
    for (int i = 0; i < parts; i++) {
        ls__batch batch = {.samples = 1,
                           .length = model->context,
                           .tokens = which == 1 ? NULL : tokens + i * CONTEXT,
                           .images = which == 1 ? images + i * INPUTS : NULL,
                           .targets = targets + i * CONTEXT,
                           .ordinal = (uint64_t)i};
        ls__model_loss(model, parameters, &batch, true);
        ls__model_backward(model, parameters, &batch, (ls__gradient_sink){add, exact});
    }
    ls_exact_round(exact, 0, total, parts * scale, mean);
    ls_exact_close(exact);
    free(lanes);
    free(parameters);
    return mean;
}

static int64_t elements_that_differ(int which, int parts, double scale)
{
    float *plain = mean_gradient(which, parts, 1);
    float *scaled = mean_gradient(which, parts, scale);
    int64_t count = 0;

    for (int64_t i = 0; i < models[which]->tensors.total; i++)
        count += memcmp(&plain[i], &scaled[i], sizeof plain[i]) != 0;
    free(plain);
    free(scaled);
    return count;
}

/* Divisors that are powers of two, and that are not, are divided by in different ways. */
static void test_powers_of_two_leave_no_trace(void **state)
{
    static const double scales[] = {1024, 65536, 0x1p40, 0x1p-20};

    (void)state;
    for (int which = 0; which < 2; which++)
        for (int parts = 3; parts <= PARTS; parts++)
            for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
                assert_int_equal(elements_that_differ(which, parts, scales[i]), 0);
}

/* The control: why the scale must be a power of two. */
static void test_another_factor_does(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        int64_t differing = elements_that_differ(which, PARTS, 1000);
        ls__figure("control: a loss scale of 1000 changes %lld of %lld elements of the %s's mean",
                   (long long)differing, (long long)models[which]->tensors.total,
                   which == 0 ? "GPT" : "MLP");
        assert_true(differing > 0);
    }
}

/* Of the FP16 gradient, to FP32's, relative to that one's norm. */
static double error_of_fp16(double scale)
{
    float *expected = mean_gradient(0, PARTS, 1);
    float *half = mean_gradient(2, PARTS, scale);
    double error = 0;
    double norm = 0;

    for (int64_t i = 0; i < models[0]->tensors.total; i++) {
        double difference = (double)half[i] - (double)expected[i];
        error += difference * difference;
        norm += (double)expected[i] * (double)expected[i];
    }
    free(expected);
    free(half);
    return sqrt(error / norm);
}

/* What it is for: a loss whose gradients are small, as those of many rows are. */
static void test_small_gradients_survive_fp16(void **state)
{
    double lost = error_of_fp16(0x1p-12);
    double kept = error_of_fp16(0x1p4);

    (void)state;
    ls__figure("GPT's mean gradient in FP16, 2^12 times smaller than it is: off by %.1e without "
               "loss scaling, by %.1e with 65536",
               lost, kept);
    assert_true(kept < 0.01);
    assert_true(lost > 5 * kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_scaling),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_powers_of_two_leave_no_trace),
        cmocka_unit_test(test_another_factor_does),
        cmocka_unit_test(test_small_gradients_survive_fp16),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
