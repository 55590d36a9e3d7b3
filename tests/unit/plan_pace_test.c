/* The prediction of a step's time, on round numbers. That its operations are the trainer's own:
 * tests/mpi/train_plan_test.c. */
#include "plan/pace.h"
#include "support/test.h"

static const int64_t hidden[] = {50, 20};

static const ls__plan_run run = {.inputs = 100,
                                 .hidden = hidden,
                                 .hidden_count = 2,
                                 .classes = 10,
                                 .batch = 24,
                                 .micro_batch = 3,
                                 .adamw = true,
                                 .exact = true,
                                 .direct = true,
                                 .bucket = 1 << 20,
                                 .ranks = 1};

static const ls__plan_pace pace = {
    .products = 10, .elementwise = 2, .add = 1, .round = 6, .norm = 3, .update = 9, .digest = 5};

static const ls__plan_transport transport = {.latency = 4, .per_byte = 1e-3};

static double seconds(int64_t ranks, bool sharded, int64_t cores)
{
    ls__plan_run of = run;

    of.ranks = ranks;
    of.sharded = sharded;
    return ls__plan_run_seconds(&of, &pace, &transport, cores);
}

static void test_flops(void **state)
{
    ls__plan_run on_three = run;

    (void)state;
    /* 2 (2 100 50 + 3 50 20 + 3 20 10) a sample. */
    assert_near(ls__plan_run_flops(&run), 24 * 2 * (10000 + 3000 + 600), 0);
    on_three.ranks = 3; /* rank 0 has 3 of the 8 micro-batches */
    assert_near(ls__plan_run_flops(&on_three), 9 * 2 * 13600, 0);
}

/* A product for the output and each gradient, of a token with each weight; and seven of a head's
 * rows for each score that strips of 64 rows compute. Recomputation: forward of two of
 * the layers once more, up to GELU. */
static void test_flops_of_a_gpt(void **state)
{
    static const struct {
        int64_t context, scores;
    } of[] = {
        {1, 1}, {32, 32 * 32}, {66, 64 * 64 + 2 * 66}, {320, 64 * (64 + 128 + 192 + 256 + 320)}};
    ls__plan_run gpt = {.layers = 3,
                        .heads = 2,
                        .width = 10,
                        .classes = 7,
                        .batch = 4,
                        .micro_batch = 2,
                        .ranks = 1};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        gpt.context = of[i].context;
        double weights = 3 * 12 * 10 * 10 + 7 * 10;
        double products = 3 * weights * (double)gpt.context + 3 * 7 * 10 * (double)of[i].scores;
        assert_near(ls__plan_run_flops(&gpt), 4 * 2 * products, 0);
        ls__plan_run again = gpt;
        again.recompute = true;
        products += 2 * (8 * 10 * 10 * (double)gpt.context + 2 * 10 * (double)of[i].scores);
        assert_near(ls__plan_run_flops(&again), 4 * 2 * products, 0);
    }
}

static void test_one_rank(void **state)
{
    (void)state;
    assert_near(seconds(1, false, 1), 8 * 13 + 6 + 3 + 9 + 5, 1e-9);
}

static void test_ranks_with_a_core_each(void **state)
{
    double sums = 4 + 1e-3 * 4 * (double)ls__plan_run_parameters(&run);

    (void)state;
    assert_near(seconds(2, false, 2), 4 * 13 + 3 + 12 + 5 + sums, 1e-9);
    assert_near(seconds(2, true, 8), 4 * 13 + 3 + 6 + 5 + sums, 1e-9);
}

/* Four ranks on two cores: half the micro-batches, at half the speed. */
static void test_ranks_that_share_cores(void **state)
{
    double sums = 4 + 1e-3 * 4 * (double)ls__plan_run_parameters(&run);

    (void)state;
    assert_near(seconds(4, false, 2), 2 * (2 * 13 + 1.5 + 12 + 5) + sums, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_flops_of_a_gpt),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_ranks_with_a_core_each),
        cmocka_unit_test(test_ranks_that_share_cores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
