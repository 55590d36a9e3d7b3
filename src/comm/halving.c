/* Recursive halving, then doubling, for any number of ranks: the ring's bytes in about log2 N
 * exchanges. J. L. Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
 *
 * The skips are s[0] = N, s[k+1] = ceil(s[k] / 2), down to 1. Before exchange k a rank r is
 * responsible for s[k] blocks from its own on, r, r+1, ... modulo N. It gives the last
 * s[k] - s[k+1] of them to the rank that they begin at, s[k+1] after it, and gets as many from the
 * rank s[k+1] before it, which are the first of its own:
 *
 *     N = 5      responsible for           gives                gets and combines
 *       s 5      r r+1 r+2 r+3 r+4         r+3 r+4 to r+3       r r+1    from r-3
 *       s 3      r r+1 r+2                 r+2     to r+2       r        from r-2
 *       s 2      r r+1                     r+1     to r+1       r        from r-1
 *       s 1      r                         [r]
 *
 * The all-gather is the same backwards. Blocks that wrap round the last one are two messages, so an
 * exchange is a wave of two rounds; where nothing wraps, the second is empty.
 *
 * Cost per rank, for D bytes of data: 2 ceil(log2 N) exchanges, 2 (N-1)/N D bytes. */
#include "comm/shape.h"

/* s[k] */
static int64_t skip(int64_t ranks, int64_t exchange)
{
    for (int64_t k = 0; k < exchange; k++)
        ranks = (ranks + 1) / 2;
    return ranks;
}

static int64_t exchanges(ls_layout layout)
{
    int64_t count = 0;

    while (skip(layout.ranks, count) > 1)
        count++;
    return count;
}

static int64_t two_rounds_per_exchange(ls_layout layout)
{
    return 2 * exchanges(layout);
}

static int64_t two(ls_layout layout)
{
    (void)layout;
    return 2;
}

static int64_t half_of_the_blocks(ls_layout layout)
{
    return layout.ranks > 1 ? layout.ranks / 2 : 1;
}

/* Of `count` blocks from `first` on: those up to the last block, or those from block 0 on. */
static ls_span part_of(int64_t ranks, int64_t first, int64_t count, bool wrapped)
{
    int64_t before = first + count < ranks ? count : ranks - first;

    if (wrapped)
        return (ls_span){0, count - before};
    return (ls_span){first, before};
}

/* One rank at one exchange. `near` blocks are those it gets in halving and gives in doubling. */
typedef struct place {
    int after;  /* the rank s[k+1] after it */
    int before; /* the rank s[k+1] before it */
    ls_span near;
    ls_span far;
} place;

static place place_of(int64_t ranks, int rank, int64_t exchange, bool wrapped)
{
    int64_t next = skip(ranks, exchange + 1);
    int64_t count = skip(ranks, exchange) - next;
    int64_t after = (rank + next) % ranks;

    return (place){
        .after = (int)after,
        .before = (int)((rank - next + ranks) % ranks),
        .near = part_of(ranks, rank, count, wrapped),
        .far = part_of(ranks, after, count, wrapped),
    };
}

static ls_round exchange_round(int to, ls_span send, int from, ls_span receive, bool combine)
{
    return (ls_round){
        .send_to = send.count > 0 ? to : LS_NO_PEER,
        .receive_from = receive.count > 0 ? from : LS_NO_PEER,
        .send = send,
        .receive = receive,
        .combine = combine,
    };
}

static ls_round halving_round(ls_layout layout, int rank, int64_t index)
{
    place here = place_of(layout.ranks, rank, index / 2, index % 2);

    return exchange_round(here.after, here.far, here.before, here.near, true);
}

static ls_round doubling_round(ls_layout layout, int rank, int64_t index)
{
    place here = place_of(layout.ranks, rank, exchanges(layout) - 1 - index / 2, index % 2);

    return exchange_round(here.before, here.near, here.after, here.far, false);
}

static const ls_schedule reduce_scatter = {
    .name = "halving reduce-scatter",
    .combines = true,
    .rounds = two_rounds_per_exchange,
    .wave = two,
    .blocks = ls__one_per_rank,
    .widest = half_of_the_blocks,
    .round = halving_round,
};

static const ls_schedule all_gather = {
    .name = "doubling all-gather",
    .combines = false,
    .rounds = two_rounds_per_exchange,
    .wave = two,
    .blocks = ls__one_per_rank,
    .widest = half_of_the_blocks,
    .round = doubling_round,
};

const ls_algorithm ls_algorithm_halving = {
    .name = "halving",
    .reduce = &reduce_scatter,
    .distribute = &all_gather,
    .owned = ls__own_block,
};
