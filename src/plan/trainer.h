/* What `lockstep train` itself will book in its arena, by category, on one rank: exactly, for a run
 * with --allreduce ring or direct and without audits.
 *
 * The trainer differs from plan/memory.h, which describes the usual mixed-precision trainer. Per
 * parameter it holds, in bytes:
 *
 *     parameters    4    FP32
 *     gradients     4    of one micro-batch, as backward writes them (nn/model.c)
 *                   4    their mean over the batch; with --reduce f32 their sum as well
 *     lanes         8    --reduce exact: the exact sum; there is none with f32
 *     optimizer     8    AdamW; SGD 4; with --shard-optimizer only for the blocks that a rank owns
 *
 * so 28 bytes where others need 16: exactness costs 8, and 4 are the price of handing out each
 * gradient while the next is computed. With --precision bf16 or f16 there are 2 more, the rounded
 * weights that products read. Activations are those of one micro-batch, in the run's precision;
 * dropout masks are recomputed from keys, and attention's scores from queries and keys: of a row it
 * keeps two floats a head. Communication is scratch for the
 * largest block of a bucket, for as many as arrive together, and tables of a few bytes a bucket,
 * rank and micro-batch. Data is the whole dataset.
 *
 * What the arena does not book: the code and its libraries, MPI's buffers, OpenBLAS's and oneDNN's,
 * the spills of exact sums, which take address space until something spills. */
#ifndef LS_PLAN_TRAINER_H
#define LS_PLAN_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "plan/format.h"

/* Elements that the trainer never splits between ranks: LS__REDUCE_UNIT of train/reduce.h. */
enum { LS__PLAN_UNIT = 256 };

/* A run's flags, resolved, and what its dataset says. */
typedef struct ls__plan_run {
    /* --model mlp where hidden_count > 0, else gpt */
    int64_t layers, heads, width, context;
    int64_t inputs;        /* mlp: pixels of an image */
    const int64_t *hidden; /* (hidden_count) */
    int hidden_count;
    int64_t classes; /* the vocabulary, or the labels */

    ls__plan_format format; /* --precision */
    bool recompute;
    int64_t scratch; /* bytes that the operations of all threads work in, as math/ops.h says */

    int64_t batch, micro_batch;
    bool adamw; /* else SGD */
    bool exact; /* --reduce exact */
    bool sharded;
    bool
        direct; /* --allreduce direct, which auto is where all ranks stand on one node; else ring */
    int64_t bucket; /* bytes */

    int64_t rank, ranks;
    int64_t dataset_bytes; /* of samples and labels, as loaded: a byte or two a token or pixel */
    int64_t evaluated;     /* held-out samples that an evaluation takes */
} ls__plan_run;

int64_t ls__plan_run_parameters(const ls__plan_run *run);
int64_t ls__plan_run_buckets(const ls__plan_run *run);

/* booked[category] in bytes, as ls__arena_booked gives them. */
void ls__plan_run_memory(const ls__plan_run *run, int64_t booked[LS__CATEGORY_COUNT]);

/* Bytes that the rank's transport sends in a step, spills aside: the ring's share of the lanes, and
 * of the mean or, sharded, the parameters. */
int64_t ls__plan_run_sent_bytes(const ls__plan_run *run);

#endif
