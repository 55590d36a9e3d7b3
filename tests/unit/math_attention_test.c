/* What is peculiar to attention: strips of rows, threads, and values that are not FP32. That it is
 * attention, and its gradient, on small shapes: math_ops_test.c and math_gradient_test.c. */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "math/gemm.h"
#include "math/ops.h"
#include "math/ref.h"
#include "support/tensor.h"
#include "support/test.h"

enum { STRIP = LS__ATTENTION_STRIP };

typedef struct shape {
    int64_t batch, T, heads, width; /* of a head */
    double rate;                    /* of dropout */
} shape;

/* At, below and beyond whole strips; heads that fill no lanes, and one that is a vector's width. */
static const shape shapes[] = {
    {2, 1, 2, 64, 0},
    {1, 2, 1, 1, 0},
    {2, STRIP - 1, 1, 5, 0},
    {1, STRIP, 2, 64, 0},
    {1, STRIP + 1, 2, 5, 0},
    {1, 3 * STRIP, 1, 1, 0},
    {1, 2 * STRIP + 9, 2, 33, 0},
    {1, 37, 1, 8, 0.4},
    {1, 300, 1, 64, 0},
    {1, 300, 2, 5, 0.2},
    {2, STRIP + 17, 2, 16, 0.3},
    {2, 64, 4, 32, 0},
    {1, 1, 1, 1, 0.5},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const uint64_t keys[] = {77, 0x123456789abcdef};

static int64_t outputs(const shape *s)
{
    return s->batch * s->T * s->heads * s->width;
}

static int64_t statistics_count(const shape *s)
{
    return 2 * s->batch * s->heads * s->T;
}

static ls__attention_dropout dropout_of(const shape *s)
{
    return (ls__attention_dropout){.rate = s->rate, .key = keys};
}

/* ---- inputs, and what attention makes of them ---- */

static ls__values new_values(ls__format format, int64_t count)
{
    return (ls__values){ls__test_floats(count), format};
}

static double *widened(ls__values values, int64_t count)
{
    float *x = ls__test_floats(count);

    ls__widen(x, values, count);
    return ls__to_doubles(x, count);
}

static ls__values random_values(ls__format format, int64_t count)
{
    ls__values values = new_values(format, count);

    ls__narrow(values, ls__to_floats(ls__random_doubles(count, 1), count), count);
    return values;
}

typedef struct tensors {
    ls__values qkv, d_out, out, d_qkv;
    float *statistics;
} tensors;

static tensors random_inputs(ls__format format, const shape *s)
{
    return (tensors){.qkv = random_values(format, 3 * outputs(s)),
                     .d_out = random_values(format, outputs(s))};
}

/* On the same inputs, into outputs of its own. What scratch and outputs hold before is not a
 * number: nobody may read it. */
static tensors run(tensors t, const shape *s)
{
    ls__format format = t.qkv.format;
    int64_t floats = ls__attention_scratch(format, s->T, s->width);
    ls__scratch scratch = {.at = ls__test_floats(ls__threads_count() * floats), .floats = floats};

    t.out = new_values(format, outputs(s));
    t.d_qkv = new_values(format, 3 * outputs(s));
    t.statistics = ls__test_floats(statistics_count(s));
    memset(scratch.at, 0xff, (size_t)(ls__threads_count() * floats) * sizeof(float));
    memset(t.out.at, 0xff, (size_t)(outputs(s) * ls__value_bytes(format)));
    memset(t.d_qkv.at, 0xff, (size_t)(3 * outputs(s) * ls__value_bytes(format)));
    ls__attention_forward(t.out, t.statistics, t.qkv, s->batch, s->T, s->heads, s->width,
                          dropout_of(s), scratch);
    memset(scratch.at, 0xff, (size_t)(ls__threads_count() * floats) * sizeof(float));
    ls__attention_backward(t.d_qkv, t.d_out, t.qkv, t.statistics, s->batch, s->T, s->heads,
                           s->width, dropout_of(s), scratch);
    assert_ok(ls__gemm_failed());
    return t;
}

/* ---- against the reference ---- */

/* Relative to the size of the gradients of q, k and v in common: with one row in a strip that of q
 * is zero. */
static double worst_error(const tensors *t, const shape *s)
{
    int64_t count = outputs(s);
    double *qkv = widened(t->qkv, 3 * count);
    double *d_out = widened(t->d_out, count);
    double *out = ls__doubles(count);
    double *d_qkv = ls__doubles(3 * count);
    double *att = ls__doubles(s->batch * s->heads * s->T * s->T);

    ls__ref_attention_forward(out, att, qkv, s->batch, s->T, s->heads, s->width, dropout_of(s));
    ls__ref_attention_backward(d_qkv, d_out, qkv, att, s->batch, s->T, s->heads, s->width,
                               dropout_of(s));
    return fmax(ls__relative_error(widened(t->out, count), out, count),
                ls__relative_error(widened(t->d_qkv, 3 * count), d_qkv, 3 * count));
}

/* In the reduced formats, weights, gradients of scores and results are rounded, each by at most
 * half the format's spacing: three roundings in a row at the most. */
static double tolerance_of(ls__format format)
{
    static const double half_spacing[] = {
        [LS__F32] = 0x1p-24, [LS__BF16] = 0x1p-9, [LS__F16] = 0x1p-12};

    return format == LS__F32 ? 1e-4 : 3 * half_spacing[format];
}

static void check_against_reference(ls__format format)
{
    double worst = 0;

    ls__seed_tensors(ls__test_seed(20240520));
    for (int i = 0; i < SHAPES; i++) {
        tensors t = run(random_inputs(format, &shapes[i]), &shapes[i]);

        worst = fmax(worst, worst_error(&t, &shapes[i]));
        ls__free_tensors(NULL);
    }
    ls__figure("attention in %s (%s) against FP64: %.1e, of %.1e allowed", ls__format_name(format),
               format == LS__F32 ? ls__gemm_small_engine() : ls__gemm_engine(format), worst,
               tolerance_of(format));
    assert_true(worst < tolerance_of(format));
}

static void test_against_reference(void **state)
{
    (void)state;
    check_against_reference(LS__F32);
    check_against_reference(LS__BF16);
    check_against_reference(LS__F16);
}

/* A key or a value that the mask should hide changes nothing, and one that it should not does. */
static void test_later_rows_are_hidden(void **state)
{
    static const shape s = {1, 2 * STRIP + 20, 1, 8, 0};
    enum { CHANGED = STRIP + 5 };
    int64_t row = 3 * s.width;

    (void)state;
    ls__seed_tensors(ls__test_seed(20240521));
    tensors before = run(random_inputs(LS__F32, &s), &s);
    tensors after = before;
    after.qkv = ls__floats(ls__test_floats(3 * outputs(&s)));
    memcpy(after.qkv.at, before.qkv.at, (size_t)(3 * outputs(&s)) * sizeof(float));
    for (int64_t i = s.width; i < row; i++)
        ((float *)after.qkv.at)[CHANGED * row + i] += 1;
    after = run(after, &s);
    for (int64_t t = 0; t < s.T; t++) {
        bool same =
            memcmp(ls__from(after.out, t * s.width).at, ls__from(before.out, t * s.width).at,
                   (size_t)s.width * sizeof(float)) == 0;
        assert_true(same == (t < CHANGED));
    }
}

/* ---- bits ---- */

static bool same_values(ls__values a, ls__values b, int64_t count)
{
    return memcmp(a.at, b.at, (size_t)(count * ls__value_bytes(a.format))) == 0;
}

static bool same_bits(const tensors *a, const tensors *b, const shape *s)
{
    return same_values(a->out, b->out, outputs(s)) &&
           same_values(a->d_qkv, b->d_qkv, 3 * outputs(s)) &&
           memcmp(a->statistics, b->statistics, (size_t)statistics_count(s) * sizeof(float)) == 0;
}

static void check_threads(ls__format format)
{
    static const shape s = {2, STRIP + 30, 3, 20, 0.1};
    static const int counts[] = {2, 3, 5, 1};
    tensors first = run(random_inputs(format, &s), &s);

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        assert_ok(ls__threads_start(counts[i]));
        for (int repeat = 0; repeat < 5; repeat++) {
            tensors again = run(first, &s);
            assert_true(same_bits(&again, &first, &s));
        }
    }
    /* The control: one value a little different. */
    float element;
    ls__values one = ls__from(first.qkv, 3 * outputs(&s) / 2);
    ls__widen(&element, one, 1);
    element *= 1.0625f;
    ls__narrow(one, &element, 1);
    tensors other = run(first, &s);
    assert_false(same_bits(&other, &first, &s));
}

static void test_same_bits_at_any_number_of_threads(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240522));
    check_threads(LS__F32);
    check_threads(LS__BF16);
    check_threads(LS__F16);
}

/* ---- sizes ---- */

static void test_scratch_never_shrinks_with_the_length(void **state)
{
    (void)state;
    for (ls__format format = LS__F32; format <= LS__F16; format++)
        for (int64_t T = 1; T < 300; T++)
            assert_true(ls__attention_scratch(format, T + 1, 24) >=
                        ls__attention_scratch(format, T, 24));
    /* Strips, not the matrix. */
    assert_true(ls__attention_scratch(LS__F32, 4096, 64) < 4096 * 4096 / 16);
}

/* Two products forward and five backward, of a strip's rows with the columns that it reaches. */
static void test_operations(void **state)
{
    (void)state;
    ls__seed_tensors(ls__test_seed(20240523));
    for (int i = 0; i < SHAPES; i++) {
        const shape *s = &shapes[i];
        int64_t strip = STRIP;
        int64_t elements = 0;
        int64_t before = ls__gemm_flops();

        for (int64_t first = 0; first < s->T; first += strip) {
            int64_t rows = s->T - first < strip ? s->T - first : strip;
            elements += rows * (first + rows);
        }
        run(random_inputs(LS__F32, s), s);
        assert_int_equal(ls__gemm_flops() - before,
                         7 * 2 * elements * s->width * s->heads * s->batch);
        ls__free_tensors(NULL);
    }
}

static int start_gemm(void **state)
{
    (void)state;
    ls__gemm_start();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_against_reference, ls__free_tensors),
        cmocka_unit_test_teardown(test_later_rows_are_hidden, ls__free_tensors),
        cmocka_unit_test_teardown(test_same_bits_at_any_number_of_threads, ls__free_tensors),
        cmocka_unit_test(test_scratch_never_shrinks_with_the_length),
        cmocka_unit_test_teardown(test_operations, ls__free_tensors),
    };

    return cmocka_run_group_tests(tests, start_gemm, NULL);
}
