/* The exponentials of a row, safe from overflow. */
#ifndef LS_MATH_SOFTMAX_H
#define LS_MATH_SOFTMAX_H

#include "math/elementary.h"
#include "math/lanes.h"

/* Turns row[i] into exp(row[i] - largest), where `largest` is the row's largest element. Returns
 * the sum, at least 1 where all elements are finite. */
static inline float ls__softmax_exponentials(float *row, float largest, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        row[i] = ls__exp(row[i] - largest);
    return ls__sum(row, count);
}

#endif
