#include "exact/two_sum.h"

#include <float.h>
#include <math.h>

#if FLT_EVAL_METHOD != 0
#error "doubles are computed in another precision, which breaks TwoSum: build with SSE2 arithmetic"
#endif

/* Stores the sum and returns its error: lockstep/exact.h has the formula. */
static inline double two_sum(double *lane, double b)
{
    double a = *lane;
    double s = a + b;
    double bb = s - a;

    *lane = s;
    return (a - (s - bb)) + (b - bb);
}

bool ls__two_sum_float(double *restrict lane, double *restrict error, const float *restrict addend,
                       int64_t count)
{
    int64_t spilt = 0;

    for (int64_t i = 0; i < count; i++) {
        error[i] = two_sum(&lane[i], (double)addend[i]);
        spilt |= fabs(error[i]) > 0;
    }
    return spilt;
}

bool ls__two_sum_double(double *restrict lane, double *restrict error,
                        const double *restrict addend, int64_t count)
{
    int64_t spilt = 0;

    for (int64_t i = 0; i < count; i++) {
        error[i] = two_sum(&lane[i], addend[i]);
        spilt |= fabs(error[i]) > 0;
    }
    return spilt;
}
