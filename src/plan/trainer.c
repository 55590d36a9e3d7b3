#include "plan/trainer.h"

enum {
    FLOAT = sizeof(float),
    DOUBLE = sizeof(double),
    LINE = 16,        /* floats of a cache line, on which views of activations start */
    SLOT = 16,        /* bytes of a micro-batch's result, in a step and in an evaluation */
    SPILL_RANGE = 24, /* bytes of a range and its owner */
    BUCKETS_IN_FLIGHT = 4,
    ROUNDS_IN_FLIGHT = 16 /* of direct; the ring has one */
};

static int64_t round_up(int64_t count, int64_t multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

static bool is_mlp(const ls__plan_run *run)
{
    return run->hidden_count > 0;
}

static int64_t value_bytes(const ls__plan_run *run)
{
    return (int64_t)ls__plan_number_of(run->format).bytes;
}

/* ---- the model ---- */

static int64_t mlp_parameters(const ls__plan_run *run)
{
    int64_t total = 0;
    int64_t from = run->inputs;

    for (int i = 0; i < run->hidden_count; i++) {
        total += run->hidden[i] * (from + 1);
        from = run->hidden[i];
    }
    return total + run->classes * (from + 1);
}

int64_t ls__plan_run_parameters(const ls__plan_run *run)
{
    int64_t C = run->width;

    if (is_mlp(run))
        return mlp_parameters(run);
    return run->layers * (12 * C * C + 13 * C) + (run->classes + run->context + 2) * C;
}

static int64_t padded(const ls__plan_run *run)
{
    return round_up(ls__plan_run_parameters(run), LS__PLAN_UNIT);
}

/* The images where they are rounded; sums, outputs and their gradients, of each hidden layer. */
static int64_t mlp_activations(const ls__plan_run *run)
{
    int64_t values = run->format == LS__PLAN_F32 ? 0 : run->micro_batch * run->inputs;

    for (int i = 0; i < run->hidden_count; i++)
        values += 3 * run->micro_batch * run->hidden[i];
    return values * value_bytes(run);
}

/* Bytes of a view of rows x columns values, or of floats. */
static int64_t view(const ls__plan_run *run, int64_t columns, int64_t value_bytes)
{
    return round_up(run->micro_batch * run->context * columns * value_bytes, LINE * FLOAT);
}

/* What a layer keeps: 16 C values a row, and floats: two a head, and four of norm statistics. With
 * recomputation one layer's worth serves all, but for the stream that enters each. */
static int64_t gpt_activations(const ls__plan_run *run)
{
    int64_t bytes = value_bytes(run);
    int64_t stream = view(run, run->width, bytes);
    int64_t wide = view(run, 4 * run->width, bytes);
    int64_t statistic = view(run, 1, FLOAT);
    int64_t inner = 4 * stream + view(run, 3 * run->width, bytes) + 2 * wide + 4 * statistic +
                    view(run, 2 * run->heads, FLOAT);
    int64_t around = 5 * stream + 2 * statistic + wide;
    int64_t keys = run->micro_batch * (int64_t)sizeof(uint64_t);

    return run->layers * stream + (run->recompute ? 1 : run->layers) * inner + around + keys;
}

static int64_t activations(const ls__plan_run *run)
{
    int64_t rows = run->micro_batch * (is_mlp(run) ? 1 : run->context);
    int64_t logits_and_losses = rows * (run->classes * value_bytes(run) + FLOAT);

    return logits_and_losses + (is_mlp(run) ? mlp_activations(run) : gpt_activations(run));
}

/* Of one micro-batch, inputs and targets, beside the dataset. */
static int64_t data(const ls__plan_run *run)
{
    int64_t sample = is_mlp(run) ? run->inputs + 1 : 2 * run->context;

    return run->dataset_bytes + run->micro_batch * sample * 4;
}

/* ---- buckets and blocks ---- */

static int64_t bucket_units(const ls__plan_run *run)
{
    int64_t units = padded(run) / LS__PLAN_UNIT;
    int64_t wanted = run->bucket / ((int64_t)LS__PLAN_UNIT * FLOAT);

    return wanted < 1 ? 1 : wanted < units ? wanted : units;
}

int64_t ls__plan_run_buckets(const ls__plan_run *run)
{
    int64_t units = padded(run) / LS__PLAN_UNIT;
    int64_t each = bucket_units(run);

    return (units + each - 1) / each;
}

/* Of a bucket's units, those of a rank's block. */
static int64_t block_units(const ls__plan_run *run, int64_t units, int64_t rank)
{
    return units / run->ranks + (rank < units % run->ranks ? 1 : 0);
}

/* Units of all buckets that a rank owns. */
static int64_t owned_units(const ls__plan_run *run, int64_t rank)
{
    int64_t full = bucket_units(run);
    int64_t buckets = ls__plan_run_buckets(run);
    int64_t last = padded(run) / LS__PLAN_UNIT - (buckets - 1) * full;

    return (buckets - 1) * block_units(run, full, rank) + block_units(run, last, rank);
}

/* The parameters among a rank's elements: the padding, at the end of the first bucket, is nobody's
 * to update. */
static int64_t owned_parameters(const ls__plan_run *run)
{
    int64_t first_units = bucket_units(run);
    int64_t last_owner = (first_units < run->ranks ? first_units : run->ranks) - 1;
    int64_t padding = padded(run) - ls__plan_run_parameters(run);

    return owned_units(run, run->rank) * LS__PLAN_UNIT - (run->rank == last_owner ? padding : 0);
}

static int64_t blocks_in_flight(const ls__plan_run *run)
{
    int64_t peers = run->ranks - 1;

    if (!run->direct)
        return 1;
    return peers < ROUNDS_IN_FLIGHT ? peers : ROUNDS_IN_FLIGHT;
}

/* Of the all-reduce of the units' norms, by halving: two slots of half the blocks. */
static int64_t norms_scratch(const ls__plan_run *run)
{
    int64_t units = padded(run) / LS__PLAN_UNIT;
    int64_t widest = 0;

    for (int64_t rank = 0; rank < run->ranks / 2; rank++)
        widest += block_units(run, units, rank);
    return 2 * round_up(widest * DOUBLE, LINE * FLOAT);
}

static int64_t communication(const ls__plan_run *run)
{
    int64_t buckets = ls__plan_run_buckets(run);
    int64_t lane = run->exact ? DOUBLE : FLOAT;
    int64_t scratch =
        blocks_in_flight(run) * block_units(run, bucket_units(run), 0) * LS__PLAN_UNIT * lane;
    int64_t pointers = buckets * (int64_t)sizeof(void *);
    int64_t slots = (run->evaluated + run->micro_batch - 1) / run->micro_batch;
    int64_t in_flight = buckets < BUCKETS_IN_FLIGHT ? buckets : BUCKETS_IN_FLIGHT;
    int64_t counters = 2 * buckets * (int64_t)sizeof(int64_t);
    int64_t bytes = in_flight * (run->ranks > 1 ? scratch : 1) + 2 * pointers + counters;

    if (run->sharded)
        bytes += padded(run) / LS__PLAN_UNIT * DOUBLE + norms_scratch(run);
    if (run->exact)
        bytes += buckets * run->ranks * SPILL_RANGE;
    return bytes + (run->batch / run->micro_batch + slots) * SLOT;
}

/* ---- the ledger ---- */

void ls__plan_run_memory(const ls__plan_run *run, int64_t booked[LS__CATEGORY_COUNT])
{
    int64_t parameters = ls__plan_run_parameters(run);
    int64_t states = run->adamw ? 2 : 1;

    booked[LS__PARAMETERS] = padded(run) * FLOAT;
    booked[LS__GRADIENTS] = (parameters + padded(run)) * FLOAT;
    booked[LS__LANES] = run->exact ? padded(run) * DOUBLE : 0;
    booked[LS__OPTIMIZER] = states * FLOAT * (run->sharded ? owned_parameters(run) : parameters);
    booked[LS__WEIGHTS] = run->format == LS__PLAN_F32 ? 0 : parameters * value_bytes(run);
    booked[LS__ACTIVATIONS] = activations(run);
    booked[LS__SCRATCH] = run->scratch;
    booked[LS__COMMUNICATION] = communication(run);
    booked[LS__DATA] = data(run);
}

/* Reduce-scatter sends all blocks but a rank's own; all-gather the ring's all but the next rank's,
 * direct's the own one to all others. */
int64_t ls__plan_run_sent_bytes(const ls__plan_run *run)
{
    int64_t units = padded(run) / LS__PLAN_UNIT;
    int64_t lane = run->exact ? DOUBLE : FLOAT;

    if (run->ranks == 1)
        return 0;
    int64_t reduced = units - owned_units(run, run->rank);
    int64_t gathered = run->direct ? (run->ranks - 1) * owned_units(run, run->rank)
                                   : units - owned_units(run, (run->rank + 1) % run->ranks);
    return (reduced * lane + gathered * FLOAT) * LS__PLAN_UNIT;
}
