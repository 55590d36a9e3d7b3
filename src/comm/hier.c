/* Two levels of rings: within each node, where memory is shared, then across the nodes, where each
 * rank of a node takes part in a ring of its own. So the network carries each byte of a node's sum
 * once, not once a rank.
 *
 * M nodes of L ranks, N = L M. The blocks are L stripes of M blocks; rank l of node m owns block m
 * of stripe l. Two nodes of two ranks, blocks 0 1 | 2 3:
 *
 *     reduce-scatter      node 0: rank 0   rank 1      node 1: rank 2   rank 3
 *       within a node             <--01+--                     <--01+--
 *                                 --23+-->                     --23+-->
 *       across                       |------1+--------------------->        and 0+ back
 *                                             |------3+--------------------->   and 2+ back
 *       owns                      [0]      [2]                 [1]      [3]
 *
 *     all-gather          the same backwards: across the nodes, then within
 *
 * Cost for D bytes of data: 2 (L-1) steps of D/L bytes within a node and 2 (M-1) of D/N across; a
 * node sends 2 (M-1)/M D in all, where a plain ring sends 2 (N-1)/N D. With one rank a node, or one
 * node, it is the plain ring. */
#include "comm/ring.h"
#include "comm/shape.h"

static int nodes_of(ls_layout layout)
{
    return layout.ranks / layout.per_node;
}

static int64_t rounds(ls_layout layout)
{
    return layout.per_node - 1 + nodes_of(layout) - 1;
}

static int64_t a_stripe(ls_layout layout)
{
    return nodes_of(layout);
}

/* Which stripe leaves and arrives in the ring within rank's node. */
static ls_round within(ls_layout layout, int rank, int64_t lead, bool combine)
{
    int nodes = nodes_of(layout);
    int first = rank / layout.per_node * layout.per_node;
    ls__turn turn = ls__ring_turn(layout.per_node, rank % layout.per_node, lead);

    return (ls_round){
        .send_to = first + turn.next,
        .receive_from = first + turn.previous,
        .send = {turn.leaving * nodes, nodes},
        .receive = {turn.arriving * nodes, nodes},
        .combine = combine,
    };
}

/* Which block of rank's stripe leaves and arrives in the ring across the nodes. */
static ls_round across(ls_layout layout, int rank, int64_t lead, bool combine)
{
    int nodes = nodes_of(layout);
    int stripe = rank % layout.per_node;
    ls__turn turn = ls__ring_turn(nodes, rank / layout.per_node, lead);

    return (ls_round){
        .send_to = turn.next * layout.per_node + stripe,
        .receive_from = turn.previous * layout.per_node + stripe,
        .send = {(int64_t)stripe * nodes + turn.leaving, 1},
        .receive = {(int64_t)stripe * nodes + turn.arriving, 1},
        .combine = combine,
    };
}

static ls_round reduce_scatter_round(ls_layout layout, int rank, int64_t index)
{
    int64_t inner = layout.per_node - 1;

    if (index < inner)
        return within(layout, rank, rank % layout.per_node - 1 - index, true);
    return across(layout, rank, rank / layout.per_node - 1 - (index - inner), true);
}

static ls_round all_gather_round(ls_layout layout, int rank, int64_t index)
{
    int64_t outer = nodes_of(layout) - 1;

    if (index < outer)
        return across(layout, rank, rank / layout.per_node - index, false);
    return within(layout, rank, rank % layout.per_node - (index - outer), false);
}

static ls_span owned(ls_layout layout, int rank)
{
    int64_t stripe = rank % layout.per_node;

    return (ls_span){stripe * nodes_of(layout) + rank / layout.per_node, 1};
}

static const ls_schedule reduce_scatter = {
    .name = "hierarchical reduce-scatter",
    .combines = true,
    .rounds = rounds,
    .wave = ls__one,
    .blocks = ls__one_per_rank,
    .widest = a_stripe,
    .round = reduce_scatter_round,
};

static const ls_schedule all_gather = {
    .name = "hierarchical all-gather",
    .combines = false,
    .rounds = rounds,
    .wave = ls__one,
    .blocks = ls__one_per_rank,
    .widest = a_stripe,
    .round = all_gather_round,
};

const ls_algorithm ls_algorithm_hier = {
    .name = "hier",
    .reduce = &reduce_scatter,
    .distribute = &all_gather,
    .owned = owned,
};
