#include "plan/collectives.h"

#include <math.h>
#include <string.h>

/* As src/comm has them, of which this layer knows nothing; tests/sim/comm_simulate_test.c compares
 * the two. */
enum { MESSAGES_IN_FLIGHT = 16, SEGMENTS_IN_FLIGHT = 8, SEGMENT_BYTES = 48 * 1024 };

static double message(ls__link link, double bytes)
{
    return link.latency + bytes * link.seconds_per_byte;
}

static double rounds_to_reach(int64_t ranks)
{
    int64_t reached = 1;
    int rounds = 0;

    for (; reached < ranks && rounds < 62; rounds++)
        reached *= 2;
    return rounds;
}

/* ---- what of a network an algorithm meets ---- */

static int64_t node_size(const ls__network *network)
{
    return network->per_node < network->ranks ? network->per_node : network->ranks;
}

static double nodes(const ls__network *network)
{
    return ceil((double)network->ranks / (double)node_size(network));
}

/* The slowest link that a ring over all ranks crosses. */
static ls__link slowest(const ls__network *network)
{
    return network->ranks > network->per_node ? network->across : network->within;
}

/* The same where all ranks of a node send at once. */
static ls__link slowest_shared(const ls__network *network)
{
    ls__link link = slowest(network);

    if (network->ranks > network->per_node)
        link.seconds_per_byte *= (double)network->per_node;
    return link;
}

/* ---- half an all-reduce: to the owners, or back from them ---- */

static double naive_half(const ls__network *network, double bytes)
{
    double inside = (double)(node_size(network) - 1);
    double outside = (double)(network->ranks - node_size(network));

    return inside * message(network->within, bytes) + outside * message(network->across, bytes);
}

static double tree_half(const ls__network *network, double bytes)
{
    return rounds_to_reach(node_size(network)) * message(network->within, bytes) +
           rounds_to_reach((int64_t)nodes(network)) * message(network->across, bytes);
}

static double halving_half(const ls__network *network, double bytes)
{
    ls__link link = slowest_shared(network);
    double ranks = (double)network->ranks;

    return rounds_to_reach(network->ranks) * link.latency +
           (ranks - 1) / ranks * bytes * link.seconds_per_byte;
}

static double blocks_half(ls__link link, double ranks, double bytes)
{
    return (ranks - 1) * message(link, bytes / ranks);
}

static double ring_half(const ls__network *network, double bytes)
{
    return blocks_half(slowest(network), (double)network->ranks, bytes);
}

/* Messages one after the other over a link, each of which leaves when the link is free and the one
 * `window` before it has arrived. So a turn of `window` messages takes as long as the link is busy
 * with them, or as one takes to arrive:
 *
 *     window 2, long messages     |--0--|--1--|--2--|--3--|...
 *     window 2, short messages    |-0-|-1-|  wait  |-2-|-3-|  wait  |...                         */
static double pipelined(ls__link link, double messages, double window, double bytes)
{
    double busy = bytes * link.seconds_per_byte;
    double turn = fmax(window * busy, message(link, bytes));
    double before_last = messages - 1;

    if (messages == 0)
        return 0;
    return floor(before_last / window) * turn + fmod(before_last, window) * busy +
           message(link, bytes);
}

static double segmented_ring_half(const ls__network *network, double bytes)
{
    double block = bytes / (double)network->ranks;
    double segments = fmax(ceil(block / SEGMENT_BYTES), 1);

    return pipelined(slowest(network), (double)(network->ranks - 1) * segments,
                     fmin(segments, SEGMENTS_IN_FLIGHT), block / segments);
}

static double direct_half(const ls__network *network, double bytes)
{
    double ranks = (double)network->ranks;

    return pipelined(slowest_shared(network), ranks - 1, MESSAGES_IN_FLIGHT, bytes / ranks);
}

/* ---- two levels ---- */

/* L rings over the M nodes, 2 (M-1) rounds without a break between the two phases. A round lasts
 * until the link has carried its L messages and until a rank that has sent can send again,
 * whichever is later; the last of the L messages ends the last round. */
static double rings_across(const ls__network *network, double bytes)
{
    double rings = (double)node_size(network);
    double busy = bytes / (double)network->ranks * network->across.seconds_per_byte;
    double round = fmax(rings * busy, network->across.latency + busy);

    if (nodes(network) == 1)
        return 0;
    return (2 * nodes(network) - 3) * round + network->across.latency + rings * busy;
}

static double hier_half(const ls__network *network, double bytes)
{
    if (network->ranks % node_size(network) != 0)
        return (double)NAN;
    return blocks_half(network->within, (double)node_size(network), bytes) +
           rings_across(network, bytes) / 2;
}

/* ---- by name ---- */

typedef double half_seconds(const ls__network *network, double bytes);

const char *const ls__all_reduce_names[] = {"naive",  "tree",     "halving", "ring",
                                            "direct", "ring-seg", "hier",    NULL};

static half_seconds *const halves[] = {naive_half,  tree_half,           halving_half, ring_half,
                                       direct_half, segmented_ring_half, hier_half};

double ls__all_reduce_seconds(const char *algorithm, const ls__network *network, double bytes)
{
    for (int i = 0; ls__all_reduce_names[i]; i++)
        if (strcmp(algorithm, ls__all_reduce_names[i]) == 0)
            return 2 * halves[i](network, bytes);
    return (double)NAN;
}

double ls__ring_sent_bytes(int64_t ranks, double bytes)
{
    return 2 * ((double)ranks - 1) / (double)ranks * bytes;
}

double ls__all_gather_seconds(const ls__network *network, double bytes)
{
    return ring_half(network, bytes);
}

double ls__reduce_scatter_seconds(const ls__network *network, double bytes)
{
    return ring_half(network, bytes);
}

double ls__broadcast_seconds(const ls__network *network, double bytes)
{
    return tree_half(network, bytes);
}

double ls__all_to_all_seconds(const ls__network *network, double bytes)
{
    return direct_half(network, bytes);
}

double ls__point_to_point_seconds(const ls__network *network, double bytes)
{
    return message(slowest(network), bytes);
}
