/* The prediction of the trainer's own memory, without a trainer: tests/mpi/train_plan_test.c holds
 * it against real ledgers. Here: what plan/trainer.h and the help of `plan memory` say of it. */
#include "plan/memory.h"
#include "plan/trainer.h"
#include "support/test.h"

static const ls__plan_run run = {.layers = 4,
                                 .heads = 4,
                                 .width = 128,
                                 .context = 64,
                                 .classes = 64,
                                 .batch = 16,
                                 .micro_batch = 2,
                                 .adamw = true,
                                 .exact = true,
                                 .bucket = 1 << 26,
                                 .ranks = 1};

/* 28 bytes a parameter with exact sums and AdamW, 20 with FP32 sums, 16 with SGD. */
static void test_bytes_a_parameter(void **state)
{
    static const struct {
        bool adamw, exact;
        int64_t bytes;
    } kinds[] = {{true, true, 28}, {true, false, 20}, {false, false, 16}};
    int64_t parameters = ls__plan_run_parameters(&run);
    int64_t booked[LS__CATEGORY_COUNT];

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ls__plan_run kind = run;
        kind.adamw = kinds[i].adamw;
        kind.exact = kinds[i].exact;
        ls__plan_run_memory(&kind, booked);
        int64_t states = booked[LS__PARAMETERS] + booked[LS__GRADIENTS] + booked[LS__LANES] +
                         booked[LS__OPTIMIZER];
        assert_near((double)states, (double)(kinds[i].bytes * parameters), 28.0 * LS__PLAN_UNIT);
    }
}

/* One layer more: s b d 16 e + a s^2 b e of plan/memory.h with e = 4 and without dropout's masks,
 * and 16 bytes a token of norm statistics. */
static void test_a_layer_is_the_longer_formula(void **state)
{
    ls__plan_model model = {.layers = 4,
                            .width = run.width,
                            .heads = run.heads,
                            .context = run.context,
                            .experts = 1,
                            .active_experts = 1};
    ls__plan_storage storage = {.format = LS__PLAN_F32, .activation_format = LS__PLAN_F32};
    ls__plan_layout layout = {
        .tensor = 1, .pipeline = 1, .data = 1, .micro_batch = run.micro_batch};
    ls__plan_run deeper = run;
    int64_t less[LS__CATEGORY_COUNT];
    int64_t more[LS__CATEGORY_COUNT];

    (void)state;
    assert_ok(ls__plan_model_resolve(&model));
    deeper.layers++;
    ls__plan_run_memory(&run, less);
    ls__plan_run_memory(&deeper, more);
    double tokens = (double)(run.micro_batch * run.context);
    assert_near((double)(more[LS__ACTIVATIONS] - less[LS__ACTIVATIONS]),
                ls__plan_layer_activations(&model, &storage, &layout) + 16 * tokens, 0);
    /* s b h (64 + 4 a s / h), as the help says. */
    assert_near(ls__plan_layer_activations(&model, &storage, &layout),
                tokens * 128 * (64 + 4 * 4 * 64 / 128.0), 0);
}

/* The shares of all ranks are the whole optimizer, and the traffic 12 (N-1)/N bytes an element. */
static void test_shares_of_ranks(void **state)
{
    int64_t parameters = ls__plan_run_parameters(&run);
    int64_t padded = (parameters + LS__PLAN_UNIT - 1) / LS__PLAN_UNIT * LS__PLAN_UNIT;

    (void)state;
    for (int64_t ranks = 1; ranks <= 8; ranks++) {
        int64_t optimizer = 0;
        int64_t sent = 0;
        for (int64_t rank = 0; rank < ranks; rank++) {
            int64_t booked[LS__CATEGORY_COUNT];
            ls__plan_run share = run;
            share.ranks = ranks;
            share.rank = rank;
            share.sharded = true;
            share.bucket = 100000;
            ls__plan_run_memory(&share, booked);
            optimizer += booked[LS__OPTIMIZER];
            sent += ls__plan_run_sent_bytes(&share);
        }
        assert_int_equal(optimizer, 8 * parameters);
        assert_int_equal(sent, 12 * (ranks - 1) * padded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_a_parameter),
        cmocka_unit_test(test_a_layer_is_the_longer_formula),
        cmocka_unit_test(test_shares_of_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
