/* The time of a step and the search for a layout. */
#include <math.h>

#include "base/clock.h"
#include "plan/flops.h"
#include "plan/search.h"
#include "support/test.h"

static const ls__plan_cluster cluster = {.memory = 80e9,
                                         .peak = 312e12,
                                         .efficiency = 0.5,
                                         .per_node = 8,
                                         .within = {2e-6, 1 / 900e9},
                                         .across = {5e-6, 8 / 200e9},
                                         .overlap = true};

static ls__plan_model known(const char *name)
{
    ls__plan_model model;

    assert_ok(ls__plan_model_find(name, &model));
    assert_ok(ls__plan_model_resolve(&model));
    return model;
}

static ls__plan_question gpt3_on(int64_t devices)
{
    return (ls__plan_question){
        .model = known("gpt3-175b"),
        .storage = {.format = LS__PLAN_BF16, .activation_format = LS__PLAN_BF16, .master = true},
        .cluster = cluster,
        .devices = devices,
        .batch = 1536};
}

/* ---- a step ---- */

static void test_bubble(void **state)
{
    (void)state;
    assert_near(ls__plan_bubble(1, 8), 0, 0);
    assert_near(ls__plan_bubble(4, 1), 0.75, 1e-15);
    assert_near(ls__plan_bubble(8, 96), 7.0 / 103, 1e-15);
}

/* On one device a step is its FLOPs at the rate of the kernels. */
static void test_one_device(void **state)
{
    ls__plan_question q = gpt3_on(1);
    ls__plan_layout layout = {
        .tensor = 1, .pipeline = 1, .data = 1, .micro_batch = 2, .micro_batches = 3};
    ls__plan_step step = ls__plan_step_of(&q.model, &q.storage, &layout, &cluster);
    double flops = ls__plan_step_flops(&q.model, 6, LS__PLAN_RECOMPUTE_NONE);

    (void)state;
    assert_near(step.total, flops / 156e12, 1e-9 * step.total);
    assert_near(step.compute, step.total, 0);
}

/* By hand: GPT-3 with TP 8, PP 8, DP 16, 96 micro-batches of one sequence. */
static void test_parts_of_a_step(void **state)
{
    ls__plan_question q = gpt3_on(1024);
    ls__plan_layout layout = {
        .tensor = 8, .pipeline = 8, .data = 16, .micro_batch = 1, .micro_batches = 96};
    ls__plan_cluster apart = cluster;
    double bytes = 2 * 2048 * 12288.0;
    double gradients = 2 * ls__plan_parameters(&q.model) / 64;

    (void)state;
    apart.overlap = false;
    ls__plan_step step = ls__plan_step_of(&q.model, &q.storage, &layout, &apart);
    double flops = ls__plan_step_flops(&q.model, 96, LS__PLAN_RECOMPUTE_NONE);
    assert_near(step.compute, flops / 64 / 156e12, 1e-6);
    double all_reduce = 14 * (2e-6 + bytes / 8 / 900e9);
    assert_near(step.tensor, 96 * 12 * 4 * all_reduce, 1e-9);
    assert_near(step.pipeline, 96 * 2 * (5e-6 + bytes / 25e9), 1e-9);
    assert_near(step.data, 30 * (5e-6 + gradients / 16 / 25e9), 1e-6);
    assert_near(step.bubble / (step.compute + step.tensor + step.pipeline), 7.0 / 96, 1e-12);
    ls__plan_step hidden = ls__plan_step_of(&q.model, &q.storage, &layout, &cluster);
    double last_backward = step.compute / 96 * 2 / 3;
    assert_near(hidden.data, fmax(0, step.data - last_backward), 1e-9);
}

/* Each sharding moves as many bytes or more than the one before. */
static void test_sharding_costs_communication(void **state)
{
    ls__plan_question q = gpt3_on(1024);
    ls__plan_layout layout = {
        .tensor = 8, .pipeline = 8, .data = 16, .micro_batch = 1, .micro_batches = 96};
    ls__plan_cluster apart = cluster;
    double before = 0;

    (void)state;
    apart.overlap = false;
    for (layout.sharding = 0; layout.sharding <= 3; layout.sharding++) {
        double data = ls__plan_step_of(&q.model, &q.storage, &layout, &apart).data;
        assert_true(data >= before);
        before = data;
    }
    /* 0: 2 halves of a ring; 3: 3 m of them. */
    layout.sharding = 0;
    assert_near(before / ls__plan_step_of(&q.model, &q.storage, &layout, &apart).data, 144, 1e-6);
}

/* ---- data parallelism as the ranks grow ---- */

/* Issue 6: 17.32 TFLOP at 312 TFLOP/s and 1.21 GB over 64 ranks at 100 Gbit/s: 0.25 s. */
static void test_step_of_the_example(void **state)
{
    ls__plan_replicas replicas = {.algorithm = "ring",
                                  .network = {.per_node = 1, .across = {0, 8 / 100e9}},
                                  .bytes = 4 * 302309376.0,
                                  .compute = 17.3173e12 / 312e12};
    ls__plan_replicas_time time = ls__plan_replicas_step(&replicas, 64);

    (void)state;
    assert_near(time.communication, 0.19, 0.005);
    assert_near(time.apart, 0.25, 0.005);
    assert_near(time.together, time.apart - time.compute * 2 / 3, 1e-12);
}

/* Weak scaling: 2 (N-1)/N D b passes 1.5 D b, a compute of as long, right after N = 4. Strong
 * scaling: compute of 11 D b / N against 2 (N-1)/N D b: N - 1 > 5.5. */
static void test_communication_overtakes(void **state)
{
    ls__plan_replicas replicas = {.algorithm = "ring",
                                  .network = {.per_node = 1, .across = {0, 1e-9}},
                                  .bytes = 1e9,
                                  .compute = 1.5};

    (void)state;
    assert_int_equal(ls__plan_overtaken(&replicas, false, 1000), 5);
    assert_int_equal(ls__plan_overtaken(&replicas, true, 1000), 3); /* 1 is passed after N = 2 */
    replicas.compute = 2.5;
    assert_int_equal(ls__plan_overtaken(&replicas, false, 1000), 0);
    replicas.compute = 11;
    replicas.strong = true;
    assert_int_equal(ls__plan_overtaken(&replicas, false, 1000), 7);
    assert_int_equal(ls__plan_overtaken(&replicas, true, 1000), 5);
}

/* ---- the search ---- */

static const ls__plan_candidate *find(const ls__plan_answer *answer, int64_t tensor,
                                      int64_t pipeline)
{
    for (int64_t i = 0; i < answer->count; i++)
        if (answer->best[i].layout.tensor == tensor && answer->best[i].layout.pipeline == pipeline)
            return &answer->best[i];
    return NULL;
}

static void test_gpt3_on_1024_devices(void **state)
{
    ls__plan_question q = gpt3_on(1024);
    ls__plan_answer answer;
    double start = ls__clock_seconds();

    (void)state;
    assert_ok(ls__plan_search(&q, &answer));
    double seconds = ls__clock_seconds() - start;
    assert_true(seconds < 1);
    ls__figure("%lld layouts for GPT-3 on 1,024 devices searched in %.1f ms",
               (long long)answer.tried, 1e3 * seconds);
    const ls__plan_candidate *grid = find(&answer, 8, 8);
    assert_non_null(grid);
    assert_int_equal(grid->layout.data, 16);
    assert_near(ls__plan_device_parameters(&q.model, &grid->layout), 2.73e9, 0.005e9);
    assert_near(ls__plan_bytes_per_parameter(&q.storage), 16, 0);
    assert_near(16 * ls__plan_device_parameters(&q.model, &grid->layout), 43.7e9, 0.05e9);
    ls__plan_answer_free(&answer);
}

static void test_what_is_found(void **state)
{
    ls__plan_question q = gpt3_on(1024);
    ls__plan_answer answer;

    (void)state;
    assert_ok(ls__plan_search(&q, &answer));
    for (int64_t i = 0; i < answer.count; i++) {
        const ls__plan_candidate *found = &answer.best[i];
        const ls__plan_layout *layout = &found->layout;
        assert_true(ls__plan_memory_total(&found->memory) <= q.cluster.memory);
        assert_int_equal(layout->tensor * layout->pipeline * layout->data, 1024);
        assert_int_equal(layout->data * layout->micro_batch * layout->micro_batches, 1536);
        assert_true(i == 0 || found[-1].step.total <= found->step.total);
        assert_ok(ls__plan_layout_check(&q.model, layout));
    }
    ls__plan_answer_free(&answer);
}

static void test_what_cannot_be(void **state)
{
    ls__plan_question q = gpt3_on(8);
    ls__plan_answer answer;

    (void)state;
    assert_fails(ls__plan_search(&q, &answer), LS_BAD_INPUT, "fits: the smallest needs");
    q.devices = 7;
    assert_fails(ls__plan_search(&q, &answer), LS_BAD_INPUT, "no layout of 7 devices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bubble),
        cmocka_unit_test(test_one_device),
        cmocka_unit_test(test_parts_of_a_step),
        cmocka_unit_test(test_sharding_costs_communication),
        cmocka_unit_test(test_step_of_the_example),
        cmocka_unit_test(test_communication_overtakes),
        cmocka_unit_test(test_gpt3_on_1024_devices),
        cmocka_unit_test(test_what_is_found),
        cmocka_unit_test(test_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
