/* One turn of a ring, for all schedules that are made of rings. */
#ifndef LS_COMM_RING_H
#define LS_COMM_RING_H

#include "lockstep/schedule.h"

/* Members 0 .. members - 1 pass blocks 0 .. members - 1 on to the next. */
typedef struct ls__turn {
    int next;         /* member that what leaves goes to */
    int previous;     /* member that what arrives comes from */
    int64_t leaving;  /* block */
    int64_t arriving; /* block */
} ls__turn;

/* Block `lead`, modulo the members, leaves `member`; the one before it arrives there. */
ls__turn ls__ring_turn(int members, int member, int64_t lead);

#endif
