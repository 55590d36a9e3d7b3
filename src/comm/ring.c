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
 * which is the least that any all-reduce can do.
 *
 * `ring-seg` is the same ring with every block cut into segments. A rank sends on a segment as soon
 * as it has arrived, so its link never waits for the rest of a block:
 *
 *     ring        |-- send block --| combine |-- send block --| combine |
 *     ring-seg    |-s-|-s-|-s-|-s-|-s-|-s-|-s-|-s-|      combining meanwhile
 */
#include "comm/ring.h"
#include "comm/shape.h"

ls__turn ls__ring_turn(int members, int member, int64_t lead)
{
    int64_t leaving = (lead % members + members) % members;

    return (ls__turn){
        .next = (member + 1) % members,
        .previous = (member + members - 1) % members,
        .leaving = leaving,
        .arriving = (leaving + members - 1) % members,
    };
}

/* Round `index` of both phases: block `lead` leaves, the one before it arrives. */
static ls_round pass_on(int ranks, int rank, int64_t lead, bool combine)
{
    ls__turn turn = ls__ring_turn(ranks, rank, lead);

    return (ls_round){
        .send_to = turn.next,
        .receive_from = turn.previous,
        .send = {turn.leaving, 1},
        .receive = {turn.arriving, 1},
        .combine = combine,
    };
}

static ls_round reduce_scatter_round(ls_layout layout, int rank, int64_t index)
{
    return pass_on(layout.ranks, rank, rank - 1 - index, true);
}

static ls_round all_gather_round(ls_layout layout, int rank, int64_t index)
{
    return pass_on(layout.ranks, rank, rank - index, false);
}

/* What a round sends arrived in the round before, hence waves of one. */
#define REDUCE_SCATTER                                                                         \
    .combines = true, .rounds = ls__one_per_peer, .wave = ls__one, .blocks = ls__one_per_rank, \
    .widest = ls__one, .round = reduce_scatter_round
#define ALL_GATHER                                                                              \
    .combines = false, .rounds = ls__one_per_peer, .wave = ls__one, .blocks = ls__one_per_rank, \
    .widest = ls__one, .round = all_gather_round

static const ls_schedule reduce_scatter = {.name = "ring reduce-scatter", REDUCE_SCATTER};
static const ls_schedule all_gather = {.name = "ring all-gather", ALL_GATHER};

const ls_algorithm ls_algorithm_ring = {
    .name = "ring",
    .reduce = &reduce_scatter,
    .distribute = &all_gather,
    .owned = ls__own_block,
};

/* Short enough to leave at once: Open MPI sends up to 64 KiB over TCP without asking first. A
 * longer message waits for the receiver's word, which in turn waits behind all that the receiver
 * itself is sending on the same connection: two ranks then take turns where their link would carry
 * both ways. Long enough that a message's fixed cost is small. */
enum { SEGMENT = 48 * 1024 };

static const ls_schedule segmented_reduce_scatter = {
    .name = "segmented ring reduce-scatter", .segment = SEGMENT, REDUCE_SCATTER};
static const ls_schedule segmented_all_gather = {
    .name = "segmented ring all-gather", .segment = SEGMENT, ALL_GATHER};

const ls_algorithm ls_algorithm_ring_seg = {
    .name = "ring-seg",
    .reduce = &segmented_reduce_scatter,
    .distribute = &segmented_all_gather,
    .owned = ls__own_block,
};
