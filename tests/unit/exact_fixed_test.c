/* The 320-bit integers under the exact sum against MPFR, in FP64, where a wrong rounding shows in
 * the last bit. */
#include <float.h>
#include <math.h>
#include <mpfr.h>
#include <string.h>

#include "base/rng.h"
#include "exact/fixed.h"
#include "support/test.h"

enum { SUMS = 1000000, TERMS = 8 };

static uint64_t seed;
static uint64_t drawn;

static uint64_t next(void)
{
    ls__random4 words = ls__random(seed, LS__STREAM_SAMPLE, 0, drawn++);

    return (uint64_t)words.word[0] << 32 | words.word[1];
}

static int between(int low, int high)
{
    return low + (int)(next() % (uint64_t)(high - low + 1));
}

static double either_sign(double x)
{
    return next() & 1 ? -x : x;
}

/* A multiple of 2^-149 below 2^150, of at most `bits` bits. */
static double term(int bits)
{
    double significand = (double)(next() >> (64 - bits));

    return either_sign(ldexp(significand, between(-149, 149 - bits)));
}

static void any_terms(double x[TERMS])
{
    for (int i = 0; i < TERMS; i++)
        x[i] = term(between(1, 53));
}

/* All cancels but for the last term, and sometimes that as well. */
static void cancelling_terms(double x[TERMS])
{
    for (int i = 0; i < TERMS; i++)
        x[i] = i % 2 ? -x[i - 1] : term(53);
    x[TERMS - 1] += between(-1, 1) * 0x1p-149;
}

/* Halfway between two doubles, or beside that by one unit; what is larger cancels. */
static void halfway_terms(double x[TERMS])
{
    int last_place = between(-147, 60);
    double sign = either_sign(1);

    x[0] = sign * ldexp((double)(next() >> 12 | UINT64_C(1) << 52), last_place);
    x[1] = sign * ldexp(1, last_place - 1);
    x[2] = between(-1, 1) * 0x1p-149;
    x[3] = 0;
    for (int i = 4; i < TERMS; i++)
        x[i] = i % 2 ? -x[i - 1] : term(53);
}

/* Just below a power of two, so that rounding carries into a further bit. */
static void carrying_terms(double x[TERMS])
{
    memset(x, 0, TERMS * sizeof *x);
    x[0] = either_sign(ldexp(1, between(-90, 160)));
    x[1] = -copysign(ldexp(1, between(-149, ilogb(x[0]) - 50)), x[0]);
    x[2] = between(-1, 1) * 0x1p-149;
}

static double mpfr_total(const double x[TERMS])
{
    mpfr_t term_of[TERMS];
    mpfr_ptr pointer[TERMS];
    mpfr_t sum;
    double total;

    mpfr_init2(sum, DBL_MANT_DIG);
    for (int i = 0; i < TERMS; i++) {
        pointer[i] = term_of[i];
        mpfr_init2(term_of[i], DBL_MANT_DIG);
        mpfr_set_d(term_of[i], x[i], MPFR_RNDN);
    }
    mpfr_sum(sum, pointer, TERMS, MPFR_RNDN);
    total = mpfr_get_d(sum, MPFR_RNDN);
    mpfr_clear(sum);
    for (int i = 0; i < TERMS; i++)
        mpfr_clear(term_of[i]);
    return total == 0 ? 0 : total;
}

static bool same_bits(double x, double y)
{
    return memcmp(&x, &y, sizeof x) == 0;
}

/* The pieces come in falling order and add up to the integer again. */
static bool splits_well(const ls__fixed *x)
{
    double piece[LS__FIXED_PIECES];
    int pieces = ls__fixed_split(x, piece);
    ls__fixed again = {{0}};
    bool fine = pieces <= LS__FIXED_PIECES;

    for (int i = 0; i < pieces; i++) {
        fine &= piece[i] != 0 && (i == 0 || fabs(piece[i]) < fabs(piece[i - 1]));
        fine &= ls__fixed_add(&again, piece[i]);
    }
    return fine && memcmp(&again, x, sizeof again) == 0;
}

static void test_sums_against_mpfr(void **state)
{
    static void (*const kinds[])(double[TERMS]) = {any_terms, cancelling_terms, halfway_terms,
                                                   carrying_terms};
    int64_t wrong = 0;
    int64_t plain_differs = 0;

    (void)state;
    for (int i = 0; i < SUMS; i++) {
        double x[TERMS];
        double plain = 0;
        ls__fixed sum = {{0}};
        double expected;

        kinds[i % 4](x);
        expected = mpfr_total(x);
        for (int k = 0; k < TERMS; k++) {
            assert_true(ls__fixed_add(&sum, x[k]));
            plain += x[k];
        }
        wrong += !same_bits(ls__fixed_round(&sum), expected) || !splits_well(&sum);
        wrong += ls__fixed_is_zero(&sum) != (expected == 0);
        plain_differs += plain != expected;
    }
    ls__figure("exact: 320-bit integers rounded to FP64 against mpfr_sum: %d sums, %lld differ "
               "(plain FP64 sums: %lld)",
               SUMS, (long long)wrong, (long long)plain_differs);
    assert_int_equal(wrong, 0);
    assert_true(plain_differs > 0);
}

static void test_values_that_have_no_place(void **state)
{
    const double refused[] = {
        0x1p169, -0x1p169,   DBL_MAX,     0x1p-150,         -0x1.8p-149,       0x1p-1074,
        DBL_MIN, 0x1.8p-149, (double)NAN, (double)INFINITY, -(double)INFINITY,
    };
    ls__fixed x = {{1, 2, 3, 4, 5}};
    ls__fixed before = x;

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_false(ls__fixed_add(&x, refused[i]));
        assert_memory_equal(&x, &before, sizeof x);
    }
    assert_true(ls__fixed_add(&x, -0.0));
    assert_memory_equal(&x, &before, sizeof x);
}

/* The largest values that are taken, and every bit of an integer that damage could bring about. */
static void test_ends_of_the_range(void **state)
{
    ls__fixed x = {{0}};
    ls__fixed full = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX >> 1}};
    ls__fixed lowest = {{0, 0, 0, 0, UINT64_C(1) << 63}};

    (void)state;
    assert_true(ls__fixed_add(&x, 0x1.fffffffffffffp168));
    assert_true(ls__fixed_add(&x, 0x1.fffffffffffffp168));
    assert_true(same_bits(ls__fixed_round(&x), 0x1.fffffffffffffp169));
    assert_true(ls__fixed_add(&x, -0x1.fffffffffffffp168));
    assert_true(ls__fixed_add(&x, -0x1.fffffffffffffp168));
    assert_true(ls__fixed_add(&x, -0x1p-149));
    assert_true(same_bits(ls__fixed_round(&x), -0x1p-149));
    assert_true(ls__fixed_add(&x, 0x1p-149));
    assert_true(ls__fixed_is_zero(&x) && same_bits(ls__fixed_round(&x), 0));
    assert_true(same_bits(ls__fixed_round(&full), 0x1p170));
    assert_true(same_bits(ls__fixed_round(&lowest), -0x1p170));
    double piece[LS__FIXED_PIECES];
    assert_int_equal(ls__fixed_split(&full, piece), LS__FIXED_PIECES);
    assert_int_equal(ls__fixed_split(&lowest, piece), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_against_mpfr),
        cmocka_unit_test(test_values_that_have_no_place),
        cmocka_unit_test(test_ends_of_the_range),
    };

    seed = ls__test_seed(320);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
