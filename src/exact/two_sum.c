#include "exact/two_sum.h"

#include <float.h>
#include <string.h>

#include "lockstep/exact.h"

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

/* To gather errors by one instruction each: all were 0 if no bit but the sign is in any. */
static inline uint64_t bits_of(double error)
{
    uint64_t bits;

    memcpy(&bits, &error, sizeof bits);
    return bits;
}

static bool any_but_zero(uint64_t bits)
{
    return bits << 1 != 0;
}

bool ls__two_sum_float(double *restrict lane, double *restrict error, const float *restrict addend,
                       int64_t count)
{
    uint64_t bits = 0;

    for (int64_t i = 0; i < count; i++) {
        error[i] = two_sum(&lane[i], (double)addend[i]);
        bits |= bits_of(error[i]);
    }
    return any_but_zero(bits);
}

bool ls__two_sum_double(double *restrict lane, double *restrict error,
                        const double *restrict addend, int64_t count)
{
    uint64_t bits = 0;

    for (int64_t i = 0; i < count; i++) {
        error[i] = two_sum(&lane[i], addend[i]);
        bits |= bits_of(error[i]);
    }
    return any_but_zero(bits);
}

void ls__store_float(double *restrict lane, const float *restrict addend)
{
    for (int i = 0; i < LS_EXACT_BLOCK; i++)
        lane[i] = 0.0 + (double)addend[i];
}
