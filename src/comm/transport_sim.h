/* A simulated network: N ranks inside one process, a virtual clock, a seeded order of delivery.
 *
 * Each rank has a transport (lockstep/transport.h) into the same network. The ranks of a node share
 * one link to the other nodes, and each has a link of its own to the ranks of its node. A link is a
 * way out and a way in, each of which carries one message at a time. A message of B bytes leaves
 * when both sides have posted it and the sender's way out is free, holds that for B
 * seconds_per_byte, reaches the receiver's way in `latency` later and holds it for as long, when it
 * is free: so a message alone takes
 *
 *     latency + B * seconds_per_byte + jitter * uniform(0, 1)
 *
 * of virtual time, of which latency and jitter hold no link. With jitter messages overtake each
 * other, which is what tests want; without it the time is the alpha-beta model's, R. Thakur,
 * R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", 2005,
 * and nothing is random. Data is taken straight from the sender's memory when the receiver tests:
 * nothing is buffered. Memory grows with the operations that are open, never with ranks squared. */
#ifndef LS_COMM_TRANSPORT_SIM_H
#define LS_COMM_TRANSPORT_SIM_H

#include <stdint.h>

#include "lockstep/transport.h"

typedef struct ls__sim ls__sim;

typedef struct ls__sim_options {
    int ranks;
    int per_node;            /* ranks on each node, which divides ranks; 0: one */
    uint64_t seed;           /* of jitter, and with it of the order in which ranks get to run */
    double latency;          /* seconds, between nodes */
    double seconds_per_byte; /* of a node's link */
    double node_latency;     /* the same within a node */
    double node_seconds_per_byte;
    double jitter;  /* seconds */
    bool time_only; /* no data is moved: nobody reads or writes what messages are made of */
} ls__sim_options;

/* LS_NO_MEMORY. If this succeeded you must close it; if it failed there is nothing to do. */
ls_status ls__sim_open(ls__sim **sim, const ls__sim_options *options);
void ls__sim_close(ls__sim *sim);

/* The network as `rank` sees it. Closed with the network. Its test needs ls__sim_run to get on, so
 * wait functions, which are for real ranks, are of no use on it. */
ls_transport *ls__sim_transport(ls__sim *sim, int rank);

/* All messages from and to `rank` take `factor` >= 1 times as long. */
void ls__sim_slow_down(ls__sim *sim, int rank, double factor);

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
