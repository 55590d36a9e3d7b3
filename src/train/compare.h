/* The weights of two runs, side by side. */
#ifndef LS_TRAIN_COMPARE_H
#define LS_TRAIN_COMPARE_H

#include <stdbool.h>

#include "lockstep/status.h"
#include "train/load.h"

typedef struct ls__comparison {
    bool same_bits;    /* all parameters, bit for bit */
    double largest;    /* largest absolute difference of two weights; NaN where one is NaN */
    const char *where; /* the tensor it is in; of the first run's table; NULL where bits agree */
} ls__comparison;

/* LS_BAD_INPUT where the runs are not of the same shape. Not collective. */
ls_status ls__compare(const ls__loaded *a, const ls__loaded *b, ls__comparison *result);

#endif
