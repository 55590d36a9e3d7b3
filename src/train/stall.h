/* Says where in a run a wait for another rank ended. */
#ifndef LS_TRAIN_STALL_H
#define LS_TRAIN_STALL_H

#include <stddef.h>

#include "base/tensors.h"
#include "lockstep/schedule.h"
#include "lockstep/status.h"

/* Returns `status`. Where it is LS_TIMEOUT, found by this rank, puts the formatted place before its
 * sentence: "PLACE: SENTENCE". */
ls_status ls__stall_at(ls_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes ", TENSOR to TENSOR (elements A to B)" for a range of the flat gradient;
 * nothing for an empty one. */
const char *ls__stall_tensors(char *text, size_t size, const ls__tensors *tensors, ls_range range);

#endif
