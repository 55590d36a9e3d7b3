/* What every transport must do, written once and run on each: messages, combining, lengths,
 * counters, and all-reduces on top. */
#ifndef LS_TESTS_SUPPORT_CONFORMANCE_H
#define LS_TESTS_SUPPORT_CONFORMANCE_H

#include "lockstep/transport.h"
#include "support/test.h"

enum { LS__FLEET_MAX = 8 };

/* Where the ranks' payloads stand. */
typedef enum ls__fleet_memory {
    LS__MEMORY_OF_TRANSPORT, /* ls_transport_memory */
    LS__MEMORY_OF_CALLER,
} ls__fleet_memory;

/* Moves one rank's program as far as it gets without waiting. */
typedef ls_status ls__fleet_step(void *context, int rank, bool *done);

/* Ranks joined by the transport under test; some or all of them live in this process. */
typedef struct ls__fleet {
    int ranks; /* at most LS__FLEET_MAX */
    int first; /* the ranks of this process are first .. end - 1 */
    int end;
    ls__fleet_memory memory;
    ls_transport *transport[LS__FLEET_MAX]; /* by rank; NULL for ranks elsewhere */
    /* Runs the local ranks until each is done; returns the first failure. */
    ls_status (*run)(struct ls__fleet *fleet, ls__fleet_step *step, void *context);
    void *context; /* of `run` */
} ls__fleet;

/* Runs the whole suite; fails through CMocka's asserts. All processes of the fleet call it. */
void ls__conformance(ls__fleet *fleet);

/* Zeroed memory for a local rank's payloads; `own` is given back by free where it is not NULL. */
void *ls__fleet_take(const ls__fleet *fleet, int rank, int64_t bytes, void **own);

/* Its first half, which the whole calls: single messages. */
void ls__conformance_of_messages(ls__fleet *fleet);

#endif
