#include "train/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "comm/reduction.h"
#include "comm/spills.h"
#include "lockstep/exact.h"

struct ls__reducer {
    ls__world *world;
    int64_t padded; /* elements */
    double micro_batches;
    float *mean;   /* (padded); with --reduce f32 the sums too */
    double *lanes; /* (padded); exact only, as all that follows until the buckets */
    ls_exact *exact;
    ls__spill_range *spill_ranges; /* (buckets, ranks) */
    ls__spill_post *post;
    int64_t spilled;
    ls_range stalled;     /* elements */
    ls_element_type unit; /* of the sums, LS__REDUCE_UNIT elements */
    int64_t bucket_units;
    int64_t buckets;
    const ls_algorithm *algorithm;
    ls__reduction **reduction; /* (buckets) */
    ls__sharing **sharing;     /* (buckets) of the shared array */
    ls__sharing **norms;       /* (buckets) of block_norms; NULL where nobody asks */
    double *block_norms;       /* (units) sums of squares */
};

int64_t ls__reducer_padded(int64_t parameters)
{
    return (parameters + LS__REDUCE_UNIT - 1) / LS__REDUCE_UNIT * LS__REDUCE_UNIT;
}

/* ---- the two kinds of sums ---- */

static void combine_floats(void *context, void *into, const void *from, int64_t units)
{
    (void)context;
    ls_sum_f32.combine(NULL, into, from, units * LS__REDUCE_UNIT);
}

static void combine_lanes(void *exact, void *into, const void *from, int64_t units)
{
    ls_exact_combine_into(exact, into, from, units * LS__REDUCE_UNIT);
}

static void add_floats(void *context, int64_t offset, int64_t count, const float *addend)
{
    ls__reducer *reducer = context;

    ls_sum_f32.combine(NULL, reducer->mean + offset, addend, count);
}

static void add_lanes(void *context, int64_t offset, int64_t count, const float *addend)
{
    ls__reducer *reducer = context;

    ls_exact_add(reducer->exact, offset, addend, count);
}

static ls_status open_sums(ls__reducer *reducer, bool exact, ls__arena *arena)
{
    int64_t size = LS__REDUCE_UNIT;

    LS_TRY(ls__arena_take(arena, LS__GRADIENTS, reducer->padded, sizeof(float), &reducer->mean));
    if (!exact) {
        size *= (int64_t)sizeof(float);
        reducer->unit = (ls_element_type){.name = "f32", .size = size, .combine = combine_floats};
        return LS_OK;
    }
    LS_TRY(ls__arena_take(arena, LS__LANES, reducer->padded, sizeof(double), &reducer->lanes));
    LS_TRY(ls_exact_open(&reducer->exact, reducer->padded, reducer->lanes));
    size *= (int64_t)sizeof(double);
    reducer->unit = (ls_element_type){
        .name = "exact", .size = size, .combine = combine_lanes, .context = reducer->exact};
    return LS_OK;
}

/* ---- buckets ---- */

/* The units of a bucket: all have bucket_units, but for the last. */
static ls_range bucket_range(const ls__reducer *reducer, int64_t bucket)
{
    int64_t offset = bucket * reducer->bucket_units;
    int64_t left = reducer->padded / LS__REDUCE_UNIT - offset;

    return (ls_range){offset, left < reducer->bucket_units ? left : reducer->bucket_units};
}

static void cut_buckets(ls__reducer *reducer, int64_t bucket_bytes)
{
    int64_t units = reducer->padded / LS__REDUCE_UNIT;
    int64_t wanted = bucket_bytes / (LS__REDUCE_UNIT * (int64_t)sizeof(float));

    reducer->bucket_units = wanted < 1 ? 1 : wanted < units ? wanted : units;
    reducer->buckets = (units + reducer->bucket_units - 1) / reducer->bucket_units;
}

/* One bucket runs at a time, so all use the same scratch; the first is the largest. */
static ls_status open_reductions(ls__reducer *reducer, ls__arena *arena)
{
    ls_transport *transport = ls__world_transport(reducer->world);
    ls__reduction_plan plan = {
        .algorithm = reducer->algorithm,
        .type = &reducer->unit,
        .library_type = reducer->exact ? NULL : &ls_sum_f32,
    };
    int64_t bytes = ls__reduction_scratch(reducer->algorithm, ls_transport_layout(transport),
                                          reducer->bucket_units, &reducer->unit);
    char *sums = reducer->exact ? (char *)reducer->lanes : (char *)reducer->mean;

    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, bytes, 1, &plan.scratch));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets, sizeof(ls__reduction *),
                          &reducer->reduction));
    for (int64_t i = 0; i < reducer->buckets; i++) {
        ls_range range = bucket_range(reducer, i);
        plan.units = range.count;
        plan.data = sums + range.offset * reducer->unit.size;
        LS_TRY(ls__reduction_open(&reducer->reduction[i], transport, &plan));
    }
    return LS_OK;
}

/* Sharings of an array of `size` bytes a unit, one a bucket. */
static ls_status open_sharings(ls__reducer *reducer, ls_transport *transport, void *data,
                               int64_t size, ls__arena *arena, ls__sharing ***sharings)
{
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets, sizeof(ls__sharing *),
                          sharings));
    for (int64_t i = 0; i < reducer->buckets; i++) {
        ls_range range = bucket_range(reducer, i);
        LS_TRY(ls__sharing_open(&(*sharings)[i], transport, reducer->algorithm,
                                (char *)data + range.offset * size, range.count, size));
    }
    return LS_OK;
}

static ls_status open_norms(ls__reducer *reducer, ls__arena *arena)
{
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->padded / LS__REDUCE_UNIT,
                          sizeof(double), &reducer->block_norms));
    return open_sharings(reducer, ls__world_control(reducer->world), reducer->block_norms,
                         sizeof(double), arena, &reducer->norms);
}

static ls_status open_post(ls__reducer *reducer, ls__arena *arena)
{
    int ranks = ls__world_ranks(reducer->world);
    ls__spill_range *at = NULL;

    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets * ranks,
                          sizeof(ls__spill_range), &reducer->spill_ranges));
    at = reducer->spill_ranges;
    for (int64_t bucket = 0; bucket < reducer->buckets; bucket++)
        for (int rank = 0; rank < ranks; rank++)
            *at++ = (ls__spill_range){ls__reducer_owned(reducer, bucket, rank), rank};
    return ls__spill_post_open(&reducer->post, reducer->exact, reducer->spill_ranges,
                               reducer->buckets * ranks, reducer->world);
}

/* ---- life cycle ---- */

static ls_status set_up(ls__reducer *reducer, const ls__train_settings *settings, float *shared,
                        ls__arena *arena)
{
    bool exact = settings->reduce == LS__REDUCE_EXACT;

    if (exact)
        LS_TRY(ls_exact_check_machine());
    LS_TRY(open_sums(reducer, exact, arena));
    cut_buckets(reducer, settings->bucket);
    LS_TRY(open_reductions(reducer, arena));
    LS_TRY(open_sharings(reducer, ls__world_transport(reducer->world),
                         shared ? shared : reducer->mean, LS__REDUCE_UNIT * (int64_t)sizeof(float),
                         arena, &reducer->sharing));
    if (shared)
        LS_TRY(open_norms(reducer, arena));
    return exact ? open_post(reducer, arena) : LS_OK;
}

ls_status ls__reducer_open(ls__reducer **reducer, const ls__train_settings *settings,
                           int64_t parameters, float *shared, ls__world *world, ls__arena *arena)
{
    ls__reducer *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the reducer");
    opened->world = world;
    opened->padded = ls__reducer_padded(parameters);
    opened->micro_batches = (double)ls__micro_batches(settings);
    opened->algorithm = ls_algorithm_at(settings->allreduce);
    ls_status status = ls__world_agree(world, set_up(opened, settings, shared, arena));
    if (status != LS_OK) {
        ls__reducer_close(opened);
        return status;
    }
    *reducer = opened;
    return LS_OK;
}

static void close_sharings(ls__sharing **sharings, int64_t count)
{
    for (int64_t i = 0; sharings && i < count; i++)
        ls__sharing_close(sharings[i]);
}

void ls__reducer_close(ls__reducer *reducer)
{
    if (!reducer)
        return;
    ls__spill_post_close(reducer->post);
    close_sharings(reducer->norms, reducer->buckets);
    close_sharings(reducer->sharing, reducer->buckets);
    for (int64_t i = 0; reducer->reduction && i < reducer->buckets; i++)
        ls__reduction_close(reducer->reduction[i]);
    ls_exact_close(reducer->exact);
    free(reducer);
}

/* ---- a step ---- */

ls__gradient_sink ls__reducer_start(ls__reducer *reducer)
{
    if (reducer->exact) {
        ls_exact_reset(reducer->exact);
        return (ls__gradient_sink){.ready = add_lanes, .context = reducer};
    }
    memset(reducer->mean, 0, (size_t)reducer->padded * sizeof *reducer->mean);
    return (ls__gradient_sink){.ready = add_floats, .context = reducer};
}

static ls_status deliver_spills(ls__reducer *reducer)
{
    int64_t spilled = 0;

    LS_TRY(ls__spill_post_deliver(reducer->post, &spilled));
    reducer->spilled += spilled;
    return LS_OK;
}

/* The one rounding: sums to means. */
static void round_owned(ls__reducer *reducer, ls_range owned)
{
    float *mean = reducer->mean + owned.offset;
    float divisor = (float)reducer->micro_batches;

    if (reducer->exact) {
        ls_exact_round(reducer->exact, owned.offset, owned.count, reducer->micro_batches, mean);
        return;
    }
    for (int64_t i = 0; i < owned.count; i++)
        mean[i] /= divisor;
}

static void note_stall(ls__reducer *reducer, int64_t bucket, ls_range units)
{
    int64_t first = bucket_range(reducer, bucket).offset + units.offset;

    reducer->stalled = (ls_range){first * LS__REDUCE_UNIT, units.count * LS__REDUCE_UNIT};
}

ls_range ls__reducer_stalled(const ls__reducer *reducer)
{
    return reducer->stalled;
}

ls_status ls__reducer_gather(ls__reducer *reducer)
{
    int rank = ls__world_rank(reducer->world);

    if (reducer->exact)
        ls_exact_settle(reducer->exact, 0, reducer->padded);
    for (int64_t i = 0; i < reducer->buckets; i++) {
        ls_status status =
            ls__reduction_run(reducer->reduction[i], ls__world_timeout(reducer->world));
        if (status == LS_TIMEOUT)
            note_stall(reducer, i, ls__reduction_waits_for(reducer->reduction[i]));
        LS_TRY(status);
    }
    if (reducer->exact)
        LS_TRY(deliver_spills(reducer));
    for (int64_t i = 0; i < reducer->buckets; i++)
        round_owned(reducer, ls__reducer_owned(reducer, i, rank));
    return LS_OK;
}

static ls_status run_sharings(ls__reducer *reducer, ls__sharing **sharings)
{
    for (int64_t i = 0; i < reducer->buckets; i++) {
        ls_status status = ls__sharing_run(sharings[i], ls__world_timeout(reducer->world));
        if (status == LS_TIMEOUT)
            note_stall(reducer, i, ls__sharing_waits_for(sharings[i]));
        LS_TRY(status);
    }
    return LS_OK;
}

ls_status ls__reducer_share(ls__reducer *reducer)
{
    return run_sharings(reducer, reducer->sharing);
}

ls_status ls__reducer_norm(ls__reducer *reducer, double *norm)
{
    int64_t units = reducer->padded / LS__REDUCE_UNIT;
    int rank = ls__world_rank(reducer->world);

    if (!reducer->norms) {
        *norm = ls__norm(reducer->mean, reducer->padded);
        return LS_OK;
    }
    for (int64_t bucket = 0; bucket < reducer->buckets; bucket++) {
        ls_range owned = ls__reducer_owned(reducer, bucket, rank);
        for (int64_t i = owned.offset; i < owned.offset + owned.count; i += LS__REDUCE_UNIT)
            reducer->block_norms[i / LS__REDUCE_UNIT] =
                ls__norm_block(reducer->mean + i, LS__REDUCE_UNIT);
    }
    LS_TRY(run_sharings(reducer, reducer->norms));
    *norm = ls__norm_of_blocks(reducer->block_norms, units);
    return LS_OK;
}

float *ls__reducer_mean(ls__reducer *reducer)
{
    return reducer->mean;
}

int64_t ls__reducer_buckets(const ls__reducer *reducer)
{
    return reducer->buckets;
}

ls_range ls__reducer_owned(const ls__reducer *reducer, int64_t bucket, int rank)
{
    ls_range whole = bucket_range(reducer, bucket);
    ls_range own = ls__owned_units(reducer->algorithm,
                                   ls_transport_layout(ls__world_transport(reducer->world)), rank,
                                   whole.count);

    return (ls_range){(whole.offset + own.offset) * LS__REDUCE_UNIT, own.count * LS__REDUCE_UNIT};
}

int64_t ls__reducer_spilled(const ls__reducer *reducer)
{
    return reducer->spilled;
}
