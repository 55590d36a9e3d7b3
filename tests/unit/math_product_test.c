/* Products of stored values against sums in FP64, within what FP32 sums and one rounding may lose:
 * every transposition, format and way to begin, odd sizes, strides wider than the rows. Bits that
 * do not depend on where the matrices lie, nor on the thread. All of it once more in a child
 * process whose oneDNN is held to AVX2, where BF16 products are widened. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/threads.h"
#include "math/gemm.h"
#include "support/process.h"
#include "support/test.h"

enum { GAP = 3, ALIGNED = 64, THREADS = 3 };

static const char child_variable[] = "LOCKSTEP_TEST_WIDENS";

static uint64_t seed;
static uint64_t drawn;

static float draw(void)
{
    return (float)ls__normal(seed, LS__STREAM_SAMPLE, drawn++);
}

static void *memory(int64_t bytes)
{
    void *at = aligned_alloc(ALIGNED, (size_t)(bytes / ALIGNED + 2) * ALIGNED);

    assert_non_null(at);
    return at;
}

/* ---- matrices ---- */

/* A matrix (rows, columns) as it is read, and what it holds. */
typedef struct operand {
    ls__matrix matrix;
    double *value; /* (rows, columns) */
    int64_t rows, columns;
    void *block;  /* what to free */
    int64_t size; /* values in memory, gaps included */
} operand;

static void put(ls__values values, int64_t index, float x)
{
    ls__narrow(ls__from(values, index), &x, 1);
}

static double get(ls__values values, int64_t index)
{
    float x;

    ls__widen(&x, ls__from(values, index), 1);
    return (double)x;
}

static int64_t place_of(const operand *o, int64_t row, int64_t column)
{
    return o->matrix.op == LS__TRANSPOSED ? column * o->matrix.stride + row
                                          : row * o->matrix.stride + column;
}

/* Random values; NaN in the gaps, which nobody may read. `shift` values from where it is aligned.
 */
static operand make(ls__format format, ls__op op, int64_t rows, int64_t columns, int64_t shift)
{
    int64_t count = op == LS__TRANSPOSED ? columns : rows;
    int64_t length = op == LS__TRANSPOSED ? rows : columns;
    operand o = {.rows = rows, .columns = columns, .size = count * (length + GAP)};

    o.block = memory((o.size + shift) * 4);
    o.matrix = (ls__matrix){ls__from((ls__values){o.block, format}, shift), length + GAP, op};
    o.value = memory(rows * columns * (int64_t)sizeof(double));
    for (int64_t i = 0; i < o.size; i++)
        put(o.matrix.values, i, NAN);
    for (int64_t i = 0; i < rows * columns; i++) {
        int64_t at = place_of(&o, i / columns, i % columns);
        put(o.matrix.values, at, draw());
        o.value[i] = get(o.matrix.values, at);
    }
    return o;
}

static void drop(operand *o)
{
    free(o->block);
    free(o->value);
}

static float *scratch_for(ls__format format)
{
    return memory(ls__product_scratch(format) * (int64_t)sizeof(float));
}

/* ---- against FP64 ---- */

typedef struct shape {
    int64_t m, n, k;
} shape;

typedef enum beginning { NOTHING, BIAS, ADDS, BEGINNINGS } beginning;

/* Half a unit in the last place, relative, and half the smallest number. */
static double roundoff(ls__format format)
{
    return format == LS__BF16 ? 0x1p-8 : format == LS__F16 ? 0x1p-11 : 0;
}

static double half_smallest(ls__format format)
{
    return format == LS__F16 ? 0x1p-25 : 0;
}

/* The sum, and what it may be off by: `size` is the sum of all magnitudes. Each of k products and
 * k additions, and the bias, loses at most 2^-24 of a partial result, which is at most `size`
 * (N. Higham, Accuracy and Stability of Numerical Algorithms, 3.1); then comes the one rounding. */
static double reference(const operand *a, const operand *b, int64_t i, int64_t j, double start,
                        ls__format format, double *tolerance)
{
    int64_t k = a->columns;
    double sum = start;
    double size = fabs(start);

    for (int64_t p = 0; p < k; p++) {
        double product = a->value[i * k + p] * b->value[p * b->columns + j];
        sum += product;
        size += fabs(product);
    }
    double of_sum = 1.01 * (double)(k + 2) * 0x1p-24 * size;
    *tolerance = of_sum + roundoff(format) * (fabs(sum) + of_sum) + half_smallest(format);
    return sum;
}

/* Of the errors, in tolerances. */
typedef struct worst {
    double product;
    double control;
} worst;

static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* The control: as if partial sums were kept in 16 bits. */
static double sum_in_bf16(const operand *a, const operand *b, int64_t i, int64_t j, double start)
{
    double sum = start;

    for (int64_t p = 0; p < a->columns; p++) {
        uint16_t kept = 0;
        put((ls__values){&kept, LS__BF16}, 0,
            (float)(sum + a->value[i * a->columns + p] * b->value[p * b->columns + j]));
        sum = get((ls__values){&kept, LS__BF16}, 0);
    }
    return sum;
}

static void compare(const operand *a, const operand *b, const operand *c, const float *bias,
                    beginning begin, int64_t rows_apart, worst *w)
{
    ls__format format = c->matrix.values.format;

    for (int64_t i = 0; i < c->rows; i += rows_apart)
        for (int64_t j = 0; j < c->columns; j++) {
            double start = begin == BIAS   ? (double)bias[j]
                           : begin == ADDS ? c->value[i * c->columns + j]
                                           : 0;
            double tolerance = 0;
            double sum = reference(a, b, i, j, start, format, &tolerance);
            double found = get(c->matrix.values, place_of(c, i, j));

            w->product = larger(fabs(found - sum) / tolerance, w->product);
            if (format == LS__F32 && a->columns > 200 && j % 16 == 0)
                w->control =
                    larger(fabs(sum_in_bf16(a, b, i, j, start) - sum) / tolerance, w->control);
        }
}

static void check_gaps(const operand *c)
{
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t g = 0; g < GAP; g++)
            assert_true(isnan(get(c->matrix.values, place_of(c, i, c->columns) + g)));
}

/* One of all cases; `number` says which. */
static void check(shape s, ls__format format, int number, int64_t rows_apart, worst *w)
{
    ls__op op_a = number & 1 ? LS__TRANSPOSED : LS__AS_IS;
    ls__op op_b = number & 2 ? LS__TRANSPOSED : LS__AS_IS;
    ls__format out = number & 4 ? LS__F32 : format;
    beginning begin = (beginning)(number >> 3);
    operand a = make(format, op_a, s.m, s.k, number % 5);
    operand b = make(format, op_b, s.k, s.n, number % 7);
    operand c = make(out, LS__AS_IS, s.m, s.n, number % 3);
    float *bias = memory(s.n * (int64_t)sizeof *bias);
    float *scratch = scratch_for(format);

    for (int64_t j = 0; j < s.n; j++)
        bias[j] = draw();
    ls__product(c.matrix, a.matrix, b.matrix, s.m, s.n, s.k, begin == BIAS ? bias : NULL,
                begin == ADDS, scratch);
    compare(&a, &b, &c, bias, begin, rows_apart, w);
    check_gaps(&c);
    free(scratch);
    free(bias);
    drop(&a);
    drop(&b);
    drop(&c);
}

static const shape shapes[] = {{1, 1, 1},    {1, 257, 65},  {3, 17, 65},  {65, 3, 257},
                               {17, 1, 3},   {257, 65, 1},  {64, 64, 64}, {65, 65, 17},
                               {2, 31, 300}, {33, 129, 257}};

enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    CASES = 8 * BEGINNINGS, /* transpositions, formats of C, beginnings */
};

static void check_format(ls__format format)
{
    /* Over the borders of the tiles that are widened. */
    static const shape large = {LS__PRODUCT_ROWS + 1, LS__PRODUCT_COLUMNS + 9,
                                LS__PRODUCT_DEPTH + 7};
    worst w = {0};

    for (int i = 0; i < SHAPES; i++)
        for (int number = 0; number < CASES; number++)
            check(shapes[i], format, number, 1, &w);
    for (int number = 0; number < CASES; number += 5)
        check(large, format, number, LS__PRODUCT_ROWS / 2, &w);
    assert_ok(ls__gemm_failed());
    ls__figure("%s products, %s: off by at most %.2f of what they may be (control, sums in 16 "
               "bits: %.0f)",
               ls__format_name(format), ls__gemm_engine(format), w.product, w.control);
    assert_true(w.product <= 1);
    assert_true(w.control > 1);
}

static void test_f32(void **state)
{
    (void)state;
    check_format(LS__F32);
}

static void test_bf16(void **state)
{
    (void)state;
    check_format(LS__BF16);
}

static void test_f16(void **state)
{
    (void)state;
    check_format(LS__F16);
}

/* ---- the same bits ---- */

/* Products that each thread does by itself, of the same matrices. */
typedef struct repeats {
    const operand *a, *b;
    shape s;
    const float *bias;
    operand *c;      /* (repeats) */
    float **scratch; /* (threads) */
    int by[THREADS];
} repeats;

static void run_one(void *context, int64_t task, int thread)
{
    repeats *r = context;

    r->by[thread]++;
    ls__product(r->c[task].matrix, r->a->matrix, r->b->matrix, r->s.m, r->s.n, r->s.k, r->bias,
                false, r->scratch[thread]);
}

static void assert_same_bits(const operand *x, const operand *y)
{
    for (int64_t i = 0; i < x->rows; i++)
        assert_memory_equal(ls__from(x->matrix.values, i * x->matrix.stride).at,
                            ls__from(y->matrix.values, i * y->matrix.stride).at,
                            (size_t)(x->columns * ls__value_bytes(x->matrix.values.format)));
}

/* The same values, `shift` values from where memory is aligned. */
static operand move(const operand *o, int64_t shift)
{
    operand moved = *o;
    int64_t bytes = ls__value_bytes(o->matrix.values.format);

    moved.block = memory((o->size + shift) * bytes);
    moved.value = NULL;
    moved.matrix.values = ls__from((ls__values){moved.block, o->matrix.values.format}, shift);
    memcpy(moved.matrix.values.at, o->matrix.values.at, (size_t)(o->size * bytes));
    return moved;
}

static void check_alignment(shape s, ls__format format, int number)
{
    operand a = make(format, number & 1 ? LS__TRANSPOSED : LS__AS_IS, s.m, s.k, 0);
    operand b = make(format, number & 2 ? LS__TRANSPOSED : LS__AS_IS, s.k, s.n, 0);
    operand first = make(number & 4 ? LS__F32 : format, LS__AS_IS, s.m, s.n, 0);
    float *bias = memory(s.n * (int64_t)sizeof *bias);
    float *scratch = scratch_for(format);

    for (int64_t j = 0; j < s.n; j++)
        bias[j] = draw();
    for (int64_t shift = 0; shift < 40; shift += 1 + shift / 3) {
        operand left = move(&a, shift);
        operand right = move(&b, shift * 3 % 37);
        operand out = move(&first, shift * 7 % 33);

        ls__product(out.matrix, left.matrix, right.matrix, s.m, s.n, s.k, bias, false, scratch);
        if (shift == 0)
            memcpy(first.matrix.values.at, out.matrix.values.at,
                   (size_t)(first.size * ls__value_bytes(first.matrix.values.format)));
        assert_same_bits(&first, &out);
        drop(&left);
        drop(&right);
        drop(&out);
    }
    free(scratch);
    free(bias);
    drop(&a);
    drop(&b);
    drop(&first);
}

static void test_bits_do_not_depend_on_place(void **state)
{
    static const ls__format formats[] = {LS__F32, LS__BF16, LS__F16};

    (void)state;
    for (int f = 0; f < 3; f++)
        for (int number = 0; number < 8; number++)
            for (int i = 0; i < SHAPES; i++)
                check_alignment(shapes[i], formats[f], number);
}

static void check_threads(shape s, ls__format format)
{
    enum { REPEATS = 24 };
    operand a = make(format, LS__AS_IS, s.m, s.k, 1);
    operand b = make(format, LS__TRANSPOSED, s.k, s.n, 2);
    operand c[REPEATS];
    float *scratch[THREADS];
    repeats r = {.a = &a, .b = &b, .s = s, .c = c, .scratch = scratch};

    for (int i = 0; i < THREADS; i++)
        scratch[i] = scratch_for(format);
    for (int i = 0; i < REPEATS; i++)
        c[i] = make(format, LS__AS_IS, s.m, s.n, i);
    run_one(&r, 0, 0);
    ls__threads_run(REPEATS, run_one, &r);
    for (int i = 1; i < REPEATS; i++)
        assert_same_bits(&c[0], &c[i]);
    for (int i = 0; i < REPEATS; i++)
        drop(&c[i]);
    for (int i = 0; i < THREADS; i++)
        free(scratch[i]);
    drop(&a);
    drop(&b);
}

static void test_bits_do_not_depend_on_the_thread(void **state)
{
    static const ls__format formats[] = {LS__F32, LS__BF16, LS__F16};

    (void)state;
    assert_ok(ls__threads_start(THREADS));
    for (int f = 0; f < 3; f++)
        for (int i = 0; i < SHAPES; i++)
            check_threads(shapes[i], formats[f]);
    assert_ok(ls__gemm_failed());
}

/* ---- without instructions for BF16 ---- */

static void test_widened_bf16(void **state)
{
    const char *words[] = {"/proc/self/exe", NULL};
    char self[LS__PATH_SIZE];
    char child[64];
    const char *env[] = {"ONEDNN_MAX_CPU_ISA=AVX2", child, NULL};
    ls__process p;

    (void)state;
    if (getenv(child_variable))
        return;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    words[0] = self;
    snprintf(child, sizeof child, "%s=1", child_variable);
    ls__process_run(&(ls__command){.argv = words, .env = env, .timeout_s = 240}, &p);
    assert_exit(p, 0);
    const char *figure = strstr(p.out, "bf16 products, widened panels");
    assert_non_null(figure);
    ls__figure("%.*s", (int)strcspn(figure, "\n"), figure);
    ls__process_free(&p);
}

static int start(void **state)
{
    (void)state;
    ls__gemm_start();
    seed = ls__test_seed(77);
    return 0;
}

static int end_threads(void **state)
{
    (void)state;
    return ls__threads_start(1) != LS_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bits_do_not_depend_on_place),
        cmocka_unit_test_teardown(test_bits_do_not_depend_on_the_thread, end_threads),
        cmocka_unit_test(test_widened_bf16),
    };

    return cmocka_run_group_tests(tests, start, NULL);
}
