/* What allreduce.c and world.c need of the engine beside lockstep/collective.h. */
#ifndef LS_COMM_ENGINE_H
#define LS_COMM_ENGINE_H

#include "lockstep/collective.h"

/* From the next start on: works on these elements alone, of those that it was opened for. The same
 * on all ranks. */
void ls__collective_aim(ls_collective *collective, ls_range range);

/* The elements of the oldest round in flight, where there is one. */
ls_range ls__collective_waits_for(const ls_collective *collective);

/* Records LS_TIMEOUT: whom the collective waits for, in which round, for which elements; then,
 * where the watch runs (comm/watch.h), who is missing. */
ls_status ls__collective_timed_out(const ls_collective *collective, double timeout_seconds);

/* The same for a collective of the transport's library. */
ls_status ls__library_timed_out(const char *name, double timeout_seconds);

/* One turn of a loop that waits: gives the processor away (more ranks than cores is usual) and says
 * whether to give up: `deadline`, in ls__clock_seconds, has passed, or another rank gave up. */
bool ls__yield_until(double deadline);

/* The same for what is in flight on a transport: gives the processor away only when it has been
 * called `spins` times in a row. *looks counts, from 0. */
bool ls__look_until(const ls_transport *transport, int *looks, double deadline);

#endif
