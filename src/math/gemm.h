/* Matrix products: FP32 by OpenBLAS, attention's and BF16 by oneDNN. gemm.c is the only file of the
 * project that includes cblas.h, gemm_onednn.c the only one that includes dnnl.h.
 *
 * The bits of a product depend on its shape, on the BLAS core type (for oneDNN: on the instruction
 * set) and on the number of BLAS threads, and on nothing else (not on alignment, measured). So a
 * caller that wants the same bits twice asks for the same shape twice, and the libraries run one
 * thread a call. All functions may be called from any thread of ls__threads_run. */
#ifndef LS_MATH_GEMM_H
#define LS_MATH_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"
#include "math/format.h"

typedef enum ls__op {
    LS__AS_IS,
    LS__TRANSPOSED,
} ls__op;

/* C = alpha op(A) op(B) + beta C, all row-major: C is (m, n) with rows `ldc` apart, op(A) is (m, k)
 * and op(B) is (k, n). Sizes and strides are at most INT_MAX, which whoever builds a model checks.
 */
void ls__gemm(ls__op op_a, ls__op op_b, int64_t m, int64_t n, int64_t k, float alpha,
              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
              int64_t ldc);

/* A row-major matrix in any format, rows `stride` values apart. */
typedef struct ls__matrix {
    ls__values values;
    int64_t stride;
    ls__op op; /* how it is to be read */
} ls__matrix;

/* op(X) from a row and a column on. */
static inline ls__matrix ls__matrix_from(ls__matrix x, int64_t row, int64_t column)
{
    int64_t offset = x.op == LS__TRANSPOSED ? column * x.stride + row : row * x.stride + column;

    return (ls__matrix){ls__from(x.values, offset), x.stride, x.op};
}

/* Products that are widened are cut into tiles of so many rows and columns, and those into blocks
 * of so much depth. */
enum { LS__PRODUCT_ROWS = 256, LS__PRODUCT_COLUMNS = 512, LS__PRODUCT_DEPTH = 1024 };

/* Floats of scratch that products of a format take on this machine. */
int64_t ls__product_scratch(ls__format format);

/* C (m, n) = op(A) (m, k) op(B) (k, n) + bias, or added to C where `adds` (then without bias). A
 * and B have one format; C has it too, or is FP32, and is read as it is. Accumulates in FP32, and
 * rounds to C's format once. BF16 products are oneDNN's where the processor has instructions for
 * them; all others, and FP16, are widened piece by piece for FP32 products. */
void ls__product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                 const float *bias, /* (n), or NULL for none */
                 bool adds, float *scratch /* (ls__product_scratch of the format) */);

/* The same for attention's products, of which one dimension is small. FP32 ones are oneDNN's where
 * it has kernels for the processor: OpenBLAS packs whole operands for little work. (Per core, of 32
 * x 128 x 64: 200 against 130 GFLOP/s with AVX-512 kernels, 94 with AVX2.) */
void ls__small_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                       bool adds, float *scratch);

/* Floating-point operations of all products so far, 2 m n k each. */
int64_t ls__gemm_flops(void);

/* Sets one BLAS thread in this process and lets the libraries set themselves up, so that what they
 * take for that is not counted as a run's. Call it once, before the first product. */
void ls__gemm_start(void);

/* LS_NO_MEMORY where oneDNN failed in a product since the start: the results are NaN. */
ls_status ls__gemm_failed(void);

/* The core type that OpenBLAS selected ("Zen", "SkylakeX"); static storage. */
const char *ls__gemm_core(void);

/* What computes products of a format on this machine, for people; static storage. */
const char *ls__gemm_engine(ls__format format);

/* What computes FP32 products of attention; static storage. */
const char *ls__gemm_small_engine(void);

/* The library's own description of its build; static storage. */
const char *ls__gemm_library(void);

#endif
