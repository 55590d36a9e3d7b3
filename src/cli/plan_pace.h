/* Measures what plan/pace.h predicts a step from, with the trainer's own kernels at the shapes of a
 * run, but without a trainer. */
#ifndef LS_CLI_PLAN_PACE_H
#define LS_CLI_PLAN_PACE_H

#include "plan/pace.h"

/* Both keep the fastest of some repeats and of what is there already: start with all zero, and
 * measure again where others may have been at work. */

/* While busy - 1 other processes, which it starts and ends, do the same. LS_NO_MEMORY; LS_IO where
 * a process cannot be started. */
ls_status ls__pace_measure(const ls__plan_run *run, int64_t busy, ls__plan_pace *pace);

/* Times the all-reduce that the run's sums take, on its ranks, which it starts with mpirun; its
 * output goes into the file `log`. */
ls_status ls__pace_transport(const ls__plan_run *run, const char *log,
                             ls__plan_transport *transport);

#endif
