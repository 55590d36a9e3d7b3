/* Every rank with every other: each takes its own block from all others, then theirs from them.
 * Nothing is passed on, so all rounds of a phase are one wave. Made for ranks that share memory,
 * where no link is shared and what costs is waiting: two waits in all.
 *
 * Four ranks, round 0 of each phase (in round i a rank gives to the rank i + 1 after it):
 *
 *     reduce-scatter      rank 0        rank 1        rank 2        rank 3
 *       round 0                 --1+-->       --2+-->       --3+-->       --0+--> rank 0
 *       round 1                 --2+----------------->      --0+-----------------> rank 0
 *                                             --3+----------------->      --1+--> rank 1
 *       owns               [0]           [1]           [2]           [3]
 *
 *     all-gather          rank 0        rank 1        rank 2        rank 3
 *       round 0                 --0--->       --1--->       --2--->       --3---> rank 0
 *
 * The sum of block b is x[b] + x[b-1] + ... + x[b+1], ranks modulo N, from left to right.
 *
 * Short data on one node is gathered whole by every rank, which then sums it in the order of ranks:
 * (N-1) D bytes, but one wait instead of two.
 *
 * Cost per rank, for D bytes of data: 2(N-1) messages of D/N bytes, the ring's 2 (N-1)/N D, but
 * to N - 1 peers. */
#include "comm/shape.h"

static int64_t all_rounds(ls_layout layout)
{
    return layout.ranks > 1 ? layout.ranks - 1 : 1;
}

/* The receiver's block where `scatters`, else the sender's. */
static ls_round exchange(int ranks, int rank, int64_t index, bool scatters)
{
    int to = (int)((rank + 1 + index) % ranks);
    int from = (int)((rank - 1 - index + ranks) % ranks);

    return (ls_round){
        .send_to = to,
        .receive_from = from,
        .send = {scatters ? to : rank, 1},
        .receive = {scatters ? rank : from, 1},
        .combine = scatters,
    };
}

static ls_round reduce_scatter_round(ls_layout layout, int rank, int64_t index)
{
    return exchange(layout.ranks, rank, index, true);
}

static ls_round all_gather_round(ls_layout layout, int rank, int64_t index)
{
    return exchange(layout.ranks, rank, index, false);
}

static const ls_schedule reduce_scatter = {
    .name = "direct reduce-scatter",
    .combines = true,
    .rounds = ls__one_per_peer,
    .wave = all_rounds,
    .blocks = ls__one_per_rank,
    .widest = ls__one,
    .round = reduce_scatter_round,
};

static const ls_schedule all_gather = {
    .name = "direct all-gather",
    .combines = false,
    .rounds = ls__one_per_peer,
    .wave = all_rounds,
    .blocks = ls__one_per_rank,
    .widest = ls__one,
    .round = all_gather_round,
};

const ls_algorithm ls_algorithm_direct = {
    .name = "direct",
    .reduce = &reduce_scatter,
    .distribute = &all_gather,
    .owned = ls__own_block,
    .piece = 1 << 20, /* as much as fits in the caches of a core or two */
    .whole = 960,     /* what transport_shm.c sends inside a letter */
};
