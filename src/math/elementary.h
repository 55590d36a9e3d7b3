/* exp and tanh in FP32, free of branches and calls, so that a loop over them is vectorised; the
 * same bits whatever the instruction set. They stand on round-to-nearest and on products that are
 * not fused into sums (-ffp-contract=off).
 *
 * With n the integer nearest to y / ln 2 and r = y - n ln 2, |r| <= ln(2)/2:
 *     exp(y) = 2^n (1 + q),   q = exp(r) - 1 = r + r^2 (1/2! + r/3! + ... + r^5/7!) + error,
 * where the error is below 6e-9, a tenth of FP32's spacing just below 1. */
#ifndef LS_MATH_ELEMENTARY_H
#define LS_MATH_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

typedef struct ls__bounds {
    float low, high;
} ls__bounds;

/* Beyond these the results are what they are at these. The numbers stand in elementary.c because
 * gcc works out what follows a bound that it can see, and then selects among three results where
 * two instructions would do. */
extern const ls__bounds ls__exp_bounds;
extern const ls__bounds ls__tanh_bounds; /* of twice the argument */

/* A NaN stays one. */
static inline float ls__clamp(float x, ls__bounds bounds)
{
    x = x < bounds.low ? bounds.low : x;
    return x > bounds.high ? bounds.high : x;
}

/* n of the formula above for |y| < 2^20, as an integer and (*rounded) as a float. */
static inline int32_t ls__exp_power(float y, float *rounded)
{
    const float shift = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float shifted = y * 0x1.715476p0f + shift;
    int32_t bits;
    int32_t shift_bits;

    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&shift_bits, &shift, sizeof shift_bits);
    *rounded = shifted - shift;
    return bits - shift_bits;
}

/* q of the formula above, in pairs of terms, which do not wait for each other. ln 2 is cut in two
 * so that n times its upper part is exact. */
static inline float ls__exp_fraction(float y, float n)
{
    float r = (y - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float square = r * r;
    float second = 1.0f / 2 + r * (1.0f / 6);
    float fourth = 1.0f / 24 + r * (1.0f / 120);
    float sixth = 1.0f / 720 + r * (1.0f / 5040);

    return r + square * (second + square * (fourth + square * sixth));
}

/* 2^n for n in -126 .. 127; any number for others, which a NaN gives rise to. */
static inline float ls__power_of_two(int32_t n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float power;

    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Within 1.1 units in the last place, subnormal results included; 0 below -104, infinity above
 * 88.73, NaN for NaN. */
static inline float ls__exp(float x)
{
    float rounded;
    float y = ls__clamp(x, ls__exp_bounds);
    int32_t n = ls__exp_power(y, &rounded);
    int32_t half = n >> 1; /* 2^n may be out of range where the result is not */

    return (1 + ls__exp_fraction(y, rounded)) * ls__power_of_two(half) * ls__power_of_two(n - half);
}

/* (exp(2x) - 1) / (exp(2x) + 1). exp(y) - 1 = 2^n q + (2^n - 1) loses nothing near 0. Within 3
 * units in the last place, never above 1 in magnitude, odd to within as much; NaN for NaN. */
static inline float ls__tanh(float x)
{
    float rounded;
    float y = ls__clamp(2 * x, ls__tanh_bounds);
    float power = ls__power_of_two(ls__exp_power(y, &rounded));
    float less_one = power * ls__exp_fraction(y, rounded) + (power - 1);

    return less_one / (less_one + 2);
}

#endif
