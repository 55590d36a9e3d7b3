#include "plan/collectives.h"

#include <math.h>
#include <string.h>

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

static double direct_half(const ls__network *network, double bytes)
{
    return blocks_half(slowest_shared(network), (double)network->ranks, bytes);
}

static double hier_half(const ls__network *network, double bytes)
{
    if (network->ranks % node_size(network) != 0)
        return NAN;
    return blocks_half(network->within, (double)node_size(network), bytes) +
           blocks_half(network->across, nodes(network), bytes);
}

/* ---- by name ---- */

typedef double half_seconds(const ls__network *network, double bytes);

const char *const ls__all_reduce_names[] = {"naive",  "tree",     "halving", "ring",
                                            "direct", "ring-seg", "hier",    NULL};

static half_seconds *const halves[] = {naive_half,  tree_half, halving_half, ring_half,
                                       direct_half, ring_half, hier_half};

double ls__all_reduce_seconds(const char *algorithm, const ls__network *network, double bytes)
{
    for (int i = 0; ls__all_reduce_names[i]; i++)
        if (strcmp(algorithm, ls__all_reduce_names[i]) == 0)
            return 2 * halves[i](network, bytes);
    return NAN;
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
