/* exp and tanh in units in the last place, against libm in FP64, over dense samples of their range;
 * their limits; and the sums in a fixed order. */
#include <math.h>
#include <string.h>

#include "math/elementary.h"
#include "math/lanes.h"
#include "support/tensor.h"
#include "support/test.h"

/* The distance of `actual` from `expected` in spacings of FP32 at `expected`. */
static double ulps(float actual, double expected)
{
    int exponent = fabs(expected) < 0x1p-126 ? -126 : ilogb(expected);

    return fabs((double)actual - expected) / ldexp(1, exponent - 23);
}

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The largest error of f over FP32 numbers of both signs of magnitude up to `high`: every
 * `stride`th number there is. */
static double worst_ulps(float (*f)(float), double (*exact)(double), float high, uint32_t stride)
{
    double worst = 0;

    for (uint32_t bits = 0; from_bits(bits) <= high; bits += stride) {
        float x = from_bits(bits);

        worst = fmax(worst, ulps(f(x), exact((double)x)));
        worst = fmax(worst, ulps(f(-x), exact(-(double)x)));
    }
    return worst;
}

static void test_exp_ulps(void **state)
{
    double whole = worst_ulps(ls__exp, exp, 88.7f, 211);
    double fine = 0;

    (void)state;
    /* Evenly spaced too: equal steps in bits leave few samples between 32 and 88. */
    for (int i = -10500000; i < 8870000; i++)
        fine = fmax(fine, ulps(ls__exp((float)i * 1e-5f), exp((double)((float)i * 1e-5f))));
    ls__figure("exp is within %.2f ulp on [-88.7, 88.7], %.2f down to -105 (subnormal)", whole,
               fine);
    assert_true(whole < 1.1);
    assert_true(fine < 1.1);
}

static void test_tanh_ulps(void **state)
{
    double whole = worst_ulps(ls__tanh, tanh, 25, 97);

    (void)state;
    ls__figure("tanh is within %.2f ulp on [-25, 25]", whole);
    assert_true(whole < 3);
}

static void test_limits(void **state)
{
    (void)state;
    assert_true(ls__exp(0) == 1);
    assert_true(ls__exp(-INFINITY) == 0 && ls__exp(-1e30f) == 0 && ls__exp(-104.1f) == 0);
    assert_true(isinf(ls__exp(INFINITY)) && isinf(ls__exp(88.8f)) && isinf(ls__exp(1e30f)));
    assert_true(isfinite(ls__exp(88.72f)));
    assert_true(isnan(ls__exp(NAN)) && isnan(ls__exp(-NAN)));

    assert_true(ls__tanh(0) == 0);
    assert_true(ls__tanh(INFINITY) == 1 && ls__tanh(-INFINITY) == -1);
    assert_true(ls__tanh(1e30f) == 1 && ls__tanh(-1e30f) == -1);
    assert_true(isnan(ls__tanh(NAN)));
}

static void test_tanh_stays_within_one(void **state)
{
    (void)state;
    for (int i = -2000000; i <= 2000000; i++)
        assert_true(fabsf(ls__tanh((float)i * 1e-5f)) <= 1);
}

/* The order that lanes.h states, written out: lane i mod 16, then halves onto halves. */
static float sum_in_stated_order(const float *x, int64_t count)
{
    float lane[16] = {0};

    for (int64_t i = 0; i < count; i++)
        lane[i % 16] += x[i];
    for (int width = 8; width > 0; width /= 2)
        for (int j = 0; j < width; j++)
            lane[j] += lane[j + width];
    return lane[0];
}

static void test_sums_follow_the_stated_order(void **state)
{
    enum { LONGEST = 100 };

    ls__seed_tensors(ls__test_seed(20240510));
    float *x = ls__to_floats(ls__random_doubles(LONGEST, 1), LONGEST);
    float *y = ls__to_floats(ls__random_doubles(LONGEST, 1), LONGEST);

    (void)state;
    for (int64_t count = 0; count <= LONGEST; count++) {
        float products[LONGEST];
        float squares[LONGEST];

        for (int64_t i = 0; i < count; i++) {
            products[i] = x[i] * y[i];
            squares[i] = (x[i] - 0.3f) * (x[i] - 0.3f);
        }
        assert_true(ls__sum(x, count) == sum_in_stated_order(x, count));
        assert_true(ls__dot(x, y, count) == sum_in_stated_order(products, count));
        assert_true(ls__sum_squares(x, 0.3f, count) == sum_in_stated_order(squares, count));
    }
}

static void test_max(void **state)
{
    float falling[] = {3, 2, -1, -INFINITY};
    float negative[] = {-3, -2.5f, -1e-40f, -8};
    float with_nan[] = {1, NAN, INFINITY};

    (void)state;
    assert_true(ls__max(falling, 4) == 3);
    assert_true(ls__max(negative, 4) == -1e-40f);
    assert_true(isnan(ls__max(with_nan, 3)));
    assert_true(isinf(ls__max(with_nan + 2, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_ulps),
        cmocka_unit_test(test_tanh_ulps),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_tanh_stays_within_one),
        cmocka_unit_test_teardown(test_sums_follow_the_stated_order, ls__free_tensors),
        cmocka_unit_test(test_max),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
