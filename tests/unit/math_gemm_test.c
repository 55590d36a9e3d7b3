/* GEMM against a triple loop in FP64, with every transposition, strides wider than the rows, alpha
 * and beta. */
#include <math.h>
#include <string.h>

#include "math/gemm.h"
#include "support/tensor.h"
#include "support/test.h"

enum { GAP = 3 }; /* by which a stride exceeds its row */

/* Element (row, column) of op(x). */
static double element(const double *x, ls__op op, int64_t stride, int64_t row, int64_t column)
{
    return op == LS__TRANSPOSED ? x[column * stride + row] : x[row * stride + column];
}

static void check(ls__op op_a, ls__op op_b, int64_t m, int64_t n, int64_t k, float alpha,
                  float beta)
{
    int64_t lda = (op_a == LS__TRANSPOSED ? m : k) + GAP;
    int64_t ldb = (op_b == LS__TRANSPOSED ? k : n) + GAP;
    int64_t ldc = n + GAP;
    double *a = ls__random_doubles(lda * (m > k ? m : k), 1);
    double *b = ls__random_doubles(ldb * (n > k ? n : k), 1);
    double *c = ls__random_doubles(ldc * m, 1);
    float *result = ls__to_floats(c, ldc * m);

    ls__gemm(op_a, op_b, m, n, k, alpha, ls__to_floats(a, lda * (m > k ? m : k)), lda,
             ls__to_floats(b, ldb * (n > k ? n : k)), ldb, beta, result, ldc);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t p = 0; p < k; p++)
                sum += element(a, op_a, lda, i, p) * element(b, op_b, ldb, p, j);
            c[i * ldc + j] = (double)alpha * sum + (double)beta * c[i * ldc + j];
        }
    /* The gaps take part: they must be as they were. */
    assert_true(ls__relative_error(ls__to_doubles(result, ldc * m), c, ldc * m) < 1e-6);
    ls__free_tensors(NULL);
}

static void test_against_triple_loop(void **state)
{
    static const ls__op ops[] = {LS__AS_IS, LS__TRANSPOSED};
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {17, 1, 33}, {64, 65, 32}};

    (void)state;
    ls__seed_tensors(ls__test_seed(20240509));
    for (int i = 0; i < 4; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            check(ops[i / 2], ops[i % 2], sizes[s][0], sizes[s][1], sizes[s][2], 1, 0);
            check(ops[i / 2], ops[i % 2], sizes[s][0], sizes[s][1], sizes[s][2], -0.5f, 2);
        }
}

/* What a beta of 0 finds in C, even a NaN, does not count. */
static void test_beta_zero_overwrites(void **state)
{
    float a[] = {2};
    float b[] = {3};
    float c[] = {NAN};

    (void)state;
    ls__gemm(LS__AS_IS, LS__AS_IS, 1, 1, 1, 1, a, 1, b, 1, 0, c, 1);
    assert_true(c[0] == 6);
}

static void test_library_says_what_it_is(void **state)
{
    (void)state;
    assert_true(strlen(ls__gemm_core()) > 0);
    ls__figure("%s, core %s", ls__gemm_library(), ls__gemm_core());
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
        cmocka_unit_test_teardown(test_against_triple_loop, ls__free_tensors),
        cmocka_unit_test(test_beta_zero_overwrites),
        cmocka_unit_test(test_library_says_what_it_is),
    };

    return cmocka_run_group_tests(tests, start_gemm, NULL);
}
