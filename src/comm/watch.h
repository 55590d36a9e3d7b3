/* The watch: finds out which rank is missing when a wait has lasted too long.
 *
 * Who waits does not know who is missing: in a ring every rank waits for the one before it, and
 * MPI's own collectives do not tell at all. So a rank whose wait ends in a timeout calls the roll:
 *
 *     it tells all others that it is alive, and listens for a second
 *     a rank that is still waiting hears that, gives up waiting too, and does the same
 *     whoever was not heard of is missing; the lowest of the others says so, the rest keep quiet
 *
 * The watch is of this process (as MPI is): ls__world_open starts it, ls__world_close ends it.
 * Where it does not run, as over simulated transports, nothing here does anything. */
#ifndef LS_COMM_WATCH_H
#define LS_COMM_WATCH_H

#include <mpi.h>
#include <stdbool.h>

#include "comm/world.h"

/* `communicator` has all ranks of the world and stays the world's. LS_NO_MEMORY. */
ls_status ls__watch_start(const ls__world *world, MPI_Comm communicator);
void ls__watch_end(void);

/* Whether another rank has called the roll. To be asked again and again while waiting: it looks a
 * few times a second. `now` is ls__clock_seconds. */
bool ls__watch_alarmed(double now);

/* Calls the roll and records LS_TIMEOUT naming the missing ranks and `where`, what this rank waited
 * in. Where all answer, or no watch runs, the failure recorded before stands. Blocks for a second
 * or so; on all ranks but the one that speaks for a few more, so that it is heard before the run is
 * ended. Returns LS_TIMEOUT. */
ls_status ls__watch_call_roll(double timeout_seconds, const char *where);

#endif
