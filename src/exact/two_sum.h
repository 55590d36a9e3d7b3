/* TwoSum over a few elements, and its first step, vectorised. */
#ifndef LS_EXACT_TWO_SUM_H
#define LS_EXACT_TWO_SUM_H

#include <stdbool.h>
#include <stdint.h>

/* lane[i] + addend[i] = new lane[i] + error[i], exactly; an error is NaN where the new lane is
 * infinite or NaN. False where all errors are 0. The arrays do not overlap. */
bool ls__two_sum_float(double *lane, double *error, const float *addend, int64_t count);
bool ls__two_sum_double(double *lane, double *error, const double *addend, int64_t count);

/* lane[i] = 0 + addend[i] for LS_EXACT_BLOCK elements: what adding to zeros gives, -0 becoming +0.
 */
void ls__store_float(double *lane, const float *addend);

#endif
