/* Matrix products, by OpenBLAS. The only file of the project that includes cblas.h is gemm.c.
 *
 * The bits of a product depend on its shape, on the BLAS core type and on the number of BLAS
 * threads, and on nothing else (not on alignment, measured). So a caller that wants the same bits
 * twice asks for the same shape twice, and BLAS runs one thread a call. */
#ifndef LS_MATH_GEMM_H
#define LS_MATH_GEMM_H

#include <stdint.h>

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

/* Floating-point operations of all products so far, 2 m n k each. */
int64_t ls__gemm_flops(void);

/* Sets one BLAS thread in this process. Call it once, before the first product. */
void ls__gemm_start(void);

/* The core type that OpenBLAS selected ("Zen", "SkylakeX"); static storage. */
const char *ls__gemm_core(void);

/* The library's own description of its build; static storage. */
const char *ls__gemm_library(void);

#endif
