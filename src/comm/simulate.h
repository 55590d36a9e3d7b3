/* How long an all-reduce takes on a simulated network, and what it sends there. */
#ifndef LS_COMM_SIMULATE_H
#define LS_COMM_SIMULATE_H

#include "comm/transport_sim.h"
#include "lockstep/schedule.h"

typedef struct ls__simulated {
    double seconds;   /* from the start of all ranks to the end of the last */
    ls_traffic total; /* of all ranks */
} ls__simulated;

/* Bytes of an element: of the sum on its way to its owner, and of what comes back. */
typedef struct ls__element_bytes {
    int64_t reduce;
    int64_t distribute;
} ls__element_bytes;

extern const ls__element_bytes ls__float_sums; /* 4 and 4 */
extern const ls__element_bytes ls__exact_sums; /* lanes, 8, and floats; without spills */

/* Runs one all-reduce of `count` elements on all ranks of a network that was opened
 * `time_only` and has carried nothing yet: the ranks' data is address space without memory behind
 * it. Not for ls_algorithm_mpi, which has no schedules. LS_NO_MEMORY; LS_COMM for schedules that do
 * not fit together. */
ls_status ls__simulate_all_reduce(ls__sim *sim, const ls_algorithm *algorithm, int64_t count,
                                  ls__element_bytes bytes, ls__simulated *result);

#endif
