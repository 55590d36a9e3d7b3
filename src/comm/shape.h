/* What the schedules have in common: counts of rounds and blocks, and who owns what. */
#ifndef LS_COMM_SHAPE_H
#define LS_COMM_SHAPE_H

#include "lockstep/schedule.h"

int64_t ls__one(ls_layout layout);
int64_t ls__one_per_rank(ls_layout layout);
int64_t ls__one_per_peer(ls_layout layout); /* ranks - 1 */

ls_span ls__own_block(ls_layout layout, int rank);     /* rank r owns block r */
ls_span ls__all_at_rank_0(ls_layout layout, int rank); /* it owns the only block */

#endif
