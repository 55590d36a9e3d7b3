/* Tensors of tests: taken from a pool that a teardown empties, filled at random, compared,
 * differentiated numerically. */
#ifndef LS_TESTS_SUPPORT_TENSOR_H
#define LS_TESTS_SUPPORT_TENSOR_H

#include <stdint.h>

/* Zeroed memory of the pool, aligned to 64 bytes. */
double *ls__doubles(int64_t count);
float *ls__new_floats(int64_t count);
int32_t *ls__ints(int64_t count);

/* Empties the pool; the teardown of every test that uses it. */
int ls__free_tensors(void **state);

/* Starts the sequence of random tensors anew. */
void ls__seed_tensors(uint64_t seed);

/* Normal numbers times `scale`, of magnitude at least 0.01 scale, so that a difference does not
 * straddle the kink of ReLU; each is an FP32 number, so that both precisions see the same. */
double *ls__random_doubles(int64_t count, double scale);

/* Uniform on 0 .. bound-1. */
int32_t *ls__random_ints(int64_t count, int64_t bound);

float *ls__to_floats(const double *x, int64_t count);
double *ls__to_doubles(const float *x, int64_t count);

/* Euclidean norm of the difference over that of `expected`; the difference's norm itself where
 * `expected` is zero (below 1e-10). NaN where a NaN is in either. */
double ls__relative_error(const double *actual, const double *expected, int64_t count);

/* d loss / dx[0..count) by central differences at distances `step` and `step / 2`, extrapolated
 * (Richardson): the error falls with step^4. x is left as it was. */
double *ls__central_differences(double (*loss)(void *context), void *context, double *x,
                                int64_t count, double step);

#endif
