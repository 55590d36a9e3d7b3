/* Sums over one row in one fixed order, whatever the compiler and the instruction set: element i
 * belongs to lane i mod LS__LANES, a lane adds its elements in order, and the lanes are folded in
 * halves. A compiler may not reorder a plain sum, so it cannot vectorise one; it can these. */
#ifndef LS_MATH_LANES_H
#define LS_MATH_LANES_H

#include <stdint.h>
#include <string.h>

enum { LS__LANES = 16 };

/* Put before a loop whose iterations touch the same element of each array and no other. It lets the
 * loop be vectorised although an output may be an input. */
#if defined(__clang__)
#define LS__ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define LS__ELEMENTWISE _Pragma("GCC ivdep")
#endif

/* The largest multiple of LS__LANES not above count: where the whole blocks end. */
static inline int64_t ls__whole_lanes(int64_t count)
{
    return count / LS__LANES * LS__LANES;
}

static inline float ls__fold(const float *lane)
{
    float half[LS__LANES / 2];
    float quarter[LS__LANES / 4];

    for (int j = 0; j < LS__LANES / 2; j++)
        half[j] = lane[j] + lane[j + LS__LANES / 2];
    for (int j = 0; j < LS__LANES / 4; j++)
        quarter[j] = half[j] + half[j + LS__LANES / 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

/* Copies the elements after the whole blocks and fills the block up with `filler`. */
static inline void ls__last_block(float *block, const float *x, int64_t count, float filler)
{
    int64_t whole = ls__whole_lanes(count);

    for (int j = 0; j < LS__LANES; j++)
        block[j] = filler;
    memcpy(block, x + whole, (size_t)(count - whole) * sizeof *x);
}

static inline float ls__sum(const float *x, int64_t count)
{
    float lane[LS__LANES] = {0};
    int64_t whole = ls__whole_lanes(count);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        for (int j = 0; j < LS__LANES; j++)
            lane[j] += x[i + j];
    if (whole < count) {
        float last[LS__LANES];

        ls__last_block(last, x, count, 0);
        for (int j = 0; j < LS__LANES; j++)
            lane[j] += last[j];
    }
    return ls__fold(lane);
}

/* Sum of (x - center)^2. */
static inline float ls__sum_squares(const float *x, float center, int64_t count)
{
    float lane[LS__LANES] = {0};
    int64_t whole = ls__whole_lanes(count);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        for (int j = 0; j < LS__LANES; j++)
            lane[j] += (x[i + j] - center) * (x[i + j] - center);
    if (whole < count) {
        float last[LS__LANES];

        ls__last_block(last, x, count, center);
        for (int j = 0; j < LS__LANES; j++)
            lane[j] += (last[j] - center) * (last[j] - center);
    }
    return ls__fold(lane);
}

static inline float ls__dot(const float *a, const float *b, int64_t count)
{
    float lane[LS__LANES] = {0};
    int64_t whole = ls__whole_lanes(count);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        for (int j = 0; j < LS__LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    if (whole < count) {
        float last_a[LS__LANES];
        float last_b[LS__LANES];

        ls__last_block(last_a, a, count, 0);
        ls__last_block(last_b, b, count, 0);
        for (int j = 0; j < LS__LANES; j++)
            lane[j] += last_a[j] * last_b[j];
    }
    return ls__fold(lane);
}

/* Swaps a float's bits and an integer that is ordered as the float is; its own inverse. */
static inline int32_t ls__ordered_bits(int32_t bits)
{
    return bits ^ (bits >> 31 & INT32_MAX);
}

/* The largest element. Compared as integers, because compilers vectorise that: a NaN with a clear
 * sign counts as above infinity, so it comes out; one with its sign set counts as below all. */
static inline float ls__max(const float *x, int64_t count)
{
    int32_t highest = INT32_MIN;
    float result;

    for (int64_t i = 0; i < count; i++) {
        int32_t bits;

        memcpy(&bits, x + i, sizeof bits);
        bits = ls__ordered_bits(bits);
        highest = bits > highest ? bits : highest;
    }
    highest = ls__ordered_bits(highest);
    memcpy(&result, &highest, sizeof result);
    return result;
}

#endif
