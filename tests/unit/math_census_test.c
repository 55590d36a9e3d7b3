/* What formats make of values, counted on numbers made by hand: at a boundary, and the FP32 numbers
 * next to it on either side. */
#include "math/census.h"

#include <math.h>
#include <string.h>

#include "support/test.h"

enum { MANY = 3000 }; /* more than one piece, and no whole number of them */

static float below(float x)
{
    return nextafterf(x, 0);
}

static float above(float x)
{
    return nextafterf(x, 1e30f);
}

/* ---- a format ---- */

typedef enum fate { ZERO, FLUSHED, SUBNORMAL, NORMAL, INFINITE } fate;

static fate fate_of(float value, double scale, ls__format format)
{
    ls__census census = {0};

    ls__census_add(&census, &value, 1, scale, format);
    assert_int_equal(census.count, 1);
    assert_int_equal(
        census.zero + census.flushed + census.subnormal + census.normal + census.infinite, 1);
    return census.zero        ? ZERO
           : census.flushed   ? FLUSHED
           : census.subnormal ? SUBNORMAL
           : census.normal    ? NORMAL
                              : INFINITE;
}

static void assert_fate(float value, ls__format format, fate expected)
{
    assert_int_equal(fate_of(value, 1, format), expected);
    assert_int_equal(fate_of(-value, 1, format), expected);
}

static void test_f16(void **state)
{
    (void)state;
    assert_fate(0, LS__F16, ZERO);
    assert_fate(0x1p-149f, LS__F16, FLUSHED);
    assert_fate(0x1p-26f, LS__F16, FLUSHED);
    assert_fate(below(0x1p-25f), LS__F16, FLUSHED);
    assert_fate(0x1p-25f, LS__F16, FLUSHED); /* the tie goes to zero, which is even */
    assert_fate(above(0x1p-25f), LS__F16, SUBNORMAL);
    assert_fate(below(0x1p-24f), LS__F16, SUBNORMAL);
    assert_fate(0x1p-24f, LS__F16, SUBNORMAL);
    assert_fate(above(0x1p-24f), LS__F16, SUBNORMAL);
    assert_fate(below(0x1p-14f - 0x1p-25f), LS__F16, SUBNORMAL);
    assert_fate(0x1p-14f - 0x1p-25f, LS__F16, NORMAL); /* rounded up to it */
    assert_fate(below(0x1p-14f), LS__F16, NORMAL);
    assert_fate(0x1p-14f, LS__F16, NORMAL);
    assert_fate(65504, LS__F16, NORMAL);
    assert_fate(below(65520), LS__F16, NORMAL);
    assert_fate(65520, LS__F16, INFINITE);
}

static void test_bf16(void **state)
{
    (void)state;
    assert_fate(0, LS__BF16, ZERO);
    assert_fate(0x1p-149f, LS__BF16, FLUSHED);
    assert_fate(0x1p-134f, LS__BF16, FLUSHED);
    assert_fate(above(0x1p-134f), LS__BF16, SUBNORMAL);
    assert_fate(0x1p-126f, LS__BF16, NORMAL);
    assert_fate(0x1p-25f, LS__BF16, NORMAL);
    assert_fate(65520, LS__BF16, NORMAL);
    assert_fate(3.4e38f, LS__BF16, INFINITE);
}

/* A scale moves the boundaries by as many powers of two. */
static void test_scale(void **state)
{
    (void)state;
    assert_int_equal(fate_of(0x1p-41f, 65536, LS__F16), FLUSHED);
    assert_int_equal(fate_of(above(0x1p-41f), 65536, LS__F16), SUBNORMAL);
    assert_int_equal(fate_of(0x1p-30f, 65536, LS__F16), NORMAL);
    assert_int_equal(fate_of(1, 65536, LS__F16), INFINITE);
    assert_int_equal(fate_of(below(1), 65536, LS__F16), INFINITE);
    assert_int_equal(fate_of(65504 * 0x1p-16f, 65536, LS__F16), NORMAL);
    assert_int_equal(fate_of(0, 65536, LS__F16), ZERO);
    assert_true(ls__census_scale(1, LS__F16) == 32768);
    assert_true(ls__census_scale(65504 * 0x1p-16f, LS__F16) == 65536);
    assert_true(ls__census_scale(below(1), LS__F16) == 32768);
    assert_true(ls__census_scale(65504, LS__F16) == 1);
    assert_true(ls__census_scale(65520, LS__F16) == 0.5);
    assert_true(ls__census_scale(0, LS__F16) == 0x1p127);
    assert_true(ls__census_scale(1, LS__BF16) == 0x1p127);
}

static void test_many(void **state)
{
    static const float cycle[] = {0, 0x1p-30f, 0x1p-20f, 1, -1, 1e6f};
    enum { CYCLE = sizeof cycle / sizeof cycle[0] };
    float values[MANY];
    ls__census census = {0};

    (void)state;
    for (int i = 0; i < MANY; i++)
        values[i] = cycle[i % CYCLE];
    ls__census_add(&census, values, MANY, 1, LS__F16);
    ls__census_add(&census, values, CYCLE, 1, LS__F16);
    assert_int_equal(census.count, MANY + CYCLE);
    assert_int_equal(census.zero, MANY / CYCLE + 1);
    assert_int_equal(census.flushed, MANY / CYCLE + 1);
    assert_int_equal(census.subnormal, MANY / CYCLE + 1);
    assert_int_equal(census.normal, 2 * (MANY / CYCLE + 1));
    assert_int_equal(census.infinite, MANY / CYCLE + 1);
}

/* ---- magnitudes ---- */

static int only_bin(float value)
{
    ls__magnitudes m = {0};

    ls__magnitudes_add(&m, &value, 1);
    for (int i = 0; i < LS__CENSUS_BINS; i++)
        if (m.bin[i])
            return i;
    return -1;
}

static void test_magnitudes(void **state)
{
    const float values[] = {0, -2, 0x1p-24f, -0x1p-3f, 0};
    ls__magnitudes m = {0};

    (void)state;
    assert_int_equal(only_bin(0), -1);
    assert_int_equal(only_bin(0x1p-149f), 0);
    for (int i = 1; i < LS__CENSUS_BINS; i++) {
        float from = ldexpf(1, ls__magnitudes_from(i));
        assert_int_equal(only_bin(from), i);
        assert_int_equal(only_bin(-above(from)), i);
        assert_int_equal(only_bin(below(from)), i - 1);
    }
    assert_int_equal(only_bin(1e30f), LS__CENSUS_BINS - 1);
    ls__magnitudes_add(&m, values, 5);
    assert_int_equal(m.count, 5);
    assert_int_equal(m.zero, 2);
    assert_true(m.largest == 2);
}

/* ---- updates ---- */

static bool is_lost(float weight, float update, ls__format format)
{
    float after = weight + update;
    ls__updates updates = {0};

    ls__updates_add(&updates, &weight, &after, 1, format);
    assert_int_equal(updates.count, 1);
    return updates.lost == 1;
}

/* At 1 the spacing is 2^-7 upwards and 2^-8 downwards in BF16, 2^-10 and 2^-11 in FP16; half of it
 * is the tie, which goes to 1. */
static void test_updates(void **state)
{
    (void)state;
    assert_true(is_lost(1, 0x1p-8f, LS__BF16));
    assert_false(is_lost(1, above(0x1p-8f) + 0x1p-20f, LS__BF16));
    assert_true(is_lost(1, -0x1p-9f, LS__BF16));
    assert_false(is_lost(1, -0x1.01p-9f, LS__BF16));
    assert_true(is_lost(1, 0x1p-11f, LS__F16));
    assert_false(is_lost(1, 0x1.01p-11f, LS__F16));
    assert_false(is_lost(1, 0x1p-8f, LS__F16));
    assert_false(is_lost(0, 0x1p-40f, LS__BF16));
    assert_true(is_lost(0, 0x1p-40f, LS__F16));
    /* Where the weight is not one of the format's, the update is added to what is. */
    assert_true(is_lost(1 + 0x1p-9f, 0x1p-9f, LS__BF16));
    assert_false(is_lost(1 + 0x1p-9f, 0x1p-7f, LS__BF16));
}

static void test_no_update(void **state)
{
    float before[MANY];
    float after[MANY];
    ls__updates updates = {0};

    (void)state;
    for (int i = 0; i < MANY; i++) {
        before[i] = 1;
        after[i] = i % 3 == 0 ? 1 : i % 3 == 1 ? 1 + 0x1p-10f : 1.5f;
    }
    ls__updates_add(&updates, before, after, MANY, LS__BF16);
    assert_int_equal(updates.count, MANY / 3 * 2);
    assert_int_equal(updates.lost, MANY / 3);
    ls__round_to(after, MANY, LS__BF16);
    for (int i = 0; i < MANY; i++)
        assert_true(after[i] == (i % 3 == 2 ? 1.5f : 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_scale),      cmocka_unit_test(test_many),
        cmocka_unit_test(test_magnitudes), cmocka_unit_test(test_updates),
        cmocka_unit_test(test_no_update),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
