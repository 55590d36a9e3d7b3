/* The bits of every operation but the products, on fixed inputs, are those recorded here, whatever
 * the compiler, its options and the instruction set. A change to an operation's arithmetic changes
 * its digest: then record the new one, and say so, since runs before and after it differ. */
#include "base/digest.h"
#include "base/rng.h"
#include "math/elementary.h"
#include "math/ops.h"
#include "support/tensor.h"
#include "support/test.h"

enum { ROWS = 13, WIDTH = 67, COUNT = ROWS * WIDTH };

/* Multiples of 2^-12 in [-8, 8), without libm, whose bits may differ between machines. */
static float *inputs(uint32_t which)
{
    float *x = ls__test_floats(COUNT);

    for (uint64_t i = 0; i < COUNT; i++) {
        ls__random4 words = ls__random(2024, LS__STREAM_INIT, which, i);

        x[i] = (float)(words.word[0] >> 16) * 0x1p-12f - 8;
    }
    return x;
}

static void assert_digest(const float *x, const char *recorded)
{
    char text[LS__DIGEST_TEXT];

    assert_string_equal(ls__digest_format(ls__digest_of(x, COUNT * sizeof *x), text), recorded);
}

static void test_elementary(void **state)
{
    float *in = inputs(0);
    float *out = ls__test_floats(COUNT);

    (void)state;
    for (int i = 0; i < COUNT; i++)
        out[i] = ls__exp(in[i]);
    assert_digest(out, "0a399e21f551fbeed4f85f1f48314250");
    for (int i = 0; i < COUNT; i++)
        out[i] = ls__tanh(in[i]);
    assert_digest(out, "1c99ae070947b417af5341c69725583a");
}

static void test_gelu(void **state)
{
    float *in = inputs(0);
    float *out = ls__test_floats(COUNT);

    (void)state;
    ls__gelu_forward(ls__floats(out), ls__floats(in), COUNT, (ls__scratch){0});
    assert_digest(out, "0f080d9b43bbccaad1b617c630a88663");
    ls__gelu_backward(ls__floats(out), ls__floats(inputs(1)), ls__floats(in), COUNT,
                      (ls__scratch){0});
    assert_digest(out, "ebe2b4511029ad96186dce4810dbe9bd");
}

static void test_layer_norm(void **state)
{
    float *in = inputs(0);
    float *gain = inputs(1);
    float *out = ls__test_floats(COUNT);
    float *d_in = ls__test_floats(COUNT);
    float *d_gain = ls__test_floats(COUNT);
    float *d_shift = ls__test_floats(COUNT);
    float mean[ROWS];
    float rstd[ROWS];
    ls__scratch scratch = {.shared = ls__test_floats(ls__ops_shared(ROWS, WIDTH))};

    (void)state;
    ls__layer_norm_forward(ls__floats(out), mean, rstd, ls__floats(in), gain, inputs(2), ROWS,
                           WIDTH, scratch);
    assert_digest(out, "b587afb3552b55aeaadf2cb72c0b708a");
    ls__layer_norm_backward(ls__floats(d_in), d_gain, d_shift, ls__floats(inputs(3)),
                            ls__floats(in), gain, mean, rstd, ROWS, WIDTH, scratch);
    assert_digest(d_in, "2733958dd3585199aa322cd1c191472c");
    assert_digest(d_gain, "1a7efbdfee82cfa127c94d7580a34bb2");
    assert_digest(d_shift, "e5600edbfba1375a3a79d11c84193d15");
}

static void test_cross_entropy(void **state)
{
    float *logits = inputs(0);
    int32_t targets[ROWS];
    float loss[ROWS];

    (void)state;
    for (int i = 0; i < ROWS; i++)
        targets[i] = i * 5;
    ls__cross_entropy_forward(loss, ls__floats(logits), targets, ROWS, WIDTH, (ls__scratch){0});
    assert_digest(logits, "1fb9934487fc0ede2f735300e328a4cb");
    ls__cross_entropy_backward(ls__floats(logits), targets, 0.1f, ROWS, WIDTH, (ls__scratch){0});
    assert_digest(logits, "a44029ced0e213503712c5e2d0085c9b");
}

static void test_dropout(void **state)
{
    float *out = ls__test_floats(COUNT);

    (void)state;
    ls__dropout(out, inputs(0), 0.3, ls__dropout_key(1337, 2, 99), 0, COUNT);
    assert_digest(out, "c99ef6b1e193c8e89e391f6d6b8dca15");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_elementary, ls__free_tensors),
        cmocka_unit_test_teardown(test_gelu, ls__free_tensors),
        cmocka_unit_test_teardown(test_layer_norm, ls__free_tensors),
        cmocka_unit_test_teardown(test_cross_entropy, ls__free_tensors),
        cmocka_unit_test_teardown(test_dropout, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
