/* The weights of two runs, side by side. */
#ifndef LS_TRAIN_COMPARE_H
#define LS_TRAIN_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"
#include "train/load.h"

typedef struct ls__comparison {
    bool same_bits; /* all parameters, bit for bit */
    double largest; /* largest absolute difference of two weights; NaN where one is NaN */
    int64_t first;  /* the first element of the flat parameters that differs; -1: none does */
} ls__comparison;

/* LS_BAD_INPUT where the runs are not of the same shape. Not collective. */
ls_status ls__compare(const ls__loaded *a, const ls__loaded *b, ls__comparison *result);

/* The larger of two numbers, where NaN is larger than all others: once found it is not forgotten.
 */
double ls__larger(double a, double b);

/* How many FP32 numbers lie between two, in steps from one to the next (units in the last place
 * where they are close); INT64_MAX where one is NaN. */
int64_t ls__ulps_between(float a, float b);

#endif
