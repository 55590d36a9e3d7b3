#include "math/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/profile.h"
#include "base/threads.h"
#include "math/gemm_onednn.h"

static atomic_llong flops;

static bool fits(int64_t size)
{
    return size >= 0 && size <= INT_MAX;
}

static CBLAS_TRANSPOSE transposition(ls__op op)
{
    return op == LS__TRANSPOSED ? CblasTrans : CblasNoTrans;
}

static double product_begins(int64_t m, int64_t n, int64_t k)
{
    atomic_fetch_add_explicit(&flops, 2 * m * n * k, memory_order_relaxed);
    return ls__profile && ls__threads_index() == 0 ? ls__clock_seconds() : 0;
}

static void product_ends(double began)
{
    if (ls__profile && ls__threads_index() == 0)
        ls__profile_product(began);
}

void ls__gemm(ls__op op_a, ls__op op_b, int64_t m, int64_t n, int64_t k, float alpha,
              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
              int64_t ldc)
{
    double began = product_begins(m, n, k);

    assert(fits(m) && fits(n) && fits(k) && fits(lda) && fits(ldb) && fits(ldc));
    cblas_sgemm(CblasRowMajor, transposition(op_a), transposition(op_b), (int)m, (int)n, (int)k,
                alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
    product_ends(began);
}

/* ---- products of any format ---- */

/* The block of X that op(X)'s rows .. and columns .. are, as X has it: FP32, without gaps. Returns
 * its stride. */
static int64_t widen_block(float *out, ls__matrix x, int64_t row, int64_t column, int64_t rows,
                           int64_t columns)
{
    bool turned = x.op == LS__TRANSPOSED;
    int64_t count = turned ? columns : rows;
    int64_t length = turned ? rows : columns;
    ls__values from = ls__matrix_from(x, row, column).values;

    for (int64_t r = 0; r < count; r++)
        ls__widen(out + r * length, ls__from(from, r * x.stride), length);
    return length;
}

/* What a tile's products are added to. */
static void fill_tile(float *tile, ls__matrix c, int64_t row, int64_t column, int64_t rows,
                      int64_t columns, const float *bias, bool adds)
{
    for (int64_t r = 0; r < rows; r++) {
        float *to = tile + r * columns;

        if (adds)
            ls__widen(to, ls__from(c.values, (row + r) * c.stride + column), columns);
        else if (bias)
            memcpy(to, bias + column, (size_t)columns * sizeof *to);
        else
            memset(to, 0, (size_t)columns * sizeof *to);
    }
}

static int64_t less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void widened_tile(ls__matrix c, ls__matrix a, ls__matrix b, int64_t row, int64_t column,
                         int64_t rows, int64_t columns, int64_t k, const float *bias, bool adds,
                         float *scratch)
{
    float *left = scratch;
    float *right = left + LS__PRODUCT_ROWS * LS__PRODUCT_DEPTH;
    float *tile = right + LS__PRODUCT_COLUMNS * LS__PRODUCT_DEPTH;

    fill_tile(tile, c, row, column, rows, columns, bias, adds);
    for (int64_t at = 0; at < k; at += LS__PRODUCT_DEPTH) {
        int64_t depth = less(k - at, LS__PRODUCT_DEPTH);
        int64_t lda = widen_block(left, a, row, at, rows, depth);
        int64_t ldb = widen_block(right, b, at, column, depth, columns);

        ls__gemm(a.op, b.op, rows, columns, depth, 1, left, lda, right, ldb, 1, tile, columns);
    }
    for (int64_t r = 0; r < rows; r++)
        ls__narrow(ls__from(c.values, (row + r) * c.stride + column), tile + r * columns, columns);
}

static void widened_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n,
                            int64_t k, const float *bias, bool adds, float *scratch)
{
    for (int64_t row = 0; row < m; row += LS__PRODUCT_ROWS)
        for (int64_t column = 0; column < n; column += LS__PRODUCT_COLUMNS)
            widened_tile(c, a, b, row, column, less(m - row, LS__PRODUCT_ROWS),
                         less(n - column, LS__PRODUCT_COLUMNS), k, bias, adds, scratch);
}

/* The product is added to the bias rather than the bias to it: one pass over C less. */
static void float_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                          const float *bias, bool adds)
{
    float *out = c.values.at;

    for (int64_t r = 0; bias && r < m; r++)
        memcpy(out + r * c.stride, bias, (size_t)n * sizeof *out);
    ls__gemm(a.op, b.op, m, n, k, 1, a.values.at, a.stride, b.values.at, b.stride,
             bias || adds ? 1 : 0, out, c.stride);
}

int64_t ls__product_scratch(ls__format format)
{
    if (format == LS__F32 || (format == LS__BF16 && ls__bf16_native()))
        return 0;
    return (LS__PRODUCT_ROWS + LS__PRODUCT_COLUMNS) * LS__PRODUCT_DEPTH +
           LS__PRODUCT_ROWS * LS__PRODUCT_COLUMNS;
}

void ls__product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                 const float *bias, bool adds, float *scratch)
{
    assert(a.values.format == b.values.format && c.op == LS__AS_IS && !(bias && adds));
    assert(c.values.format == a.values.format || c.values.format == LS__F32);
    if (a.values.format == LS__F32) {
        float_product(c, a, b, m, n, k, bias, adds);
    } else if (a.values.format == LS__BF16 && ls__bf16_native()) {
        double began = product_begins(m, n, k);

        ls__bf16_product(c, a, b, m, n, k, bias, adds);
        product_ends(began);
    } else {
        widened_product(c, a, b, m, n, k, bias, adds, scratch);
    }
}

void ls__small_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                       bool adds, float *scratch)
{
    if (a.values.format != LS__F32 || !ls__onednn_native()) {
        ls__product(c, a, b, m, n, k, NULL, adds, scratch);
        return;
    }
    double began = product_begins(m, n, k);
    ls__onednn_product(c, a, b, m, n, k, adds);
    product_ends(began);
}

int64_t ls__gemm_flops(void)
{
    return flops;
}

/* What a library sets up for itself at its first product: OpenBLAS its buffers, oneDNN the kernels
 * that it compiles. */
static void multiply_once(void)
{
    enum { SIDE = 16 };
    static const ls__op ops[] = {LS__AS_IS, LS__TRANSPOSED};
    float x[SIDE * SIDE] = {0};
    float out[SIDE * SIDE];
    ls__matrix c = {ls__floats(out), SIDE, LS__AS_IS};

    for (int i = 0; i < 4; i++) {
        ls__matrix a = {ls__floats(x), SIDE, ops[i / 2]};
        ls__matrix b = {ls__floats(x), SIDE, ops[i % 2]};

        ls__product(c, a, b, SIDE, SIDE, SIDE, NULL, false, NULL);
        ls__small_product(c, a, b, SIDE, SIDE, SIDE, false, NULL);
    }
}

void ls__gemm_start(void)
{
    openblas_set_num_threads(1);
    multiply_once();
}

const char *ls__gemm_core(void)
{
    return openblas_get_corename();
}

const char *ls__gemm_engine(ls__format format)
{
    if (format == LS__BF16 && ls__bf16_native())
        return ls__bf16_engine();
    return format == LS__F32 ? "OpenBLAS sgemm" : "widened panels, OpenBLAS sgemm";
}

const char *ls__gemm_small_engine(void)
{
    return ls__onednn_native() ? ls__onednn_isa() : "OpenBLAS sgemm";
}

const char *ls__gemm_library(void)
{
    return openblas_get_config();
}
