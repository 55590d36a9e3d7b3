/* The two phases of a mean over ranks, apart, so that a caller can work on the sums in between.
 *
 * An array of `units` units is cut into blocks that ranks own, as the algorithm says (ring: one
 * block a rank, by ls_block; naive: rank 0 owns all). A reduction brings the sums of each block to
 * its owner; a sharing copies each owner's block, perhaps of another array, to all ranks. A unit is
 * never split. Both are opened once, on all ranks, and then run again and again, without
 * allocating:
 *
 *     start, advance until done        never block; other work may go in between
 *     run                              all of it, blocking at most `timeout_seconds`
 *
 * Collective: all ranks start those of one channel in the same order, each when the one before it
 * on the channel is done; and where the algorithm has no schedules, all of them. LS_COMM,
 * LS_TIMEOUT. */
#ifndef LS_COMM_REDUCTION_H
#define LS_COMM_REDUCTION_H

#include "lockstep/collective.h"

/* The units that a rank owns. */
ls_range ls__owned_units(const ls_algorithm *algorithm, ls_layout layout, int rank, int64_t units);

/* ---- sums to their owners ---- */

typedef struct ls__reduction ls__reduction;

typedef struct ls__reduction_plan {
    const ls_algorithm *algorithm;
    int64_t units;
    void *data;                  /* (units) */
    const ls_element_type *type; /* of a unit; stays valid as long as the reduction */
    void *scratch;               /* ls__reduction_scratch bytes */
    int channel;
    /* For an algorithm without schedules: the elements of which a unit is made, as the transport's
     * library can sum them; NULL where it cannot: it then brings the blocks to their owners. */
    const ls_element_type *library_type;
} ls__reduction_plan;

/* Bytes of scratch, of at least one. */
int64_t ls__reduction_scratch(const ls_algorithm *algorithm, ls_layout layout, int64_t units,
                              const ls_element_type *type);

/* If this succeeded you must close. LS_NO_MEMORY; LS_BAD_USAGE where the algorithm is the
 * transport's own and it has none. */
ls_status ls__reduction_open(ls__reduction **reduction, ls_transport *transport,
                             const ls__reduction_plan *plan);
void ls__reduction_close(ls__reduction *reduction); /* NULL is fine */

/* What stands in blocks of others afterwards is of no use. */
ls_status ls__reduction_start(ls__reduction *reduction);
ls_status ls__reduction_advance(ls__reduction *reduction, bool *done);

/* Of one that is not done after a wait of so many seconds: records LS_TIMEOUT, and the units that
 * are waited for, as far as is known. */
ls_status ls__reduction_timed_out(const ls__reduction *reduction, double seconds, ls_range *units);

/* Start, advance until done, or time out. */
ls_status ls__reduction_run(ls__reduction *reduction, double timeout_seconds);

/* ---- owners' blocks to everyone ---- */

typedef struct ls__sharing ls__sharing;

typedef struct ls__sharing_plan {
    const ls_algorithm *algorithm;
    int64_t units;
    void *data;   /* (units) */
    int64_t size; /* bytes of a unit */
    int channel;
} ls__sharing_plan;

/* As above. */
ls_status ls__sharing_open(ls__sharing **sharing, ls_transport *transport,
                           const ls__sharing_plan *plan);
void ls__sharing_close(ls__sharing *sharing); /* NULL is fine */
ls_status ls__sharing_start(ls__sharing *sharing);
ls_status ls__sharing_advance(ls__sharing *sharing, bool *done);
ls_status ls__sharing_timed_out(const ls__sharing *sharing, double seconds, ls_range *units);
ls_status ls__sharing_run(ls__sharing *sharing, double timeout_seconds);

#endif
