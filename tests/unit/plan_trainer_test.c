/* The prediction of the trainer's own memory, without a trainer: tests/mpi/train_plan_test.c holds
 * it against real ledgers. Here: what plan/trainer.h and the help of `plan memory` say of it. */
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

/* One layer more: the longer formula of plan/memory.h without dropout's masks and without its
 * scores, which the trainer does not keep: s b d 16 e, and, a token, 16 bytes of norm statistics
 * and 8 a head of attention's. */
static void test_a_layer_is_the_longer_formula(void **state)
{
    static const struct {
        ls__plan_format format;
        double bytes;
    } kinds[] = {{LS__PLAN_F32, 4}, {LS__PLAN_BF16, 2}, {LS__PLAN_F16, 2}};
    double tokens = (double)(run.micro_batch * run.context);

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int64_t less[LS__CATEGORY_COUNT];
        int64_t more[LS__CATEGORY_COUNT];
        ls__plan_run shallow = run;
        shallow.format = kinds[i].format;
        ls__plan_run deeper = shallow;
        deeper.layers++;
        ls__plan_run_memory(&shallow, less);
        ls__plan_run_memory(&deeper, more);
        assert_near((double)(more[LS__ACTIVATIONS] - less[LS__ACTIVATIONS]),
                    tokens * (128 * 16 * kinds[i].bytes + 16 + 8 * 4), 0);
    }
}

/* With recomputation a layer more costs the stream that enters it. */
static void test_a_recomputed_layer(void **state)
{
    int64_t less[LS__CATEGORY_COUNT];
    int64_t more[LS__CATEGORY_COUNT];
    ls__plan_run shallow = run;
    shallow.recompute = true;
    ls__plan_run deeper = shallow;

    (void)state;
    deeper.layers++;
    ls__plan_run_memory(&shallow, less);
    ls__plan_run_memory(&deeper, more);
    assert_int_equal(more[LS__ACTIVATIONS] - less[LS__ACTIVATIONS],
                     run.micro_batch * run.context * 128 * 4);
}

/* Half of FP32's activations but for what stays FP32, and half of the parameters for weights. */
static void test_bf16_is_half(void **state)
{
    int64_t wide[LS__CATEGORY_COUNT];
    int64_t half[LS__CATEGORY_COUNT];
    ls__plan_run reduced = run;
    reduced.format = LS__PLAN_BF16;

    (void)state;
    ls__plan_run_memory(&run, wide);
    ls__plan_run_memory(&reduced, half);
    assert_int_equal(half[LS__WEIGHTS], 2 * ls__plan_run_parameters(&run));
    assert_true((double)half[LS__ACTIVATIONS] < 0.51 * (double)wide[LS__ACTIVATIONS]);
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
        cmocka_unit_test(test_a_recomputed_layer),
        cmocka_unit_test(test_bf16_is_half),
        cmocka_unit_test(test_shares_of_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
