/* The ring: reduce-scatter, then all-gather, each rank sending to the next and receiving from the
 * one before. P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009.
 *
 * Four ranks, blocks 0 to 3. An arrow carries the block written on it; `2+` is block 2, combined
 * into the receiver's own. After the last round of the first phase rank r has the full sum of
 * block r, marked by [ ].
 *
 *     reduce-scatter      rank 0        rank 1        rank 2        rank 3
 *       round 0                 --3+-->       --0+-->       --1+-->       --2+--> rank 0
 *       round 1                 --2+-->       --3+-->       --0+-->       --1+--> rank 0
 *       round 2                 --1+-->       --2+-->       --3+-->       --0+--> rank 0
 *       owns               [0]           [1]           [2]           [3]
 *
 *     all-gather          rank 0        rank 1        rank 2        rank 3
 *       round 0                 --0--->       --1--->       --2--->       --3---> rank 0
 *       round 1                 --3--->       --0--->       --1--->       --2---> rank 0
 *       round 2                 --2--->       --3--->       --0--->       --1---> rank 0
 *
 * Block b starts at rank b + 1, goes once round and ends at rank b: its sum is
 * x[b] + (x[b-1] + ( ... + (x[b+2] + x[b+1]))), ranks modulo N.
 *
 * Cost per rank, for D bytes of data: 2(N-1) steps, 2 (N-1)/N D bytes sent and as many received,
 * which is the least that any all-reduce can do. */
#include "lockstep/schedule.h"

static int64_t one_round_per_peer(int ranks)
{
    return ranks - 1;
}

static int64_t one_block_per_rank(int ranks)
{
    return ranks;
}

static int64_t one_block(int ranks)
{
    (void)ranks;
    return 1;
}

/* Round `index` of both phases: block `lead` leaves, the one before it arrives. */
static ls_round pass_on(int ranks, int rank, int64_t lead, bool combine)
{
    int64_t leaving = (lead % ranks + ranks) % ranks;
    int64_t arriving = (leaving + ranks - 1) % ranks;

    return (ls_round){
        .send_to = (rank + 1) % ranks,
        .receive_from = (rank + ranks - 1) % ranks,
        .send = {leaving, 1},
        .receive = {arriving, 1},
        .combine = combine,
    };
}

static ls_round reduce_scatter_round(int ranks, int rank, int64_t index)
{
    return pass_on(ranks, rank, rank - 1 - index, true);
}

static ls_round all_gather_round(int ranks, int rank, int64_t index)
{
    return pass_on(ranks, rank, rank - index, false);
}

static ls_span own_block(int ranks, int rank)
{
    (void)ranks;
    return (ls_span){rank, 1};
}

/* What a round sends arrived in the round before, hence depth 1. */
static const ls_schedule reduce_scatter = {
    .name = "ring reduce-scatter",
    .depth = 1,
    .combines = true,
    .rounds = one_round_per_peer,
    .blocks = one_block_per_rank,
    .widest = one_block,
    .round = reduce_scatter_round,
};

static const ls_schedule all_gather = {
    .name = "ring all-gather",
    .depth = 1,
    .combines = false,
    .rounds = one_round_per_peer,
    .blocks = one_block_per_rank,
    .widest = one_block,
    .round = all_gather_round,
};

const ls_algorithm ls_algorithm_ring = {
    .name = "ring",
    .reduce = &reduce_scatter,
    .distribute = &all_gather,
    .owned = own_block,
};
