/* A simulated network: N ranks inside one process, a virtual clock, a seeded order of delivery.
 *
 * Each rank has a transport (lockstep/transport.h) into the same network. A message's transfer
 * starts when both sides have posted it and the sender's link is free, and takes
 *
 *     latency + bytes * seconds_per_byte + jitter * uniform(0, 1)
 *
 * of virtual time; a link carries one message after another, but latency and jitter do not hold it.
 * So with jitter messages overtake each other, which is what tests want, and without it the time is
 * the alpha-beta model's, R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
 * communication operations in MPICH", 2005. Data is taken straight from the sender's memory when
 * the receiver tests: nothing is buffered. Memory grows with the operations that are open, never
 * with ranks squared. */
#ifndef LS_COMM_TRANSPORT_SIM_H
#define LS_COMM_TRANSPORT_SIM_H

#include <stdint.h>

#include "lockstep/transport.h"

typedef struct ls__sim ls__sim;

typedef struct ls__sim_options {
    int ranks;
    int per_node;            /* ranks on each node, which divides ranks; 0: one */
    uint64_t seed;           /* of jitter, and of the order in which ranks get to run */
    double latency;          /* seconds */
    double seconds_per_byte; /* of a rank's outgoing link */
    double jitter;           /* seconds */
} ls__sim_options;

/* LS_NO_MEMORY. If this succeeded you must close it; if it failed there is nothing to do. */
ls_status ls__sim_open(ls__sim **sim, const ls__sim_options *options);
void ls__sim_close(ls__sim *sim);

/* The network as `rank` sees it. Closed with the network. Its test needs ls__sim_run to get on, so
 * wait functions, which are for real ranks, are of no use on it. */
ls_transport *ls__sim_transport(ls__sim *sim, int rank);

/* Moves one rank's program as far as it gets without waiting; the shape of an `advance`. */
typedef ls_status ls__sim_step(void *context, int rank, bool *done);

/* Runs all ranks until each is done: each is moved once, and again whenever something has happened
 * to it. The first failure ends the run and is returned with its rank recorded. LS_COMM, naming a
 * rank and what it waits for, where ranks are left that nothing will ever happen to: a deadlock is
 * found, not waited for. */
ls_status ls__sim_run(ls__sim *sim, ls__sim_step *step, void *context);

/* Virtual seconds since the network was opened. */
double ls__sim_clock(const ls__sim *sim);

#endif
