/* Products by oneDNN, for gemm.c. */
#ifndef LS_MATH_GEMM_ONEDNN_H
#define LS_MATH_GEMM_ONEDNN_H

#include "math/gemm.h"

/* Whether this processor multiplies BF16 by itself (AVX512-BF16 or AMX), as oneDNN sees it. */
bool ls__bf16_native(void);

/* What computes them, for people; static storage. */
const char *ls__bf16_engine(void);

/* As ls__product, for BF16 A and B on a processor where ls__bf16_native(). */
void ls__bf16_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                      const float *bias, bool adds);

/* Whether oneDNN has FP32 kernels for this processor (AVX2 and above), and which, for people. */
bool ls__onednn_native(void);
const char *ls__onednn_isa(void);

/* FP32: C (m, n) = op(A) op(B), or added to C. */
void ls__onednn_product(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                        bool adds);

#endif
