/* Which algorithm is chosen where, and how large a bucket, from their definitions. */
#include "comm/policy.h"
#include "support/test.h"
#include "train/bucket.h"

static void test_algorithms(void **state)
{
    const int64_t short_one = 1024;
    const int64_t long_one = INT64_C(1) << 40;

    (void)state;
    assert_ptr_equal(ls__choose_algorithm((ls_layout){4, 4}, short_one), &ls_algorithm_direct);
    assert_ptr_equal(ls__choose_algorithm((ls_layout){4, 4}, long_one), &ls_algorithm_direct);
    assert_ptr_equal(ls__choose_algorithm((ls_layout){8, 4}, long_one), &ls_algorithm_hier);
    assert_ptr_equal(ls__choose_algorithm((ls_layout){8, 1}, short_one), &ls_algorithm_halving);
    assert_ptr_equal(ls__choose_algorithm((ls_layout){8, 1}, long_one), &ls_algorithm_ring_seg);
    assert_ptr_equal(ls__choose_algorithm((ls_layout){1, 1}, short_one), &ls_algorithm_direct);
}

/* Time = fixed + bytes / rate. */
static int64_t choose(double fixed, double rate)
{
    double bytes[2] = {256e3, 4e6};

    return ls__bucket_choose(fixed + bytes[0] / rate, (int64_t)bytes[0], fixed + bytes[1] / rate,
                             (int64_t)bytes[1]);
}

/* The fixed cost is at most a twentieth of what the bytes cost. */
static void test_buckets(void **state)
{
    (void)state;
    assert_int_equal(choose(100e-6, 125e6), 256 << 10); /* 0.25 MB */
    assert_int_equal(choose(1e-3, 125e6), 4 << 20);     /* 2.5 MB */
    assert_int_equal(choose(50e-6, 12.5e9), 16 << 20);  /* 12.5 MB */
    assert_int_equal(choose(1, 12.5e9), 64 << 20);      /* the most there is */
    assert_int_equal(choose(0, 1e9), 256 << 10);
    assert_int_equal(ls__bucket_choose(2e-3, 1000, 1e-3, 4000), 64 << 20); /* noise */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
