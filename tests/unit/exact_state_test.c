/* What lives in exact sums beside the arithmetic: spills at block and page borders, cursors, reset,
 * memory, numbers that are not finite, damaged records, the check of the machine, and the cost. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "base/clock.h"
#include "base/rng.h"
#include "lockstep/exact.h"
#include "support/test.h"

enum { COUNT = 1000 }; /* its spills span ten pages; the last block is not whole */

static uint64_t seed;
static uint64_t drawn;

static int64_t below(int64_t bound)
{
    ls__random4 words = ls__random(seed, LS__STREAM_SAMPLE, 2, drawn++);

    return (int64_t)ls__bounded(words, (uint64_t)bound);
}

static void add_everywhere(ls_exact *sums, float value)
{
    float addend[COUNT];

    for (int i = 0; i < COUNT; i++)
        addend[i] = value;
    ls_exact_add(sums, 0, addend, COUNT);
}

static bool same_bits(float x, float y)
{
    return memcmp(&x, &y, sizeof x) == 0;
}

static int open_sums(void **state)
{
    static double lanes[COUNT];

    assert_ok(ls_exact_open((ls_exact **)state, COUNT, lanes));
    return 0;
}

static int close_sums(void **state)
{
    ls_exact_close(*state);
    return 0;
}

/* ---- spills ---- */

static void check_single_spill(ls_exact *sums, int64_t at)
{
    const float small = 1;
    float out[COUNT];
    ls_spill record[LS_EXACT_RECORDS];
    int64_t next = 0;

    ls_exact_reset(sums);
    add_everywhere(sums, 0x1p60f);
    assert_int_equal(ls_exact_spills(sums, 0, COUNT), 0);
    ls_exact_add(sums, at, &small, 1);
    assert_int_equal(ls_exact_spills(sums, 0, COUNT), 1);
    assert_int_equal(ls_exact_spills(sums, 0, at), 0);
    assert_int_equal(ls_exact_spills(sums, at, 1), 1);
    assert_int_equal(ls_exact_spills(sums, at + 1, COUNT - at - 1), 0);
    assert_int_equal(ls_exact_export(sums, &next, COUNT, record, LS_EXACT_RECORDS), 1);
    assert_true(next == COUNT && record[0].index == at && record[0].value == 1);
    add_everywhere(sums, -0x1p60f);
    ls_exact_round(sums, 0, COUNT, 1, out);
    for (int i = 0; i < COUNT; i++)
        assert_true(same_bits(out[i], i == at ? 1 : 0));
}

static void test_a_spill_at_each_element(void **state)
{
    for (int64_t at = 0; at < COUNT; at++)
        check_single_spill(*state, at);
}

static void spill_everywhere(ls_exact *sums)
{
    add_everywhere(sums, 0x1p120f);
    add_everywhere(sums, 0x1p20f);
    add_everywhere(sums, 0x1.8p-60f);
    add_everywhere(sums, -0x1p-140f);
}

/* Any range is exported whole whatever the size of the messages. */
static void test_export_piecewise(void **state)
{
    static ls_spill whole[COUNT * LS_EXACT_RECORDS];
    static ls_spill pieces[COUNT * LS_EXACT_RECORDS + LS_EXACT_RECORDS];

    spill_everywhere(*state);
    for (int round = 0; round < 200; round++) {
        int64_t first = below(COUNT + 1);
        int64_t end = first + below(COUNT + 1 - first);
        int64_t records = ls_exact_spills(*state, first, end - first);
        int64_t at = first;
        int64_t written = 0;

        assert_int_equal(ls_exact_export(*state, &at, end, whole, COUNT * LS_EXACT_RECORDS),
                         records);
        assert_true(at == end && (records > end - first || end == first));
        at = first;
        while (at < end)
            written +=
                ls_exact_export(*state, &at, end, pieces + written, LS_EXACT_RECORDS + below(50));
        assert_int_equal(written, records);
        assert_memory_equal(whole, pieces, (size_t)records * sizeof *whole);
    }
}

static void test_reset_forgets(void **state)
{
    float out[COUNT];

    spill_everywhere(*state);
    ls_exact_reset(*state);
    assert_int_equal(ls_exact_spills(*state, 0, COUNT), 0);
    add_everywhere(*state, 3);
    ls_exact_round(*state, 0, COUNT, 4, out);
    for (int i = 0; i < COUNT; i++)
        assert_true(same_bits(out[i], 0.75f));
}

/* Ranks with equal sums, two by two: 2^39 times the first two addends. */
static void test_as_many_addends_as_allowed(void **state)
{
    const float addends[][2] = {
        {FLT_MAX, FLT_MAX}, {-FLT_MAX, FLT_TRUE_MIN}, {0x1p127f, -0x1.234p70f}, {0x1p30f, -3}};
    ls_exact *sums = *state;

    for (size_t k = 0; k < sizeof addends / sizeof *addends; k++) {
        double twin;
        double lane = 0;
        ls_spill record[LS_EXACT_RECORDS];
        float once;
        float often;

        ls_exact_reset(sums);
        ls_exact_add(sums, 0, &addends[k][0], 1);
        ls_exact_add(sums, 0, &addends[k][1], 1);
        ls_exact_round(sums, 0, 1, 2, &once);
        lane = (double)addends[k][0] + (double)addends[k][1];
        for (int64_t n = 2; n < LS_EXACT_ADDENDS; n *= 2) {
            int64_t next = 0;
            int64_t records = ls_exact_export(sums, &next, 1, record, LS_EXACT_RECORDS);

            twin = lane;
            ls_exact_combine(sums, 0, &twin, 1);
            lane += twin;
            assert_ok(ls_exact_absorb(sums, record, records));
        }
        ls_exact_round(sums, 0, 1, (double)LS_EXACT_ADDENDS, &often);
        assert_true(same_bits(once, often));
    }
}

static void test_damaged_records_are_refused(void **state)
{
    const ls_spill outside[] = {{-1, 1}, {COUNT, 1}, {INT64_MAX, 1}, {INT64_MIN, 1}};
    const ls_spill no_sum[] = {
        {5, (double)NAN}, {5, (double)INFINITY}, {5, 0x1p-150}, {5, DBL_MAX}, {5, -0x1p169}};

    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_fails(ls_exact_absorb(*state, &outside[i], 1), LS_COMM, "of 1000");
    for (size_t i = 0; i < sizeof no_sum / sizeof *no_sum; i++)
        assert_fails(ls_exact_absorb(*state, &no_sum[i], 1), LS_COMM, "element 5");
}

static void test_damaged_lanes_become_nan(void **state)
{
    const double damaged[] = {0x1.0000000000001p-120, DBL_MAX, 0x1p300, DBL_TRUE_MIN};
    float out[4];

    add_everywhere(*state, 0x1.8p100f);
    ls_exact_combine(*state, 0, damaged, 4);
    ls_exact_round(*state, 0, 4, 1, out);
    for (int i = 0; i < 4; i++)
        assert_true(isnan(out[i]));
}

static void test_no_element_and_one(void **state)
{
    const float values[] = {0x1p100f, 1, -0x1p100f};
    double lane = 7;
    float out = 9;
    int64_t next = 0;
    ls_spill records[LS_EXACT_RECORDS];
    ls_exact *sums = NULL;

    (void)state;
    assert_ok(ls_exact_open(&sums, 0, NULL));
    ls_exact_add(sums, 0, values, 0);
    ls_exact_combine(sums, 0, &lane, 0);
    assert_ok(ls_exact_absorb(sums, records, 0));
    ls_exact_round(sums, 0, 0, 1, &out);
    assert_true(out == 9);
    assert_int_equal(ls_exact_spills(sums, 0, 0) + ls_exact_nonfinite(sums, 0, 0), 0);
    assert_int_equal(ls_exact_export(sums, &next, 0, records, LS_EXACT_RECORDS), 0);
    ls_exact_reset(sums);
    ls_exact_close(sums);
    ls_exact_close(NULL);

    assert_ok(ls_exact_open(&sums, 1, &lane));
    ls_exact_settle(sums, 0, 1);
    assert_true(lane == 0);
    for (int j = 0; j < 3; j++)
        ls_exact_add(sums, 0, &values[j], 1);
    ls_exact_round(sums, 0, 1, 2, &out);
    assert_true(out == 0.5f);
    ls_exact_close(sums);

    assert_fails(ls_exact_open(&sums, INT64_MAX / 2, &lane), LS_NO_MEMORY, "elements");
    assert_fails(ls_exact_open(&sums, INT64_MAX / 64, &lane), LS_NO_MEMORY, "address space");
}

/* ---- numbers that are not finite ---- */

static float sum_in_random_order(ls_exact *sums, ls_exact *other, const float *x, int count,
                                 double *other_lane)
{
    int order[8];
    ls_spill records[LS_EXACT_RECORDS];
    int64_t next = 0;
    float out;

    ls_exact_reset(sums);
    ls_exact_reset(other);
    for (int i = 0; i < count; i++) {
        int64_t place = below(i + 1);

        order[i] = i;
        order[i] = order[place];
        order[place] = i;
    }
    for (int i = 0; i < count; i++)
        ls_exact_add(below(2) ? sums : other, 0, &x[order[i]], 1);
    ls_exact_combine(sums, 0, other_lane, 1);
    assert_ok(ls_exact_absorb(sums, records, ls_exact_export(other, &next, 1, records, 7)));
    ls_exact_round(sums, 0, 1, 3, &out);
    return out;
}

static void test_nonfinite_sums_know_no_order(void **state)
{
    const float inf = INFINITY;
    const struct {
        float x[8];
        float sum;
    } cases[] = {
        {{inf, 1, -2, 0x1p100f, -0x1p100f, 3, -0.0f, 0x1p-149f}, inf},
        {{-inf, FLT_MAX, FLT_MAX, FLT_MAX, 1, 2, 3, 4}, -inf},
        {{inf, inf, inf, 1, 0x1p60f, -FLT_MAX, 3, 4}, inf},
        {{inf, -inf, 1, 0x1p60f, 2, 3, 4, 5}, NAN},
        {{NAN, 1, 0x1p60f, 2, 3, 4, 5, 6}, NAN},
        {{-NAN, inf, 1, 0x1p60f, 2, 3, 4, 5}, NAN},
        {{NAN, -NAN, inf, -inf, -NAN, 0x1p60f, 4, 1}, NAN},
    };
    double other_lane = 0;
    ls_exact *other = NULL;

    assert_ok(ls_exact_open(&other, 1, &other_lane));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int i = 0; i < 1000; i++)
            assert_true(same_bits(sum_in_random_order(*state, other, cases[k].x, 8, &other_lane),
                                  cases[k].sum));
    ls_exact_close(other);
}

static void test_nonfinite_are_counted(void **state)
{
    const float bad[] = {INFINITY, -INFINITY, NAN};
    bool is_bad[COUNT] = {false};

    add_everywhere(*state, FLT_MAX);
    for (int i = 0; i < 100; i++) {
        int64_t at = below(COUNT);
        ls_exact_add(*state, at, &bad[i % 3], 1);
        is_bad[at] = true;
    }
    for (int i = 0; i < 100; i++) {
        int64_t first = below(COUNT);
        int64_t count = below(COUNT + 1 - first);
        int64_t expected = 0;

        for (int64_t k = first; k < first + count; k++)
            expected += is_bad[k];
        assert_int_equal(ls_exact_nonfinite(*state, first, count), expected);
    }
    assert_int_equal(ls_exact_spills(*state, 0, COUNT), 0);
}

/* ---- memory and time ---- */

/* Kilobytes that are resident of the one mapping of this process that is so many kilobytes long; -1
 * where there is none. Not those of the whole process: a sanitizer's shadow, say, is not ours. */
static int64_t resident_of_mapping(int64_t kilobytes)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    long long value = 0;
    int64_t resident = -1;
    bool is_it = false;

    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "Size: %lld kB", &value) == 1)
            is_it = value == kilobytes;
        else if (is_it && sscanf(line, "Rss: %lld kB", &value) == 1)
            resident = value;
    }
    if (file)
        fclose(file);
    return resident;
}

static void test_memory_follows_spills(void **state)
{
    /* A number of elements whose spills are as long as no other mapping is by chance. */
    enum { MANY = 1050001, SPILL = 40, MEGABYTE = 1024 };
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t own = (MANY * (int64_t)SPILL + page - 1) / page * page / 1024;
    double *lanes = malloc(MANY * sizeof *lanes);
    float *addend = malloc(MANY * sizeof *addend);
    ls_exact *sums = NULL;

    (void)state;
    if (access("/proc/self/smaps", R_OK) != 0)
        skip();
    assert_true(lanes && addend);
    memset(lanes, 1, MANY * sizeof *lanes);
    for (int i = 0; i < MANY; i++)
        addend[i] = 0x1p70f;
    assert_int_equal(resident_of_mapping(own), -1);
    assert_ok(ls_exact_open(&sums, MANY, lanes));
    ls_exact_add(sums, 0, addend, MANY);
    ls_exact_round(sums, 0, MANY, 1, addend);
    assert_int_equal(resident_of_mapping(own), 0);
    for (int i = 0; i < MANY; i++)
        addend[i] = i % (MANY / 16) ? 0 : 1;
    ls_exact_add(sums, 0, addend, MANY);
    int64_t spilt = ls_exact_spills(sums, 0, MANY);
    assert_in_range(spilt, 16, 17);
    assert_in_range(resident_of_mapping(own), spilt * SPILL / 1024 + 1, MEGABYTE);
    for (int i = 0; i < MANY; i++)
        addend[i] = 1;
    ls_exact_add(sums, 0, addend, MANY);
    assert_in_range(resident_of_mapping(own), 39 * MEGABYTE, own);
    ls_exact_close(sums);
    assert_int_equal(resident_of_mapping(own), -1);
    free(lanes);
    free(addend);
}

typedef struct cost {
    double add, combine, round, reset; /* ns an element */
} cost;

static void keep_least(double *least, double start, int64_t elements)
{
    double ns = (ls__clock_seconds() - start) * 1e9 / (double)elements;

    if (*least == 0 || ns < *least)
        *least = ns;
}

/* The best of some rounds, on data that stays in the cache. */
static cost measure(float small)
{
    enum { SIZE = 4096, ROUNDS = 300 };
    static double lanes[SIZE];
    static double other[SIZE];
    static float large_addend[SIZE];
    static float small_addend[SIZE];
    static float out[SIZE];
    cost least = {0};
    ls_exact *sums = NULL;

    for (int i = 0; i < SIZE; i++) {
        large_addend[i] = 0x1.234p40f;
        small_addend[i] = small;
        other[i] = (double)small;
    }
    assert_ok(ls_exact_open(&sums, SIZE, lanes));
    for (int i = 0; i < ROUNDS; i++) {
        ls_exact_add(sums, 0, large_addend, SIZE);
        double start = ls__clock_seconds();
        ls_exact_add(sums, 0, small_addend, SIZE);
        keep_least(&least.add, start, SIZE);
        start = ls__clock_seconds();
        ls_exact_combine(sums, 0, other, SIZE);
        keep_least(&least.combine, start, SIZE);
        start = ls__clock_seconds();
        ls_exact_round(sums, 0, SIZE, 3, out);
        keep_least(&least.round, start, SIZE);
        start = ls__clock_seconds();
        ls_exact_reset(sums);
        keep_least(&least.reset, start, SIZE);
    }
    ls_exact_close(sums);
    return least;
}

static void test_what_it_costs(void **state)
{
    cost without = measure(0x1p20f);
    cost with = measure(0x1.234p-40f);

    (void)state;
    ls__figure("exact sum, ns an element in cache, no spill: add %.2f, combine %.2f, round %.2f, "
               "reset %.2f",
               without.add, without.combine, without.round, without.reset);
    ls__figure("exact sum, ns an element in cache, every element spills: add %.2f, combine %.2f, "
               "round %.2f, reset %.2f",
               with.add, with.combine, with.round, with.reset);
}

/* ---- the machine ---- */

static void test_rounding_modes_are_refused(void **state)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

    (void)state;
    assert_ok(ls_exact_check_machine());
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        ls_status status;

        assert_int_equal(fesetround(modes[i]), 0);
        status = ls_exact_check_machine();
        fesetround(FE_TONEAREST);
        assert_fails(status, LS_BAD_INPUT, "round to nearest");
    }
    assert_ok(ls_exact_check_machine());
}

#if defined(__SSE__)
/* The control register's bits for flush to zero, denormals are zero, and rounding up; the last is
 * what fegetround does not see. */
static void test_flushed_subnormals_are_refused(void **state)
{
    static const struct {
        unsigned bits;
        const char *says;
    } modes[] = {{0x8000, "FTZ"}, {0x0040, "DAZ"}, {0x8040, "DAZ"}, {0x4000, "round to nearest"}};
    unsigned before = _mm_getcsr();

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        ls_status status;

        _mm_setcsr(before | modes[i].bits);
        status = ls_exact_check_machine();
        _mm_setcsr(before);
        assert_fails(status, LS_BAD_INPUT, modes[i].says);
    }
    assert_ok(ls_exact_check_machine());
}
#else
static void test_flushed_subnormals_are_refused(void **state)
{
    (void)state;
    skip();
}
#endif

#define WITH_SUMS(test) cmocka_unit_test_setup_teardown(test, open_sums, close_sums)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SUMS(test_a_spill_at_each_element),
        WITH_SUMS(test_export_piecewise),
        WITH_SUMS(test_reset_forgets),
        WITH_SUMS(test_as_many_addends_as_allowed),
        WITH_SUMS(test_damaged_records_are_refused),
        WITH_SUMS(test_damaged_lanes_become_nan),
        cmocka_unit_test(test_no_element_and_one),
        WITH_SUMS(test_nonfinite_sums_know_no_order),
        WITH_SUMS(test_nonfinite_are_counted),
        cmocka_unit_test(test_memory_follows_spills),
        cmocka_unit_test(test_what_it_costs),
        cmocka_unit_test(test_rounding_modes_are_refused),
        cmocka_unit_test(test_flushed_subnormals_are_refused),
    };

    seed = ls__test_seed(40);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
