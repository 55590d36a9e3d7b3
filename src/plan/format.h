/* Number formats of training: what a value takes, and what it can hold.
 *
 * Source: IEEE 754-2019 for f32 and f16 (binary32, binary16); bf16 is binary32 cut to 16 bits.
 * With e bits of exponent and f of fraction: the spacing of numbers from 1 to 2 is 2^-f, the
 * smallest normal number 2^(2 - 2^(e-1)), the largest (2 - 2^-f) 2^(2^(e-1) - 1). */
#ifndef LS_PLAN_FORMAT_H
#define LS_PLAN_FORMAT_H

#include <stdint.h>

#define LS__PLAN_FORMAT_NAMES "f32|bf16|f16"

typedef enum ls__plan_format {
    LS__PLAN_F32,
    LS__PLAN_BF16,
    LS__PLAN_F16,
} ls__plan_format;

typedef struct ls__plan_number {
    const char *name;
    double bytes;
    int fraction_bits;
    double spacing;
    double smallest; /* normal */
    double largest;
} ls__plan_number;

ls__plan_number ls__plan_number_of(ls__plan_format format);

#endif
