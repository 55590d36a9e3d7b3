/* What number formats make of values: where their magnitudes lie, which of them a format cannot
 * hold, and which updates of a weight it cannot add. All of it is what ls__narrow does to each.
 *
 * Sources: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018, sections 3.1 (updates)
 * and 3.2 (figure 3, gradients); IEEE 754-2019 (binary16: spacing 2^-24 below 2^-14, largest 65504;
 * a tie goes to even, so 2^-25 itself becomes zero). BF16 has the exponents of FP32, and a spacing
 * of 2^-7 from 1 to 2: D. Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019.
 *
 * All start as zero, and every call adds to what is there. Values are finite. */
#ifndef LS_MATH_CENSUS_H
#define LS_MATH_CENSUS_H

#include <stdint.h>

#include "math/format.h"

/* ---- magnitudes ---- */

/* Bins of LS__CENSUS_BINADES powers of two each, from 2^LS__CENSUS_LOWEST on. The first holds all
 * that is below it too, the last all that is above. */
enum { LS__CENSUS_BINADES = 4, LS__CENSUS_BINS = 16, LS__CENSUS_LOWEST = -60 };

typedef struct ls__magnitudes {
    int64_t count;
    int64_t zero;
    int64_t bin[LS__CENSUS_BINS]; /* of what is not zero */
    float largest;
} ls__magnitudes;

void ls__magnitudes_add(ls__magnitudes *magnitudes, const float *values, int64_t count);

/* The exponent of a bin's lower end. */
int ls__magnitudes_from(int bin);

/* ---- a format ---- */

/* The members but `count` add up to it. */
typedef struct ls__census {
    int64_t count;
    int64_t zero;      /* already in FP32 */
    int64_t flushed;   /* not zero, and zero in the format */
    int64_t subnormal; /* stored below the format's smallest normal number, with fewer digits */
    int64_t normal;
    int64_t infinite; /* too large for the format */
} ls__census;

/* What becomes of values[i] * scale. The scale is a power of two that a float holds. */
void ls__census_add(ls__census *census, const float *values, int64_t count, double scale,
                    ls__format format);

/* The largest power of two, from 2^-126 to 2^127, by which a number of this magnitude may be
 * multiplied and is still finite in the format. */
double ls__census_scale(float largest, ls__format format);

/* ---- updates ---- */

typedef struct ls__updates {
    int64_t count; /* that are not zero in FP32 */
    int64_t lost;  /* of these: they would leave a weight as it is */
} ls__updates;

/* The updates after[i] - before[i], each added to before[i] as the format holds it: lost is one
 * whose sum is rounded to where it began. */
void ls__updates_add(ls__updates *updates, const float *before, const float *after, int64_t count,
                     ls__format format);

/* values[i] become what the format holds of them. */
void ls__round_to(float *values, int64_t count, ls__format format);

#endif
