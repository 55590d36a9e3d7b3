#include "math/gemm.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/profile.h"

static int64_t flops;

static bool fits(int64_t size)
{
    return size >= 0 && size <= INT_MAX;
}

static CBLAS_TRANSPOSE transposition(ls__op op)
{
    return op == LS__TRANSPOSED ? CblasTrans : CblasNoTrans;
}

void ls__gemm(ls__op op_a, ls__op op_b, int64_t m, int64_t n, int64_t k, float alpha,
              const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
              int64_t ldc)
{
    double began = ls__profile ? ls__clock_seconds() : 0;

    assert(fits(m) && fits(n) && fits(k) && fits(lda) && fits(ldb) && fits(ldc));
    flops += 2 * m * n * k;
    cblas_sgemm(CblasRowMajor, transposition(op_a), transposition(op_b), (int)m, (int)n, (int)k,
                alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
    if (ls__profile)
        ls__profile_product(began);
}

int64_t ls__gemm_flops(void)
{
    return flops;
}

void ls__gemm_start(void)
{
    openblas_set_num_threads(1);
}

const char *ls__gemm_core(void)
{
    return openblas_get_corename();
}

const char *ls__gemm_library(void)
{
    return openblas_get_config();
}
