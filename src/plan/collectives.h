/* What collectives cost, in the alpha-beta model: a message of B bytes takes a + B b seconds, where
 * a is the latency of its link and b the seconds a byte. Every rank sends and receives at the same
 * time; combining costs nothing.
 *
 * Sources: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication
 * Operations in MPICH", IJHPCA 19(1), 2005; for `halving` at any N, J. L. Traeff,
 * "(Poly)Logarithmic Time Construction of Round-optimal n-Block Broadcast Schedules ...", 2023,
 * whose circulant graph gives reduce-scatter and all-gather in ceil(log2 N) rounds each.
 *
 * For N ranks, a rank a node, D bytes:
 *
 *     naive           2 (N-1) (a + D b)                  all to one rank and back
 *     tree            2 ceil(log2 N) (a + D b)           binomial reduction, then broadcast
 *     halving         2 ceil(log2 N) a + 2 (N-1)/N D b
 *     ring            2 (N-1) (a + D/N b)
 *     direct          2 a + 2 (N-1) D/N b                nothing waits for what another sent
 *     ring-seg        2 a + 2 (N-1) D/N b                segments leave while others arrive
 *     hier            2 (L-1) (a_w + D/L b_w) + a + (2M-2) D/M b, L ranks a node, M = N/L nodes
 *
 * `direct` and `ring-seg` keep so many messages on their way, 16 and 8 segments of 48 KiB, that
 * their latencies overlap; that is what the formula says where these keep the link busy, that is
 * where (16-1) D/N b, or (4-1) segments, are longer than a. Where they are shorter the link waits,
 * and so does the result. `hier` has L rings over D/L bytes each that share a node's link: one
 * sends while another's message arrives, which hides the latency where it is shorter than
 * (L-1) D/N b; else, and with L = 1, it is 2 (L-1) (a_w + D/L b_w) + 2 (M-1) (a + D/N b) +
 * (L-1) D/N b.
 *
 * With L > 1 ranks a node, which share its one link `across`, the others cost: `ring` and
 * `ring-seg` as above, since one rank of a node sends across, and a round lasts as long as its
 * slowest message; `naive` and `tree` have L-1, or ceil(log2 L), of their rounds within the node;
 * `halving` and `direct` have all L ranks sending across at once: L b instead of b, an upper bound.
 * Where all ranks are on one node, all messages are `within`. */
#ifndef LS_PLAN_COLLECTIVES_H
#define LS_PLAN_COLLECTIVES_H

#include <stdint.h>

typedef struct ls__link {
    double latency;          /* seconds */
    double seconds_per_byte; /* 1 / bandwidth in one direction */
} ls__link;

/* per_node consecutive ranks share a node and its one link `across`. per_node 1: `within` is not
 * used. */
typedef struct ls__network {
    int64_t ranks;
    int64_t per_node;
    ls__link across;
    ls__link within;
} ls__network;

/* The algorithms, as choices of a flag, and in the same order one by one, closed with NULL. */
#define LS__ALL_REDUCE_CHOICES "naive|tree|halving|ring|direct|ring-seg|hier"
extern const char *const ls__all_reduce_names[];

/* `bytes` is D, the size of the array that every rank has. 0 for one rank; NAN for an unknown name,
 * and for `hier` where per_node does not divide the ranks. */
double ls__all_reduce_seconds(const char *algorithm, const ls__network *network, double bytes);

/* Bytes that each rank of a ring sends, and as many again that it receives: 2 (N-1)/N D. */
double ls__ring_sent_bytes(int64_t ranks, double bytes);

/* Half a ring, (N-1) (a + D/N b). `bytes` is D, the whole array: what a rank has after all-gather,
 * and before reduce-scatter. */
double ls__all_gather_seconds(const ls__network *network, double bytes);
double ls__reduce_scatter_seconds(const ls__network *network, double bytes);

/* Half a tree, ceil(log2 N) (a + D b). */
double ls__broadcast_seconds(const ls__network *network, double bytes);

/* Half of `direct`: of its D bytes each rank sends D/N to every other. */
double ls__all_to_all_seconds(const ls__network *network, double bytes);

/* a + D b, across nodes where there is more than one. */
double ls__point_to_point_seconds(const ls__network *network, double bytes);

#endif
