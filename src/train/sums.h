/* Sums of gradients, on all threads of ls__threads_run. The bits are those that one thread gives.
 */
#ifndef LS_TRAIN_SUMS_H
#define LS_TRAIN_SUMS_H

#include <stdint.h>

#include "lockstep/exact.h"

/* ls_exact_add, ls_exact_combine and ls_exact_round. */
void ls__sums_add(ls_exact *exact, int64_t offset, const float *addend, int64_t count);
void ls__sums_combine(ls_exact *exact, int64_t offset, const double *from, int64_t count);
void ls__sums_round(ls_exact *exact, int64_t offset, int64_t count, double divisor, float *out);

/* Of FP32 sums: sum[i] += addend[i], and sum[i] /= divisor. */
void ls__sums_add_floats(float *sum, const float *addend, int64_t count);
void ls__sums_divide_floats(float *sum, float divisor, int64_t count);

#endif
