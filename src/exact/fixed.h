/* Integers of 320 bits in units of 2^-149: any sum of a few FP32 numbers, or of doubles that are
 * multiples of 2^-149, without rounding. */
#ifndef LS_EXACT_FIXED_H
#define LS_EXACT_FIXED_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LS__FIXED_WORDS = 5,
    LS__FIXED_PIECES = 7 /* 320 bits, 53 in each */
};

typedef struct ls__fixed {
    uint64_t word[LS__FIXED_WORDS]; /* two's complement, the lowest word first */
} ls__fixed;

bool ls__fixed_is_zero(const ls__fixed *x);

/* x += value. False, and x as before, where value is not a multiple of 2^-149 below 2^169, which
 * includes NaN and infinities. Nothing checks the sum: lockstep/exact.h says why it has room. */
bool ls__fixed_add(ls__fixed *x, double value);

/* The nearest double, halfway cases to the even one; +0 for zero. */
double ls__fixed_round(const ls__fixed *x);

/* Writes doubles whose exact sum is x, none 0, the largest first; returns how many. */
int ls__fixed_split(const ls__fixed *x, double piece[LS__FIXED_PIECES]);

#endif
