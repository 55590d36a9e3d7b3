/* Spills of exact sums, brought to those who round.
 *
 * In a reduction of lanes a rounding error stays, as a spill, on the rank where it arose
 * (lockstep/exact.h). Afterwards each rank gives those within another rank's elements to it. There
 * are none, nearly always: then this is one small gather. */
#ifndef LS_COMM_SPILLS_H
#define LS_COMM_SPILLS_H

#include <stdint.h>

#include "comm/world.h"
#include "lockstep/exact.h"
#include "lockstep/schedule.h"

/* One stretch of the lanes and the rank that rounds it. */
typedef struct ls__spill_range {
    ls_range range;
    int owner;
} ls__spill_range;

typedef struct ls__spill_post ls__spill_post;

/* Opens deliveries of the spills of `exact`; `ranges` (count) are the same on all ranks, do not
 * overlap, and stay in place. Collective. LS_NO_MEMORY. If this succeeded you must close. */
ls_status ls__spill_post_open(ls__spill_post **post, ls_exact *exact, const ls__spill_range *ranges,
                              int64_t count, ls__world *world);
void ls__spill_post_close(ls__spill_post *post); /* NULL is fine */

/* Collective; blocks, at most the world's timeout. Each rank sends its spills of every range to the
 * range's owner, which absorbs them. *spilled: records that were sent, by all ranks together.
 * LS_COMM, LS_TIMEOUT. */
ls_status ls__spill_post_deliver(ls__spill_post *post, int64_t *spilled);

#endif
