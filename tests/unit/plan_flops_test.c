/* Floating-point operations by part: the figures of issue 6. */
#include "plan/device.h"
#include "plan/flops.h"
#include "plan/memory.h"
#include "support/test.h"

/* d = n = 1024, 24 layers, without embeddings. */
static ls__plan_model example(void)
{
    ls__plan_model model = {.family = LS__PLAN_GPT,
                            .layers = 24,
                            .width = 1024,
                            .heads = 16,
                            .context = 1024,
                            .experts = 1,
                            .active_experts = 1};

    assert_ok(ls__plan_model_resolve(&model));
    return model;
}

static void test_one_layer_forward(void **state)
{
    ls__plan_model model = example();
    double sum = 0;

    (void)state;
    assert_near(ls__plan_forward_flops(&model, LS__PLAN_QKV, 8), 51.5e9, 0.05e9);
    assert_near(ls__plan_forward_flops(&model, LS__PLAN_ATTENTION, 8), 34.4e9, 0.05e9);
    assert_near(ls__plan_forward_flops(&model, LS__PLAN_PROJECTION, 8), 17.2e9, 0.05e9);
    assert_near(ls__plan_forward_flops(&model, LS__PLAN_FFN, 8), 137.4e9, 0.05e9);
    for (ls__plan_part part = 0; part < LS__PLAN_PART_COUNT; part++)
        sum += ls__plan_forward_flops(&model, part, 8);
    assert_near(sum, 240.5e9, 0.05e9);
}

static void test_a_step(void **state)
{
    ls__plan_model model = example();
    ls__plan_device device;
    double flops = ls__plan_step_flops(&model, 8, LS__PLAN_RECOMPUTE_NONE);

    (void)state;
    assert_ok(ls__plan_device_find("a100-80g", &device));
    assert_near(flops, 17.32e12, 0.005e12);
    assert_near(flops / device.peak[LS__PLAN_BF16], 0.056, 0.0005);
    assert_near(ls__plan_step_flops(&model, 8, LS__PLAN_RECOMPUTE_FULL), flops * 4 / 3, 1);
    assert_near(ls__plan_step_flops(&model, 8, LS__PLAN_RECOMPUTE_SELECTIVE),
                flops + 24 * 34.359738368e9, 1);
}

/* Of Mixtral's eight experts two work on a token: 6 P per token with P active, plus attention. */
static void test_experts(void **state)
{
    ls__plan_model model;

    (void)state;
    assert_ok(ls__plan_model_find("mixtral-8x7b", &model));
    assert_ok(ls__plan_model_resolve(&model));
    model.context = 1;
    double embedding = ls__plan_embedding_parameters(&model);
    double flops = ls__plan_step_flops(&model, 1, LS__PLAN_RECOMPUTE_NONE);
    assert_near(flops / (6 * (ls__plan_active_parameters(&model) - embedding)), 1, 0.001);
}

static void test_unknown_device(void **state)
{
    ls__plan_device device;

    (void)state;
    assert_fails(ls__plan_device_find("a100", &device), LS_BAD_USAGE, "choose from");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_layer_forward),
        cmocka_unit_test(test_a_step),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_unknown_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
