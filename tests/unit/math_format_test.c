/* Values in 16 bits: all of them widened against arithmetic in FP64, and FP32 numbers narrowed
 * against MPFR with the format's precision and exponents: each value of the format, what lies
 * halfway to the next, the neighbours of both, and numbers of any bits. */
#include <float.h>
#include <math.h>
#include <mpfr.h>
#include <string.h>

#include "base/rng.h"
#include "math/format.h"
#include "support/test.h"

enum { PATTERNS = 65536, RANDOM = 1 << 20, AT_ONCE = 4096 };

/* What IEEE 754 says of a format; of mpfr's exponents, which are for significands in [1/2, 1). */
typedef struct about {
    ls__format format;
    int digits; /* of the significand, the hidden one included */
    int bias;
    mpfr_exp_t least, most; /* exponents of the smallest subnormal number, and of the largest */
} about;

static const about bf16 = {LS__BF16, 8, 127, -132, 128};
static const about f16 = {LS__F16, 11, 15, -23, 16};

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- widening ---- */

static double value_of(const about *a, uint16_t bits)
{
    int fraction_bits = a->digits - 1;
    int exponent = (bits & 0x7fff) >> fraction_bits;
    double fraction = (bits & 0x7fff) - (exponent << fraction_bits);
    double sign = bits & 0x8000 ? -1 : 1;

    if (exponent == 2 * a->bias + 1)
        return fraction > 0 ? copysign((double)NAN, sign) : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - a->bias - fraction_bits);
    return sign * ldexp(ldexp(1, fraction_bits) + fraction, exponent - a->bias - fraction_bits);
}

static bool same(double x, double y)
{
    return signbit(x) == signbit(y) && ((isnan(x) && isnan(y)) || x == y);
}

static void check_widening(const about *a)
{
    static uint16_t in[PATTERNS];
    static float out[PATTERNS];
    static uint16_t back[PATTERNS];

    for (int i = 0; i < PATTERNS; i++)
        in[i] = (uint16_t)i;
    ls__widen(out, (ls__values){in, a->format}, PATTERNS);
    ls__narrow((ls__values){back, a->format}, out, PATTERNS);
    for (int i = 0; i < PATTERNS; i++) {
        assert_true(same((double)out[i], value_of(a, in[i])));
        if (!isnan(out[i]))
            assert_int_equal(back[i], in[i]);
    }
}

static void test_all_values_widened(void **state)
{
    (void)state;
    check_widening(&bf16);
    check_widening(&f16);
}

/* ---- narrowing ---- */

/* What is to come of many numbers, counted. */
typedef struct tally {
    const about *about;
    mpfr_t rounded; /* of the format's precision */
    float waiting[AT_ONCE];
    int count;
    int64_t compared, wrong, cut_wrong;
} tally;

static double nearest(tally *t, float x)
{
    mpfr_exp_t least = mpfr_get_emin();
    mpfr_exp_t most = mpfr_get_emax();

    mpfr_set_emin(t->about->least);
    mpfr_set_emax(t->about->most);
    int side = mpfr_set_flt(t->rounded, x, MPFR_RNDN);
    mpfr_subnormalize(t->rounded, side, MPFR_RNDN);
    double result = mpfr_get_d(t->rounded, MPFR_RNDN);
    mpfr_set_emin(least);
    mpfr_set_emax(most);
    return result;
}

/* The control: the same rounded towards zero, as cutting the bits off does. */
static uint16_t cut(const tally *t, uint16_t rounded, float x)
{
    bool above = fabs(value_of(t->about, rounded)) > fabs((double)x);

    return (uint16_t)(rounded - above);
}

static void compare(tally *t)
{
    uint16_t out[AT_ONCE];

    ls__narrow((ls__values){out, t->about->format}, t->waiting, t->count);
    for (int i = 0; i < t->count; i++) {
        float x = t->waiting[i];
        double expected = isnan(x) ? (double)x : nearest(t, x);

        t->wrong += !same(value_of(t->about, out[i]), expected);
        if (!isnan(x))
            t->cut_wrong += !same(value_of(t->about, cut(t, out[i], x)), expected);
    }
    t->compared += t->count;
    t->count = 0;
}

static void take(tally *t, float x)
{
    t->waiting[t->count++] = x;
    if (t->count == AT_ONCE)
        compare(t);
}

static void take_around(tally *t, float x)
{
    take(t, x);
    take(t, nextafterf(x, INFINITY));
    take(t, nextafterf(x, -INFINITY));
}

static void take_values_and_halves(tally *t)
{
    for (int i = 0; i < PATTERNS; i++) {
        double here = value_of(t->about, (uint16_t)i);
        double next = value_of(t->about, (uint16_t)(i + 1));

        if (!isfinite(here))
            continue;
        take_around(t, (float)here);
        if (isfinite(next)) /* an FP32 number: it has a bit more than the format */
            take_around(t, (float)((here + next) / 2));
    }
}

static void check_narrowing(const about *a, const char *name)
{
    static tally t;
    uint64_t seed = ls__test_seed(20261);

    t = (tally){.about = a};
    mpfr_init2(t.rounded, a->digits);
    take_values_and_halves(&t);
    for (uint64_t i = 0; i < RANDOM; i++)
        take(&t, float_of(ls__random(seed, LS__STREAM_SAMPLE, 0, i).word[0]));
    compare(&t);
    mpfr_clear(t.rounded);
    ls__figure("%s against MPFR: %lld numbers, %lld differ (control, bits cut off: %lld)", name,
               (long long)t.compared, (long long)t.wrong, (long long)t.cut_wrong);
    assert_int_equal(t.wrong, 0);
    assert_true(t.cut_wrong > t.compared / 10);
}

static void test_narrowed_to_nearest(void **state)
{
    (void)state;
    check_narrowing(&bf16, "bf16");
    check_narrowing(&f16, "f16");
}

static uint16_t narrowed(ls__format format, float x)
{
    uint16_t out = 0xbeef;

    ls__narrow((ls__values){&out, format}, &x, 1);
    return out;
}

static void test_overflow(void **state)
{
    float f16_half = 65520;
    float bf16_half = float_of(0x7f7f8000);

    (void)state;
    assert_int_equal(narrowed(LS__F16, nextafterf(f16_half, 0)), 0x7bff);
    assert_int_equal(narrowed(LS__F16, f16_half), 0x7c00);
    assert_int_equal(narrowed(LS__F16, -f16_half), 0xfc00);
    assert_int_equal(narrowed(LS__F16, FLT_MAX), 0x7c00);
    assert_int_equal(narrowed(LS__BF16, nextafterf(bf16_half, 0)), 0x7f7f);
    assert_int_equal(narrowed(LS__BF16, bf16_half), 0x7f80);
    assert_int_equal(narrowed(LS__BF16, -FLT_MAX), 0xff80);
    assert_int_equal(narrowed(LS__BF16, INFINITY), 0x7f80);
    assert_int_equal(narrowed(LS__F16, -INFINITY), 0xfc00);
}

static void test_underflow(void **state)
{
    (void)state;
    assert_int_equal(narrowed(LS__F16, 0x1p-24f), 1);
    assert_int_equal(narrowed(LS__F16, 0x1p-25f), 0); /* halfway: to even */
    assert_int_equal(narrowed(LS__F16, nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(narrowed(LS__F16, -0x1p-25f), 0x8000);
    assert_int_equal(narrowed(LS__F16, 0x1.ffcp-15f), 0x0400); /* carries into the normal numbers */
    assert_int_equal(narrowed(LS__BF16, 0x1p-133f), 1);
    assert_int_equal(narrowed(LS__BF16, 0x1p-134f), 0);
    assert_int_equal(narrowed(LS__BF16, -FLT_TRUE_MIN), 0x8000);
    assert_int_equal(narrowed(LS__F16, -0.0f), 0x8000);
}

/* Those too whose payload stands only in bits that are cut off. */
static void test_nan_stays(void **state)
{
    static const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0x7f80ffff,
                                    0x7fa00000, 0x7f801fff, 0x7fbfffff};
    static const about *const formats[] = {&bf16, &f16};

    (void)state;
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++)
        for (int f = 0; f < 2; f++) {
            const about *a = formats[f];
            uint16_t positive = narrowed(a->format, float_of(nans[i]));
            uint16_t negative = narrowed(a->format, float_of(nans[i] | 0x80000000));

            assert_true(isnan(value_of(a, positive)) && !(positive & 0x8000));
            assert_true(isnan(value_of(a, negative)) && (negative & 0x8000));
        }
}

/* ---- arrays ---- */

/* Lengths and places that leave vectors incomplete: the same values, and nothing beside them. */
static void check_stretch(ls__format format, int64_t from, int64_t count)
{
    enum { ROOM = 160 };
    float in[ROOM];
    uint16_t out[ROOM];
    float back[ROOM];

    for (int i = 0; i < ROOM; i++) {
        in[i] = (float)i * 0.37f - 11;
        out[i] = 0xbeef;
        back[i] = 77;
    }
    ls__narrow((ls__values){out + from, format}, in + from, count);
    ls__widen(back + from, (ls__values){out + from, format}, count);
    for (int64_t i = 0; i < ROOM; i++) {
        bool inside = i >= from && i < from + count;
        uint16_t expected = inside ? narrowed(format, in[i]) : 0xbeef;
        const about *a = format == LS__BF16 ? &bf16 : &f16;

        assert_int_equal(out[i], expected);
        assert_true((double)back[i] == (inside ? value_of(a, expected) : 77));
    }
}

static void test_stretches(void **state)
{
    (void)state;
    for (int64_t from = 0; from < 17; from++)
        for (int64_t count = 0; count < 140; count++) {
            check_stretch(LS__BF16, from, count);
            check_stretch(LS__F16, from, count);
        }
}

static void test_f32_is_copied(void **state)
{
    float in[] = {1, -0.0f, INFINITY, FLT_TRUE_MIN, 0.1f};
    float out[5];
    float back[5];

    (void)state;
    in[0] = float_of(0x7f800001);
    ls__narrow(ls__floats(out), in, 5);
    ls__widen(back, ls__floats(out), 5);
    for (int i = 0; i < 5; i++)
        assert_int_equal(bits_of(back[i]), bits_of(in[i]));
    assert_ptr_equal(ls__widened(ls__floats(in), out, 5), in);
    assert_int_equal(ls__value_bytes(LS__F32), 4);
    assert_int_equal(ls__value_bytes(LS__F16), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_values_widened), cmocka_unit_test(test_narrowed_to_nearest),
        cmocka_unit_test(test_overflow),           cmocka_unit_test(test_underflow),
        cmocka_unit_test(test_nan_stays),          cmocka_unit_test(test_stretches),
        cmocka_unit_test(test_f32_is_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
