/* Through rank 0: everyone sends it everything, one after the other, and gets the sum back. What
 * one would write first, and the measure of what the ring gains.
 *
 * Four ranks, one block, which is all of the data:
 *
 *     gather              rank 0        rank 1        rank 2        rank 3
 *       round 0                 <--0+--
 *       round 1                 <---------------0+--
 *       round 2                 <------------------------------0+--
 *       owns               [0]
 *
 *     broadcast           rank 0        rank 1        rank 2        rank 3
 *       round 0                 --0--->
 *       round 1                 ----------------0-->
 *       round 2                 -------------------------------0-->
 *
 * Cost for D bytes of data: 2(N-1) steps; rank 0 receives and sends (N-1) D bytes, every other rank
 * D. The mean sent per rank is 2 (N-1)/N D, the ring's; but one link carries half of all. */
#include "comm/shape.h"

static const ls_round nothing = {.send_to = LS_NO_PEER, .receive_from = LS_NO_PEER};
static const ls_span everything = {0, 1};

static ls_round gather_round(ls_layout layout, int rank, int64_t index)
{
    ls_round round = nothing;
    int sender = (int)index + 1;

    (void)layout;
    if (rank == sender) {
        round.send_to = 0;
        round.send = everything;
    }
    if (rank == 0) {
        round.receive_from = sender;
        round.receive = everything;
        round.combine = true;
    }
    return round;
}

static ls_round broadcast_round(ls_layout layout, int rank, int64_t index)
{
    ls_round round = nothing;
    int receiver = (int)index + 1;

    (void)layout;
    if (rank == 0) {
        round.send_to = receiver;
        round.send = everything;
    }
    if (rank == receiver) {
        round.receive_from = 0;
        round.receive = everything;
    }
    return round;
}

/* Rank 0 combines into the same block in every round, hence waves of one. */
static const ls_schedule gather = {
    .name = "naive gather",
    .combines = true,
    .rounds = ls__one_per_peer,
    .wave = ls__one,
    .blocks = ls__one,
    .widest = ls__one,
    .round = gather_round,
};

static const ls_schedule broadcast = {
    .name = "naive broadcast",
    .combines = false,
    .rounds = ls__one_per_peer,
    .wave = ls__one,
    .blocks = ls__one,
    .widest = ls__one,
    .round = broadcast_round,
};

const ls_algorithm ls_algorithm_naive = {
    .name = "naive",
    .reduce = &gather,
    .distribute = &broadcast,
    .owned = ls__all_at_rank_0,
};
