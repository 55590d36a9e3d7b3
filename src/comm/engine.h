/* What allreduce.c and world.c need of the engine beside lockstep/collective.h. */
#ifndef LS_COMM_ENGINE_H
#define LS_COMM_ENGINE_H

#include "lockstep/collective.h"

/* Records LS_TIMEOUT: whom the collective waits for, in which round, for which elements. */
ls_status ls__collective_timed_out(const ls_collective *collective, double timeout_seconds);

/* One turn of a loop that waits: gives the processor away (more ranks than cores is usual) and says
 * whether `deadline`, in ls__clock_seconds, has passed. */
bool ls__yield_until(double deadline);

#endif
