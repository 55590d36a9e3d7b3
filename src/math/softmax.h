/* The exponentials of a row, safe from overflow. */
#ifndef LS_MATH_SOFTMAX_H
#define LS_MATH_SOFTMAX_H

#include "math/elementary.h"
#include "math/lanes.h"

/* out[i] = exp(row[i] - largest), where `largest` is the row's largest element; out may be row.
 * Returns the sum, at least 1 where all elements are finite. */
static inline float ls__softmax_exponentials(float *out, const float *row, float largest,
                                             int64_t count)
{
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++)
        out[i] = ls__exp(row[i] - largest);
    return ls__sum(out, count);
}

#endif
