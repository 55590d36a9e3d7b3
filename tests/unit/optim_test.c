/* Optimizers against the formulas of their papers in FP64, the schedule against its closed form,
 * the norm against a plain sum. */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "optim/clip.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "support/test.h"

enum { COUNT = 24, MATRIX = 16, STEPS = 50 };

typedef struct fixture {
    ls__arena *arena;
    ls__tensors tensors;
    ls__optimizer optimizer;
    float parameters[COUNT];
    float gradients[COUNT];
} fixture;

static const ls__optimizer_settings adamw = {
    .kind = LS__ADAMW, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
static const ls__optimizer_settings sgd = {.kind = LS__SGD, .weight_decay = 0.1, .momentum = 0.9};

static void open_fixture(fixture *f, const ls__optimizer_settings *settings)
{
    int64_t offset = 0;

    memset(f, 0, sizeof *f);
    assert_ok(ls__arena_open(&f->arena, 0));
    assert_ok(ls__tensors_add_matrix(&f->tensors, "weight", 4, MATRIX / 4, 1, &offset));
    assert_ok(ls__tensors_add_vector(&f->tensors, "bias", COUNT - MATRIX, 1, &offset));
    assert_ok(ls__optimizer_open(&f->optimizer, settings, &f->tensors, COUNT, f->arena));
    ls__tensors_initialise(&f->tensors, 7, f->parameters);
}

static void close_fixture(fixture *f)
{
    ls__tensors_free(&f->tensors);
    ls__arena_close(f->arena);
}

static float gradient_at(int step, int i)
{
    return (float)ls__normal(9, LS__STREAM_INIT, (uint64_t)(step * COUNT + i));
}

/* Loshchilov and Hutter, algorithm 2, in FP64 for one element. */
static double adamw_reference(int i, double x, double lr, double decay)
{
    double m = 0;
    double v = 0;

    for (int t = 1; t <= STEPS; t++) {
        double g = (double)gradient_at(t, i);
        m = 0.9 * m + 0.1 * g;
        v = 0.99 * v + 0.01 * g * g;
        double m_hat = m / (1 - pow(0.9, t));
        double v_hat = v / (1 - pow(0.99, t));
        x -= lr * decay * x;
        x -= lr * m_hat / (sqrt(v_hat) + 1e-8);
    }
    return x;
}

static double sgd_reference(int i, double x, double lr, double decay)
{
    double momentum = 0;

    for (int t = 1; t <= STEPS; t++) {
        momentum = 0.9 * momentum + (double)gradient_at(t, i);
        x -= lr * decay * x;
        x -= lr * momentum;
    }
    return x;
}

static void run(fixture *f, int parts)
{
    for (int t = 1; t <= STEPS; t++) {
        for (int i = 0; i < COUNT; i++)
            f->gradients[i] = gradient_at(t, i);
        for (int part = 0; part < parts; part++) {
            int first = COUNT * part / parts;
            int end = COUNT * (part + 1) / parts;
            ls__optimizer_step(&f->optimizer, f->parameters, f->gradients, 0.01, t, first,
                               end - first, first);
        }
    }
}

static void check_against(const ls__optimizer_settings *settings,
                          double (*reference)(int, double, double, double))
{
    fixture f;
    double worst = 0;

    open_fixture(&f, settings);
    float start[COUNT];
    memcpy(start, f.parameters, sizeof start);
    run(&f, 1);
    for (int i = 0; i < COUNT; i++) {
        double decay = i < MATRIX ? 0.1 : 0; /* matrices only */
        double expected = reference(i, (double)start[i], 0.01, decay);
        double other = reference(i, (double)start[i], 0.01, 0.1 - decay);
        worst = fmax(worst, fabs((double)f.parameters[i] - expected) / fmax(1, fabs(expected)));
        /* The control: decay on the wrong kind of tensor shows. */
        assert_true(fabs((double)f.parameters[i] - other) > 1e-4 * fabs(expected));
    }
    ls__figure("%s after %d steps against FP64: %.1e relative",
               settings->kind == LS__ADAMW ? "AdamW" : "SGD", STEPS, worst);
    assert_true(worst < 2e-5);
    close_fixture(&f);
}

static void test_adamw(void **state)
{
    (void)state;
    check_against(&adamw, adamw_reference);
}

static void test_sgd(void **state)
{
    (void)state;
    check_against(&sgd, sgd_reference);
}

/* In any number of stretches, the same bits: what sharding stands on. */
static void test_stretches(void **state)
{
    const ls__optimizer_settings *all[] = {&adamw, &sgd};
    fixture whole;
    fixture cut;

    (void)state;
    for (int kind = 0; kind < 2; kind++)
        for (int parts = 2; parts <= COUNT; parts++) {
            open_fixture(&whole, all[kind]);
            open_fixture(&cut, all[kind]);
            run(&whole, 1);
            run(&cut, parts);
            assert_memory_equal(whole.parameters, cut.parameters, sizeof whole.parameters);
            close_fixture(&whole);
            close_fixture(&cut);
        }
}

/* nanoGPT's get_lr, written out at points that can be worked out by hand. */
static void test_schedule(void **state)
{
    ls__learning_rate s = {.highest = 1e-3, .lowest = 1e-4, .warmup = 100, .decay = 2000};
    ls__learning_rate flat = {.highest = 1e-3, .lowest = 1e-4, .warmup = 0, .decay = 1};

    (void)state;
    assert_true(fabs(ls__learning_rate_at(&s, 0) - 1e-3 / 101) < 1e-12);
    assert_true(fabs(ls__learning_rate_at(&s, 99) - 1e-3 * 100 / 101) < 1e-12);
    assert_true(fabs(ls__learning_rate_at(&s, 100) - 1e-3) < 1e-12);
    assert_true(fabs(ls__learning_rate_at(&s, 1050) - 5.5e-4) < 1e-12);
    assert_true(fabs(ls__learning_rate_at(&s, 2000) - 1e-4) < 1e-12);
    assert_true(fabs(ls__learning_rate_at(&s, 5000) - 1e-4) < 1e-12);
    assert_true(fabs(ls__learning_rate_at(&flat, 0) - 1e-3) < 1e-12);
}

static void test_norm(void **state)
{
    static float values[3 * LS__NORM_BLOCK + 5];
    const int64_t count = sizeof values / sizeof values[0];
    double plain = 0;

    (void)state;
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)ls__normal(3, LS__STREAM_INIT, (uint64_t)i);
        plain += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(ls__norm(values, count) / sqrt(plain) - 1) < 1e-12);
    assert_true(ls__norm(values, 0) == 0);
    values[7] = INFINITY;
    assert_true(!isfinite(ls__norm(values, count)));
    values[7] = NAN;
    assert_true(!isfinite(ls__norm(values, count)));
}

static void test_clip(void **state)
{
    (void)state;
    assert_true(ls__clip_factor(0.5, 1) == 1);
    assert_true(ls__clip_factor(1, 1) == 1);
    assert_true(fabs(ls__clip_factor(4, 1) - 0.25) < 1e-6);
    assert_true(ls__clip_factor(4, 0) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw),     cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_stretches), cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_norm),      cmocka_unit_test(test_clip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
