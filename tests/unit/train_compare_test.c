/* Weights side by side: equal bits, the largest difference, ulps; NaN is never lost. */
#include "train/compare.h"

#include <math.h>

#include "support/test.h"

enum { COUNT = 6 };

/* A side of a comparison that was never a run: only its parameters count. */
typedef struct side {
    ls__loaded loaded;
    ls__model model;
    float parameters[COUNT];
} side;

static side left;
static side right;

static void make(side *s, int64_t count)
{
    s->loaded.model = &s->model;
    s->loaded.parameters = s->parameters;
    s->model.tensors.total = count;
    for (int i = 0; i < COUNT; i++)
        s->parameters[i] = (float)i;
}

static int set_up(void **state)
{
    (void)state;
    make(&left, COUNT);
    make(&right, COUNT);
    return 0;
}

static void test_equal_weights(void **state)
{
    ls__comparison result;

    (void)state;
    left.parameters[2] = right.parameters[2] = NAN;
    assert_ok(ls__compare(&left.loaded, &right.loaded, &result));
    assert_true(result.same_bits);
    assert_true(result.largest == 0);
    assert_int_equal(result.first, -1);
}

static void test_the_largest_and_the_first(void **state)
{
    ls__comparison result;

    (void)state;
    right.parameters[1] = 1.5f;
    right.parameters[3] = 1;
    right.parameters[5] = 5.25f;
    assert_ok(ls__compare(&left.loaded, &right.loaded, &result));
    assert_false(result.same_bits);
    assert_true(result.largest == 2);
    assert_int_equal(result.first, 1);
}

/* Zeros of both signs are equal numbers and other bits. */
static void test_bits_count_not_values(void **state)
{
    ls__comparison result;

    (void)state;
    right.parameters[0] = -0.0f;
    assert_ok(ls__compare(&left.loaded, &right.loaded, &result));
    assert_false(result.same_bits);
    assert_true(result.largest == 0);
    assert_int_equal(result.first, 0);
}

static void test_nan_is_not_forgotten(void **state)
{
    ls__comparison result;

    (void)state;
    right.parameters[1] = 7;
    right.parameters[2] = NAN;
    right.parameters[4] = 100; /* a finite difference after it */
    assert_ok(ls__compare(&left.loaded, &right.loaded, &result));
    assert_true(isnan(result.largest));
    assert_int_equal(result.first, 1);
}

static void test_the_larger_of_two(void **state)
{
    double none = nan("");

    (void)state;
    assert_true(isnan(ls__larger(none, 1)));
    assert_true(isnan(ls__larger(1, none)));
    assert_true(isnan(ls__larger(none, none)));
    assert_true(isnan(ls__larger(none, HUGE_VAL)));
    assert_true(ls__larger(2, 3) == 3);
    assert_true(ls__larger(3, 2) == 3);
}

static void test_other_shapes_are_refused(void **state)
{
    ls__comparison result;

    (void)state;
    make(&right, COUNT - 1);
    assert_fails(ls__compare(&left.loaded, &right.loaded, &result), LS_BAD_INPUT,
                 "6 and 5 parameters");
}

static void test_ulps(void **state)
{
    (void)state;
    assert_int_equal(ls__ulps_between(1, 1), 0);
    assert_int_equal(ls__ulps_between(1, nextafterf(1, 2)), 1);
    assert_int_equal(ls__ulps_between(nextafterf(1, 0), nextafterf(1, 2)), 2);
    assert_int_equal(ls__ulps_between(0.0f, -0.0f), 0);
    assert_int_equal(ls__ulps_between(-0x1p-149f, 0x1p-149f), 2);
    assert_true(ls__ulps_between(1, NAN) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_equal_weights, set_up),
        cmocka_unit_test_setup(test_the_largest_and_the_first, set_up),
        cmocka_unit_test_setup(test_bits_count_not_values, set_up),
        cmocka_unit_test_setup(test_nan_is_not_forgotten, set_up),
        cmocka_unit_test(test_the_larger_of_two),
        cmocka_unit_test_setup(test_other_shapes_are_refused, set_up),
        cmocka_unit_test(test_ulps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
