#include "comm/spills.h"

#include <stdlib.h>

#include "comm/reduction.h"

/* Sends and receives go in turns: in turn k every rank gives to the rank k after it and takes from
 * the rank k before it,
 *
 *     turn 1    0 -> 1 -> 2 -> 3 -> 0
 *     turn 2    0 -> 2 -> 0,  1 -> 3 -> 1
 *
 * in messages of at most ROOM records, as many as there are: the cost is that of the records, 16
 * bytes each, and of N - 1 turns. */
enum { ROOM = 4096 };

struct ls__spill_post {
    ls__world *world;
    ls_exact *exact;
    const ls__spill_range *ranges; /* (count) */
    int64_t count;
    int64_t *spills; /* (ranks) how many each rank has for others */
    ls__sharing *sharing;
    ls_spill outgoing[ROOM];
    ls_spill incoming[ROOM];
};

ls_status ls__spill_post_open(ls__spill_post **post, ls_exact *exact, const ls__spill_range *ranges,
                              int64_t count, ls__world *world)
{
    int ranks = ls__world_ranks(world);
    ls__spill_post *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the delivery of spills");
    opened->world = world;
    opened->exact = exact;
    opened->ranges = ranges;
    opened->count = count;
    opened->spills = calloc((size_t)ranks, sizeof *opened->spills);
    ls_status status = LS_OK;
    if (!opened->spills)
        status = LS_FAIL(LS_NO_MEMORY, "no memory for the spill counts of %d ranks", ranks);
    else
        status = ls__sharing_open(&opened->sharing, ls__world_control(world),
                                  &(ls__sharing_plan){.algorithm = &ls_algorithm_ring,
                                                      .units = ranks,
                                                      .data = opened->spills,
                                                      .size = sizeof *opened->spills});
    if (status != LS_OK) {
        ls__spill_post_close(opened);
        return status;
    }
    *post = opened;
    return LS_OK;
}

void ls__spill_post_close(ls__spill_post *post)
{
    if (!post)
        return;
    ls__sharing_close(post->sharing);
    free(post->spills);
    free(post);
}

/* Where this rank has got to in giving its spills to another. */
typedef struct giver {
    int to;
    int64_t at;   /* range */
    int64_t next; /* element within it */
} giver;

/* The next records for the receiver; 0 when all are given. */
static int64_t next_records(ls__spill_post *post, giver *g)
{
    int64_t used = 0;

    while (g->at < post->count && ROOM - used >= LS_EXACT_RECORDS) {
        const ls__spill_range *here = &post->ranges[g->at];
        int64_t end = here->range.offset + here->range.count;
        if (here->owner == g->to) {
            if (g->next < here->range.offset)
                g->next = here->range.offset;
            used += ls_exact_export(post->exact, &g->next, end, post->outgoing + used, ROOM - used);
        }
        if (here->owner != g->to || g->next >= end) {
            g->at++;
            g->next = 0;
        }
    }
    return used;
}

static ls_status one_turn(ls__spill_post *post, int turn)
{
    int ranks = ls__world_ranks(post->world);
    int rank = ls__world_rank(post->world);
    giver g = {.to = (rank + turn) % ranks};
    int to = g.to;
    int from = (rank - turn + ranks) % ranks;

    while (to != LS_NO_PEER || from != LS_NO_PEER) {
        int64_t out = to != LS_NO_PEER ? next_records(post, &g) : 0;
        int64_t in = 0;
        LS_TRY(ls__world_swap(post->world, to, &out, sizeof out, from, &in, sizeof in));
        LS_FAIL_IF(in < 0 || in > ROOM, LS_COMM, "rank %d announced %lld spills in one message",
                   from, (long long)in);
        LS_TRY(ls__world_swap(post->world, to, post->outgoing, out * (int64_t)sizeof(ls_spill),
                              from, post->incoming, in * (int64_t)sizeof(ls_spill)));
        LS_TRY(ls_exact_absorb(post->exact, post->incoming, in));
        to = out > 0 ? to : LS_NO_PEER;
        from = in > 0 ? from : LS_NO_PEER;
    }
    return LS_OK;
}

/* Spills of elements that other ranks own. */
static int64_t foreign_spills(const ls__spill_post *post)
{
    int64_t spills = 0;

    for (int64_t i = 0; i < post->count; i++)
        if (post->ranges[i].owner != ls__world_rank(post->world))
            spills += ls_exact_spills(post->exact, post->ranges[i].range.offset,
                                      post->ranges[i].range.count);
    return spills;
}

ls_status ls__spill_post_deliver(ls__spill_post *post, int64_t *spilled)
{
    int ranks = ls__world_ranks(post->world);

    post->spills[ls__world_rank(post->world)] = foreign_spills(post);
    LS_TRY(ls__sharing_run(post->sharing, ls__world_timeout(post->world)));
    *spilled = 0;
    for (int rank = 0; rank < ranks; rank++)
        *spilled += post->spills[rank];
    for (int turn = 1; turn<ranks && * spilled> 0; turn++)
        LS_TRY(one_turn(post, turn));
    return LS_OK;
}
