/* The world: all ranks of this run, who they are, and the control operations between them.
 *
 * Every operation here is collective: all ranks call it, in the same order. Each waits at most the
 * world's timeout, giving the processor away meanwhile; then it is LS_TIMEOUT, and the run is over
 * (a buffer handed in may still be written to). MPI's own failures are LS_COMM. These are for
 * set-up, evaluation and metrics: the step's data goes through the transport, whose traffic
 * counters they leave alone. */
#ifndef LS_COMM_WORLD_H
#define LS_COMM_WORLD_H

#include <stdint.h>

#include "base/arena.h"
#include "lockstep/status.h"
#include "lockstep/transport.h"

typedef struct ls__world ls__world;

/* Opens the world on duplicates of MPI_COMM_WORLD, after MPI_Init. Close it before MPI_Finalize.
 * If this succeeded you must close it; if it failed there is nothing to do. */
ls_status ls__world_open(ls__world **world, double timeout_seconds);
void ls__world_close(ls__world *world);

int ls__world_rank(const ls__world *world);
int ls__world_ranks(const ls__world *world);
int ls__world_host_rank(const ls__world *world);  /* this rank's index among those on its host */
int ls__world_host_ranks(const ls__world *world); /* ranks on this host */
const char *ls__world_host(const ls__world *world, int rank); /* the name of a rank's host */
double ls__world_timeout(const ls__world *world);             /* seconds */
void ls__world_set_timeout(ls__world *world, double seconds);

/* The transport between all ranks; the world's own, closed with it. */
ls_transport *ls__world_transport(ls__world *world);

/* ls_transport_memory of that transport, booked in the arena, whose limit counts. Where any rank
 * fails, every rank returns that failure. *memory is never NULL on success. */
ls_status ls__world_memory(ls__world *world, ls__arena *arena, ls__category category, int64_t count,
                           int64_t size, void *memory);

/* Another one, for control data, so that the counters of the first are those of the step's data. */
ls_transport *ls__world_control(ls__world *world);

/* LS_OK where every rank brought LS_OK. Else every rank returns the status of the lowest failing
 * rank and has its sentence recorded as that rank's, so that only that rank's log prints it. */
ls_status ls__world_agree(ls__world *world, ls_status status);

/* Copies `bytes` bytes from `root` to all. */
ls_status ls__world_broadcast(ls__world *world, int root, void *data, int64_t bytes);

/* all (ranks, bytes) = every rank's `mine` (bytes), in rank order. `mine` is not inside `all`. */
ls_status ls__world_all_gather(ls__world *world, const void *mine, void *all, int64_t bytes);

/* data (count elements of `size` bytes): rank r has filled in ls_block(count, ranks, r); afterwards
 * every rank has all of it. Called with the same arguments as the time before it allocates
 * nothing, so a step can use it. */
ls_status ls__world_all_gather_blocks(ls__world *world, void *data, int64_t count, int64_t size);

/* *lowest = the least of all ranks' values. */
ls_status ls__world_lowest(ls__world *world, int64_t value, int64_t *lowest);

ls_status ls__world_barrier(ls__world *world);

/* Not collective: sends bytes to one rank and receives bytes from one, at the same time; LS_NO_PEER
 * or 0 bytes: that side is left out. Who is named here names this rank, with the same bytes. */
ls_status ls__world_swap(ls__world *world, int to, const void *out, int64_t out_bytes, int from,
                         void *in, int64_t in_bytes);

#endif
