/* A binomial tree: the sums go up it to rank 0, and down it again. R. Thakur, R. Rabenseifner,
 * W. Gropp, "Optimization of collective communication operations in MPICH", 2005.
 *
 * Five ranks, one block, which is all of the data:
 *
 *     reduce              rank 0    rank 1    rank 2    rank 3    rank 4
 *       round 0               <--0+--             <--0+--
 *       round 1               <-----------0+------
 *       round 2               <-----------------------0+------------
 *       owns               [0]
 *
 *     broadcast           the same arrows, turned round and last to first, copying
 *
 * Cost for D bytes of data: 2 ceil(log2 N) steps of D bytes each. The least steps that any
 * algorithm through one rank can do, so it suits short messages. */
#include "comm/shape.h"

/* ceil(log2 N): the smallest k with 2^k >= N. */
static int64_t levels(ls_layout layout)
{
    int64_t count = 0;

    while (((int64_t)1 << count) < layout.ranks)
        count++;
    return count;
}

static const ls_span everything = {0, 1};

/* At level k the ranks that are odd multiples of 2^k hang on the even multiple before them. */
typedef struct place {
    int parent; /* LS_NO_PEER: this rank is nobody's child at this level */
    int child;
} place;

static place place_of(ls_layout layout, int rank, int64_t level)
{
    int64_t distance = (int64_t)1 << level;
    place here = {LS_NO_PEER, LS_NO_PEER};

    if (rank % (2 * distance) == distance)
        here.parent = (int)(rank - distance);
    else if (rank % (2 * distance) == 0 && rank + distance < layout.ranks)
        here.child = (int)(rank + distance);
    return here;
}

static ls_round along(int to, int from, bool combine)
{
    return (ls_round){
        .send_to = to,
        .receive_from = from,
        .send = to != LS_NO_PEER ? everything : (ls_span){0, 0},
        .receive = from != LS_NO_PEER ? everything : (ls_span){0, 0},
        .combine = combine,
    };
}

static ls_round reduce_round(ls_layout layout, int rank, int64_t index)
{
    place here = place_of(layout, rank, index);

    return along(here.parent, here.child, true);
}

static ls_round broadcast_round(ls_layout layout, int rank, int64_t index)
{
    place here = place_of(layout, rank, levels(layout) - 1 - index);

    return along(here.child, here.parent, false);
}

static const ls_schedule reduce = {
    .name = "tree reduce",
    .combines = true,
    .rounds = levels,
    .wave = ls__one,
    .blocks = ls__one,
    .widest = ls__one,
    .round = reduce_round,
};

static const ls_schedule broadcast = {
    .name = "tree broadcast",
    .combines = false,
    .rounds = levels,
    .wave = ls__one,
    .blocks = ls__one,
    .widest = ls__one,
    .round = broadcast_round,
};

const ls_algorithm ls_algorithm_tree = {
    .name = "tree",
    .reduce = &reduce,
    .distribute = &broadcast,
    .owned = ls__all_at_rank_0,
};
