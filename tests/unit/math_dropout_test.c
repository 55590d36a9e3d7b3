/* Dropout's mask: its rate, and that it is a pure function of (key, element). */
#include <math.h>

#include "math/ops.h"
#include "math/ref.h"
#include "support/tensor.h"
#include "support/test.h"

enum { MANY = 1 << 20 };

static float *ones(int64_t count)
{
    float *x = ls__new_floats(count);

    for (int64_t i = 0; i < count; i++)
        x[i] = 1;
    return x;
}

static int64_t count_kept(const float *x, int64_t count)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < count; i++)
        kept += x[i] != 0;
    return kept;
}

/* Kept elements are binomial: five standard deviations are allowed. */
static void test_share_kept(void **state)
{
    static const double rates[] = {0.1, 0.2, 0.5, 0.9};
    float *in = ones(MANY);
    float *out = ls__new_floats(MANY);

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        double keep = 1 - rates[i];
        double spread = sqrt(MANY * keep * rates[i]);

        ls__dropout(out, in, rates[i], ls__dropout_key(1337, 1, 7), 0, MANY);
        int64_t kept = count_kept(out, MANY);

        ls__figure("dropout of rate %.1f keeps %.4f", rates[i], (double)kept / MANY);
        assert_true(fabs((double)kept - MANY * keep) < 5 * spread);
        for (int j = 0; j < MANY; j++)
            assert_true(out[j] == 0 || out[j] == (float)(1 / keep));
    }
}

static void test_rate_zero_is_identity(void **state)
{
    float *in = ls__to_floats(ls__random_doubles(1000, 1), 1000);
    float *out = ls__new_floats(1000);

    (void)state;
    ls__dropout(out, in, 0, 5, 0, 1000);
    assert_memory_equal(out, in, 1000 * sizeof *in);
}

/* The same elements in two calls, cut anywhere, and from any first element on. */
static void test_parts_make_the_whole(void **state)
{
    enum { COUNT = 150 };
    float *in = ones(COUNT);
    float *whole = ls__new_floats(COUNT);
    float *parts = ls__new_floats(COUNT);

    (void)state;
    ls__dropout(whole, in, 0.4, 99, 0, COUNT);
    for (int64_t cut = 0; cut <= COUNT; cut++) {
        ls__dropout(parts, in, 0.4, 99, 0, cut);
        ls__dropout(parts + cut, in + cut, 0.4, 99, (uint64_t)cut, COUNT - cut);
        assert_memory_equal(parts, whole, COUNT * sizeof *whole);
    }
}

/* Element indices beyond 32 bits, against the reference, which draws element by element. */
static void test_far_elements(void **state)
{
    enum { COUNT = 77 };
    uint64_t first = (UINT64_C(5) << 34) + 3;
    float *out = ls__new_floats(COUNT);
    double expected[COUNT];
    double in[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        in[i] = 1;
    ls__dropout(out, ones(COUNT), 0.5, 1234, first, COUNT);
    ls__ref_dropout(expected, in, 0.5, 1234, first, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true((double)out[i] == expected[i]);
}

static void test_in_place(void **state)
{
    float *in = ones(200);
    float *out = ls__new_floats(200);

    (void)state;
    ls__dropout(out, in, 0.3, 17, 8, 200);
    ls__dropout(in, in, 0.3, 17, 8, 200);
    assert_memory_equal(in, out, 200 * sizeof *in);
}

/* A key that differs in any of seed, site and sample gives another mask: of 1,000 elements at rate
 * 1/2, two independent masks agree on about 500. */
static void test_masks_of_different_keys_differ(void **state)
{
    uint64_t keys[] = {ls__dropout_key(1, 0, 0), ls__dropout_key(2, 0, 0), ls__dropout_key(1, 1, 0),
                       ls__dropout_key(1, 0, 1), ls__dropout_key(1, 0, UINT64_C(1) << 32)};
    float *in = ones(1000);
    float *first = ls__new_floats(1000);
    float *other = ls__new_floats(1000);

    (void)state;
    assert_true(keys[0] == ls__dropout_key(1, 0, 0));
    ls__dropout(first, in, 0.5, keys[0], 0, 1000);
    for (size_t k = 1; k < sizeof keys / sizeof keys[0]; k++) {
        int agree = 0;

        ls__dropout(other, in, 0.5, keys[k], 0, 1000);
        for (int i = 0; i < 1000; i++)
            agree += first[i] == other[i];
        assert_in_range(agree, 400, 600);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_share_kept, ls__free_tensors),
        cmocka_unit_test_teardown(test_rate_zero_is_identity, ls__free_tensors),
        cmocka_unit_test_teardown(test_parts_make_the_whole, ls__free_tensors),
        cmocka_unit_test_teardown(test_far_elements, ls__free_tensors),
        cmocka_unit_test_teardown(test_in_place, ls__free_tensors),
        cmocka_unit_test_teardown(test_masks_of_different_keys_differ, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
