/* Parameters, and what a device holds: the figures of published models and of issue 6. */
#include "plan/format.h"
#include "plan/memory.h"
#include "support/test.h"

static const ls__plan_layout one_device = {
    .tensor = 1, .pipeline = 1, .data = 1, .micro_batch = 1, .micro_batches = 1};

static ls__plan_model known(const char *name)
{
    ls__plan_model model;

    assert_ok(ls__plan_model_find(name, &model));
    assert_ok(ls__plan_model_resolve(&model));
    return model;
}

static ls__plan_model of_count(double count)
{
    return (ls__plan_model){.count = count};
}

/* The example of issue 6: 24 layers, d = n = 1024, 16 heads, without embeddings. */
static ls__plan_model example(void)
{
    ls__plan_model model = {.family = LS__PLAN_GPT,
                            .layers = 24,
                            .width = 1024,
                            .heads = 16,
                            .context = 1024,
                            .experts = 1,
                            .active_experts = 1,
                            .dropout = true};

    assert_ok(ls__plan_model_resolve(&model));
    return model;
}

/* ---- parameters ---- */

static void test_published_counts(void **state)
{
    ls__plan_model model = known("gpt2");

    (void)state;
    assert_near(ls__plan_parameters(&model), 124439808, 0); /* transformers, GPT2Model */
    model = known("llama-7b");
    assert_near(ls__plan_parameters(&model), 6738415616, 0); /* transformers, LlamaForCausalLM */
    model = known("llama-65b");
    assert_near(ls__plan_parameters(&model), 65.2e9, 0.1e9);
    model = known("gpt3-175b");
    assert_near(ls__plan_parameters(&model), 175e9, 0.5e9);
    model = known("mixtral-8x7b");
    assert_near(ls__plan_parameters(&model), 46702792704, 0); /* transformers, Mixtral */
    assert_near(ls__plan_parameters(&model), 47e9, 0.5e9);
    assert_near(ls__plan_active_parameters(&model), 13e9, 0.5e9);
}

static void test_parameters_of_layers(void **state)
{
    ls__plan_model model = example();
    double d = 1024;

    (void)state;
    assert_near(ls__plan_layer_parameters(&model), 12 * d * d + 13 * d, 0);
    assert_near(ls__plan_parameters(&model), 302.3e6, 0.05e6);
    assert_near(4 * ls__plan_parameters(&model), 1.21e9, 0.005e9);
}

static void test_models_that_cannot_be(void **state)
{
    ls__plan_model model = known("gpt2");
    ls__plan_layout layout = one_device;

    (void)state;
    assert_fails(ls__plan_model_find("gpt3-17b", &model), LS_BAD_USAGE, "did you mean gpt3-175b?");
    assert_fails(ls__plan_model_find("x", &model), LS_BAD_USAGE, "no model is called 'x':");
    model.heads = 7;
    assert_fails(ls__plan_model_resolve(&model), LS_BAD_USAGE, "does not divide --width 768");
    model = known("gpt2");
    model.key_value_heads = 5;
    assert_fails(ls__plan_model_resolve(&model), LS_BAD_USAGE, "does not divide --heads 12");
    model.key_value_heads = 12;
    model.active_experts = 2;
    assert_fails(ls__plan_model_resolve(&model), LS_BAD_USAGE, "above --experts 1");
    layout.tensor = 8;
    assert_fails(ls__plan_layout_check(&model, &layout), LS_BAD_USAGE, "--tp 8 does not divide");
    layout.tensor = 1;
    layout.pipeline = 5;
    assert_fails(ls__plan_layout_check(&model, &layout), LS_BAD_USAGE, "--pp 5 does not divide");
}

/* ---- states ---- */

static void assert_states(const ls__plan_storage *storage, const ls__plan_layout *layout,
                          const double *expected)
{
    ls__plan_model model = of_count(7e9);
    ls__plan_memory memory = ls__plan_memory_of(&model, storage, layout);

    assert_near(memory.parameters, expected[0] * 1e9, 1);
    assert_near(memory.gradients, expected[1] * 1e9, 1);
    assert_near(memory.optimizer, expected[2] * 1e9, 1);
    assert_near(memory.master, expected[3] * 1e9, 1);
    assert_near(ls__plan_memory_total(&memory),
                (expected[0] + expected[1] + expected[2] + expected[3]) * 1e9, 1);
}

static void test_states_of_7e9(void **state)
{
    ls__plan_storage f32 = {.format = LS__PLAN_F32};
    ls__plan_storage bf16 = {.format = LS__PLAN_BF16};
    ls__plan_storage with_master = {.format = LS__PLAN_BF16, .master = true};
    ls__plan_storage master_of_f32 = {.format = LS__PLAN_F32, .master = true};
    ls__plan_storage sgd = {.format = LS__PLAN_F16, .optimizer = LS__PLAN_SGD};

    (void)state;
    assert_states(&f32, &one_device, (double[]){28, 28, 56, 0});
    assert_states(&bf16, &one_device, (double[]){14, 14, 56, 0});
    assert_states(&with_master, &one_device, (double[]){14, 14, 56, 28});
    assert_states(&master_of_f32, &one_device, (double[]){28, 28, 56, 0});
    assert_states(&sgd, &one_device, (double[]){14, 14, 28, 0});
}

/* Rajbhandari et al. 2020, figure 1: 7.5e9 parameters over 64 ranks take 120, 31.4, 16.6 and 1.9 GB
 * at 16 bytes a parameter. */
static void test_sharding(void **state)
{
    static const double published[] = {120, 31.4, 16.6, 1.9};
    ls__plan_model model = of_count(7.5e9);
    ls__plan_storage storage = {.format = LS__PLAN_BF16, .master = true};
    ls__plan_layout layout = one_device;

    (void)state;
    layout.data = 64;
    for (layout.sharding = 0; layout.sharding <= 3; layout.sharding++) {
        ls__plan_memory memory = ls__plan_memory_of(&model, &storage, &layout);
        assert_near(ls__plan_memory_total(&memory), published[layout.sharding] * 1e9, 0.05e9);
    }
}

static void test_175e9_over_64_devices(void **state)
{
    ls__plan_model model = of_count(175e9);
    ls__plan_storage storage = {.format = LS__PLAN_BF16, .master = true};
    ls__plan_layout layout = one_device;

    (void)state;
    layout.tensor = 8;
    layout.pipeline = 8;
    assert_near(ls__plan_device_parameters(&model, &layout), 2.73e9, 0.005e9);
    ls__plan_memory memory = ls__plan_memory_of(&model, &storage, &layout);
    assert_near(ls__plan_memory_total(&memory), 43.75e9, 1);
}

/* ---- activations ---- */

static void test_activations_of_the_example(void **state)
{
    ls__plan_model model = example();
    ls__plan_storage storage = {.format = LS__PLAN_F32, .activation_format = LS__PLAN_BF16};
    ls__plan_layout layout = one_device;

    (void)state;
    layout.micro_batch = 8;
    double simple = ls__plan_simple_activations(&model, &storage, 8);
    assert_near(simple, 134e6, 0.5e6);
    assert_near(24 * simple, 3.22e9, 0.005e9);
    assert_near(ls__plan_layer_activations(&model, &storage, &layout), 0.956e9, 0.0005e9);
    ls__plan_memory memory = ls__plan_memory_of(&model, &storage, &layout);
    assert_near(memory.optimizer, 2.42e9, 0.005e9);
    assert_near(memory.activations, 24 * 0.95630e9, 0.001e9);
    memory.activations = 24 * simple;
    assert_near(ls__plan_memory_total(&memory), 8.06e9, 0.005e9);
}

/* Korthikanti et al. 2022, table 2: tensor parallelism s b h (10 + 24/t + 5 a s / (h t)), selective
 * recomputation without the last term, full 2 s b h. */
static void test_activations_of_parallel_layers(void **state)
{
    ls__plan_model model = known("gpt3-175b");
    ls__plan_storage storage = {.format = LS__PLAN_F16, .activation_format = LS__PLAN_F16};
    ls__plan_layout layout = one_device;
    double sbh = 2048 * 12288.0;

    (void)state;
    layout.tensor = 8;
    assert_near(ls__plan_layer_activations(&model, &storage, &layout), sbh * (10 + 3 + 10), 1);
    layout.recompute = LS__PLAN_RECOMPUTE_SELECTIVE;
    assert_near(ls__plan_layer_activations(&model, &storage, &layout), sbh * 13, 1);
    layout.recompute = LS__PLAN_RECOMPUTE_FULL;
    assert_near(ls__plan_layer_activations(&model, &storage, &layout), sbh * 2, 1);
}

/* What fits is monotone, and the answer is the last that does. */
static void test_largest_micro_batch(void **state)
{
    ls__plan_model model = known("gpt2");
    ls__plan_storage storage = {.format = LS__PLAN_BF16, .activation_format = LS__PLAN_BF16};
    ls__plan_layout layout = one_device;

    (void)state;
    int64_t most = ls__plan_largest_micro_batch(&model, &storage, &layout, 80e9);
    assert_in_range(most, 8, 200);
    layout.micro_batch = most;
    ls__plan_memory memory = ls__plan_memory_of(&model, &storage, &layout);
    assert_true(ls__plan_memory_total(&memory) <= 80e9);
    layout.micro_batch++;
    memory = ls__plan_memory_of(&model, &storage, &layout);
    assert_true(ls__plan_memory_total(&memory) > 80e9);
    assert_int_equal(ls__plan_largest_micro_batch(&model, &storage, &layout, 1e9), 0);
}

/* All stages together hold each parameter once, and the tied embedding once more. */
static void test_stages_of_a_pipeline(void **state)
{
    ls__plan_model model = known("gpt2");
    ls__plan_storage storage = {.format = LS__PLAN_F32};
    ls__plan_layout layout = one_device;
    double d = 768;

    (void)state;
    layout.pipeline = 12;
    ls__plan_memory memory = ls__plan_memory_of(&model, &storage, &layout);
    /* With one micro-batch, the last stage: a layer, the embedding once more, the last norm. */
    assert_near(memory.parameters, 4 * (12 * d * d + 13 * d + 50257 * d + 2 * d), 0);
    layout.micro_batches = 12;
    layout.micro_batch = 64;
    memory = ls__plan_memory_of(&model, &storage, &layout);
    /* With twelve in flight, the first: a layer, the embedding, the positions. */
    assert_near(memory.parameters, 4 * (12 * d * d + 13 * d + (50257 + 1024) * d), 0);
}

/* ---- formats ---- */

static void test_formats(void **state)
{
    ls__plan_number bf16 = ls__plan_number_of(LS__PLAN_BF16);
    ls__plan_number f16 = ls__plan_number_of(LS__PLAN_F16);
    ls__plan_number f32 = ls__plan_number_of(LS__PLAN_F32);

    (void)state;
    assert_near(bf16.spacing, 0.0078125, 0);
    assert_near(f16.smallest, 6.1e-5, 0.01e-5);
    assert_near(f16.largest, 65504, 0);
    assert_near(f32.largest, 3.4028234663852886e38, 0);
    assert_near(bf16.smallest, f32.smallest, 0);
    assert_near(f32.bytes + bf16.bytes + f16.bytes, 8, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_counts),
        cmocka_unit_test(test_parameters_of_layers),
        cmocka_unit_test(test_models_that_cannot_be),
        cmocka_unit_test(test_states_of_7e9),
        cmocka_unit_test(test_sharding),
        cmocka_unit_test(test_175e9_over_64_devices),
        cmocka_unit_test(test_activations_of_the_example),
        cmocka_unit_test(test_activations_of_parallel_layers),
        cmocka_unit_test(test_largest_micro_batch),
        cmocka_unit_test(test_stages_of_a_pipeline),
        cmocka_unit_test(test_formats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
