/* Exact sums against mpfr_sum: the same addends in random orders, pieces and groupings over 1 to 8
 * simulated ranks, which then combine lanes and spills in random order. Every result must be
 *     (float)(mpfr_sum to 53 bits / divisor)
 * to the bit, with zero as +0. Controls: plain FP64 and FP32 sums, which must differ from it. */
#include <float.h>
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/exact.h"
#include "lockstep/transport.h"
#include "support/test.h"

enum { RANKS = 8, MAX_ADDENDS = 4096, MAX_ELEMENTS = 4096, SMALL = 8 };

static uint64_t seed;
static uint64_t drawn;

static uint64_t next(void)
{
    ls__random4 words = ls__random(seed, LS__STREAM_SAMPLE, 1, drawn++);

    return (uint64_t)words.word[0] << 32 | words.word[1];
}

static int64_t below(int64_t bound)
{
    return (int64_t)(next() % (uint64_t)bound);
}

static int between(int low, int high)
{
    return low + (int)below(high - low + 1);
}

static float either_sign(float x)
{
    return next() & 1 ? -x : x;
}

/* ---- addends: x[0], x[stride], ... for one element ---- */

typedef void fill(float *x, int64_t count, int64_t stride);

/* 24 random bits, the leading one worth 2^exponent; subnormal where that is. */
static float with_exponent(int exponent)
{
    float significand = (float)(next() >> 41 | UINT64_C(1) << 23);

    return either_sign(ldexpf(significand, exponent - 23));
}

static float any_finite(void)
{
    uint32_t bits = (uint32_t)next();
    float x;

    if ((bits >> 23 & 0xff) == 0xff)
        bits ^= UINT32_C(1) << 30;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void gradients(float *x, int64_t count, int64_t stride)
{
    int scale = between(-40, 4);

    for (int64_t j = 0; j < count; j++)
        x[j * stride] = with_exponent(scale - between(0, 12));
}

static void any_floats(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = any_finite();
}

/* The second half takes back the first; where the count is odd, a small number is left. */
static void cancelling(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = j < count / 2 ? any_finite() : -x[(j - count / 2) * stride];
    if (count % 2)
        x[(count - 1) * stride] = with_exponent(between(-149, -60));
}

static void subnormals(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = either_sign((float)(next() >> 41) * FLT_TRUE_MIN);
}

static void ends_of_the_range(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = either_sign(j % 2 ? 0x1p127f : 0x1p-149f);
}

static void zeros(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = either_sign(below(8) ? 0 : FLT_TRUE_MIN);
}

/* Nearly every addition spills; the large ones then cancel, in pairs. */
static void far_apart(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = j % 2        ? with_exponent(between(-60, 0))
                        : j % 4 == 0 ? with_exponent(between(60, 100))
                                     : -x[(j - 2) * stride];
}

/* Each beyond the last place of the one before, so that nothing overlaps. */
static void ladder(float *x, int64_t count, int64_t stride)
{
    for (int64_t j = 0; j < count; j++)
        x[j * stride] = with_exponent(125 - 54 * (int)(j % 6) + between(-2, 2));
}

/* Halfway between two doubles, or next to it, which in turn are beside the middle of two floats:
 * so the rounding to FP64 decides the FP32 result. What is larger cancels. */
static void halfway(float *x, int64_t count, int64_t stride)
{
    int place = between(-147, 73); /* of the double's last bit */
    uint32_t low = (UINT32_C(1) << 28) + (uint32_t)between(-1, 1);
    uint64_t high = next() >> 41 | UINT64_C(1) << 23;
    float sign = either_sign(1);
    float part[] = {
        sign * ldexpf((float)high, place + 29),
        sign * ldexpf((float)(low >> 5), place + 5),
        sign * ldexpf((float)((low & 31) * 2 + 1), place - 1),
        (float)between(-1, 1) * FLT_TRUE_MIN,
    };

    for (int64_t j = 0; j < count; j++)
        x[j * stride] = j < 4 ? part[j] : j % 2 ? -x[(j - 1) * stride] : any_finite();
    if (count > 4 && count % 2)
        x[(count - 1) * stride] = 0;
}

static const struct kind {
    const char *name;
    fill *fill;
} kinds[] = {
    {"gradients", gradients},
    {"any floats", any_floats},
    {"cancelling", cancelling},
    {"subnormals", subnormals},
    {"ends of the range", ends_of_the_range},
    {"zeros", zeros},
    {"far apart", far_apart},
    {"ladder", ladder},
    {"halfway", halfway},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- one batch of sums ---- */

typedef struct batch {
    int64_t addends, elements;
    float *x; /* (addends, elements) */
    double divisor;
    float *expected; /* (elements) */
    float *got;      /* (elements) */
} batch;

static mpfr_t term[MAX_ADDENDS];
static mpfr_ptr term_pointer[MAX_ADDENDS];
static mpfr_t mpfr_total;

static void fill_batch(batch *b, const struct kind *kind)
{
    static const double divisors[] = {1, 2, 3, 7, 8, 16, 64, 1000};

    b->divisor = divisors[below(sizeof divisors / sizeof *divisors)];
    for (int64_t i = 0; i < b->elements; i++)
        kind->fill(b->x + i, b->addends, b->elements);
}

static float expected_of(const batch *b, int64_t element)
{
    double total;

    for (int64_t j = 0; j < b->addends; j++)
        mpfr_set_flt(term[j], b->x[j * b->elements + element], MPFR_RNDN);
    mpfr_sum(mpfr_total, term_pointer, (unsigned long)b->addends, MPFR_RNDN);
    total = mpfr_zero_p(mpfr_total) ? 0 : mpfr_get_d(mpfr_total, MPFR_RNDN);
    return (float)(total / b->divisor);
}

static int64_t differences(const float *x, const float *y, int64_t count)
{
    int64_t differ = 0;

    for (int64_t i = 0; i < count; i++)
        differ += memcmp(&x[i], &y[i], sizeof x[i]) != 0;
    return differ;
}

/* ---- simulated ranks ---- */

static double *lanes[RANKS];
static ls_exact *rank_sums[RANKS];

static void open_ranks(int64_t elements)
{
    for (int r = 0; r < RANKS; r++) {
        lanes[r] = malloc((size_t)elements * sizeof(double));
        assert_non_null(lanes[r]);
        assert_ok(ls_exact_open(&rank_sums[r], elements, lanes[r]));
    }
}

static void close_ranks(void)
{
    for (int r = 0; r < RANKS; r++) {
        ls_exact_close(rank_sums[r]);
        free(lanes[r]);
    }
}

static void shuffle(int64_t *order, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t other = below(i + 1);

        order[i] = i;
        order[i] = order[other];
        order[other] = i;
    }
}

static void add_in_two_pieces(ls_exact *sums, const float *addend, int64_t count)
{
    int64_t cut = below(count + 1);

    ls_exact_add(sums, cut, addend + cut, count - cut);
    ls_exact_add(sums, 0, addend, cut);
}

/* As a collective calls it. */
static void combine_in_two_pieces(int into, int from, int64_t count)
{
    ls_element_type type = {"exact", sizeof(double), ls_exact_combine_into, rank_sums[into]};
    int64_t cut = below(count + 1);

    ls_exact_settle(rank_sums[from], 0, count);
    type.combine(type.context, lanes[into] + cut, lanes[from] + cut, count - cut);
    type.combine(type.context, lanes[into], lanes[from], cut);
}

/* In messages of random sizes; the records are counted before. */
static void hand_over_spills(int into, int from, int64_t count)
{
    enum { ROOM = 100 };
    ls_spill records[ROOM];
    int64_t announced = ls_exact_spills(rank_sums[from], 0, count);
    int64_t at = 0;

    while (at < count) {
        int64_t written =
            ls_exact_export(rank_sums[from], &at, count, records, between(LS_EXACT_RECORDS, ROOM));

        assert_ok(ls_exact_absorb(rank_sums[into], records, written));
        announced -= written;
    }
    assert_int_equal(announced, 0);
}

/* Merges two random ranks' lanes until one is left. Spills go along at once, or when all is
 * combined. Returns the rank that has it all. */
static int merge_ranks(int ranks, int64_t count)
{
    int64_t order[RANKS];
    int late[RANKS];
    int late_count = 0;

    shuffle(order, ranks);
    for (int left = ranks; left > 1; left--) {
        int64_t pick = below(left - 1);
        int into = (int)order[pick];
        int from = (int)order[left - 1];

        combine_in_two_pieces(into, from, count);
        if (next() & 1)
            hand_over_spills(into, from, count);
        else
            late[late_count++] = from;
    }
    while (late_count > 0)
        hand_over_spills((int)order[0], late[--late_count], count);
    return (int)order[0];
}

static void sum_in_some_grouping(batch *b)
{
    static int64_t order[MAX_ADDENDS];
    int ranks = between(1, RANKS);
    int owner;

    for (int r = 0; r < ranks; r++)
        ls_exact_reset(rank_sums[r]);
    shuffle(order, b->addends);
    for (int64_t j = 0; j < b->addends; j++)
        add_in_two_pieces(rank_sums[below(ranks)], b->x + order[j] * b->elements, b->elements);
    owner = merge_ranks(ranks, b->elements);
    ls_exact_round(rank_sums[owner], 0, b->elements, b->divisor, b->got);
}

/* ---- controls ---- */

static void sum_in_doubles(batch *b)
{
    for (int64_t i = 0; i < b->elements; i++) {
        double sum = 0;

        for (int64_t j = 0; j < b->addends; j++)
            sum += (double)b->x[j * b->elements + i];
        b->got[i] = (float)(sum / b->divisor);
    }
}

static void sum_in_floats(batch *b)
{
    for (int64_t i = 0; i < b->elements; i++) {
        float sum = 0;

        for (int64_t j = 0; j < b->addends; j++)
            sum += b->x[j * b->elements + i];
        b->got[i] = (float)((double)sum / b->divisor);
    }
}

/* ---- the tests ---- */

typedef struct tally {
    int64_t sums;
    int64_t wrong;
    int64_t double_differs;
    int64_t float_differs;
} tally;

enum { GROUPINGS = 2 };

static void try_batch(batch *b, tally *total)
{
    for (int64_t i = 0; i < b->elements; i++)
        b->expected[i] = expected_of(b, i);
    total->sums += b->elements;
    for (int grouping = 0; grouping < GROUPINGS; grouping++) {
        sum_in_some_grouping(b);
        total->wrong += differences(b->got, b->expected, b->elements);
    }
    sum_in_doubles(b);
    total->double_differs += differences(b->got, b->expected, b->elements);
    sum_in_floats(b);
    total->float_differs += differences(b->got, b->expected, b->elements);
}

static void try_kind(const struct kind *kind, batch *b, int64_t max_addends, int batches,
                     tally *all)
{
    tally here = {0};

    for (int i = 0; i < batches; i++) {
        b->addends = 1 + below(max_addends);
        fill_batch(b, kind);
        try_batch(b, &here);
    }
    printf("%-18s up to %4lld addends: %8lld sums, %lld wrong; plain FP64 differs in %lld, "
           "FP32 in %lld\n",
           kind->name, (long long)max_addends, (long long)here.sums, (long long)here.wrong,
           (long long)here.double_differs, (long long)here.float_differs);
    all->sums += here.sums;
    all->wrong += here.wrong;
    all->double_differs += here.double_differs;
    all->float_differs += here.float_differs;
}

static void try_all_kinds(int64_t elements, int64_t max_addends, int batches, tally *all)
{
    batch b = {.elements = elements};

    b.x = malloc((size_t)(max_addends * elements) * sizeof(float));
    b.expected = malloc((size_t)elements * sizeof(float));
    b.got = malloc((size_t)elements * sizeof(float));
    assert_true(b.x && b.expected && b.got);
    open_ranks(elements);
    for (int kind = 0; kind < KINDS; kind++)
        try_kind(&kinds[kind], &b, max_addends, batches, all);
    close_ranks();
    free(b.x);
    free(b.expected);
    free(b.got);
}

static void test_against_mpfr_sum(void **state)
{
    tally all = {0};

    (void)state;
    try_all_kinds(MAX_ELEMENTS, SMALL, 276, &all);
    try_all_kinds(65, MAX_ADDENDS, 12, &all);
    ls__figure(
        "exact sum against mpfr_sum: %lld sums, each in %d orders and groupings, %lld differ "
        "(controls: plain FP64 sums %lld, plain FP32 sums %lld)",
        (long long)all.sums, GROUPINGS, (long long)all.wrong, (long long)all.double_differs,
        (long long)all.float_differs);
    assert_true(all.sums >= 10000000);
    assert_int_equal(all.wrong, 0);
    assert_true(all.double_differs > 0 && all.float_differs > 0);
}

static int open_mpfr(void **state)
{
    (void)state;
    mpfr_init2(mpfr_total, DBL_MANT_DIG);
    for (int j = 0; j < MAX_ADDENDS; j++) {
        mpfr_init2(term[j], FLT_MANT_DIG);
        term_pointer[j] = term[j];
    }
    return 0;
}

static int close_mpfr(void **state)
{
    (void)state;
    mpfr_clear(mpfr_total);
    for (int j = 0; j < MAX_ADDENDS; j++)
        mpfr_clear(term[j]);
    mpfr_free_cache();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_mpfr_sum)};

    seed = ls__test_seed(149);
    return cmocka_run_group_tests(tests, open_mpfr, close_mpfr);
}
