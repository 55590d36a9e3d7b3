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

/* Half of the lanes, as the vectors of gcc and clang: each element's arithmetic is that of a float,
 * and where the machine's registers are narrower the compiler takes several. */
typedef float ls__eight __attribute__((vector_size(8 * sizeof(float)), aligned(4), may_alias));

typedef struct ls__lanes {
    ls__eight low, high;
} ls__lanes;

static inline const ls__eight *ls__eight_at(const float *x)
{
    return (const ls__eight *)(const void *)x;
}

static inline float ls__fold(const ls__lanes *lanes)
{
    float half[8];
    ls__eight sum = lanes->low + lanes->high;

    memcpy(half, &sum, sizeof half);
    return ((half[0] + half[4]) + (half[2] + half[6])) +
           ((half[1] + half[5]) + (half[3] + half[7]));
}

/* The largest multiple of LS__LANES not above count: where the whole blocks end. */
static inline int64_t ls__whole_lanes(int64_t count)
{
    return count / LS__LANES * LS__LANES;
}

/* Copies the elements after the whole blocks and fills the block up with `filler`. */
static inline void ls__last_block(float *block, const float *x, int64_t count, float filler)
{
    int64_t whole = ls__whole_lanes(count);

    for (int j = 0; j < LS__LANES; j++)
        block[j] = filler;
    memcpy(block, x + whole, (size_t)(count - whole) * sizeof *x);
}

static inline void ls__add_block(ls__lanes *lanes, const float *x)
{
    lanes->low += *ls__eight_at(x);
    lanes->high += *ls__eight_at(x + 8);
}

static inline float ls__sum(const float *x, int64_t count)
{
    ls__lanes lanes = {{0}, {0}};
    int64_t whole = ls__whole_lanes(count);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        ls__add_block(&lanes, x + i);
    if (whole < count) {
        float last[LS__LANES];

        ls__last_block(last, x, count, 0);
        ls__add_block(&lanes, last);
    }
    return ls__fold(&lanes);
}

static inline void ls__add_squares(ls__lanes *lanes, const float *x, float center)
{
    ls__eight low = *ls__eight_at(x) - center;
    ls__eight high = *ls__eight_at(x + 8) - center;

    lanes->low += low * low;
    lanes->high += high * high;
}

/* Sum of (x - center)^2. */
static inline float ls__sum_squares(const float *x, float center, int64_t count)
{
    ls__lanes lanes = {{0}, {0}};
    int64_t whole = ls__whole_lanes(count);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        ls__add_squares(&lanes, x + i, center);
    if (whole < count) {
        float last[LS__LANES];

        ls__last_block(last, x, count, center);
        ls__add_squares(&lanes, last, center);
    }
    return ls__fold(&lanes);
}

static inline void ls__add_products(ls__lanes *lanes, const float *a, const float *b)
{
    lanes->low += *ls__eight_at(a) * *ls__eight_at(b);
    lanes->high += *ls__eight_at(a + 8) * *ls__eight_at(b + 8);
}

static inline float ls__dot(const float *a, const float *b, int64_t count)
{
    ls__lanes lanes = {{0}, {0}};
    int64_t whole = ls__whole_lanes(count);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        ls__add_products(&lanes, a + i, b + i);
    if (whole < count) {
        float last_a[LS__LANES];
        float last_b[LS__LANES];

        ls__last_block(last_a, a, count, 0);
        ls__last_block(last_b, b, count, 0);
        ls__add_products(&lanes, last_a, last_b);
    }
    return ls__fold(&lanes);
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
