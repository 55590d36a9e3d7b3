/* Blocks, schedules and algorithms: what a collective does, as pure functions.
 *
 * A collective over `count` elements cuts them into blocks and runs in rounds. A schedule answers
 * one question: in round i, what does rank r of N send (to whom, which blocks), and what does it
 * receive (from whom, which blocks, combined with what is there or copied over it)? Nothing is
 * stored: any round of any rank can be asked for at any time, so 16,384 ranks cost no memory.
 * Running a schedule is the engine's work (lockstep/collective.h). */
#ifndef LOCKSTEP_SCHEDULE_H
#define LOCKSTEP_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* ---- blocks ---- */

/* Elements offset .. offset + count - 1. */
typedef struct ls_range {
    int64_t offset;
    int64_t count;
} ls_range;

/* Blocks first .. first + count - 1. */
typedef struct ls_span {
    int64_t first;
    int64_t count;
} ls_span;

/* Block `index` of `blocks` over `count` elements: contiguous, in order, sizes differing by one at
 * most, the larger ones first; with fewer elements than blocks the last ones are empty. Needs
 * 0 <= index < blocks, count >= 0. The one place where this formula stands. */
ls_range ls_block(int64_t count, int64_t blocks, int64_t index);

/* The elements of a span of blocks; an empty span has none. */
ls_range ls_span_range(int64_t count, int64_t blocks, ls_span span);

/* ---- schedules ---- */

/* Ranks on nodes: rank r stands on node r / per_node, and every node has per_node ranks. Where they
 * stand otherwise, or nobody knows, per_node is 1. */
typedef struct ls_layout {
    int ranks;
    int per_node;
} ls_layout;

enum { LS_NO_PEER = -1 };

/* One round of one rank. A side without a peer has an empty span. A rank never names itself. */
typedef struct ls_round {
    int send_to; /* a rank, or LS_NO_PEER */
    int receive_from;
    ls_span send;
    ls_span receive;
    bool combine; /* what is received is added to what is there; else it takes its place */
} ls_round;

/* Rounds come in waves of `wave` rounds; a round may start when the waves before its own are
 * complete. So a schedule promises that within a wave no rank sends what it receives in another
 * round of it, and that blocks received twice in it are combined both times. Between two ranks
 * messages match in the order of their rounds. What arrives is combined in the order of rounds, so
 * sums depend on the schedule alone, never on the order of arrival.
 *
 * A schedule whose waves are single rounds of one block, each sending the block that the round
 * before received, can be cut into segments: then every message is, and a segment may start when
 * the same segment of the round before is complete. So a rank passes on the first part of a block
 * while the rest of it is still arriving. */
typedef struct ls_schedule {
    const char *name;
    bool combines;                /* whether any round combines; else all copy */
    int64_t segment;              /* bytes of a segment, about; 0: whole messages */
    int64_t (*rounds)(ls_layout); /* the same for every rank; 0 for one rank */
    int64_t (*wave)(ls_layout);   /* at least 1 */
    int64_t (*blocks)(ls_layout); /* how many the elements are cut into, at least 1 */
    int64_t (*widest)(ls_layout); /* most blocks in one message, at least 1 */
    ls_round (*round)(ls_layout, int rank, int64_t index);
} ls_schedule;

/* Bytes that a rank sends in all rounds, from the schedule alone. Takes `rounds` steps. */
int64_t ls_schedule_sent_bytes(const ls_schedule *schedule, ls_layout layout, int rank,
                               int64_t count, int64_t element_size);

/* ---- algorithms ---- */

/* An all-reduce is two phases over the same blocks, usable apart, with different element types and
 * buffers: after `reduce` each block's full sum is at its owner (other ranks hold partial sums
 * there), after `distribute` it is everywhere. */
typedef struct ls_algorithm {
    const char *name;              /* as the command line calls it, at most 8 characters */
    const ls_schedule *reduce;     /* NULL: the transport's own all-reduce does everything, */
    const ls_schedule *distribute; /* NULL: and nobody owns anything before it ends */
    ls_span (*owned)(ls_layout, int rank); /* blocks whose sum a rank holds after `reduce` */
    /* Where all ranks share memory, in bytes; 0: never. */
    int64_t piece; /* longer data goes through both phases a piece at a time */
    int64_t whole; /* data up to that is gathered from all ranks by each, which sums it by itself */
} ls_algorithm;

/* Each rank owns a block, but where something else is said. Each file in src/comm draws its own. */
extern const ls_algorithm ls_algorithm_ring;     /* reduce-scatter and all-gather round the ranks */
extern const ls_algorithm ls_algorithm_ring_seg; /* the same in segments: for networks */
extern const ls_algorithm ls_algorithm_direct;   /* every rank with every other: shared memory */
extern const ls_algorithm ls_algorithm_halving;  /* few rounds, few bytes, far peers */
extern const ls_algorithm ls_algorithm_hier;     /* rings within nodes, then across them */
extern const ls_algorithm ls_algorithm_tree;  /* binomial trees to and from rank 0, owner of all */
extern const ls_algorithm ls_algorithm_naive; /* everything to rank 0, owner of all, and back */
extern const ls_algorithm ls_algorithm_mpi;   /* MPI_Allreduce, for comparison */

/* All algorithms in the order of LS_ALGORITHM_NAMES, for tables of choices. */
#define LS_ALGORITHM_NAMES "ring|ring-seg|direct|halving|hier|tree|naive|mpi"
enum { LS_ALGORITHM_COUNT = 8 };
const ls_algorithm *ls_algorithm_at(int index);

/* By name; NULL where there is none of that name. */
const ls_algorithm *ls_algorithm_find(const char *name);

/* The elements whose sums `rank` holds after the reduce phase. Not for ls_algorithm_mpi. */
ls_range ls_algorithm_owned(const ls_algorithm *algorithm, ls_layout layout, int rank,
                            int64_t count);

#endif
