/* Which algorithm suits an all-reduce. It may steer speed only: with exact sums all give the same
 * bits. */
#ifndef LS_COMM_POLICY_H
#define LS_COMM_POLICY_H

#include "lockstep/schedule.h"

/* For `bytes` bytes of data on ranks laid out so. A pure function. */
const ls_algorithm *ls__choose_algorithm(ls_layout layout, int64_t bytes);

#endif
