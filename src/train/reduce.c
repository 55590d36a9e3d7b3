#include "train/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/threads.h"
#include "comm/engine.h"
#include "comm/policy.h"
#include "comm/reduction.h"
#include "comm/spills.h"
#include "lockstep/exact.h"
#include "train/bucket.h"
#include "train/sums.h"

/* Buckets that are being reduced, and as many that are being shared, at any time. */
enum { IN_FLIGHT = 4 };

/* Buckets are numbered in the order in which backward completes them, from the end of the array.
 * They are shared in the same order, but for what forward is to read, which goes from the
 * beginning.
 *
 *     0 ........................................ shared ..... reduced ..... ready ..... buckets
 *       at all ranks                             | being      | being       | complete  | gradient
 *                                                | shared     | reduced     | here      | to come
 *
 * All ranks start them in this order. */
typedef struct bucket_progress {
    int64_t ready;   /* complete on this rank */
    int64_t started; /* reductions begun */
    int64_t reduced; /* reductions done */
    int64_t rounded; /* means stand at their owners and may be shared */
    int64_t sharing; /* sharings begun */
    int64_t shared;  /* sharings done */
} bucket_progress;

struct ls__reducer {
    ls__world *world;
    int64_t padded; /* elements */
    double micro_batches;
    double divisor; /* of sums: micro_batches, times what scaled their addends */
    float *mean;    /* (padded); with --reduce f32 the sums too */
    double *lanes;  /* (padded); exact only, as all that follows until `stalled` */
    ls_exact *exact;
    ls__spill_range *spill_ranges; /* (buckets, ranks) */
    ls__spill_post *post;
    int64_t spilled;      /* in all steps */
    int64_t spilled_now;  /* in this step */
    ls_range stalled;     /* elements */
    ls_element_type unit; /* of the sums, LS__REDUCE_UNIT elements */
    int64_t bucket_units;
    int64_t buckets;
    int64_t in_flight;
    const ls_algorithm *algorithm;
    ls__reduction **reduction; /* (buckets) */
    ls__sharing **sharing;     /* (buckets) of the shared array */
    double *block_norms;       /* (units) sums of squares; NULL where all have the whole mean */
    ls_allreduce *norms;       /* of block_norms */

    /* ---- the step ---- */
    bool shares_mean;  /* so a bucket can be shared as soon as it is rounded */
    bool last;         /* this rank's last micro-batch is under way */
    bool learned;      /* `expected` is known */
    int64_t *expected; /* (buckets) elements that backward hands out for one micro-batch */
    int64_t *handed;   /* (buckets) so far */
    bucket_progress progress;
    bool late;              /* the shared array is on its way to the next step's forward */
    double waited_seconds;  /* for it */
    int64_t settled_at;     /* bytes that the transport had sent */
    ls_status status;       /* of what failed inside the sink, or in ls__reducer_need */
    double in_flight_since; /* clock; 0: nothing is in flight */
    double hidden_seconds;
};

int64_t ls__reducer_padded(int64_t parameters)
{
    return (parameters + LS__REDUCE_UNIT - 1) / LS__REDUCE_UNIT * LS__REDUCE_UNIT;
}

/* ---- the two kinds of sums ---- */

static void combine_floats(void *context, void *into, const void *from, int64_t units)
{
    (void)context;
    ls__sums_add_floats(into, from, units * LS__REDUCE_UNIT);
}

static void combine_lanes(void *context, void *into, const void *from, int64_t units)
{
    const ls__reducer *reducer = context;

    ls__sums_combine(reducer->exact, (double *)into - reducer->lanes, from,
                     units * LS__REDUCE_UNIT);
}

/* What ranks read from each other, on all ranks in the same order. */
static ls_status take_memory(ls__reducer *reducer, bool exact, ls__arena *arena)
{
    LS_TRY(ls__world_memory(reducer->world, arena, LS__GRADIENTS, reducer->padded, sizeof(float),
                            &reducer->mean));
    if (!exact)
        return LS_OK;
    return ls__world_memory(reducer->world, arena, LS__LANES, reducer->padded, sizeof(double),
                            &reducer->lanes);
}

static ls_status open_sums(ls__reducer *reducer, bool exact)
{
    int64_t size = LS__REDUCE_UNIT;

    if (!exact) {
        size *= (int64_t)sizeof(float);
        reducer->unit = (ls_element_type){.name = "f32", .size = size, .combine = combine_floats};
        return LS_OK;
    }
    LS_TRY(ls_exact_open(&reducer->exact, reducer->padded, reducer->lanes));
    size *= (int64_t)sizeof(double);
    reducer->unit = (ls_element_type){
        .name = "exact", .size = size, .combine = combine_lanes, .context = reducer};
    return LS_OK;
}

/* ---- buckets ---- */

/* The units of a bucket: all have bucket_units, but for the last one, which begins the array. */
static ls_range bucket_range(const ls__reducer *reducer, int64_t bucket)
{
    int64_t end = reducer->padded / LS__REDUCE_UNIT - bucket * reducer->bucket_units;
    int64_t offset = end > reducer->bucket_units ? end - reducer->bucket_units : 0;

    return (ls_range){offset, end - offset};
}

static void cut_buckets(ls__reducer *reducer, int64_t bucket_bytes)
{
    int64_t units = reducer->padded / LS__REDUCE_UNIT;
    int64_t wanted = bucket_bytes / (LS__REDUCE_UNIT * (int64_t)sizeof(float));

    reducer->bucket_units = wanted < 1 ? 1 : wanted < units ? wanted : units;
    reducer->buckets = (units + reducer->bucket_units - 1) / reducer->bucket_units;
    reducer->in_flight = reducer->buckets < IN_FLIGHT ? reducer->buckets : IN_FLIGHT;
    if (!reducer->algorithm->reduce)
        reducer->in_flight = 1; /* its scratch has room for a whole bucket */
}

static ls_layout layout_of(const ls__reducer *reducer)
{
    return ls_transport_layout(ls__world_transport(reducer->world));
}

static char *sums_of(const ls__reducer *reducer)
{
    return reducer->exact ? (char *)reducer->lanes : (char *)reducer->mean;
}

/* A bucket uses the channel and the scratch of the one `in_flight` before it, which is done by
 * then; the first is the largest. */
static ls_status open_reductions(ls__reducer *reducer, ls__arena *arena)
{
    ls_transport *transport = ls__world_transport(reducer->world);
    ls__reduction_plan plan = {
        .algorithm = reducer->algorithm,
        .type = &reducer->unit,
        .library_type = reducer->exact ? NULL : &ls_sum_f32,
    };
    int64_t bytes = ls__reduction_scratch(reducer->algorithm, layout_of(reducer),
                                          reducer->bucket_units, &reducer->unit);
    char *scratch = NULL;

    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->in_flight, bytes, &scratch));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets, sizeof(ls__reduction *),
                          &reducer->reduction));
    for (int64_t i = 0; i < reducer->buckets; i++) {
        ls_range range = bucket_range(reducer, i);
        plan.units = range.count;
        plan.data = sums_of(reducer) + range.offset * reducer->unit.size;
        plan.scratch = scratch + i % reducer->in_flight * bytes;
        plan.channel = (int)(i % reducer->in_flight);
        LS_TRY(ls__reduction_open(&reducer->reduction[i], transport, &plan));
    }
    return LS_OK;
}

static ls_status open_sharings(ls__reducer *reducer, float *shared, ls__arena *arena)
{
    ls__sharing_plan plan = {.algorithm = reducer->algorithm,
                             .size = LS__REDUCE_UNIT * (int64_t)sizeof(float)};

    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets, sizeof(ls__sharing *),
                          &reducer->sharing));
    for (int64_t i = 0; i < reducer->buckets; i++) {
        ls_range range = bucket_range(reducer, i);
        plan.units = range.count;
        plan.data = shared + range.offset * LS__REDUCE_UNIT;
        plan.channel = (int)(IN_FLIGHT + i % reducer->in_flight);
        LS_TRY(ls__sharing_open(&reducer->sharing[i], ls__world_transport(reducer->world), &plan));
    }
    return LS_OK;
}

/* A unit's sum of squares is its owner's and 0 at all others: their sum is exact in any order. */
static ls_status open_norms(ls__reducer *reducer, ls__arena *arena)
{
    ls_transport *transport = ls__world_control(reducer->world);
    int64_t units = reducer->padded / LS__REDUCE_UNIT;
    int64_t scratch = ls_allreduce_scratch(&ls_algorithm_halving, ls_transport_layout(transport),
                                           units, &ls_sum_f64);
    ls_payload payload = {.count = units, .type = &ls_sum_f64};

    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, units, sizeof(double), &reducer->block_norms));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, scratch, 1, &payload.scratch));
    payload.data = reducer->block_norms;
    return ls_allreduce_open(&reducer->norms, transport, &ls_algorithm_halving, &payload);
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

static ls_status open_counters(ls__reducer *reducer, ls__arena *arena)
{
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets, sizeof(int64_t),
                          &reducer->expected));
    return ls__arena_take(arena, LS__COMMUNICATION, reducer->buckets, sizeof(int64_t),
                          &reducer->handed);
}

static ls_status open_all(ls__reducer *reducer, float *shared, ls__arena *arena)
{
    LS_TRY(open_reductions(reducer, arena));
    LS_TRY(open_sharings(reducer, shared ? shared : reducer->mean, arena));
    LS_TRY(open_counters(reducer, arena));
    if (shared)
        LS_TRY(open_norms(reducer, arena));
    return reducer->exact ? open_post(reducer, arena) : LS_OK;
}

static ls_status set_up(ls__reducer *reducer, const ls__train_settings *settings, float *shared,
                        ls__arena *arena)
{
    bool exact = settings->reduce == LS__REDUCE_EXACT;
    int64_t bucket = settings->bucket;
    ls_status status = exact ? ls_exact_check_machine() : LS_OK;

    LS_TRY(take_memory(reducer, exact, arena));
    if (status == LS_OK)
        status = open_sums(reducer, exact);
    LS_TRY(ls__world_agree(reducer->world, status));
    reducer->algorithm =
        settings->allreduce == LS__ALLREDUCE_AUTO
            ? ls__choose_algorithm(layout_of(reducer), reducer->padded * (int64_t)sizeof(float))
            : ls_algorithm_at(settings->allreduce - 1);
    if (bucket == 0)
        LS_TRY(ls__bucket_measure(reducer->world, reducer->algorithm, &reducer->unit,
                                  sums_of(reducer), reducer->padded / LS__REDUCE_UNIT, &bucket));
    cut_buckets(reducer, bucket);
    return ls__world_agree(reducer->world, open_all(reducer, shared, arena));
}

ls_status ls__reducer_open(ls__reducer **reducer, const ls__train_settings *settings,
                           int64_t parameters, float *shared, ls__world *world, ls__arena *arena)
{
    ls__reducer *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the reducer");
    opened->world = world;
    opened->padded = ls__reducer_padded(parameters);
    opened->micro_batches = (double)ls__micro_batches(settings);
    opened->divisor = opened->micro_batches;
    opened->shares_mean = !shared;
    ls_status status = set_up(opened, settings, shared, arena);
    if (status != LS_OK) {
        ls__reducer_close(opened);
        return status;
    }
    *reducer = opened;
    return LS_OK;
}

void ls__reducer_close(ls__reducer *reducer)
{
    if (!reducer)
        return;
    ls__spill_post_close(reducer->post);
    ls_allreduce_close(reducer->norms);
    for (int64_t i = 0; reducer->sharing && i < reducer->buckets; i++)
        ls__sharing_close(reducer->sharing[i]);
    for (int64_t i = 0; reducer->reduction && i < reducer->buckets; i++)
        ls__reduction_close(reducer->reduction[i]);
    ls_exact_close(reducer->exact);
    free(reducer);
}

/* ---- means ---- */

/* The one rounding: sums to means, of what this rank owns. */
static void round_owned(ls__reducer *reducer, int64_t bucket)
{
    ls_range owned = ls__reducer_owned(reducer, bucket, ls__world_rank(reducer->world));
    float *mean = reducer->mean + owned.offset;
    float divisor = (float)reducer->divisor; /* exact: below 2^20, times a power of two */

    if (reducer->exact) {
        ls__sums_round(reducer->exact, owned.offset, owned.count, reducer->divisor, mean);
        return;
    }
    ls__sums_divide_floats(mean, divisor, owned.count);
}

/* A mean that goes to all ranks is rounded at once: spills come after all reductions, and are so
 * rare that doing it again is cheaper than waiting for them. */
static bool rounds_at_once(const ls__reducer *reducer)
{
    return reducer->shares_mean && reducer->algorithm->reduce;
}

/* ---- buckets on their way: nothing here blocks ---- */

static ls_status start_reduction(ls__reducer *reducer, int64_t bucket)
{
    ls_range units = bucket_range(reducer, bucket);

    if (reducer->exact)
        ls_exact_settle(reducer->exact, units.offset * LS__REDUCE_UNIT,
                        units.count * LS__REDUCE_UNIT);
    return ls__reduction_start(reducer->reduction[bucket]);
}

static ls_status advance_reductions(ls__reducer *reducer)
{
    bucket_progress *at = &reducer->progress;

    while (at->started < at->ready && at->started - at->reduced < reducer->in_flight)
        LS_TRY(start_reduction(reducer, at->started++));
    for (int64_t i = at->reduced; i < at->started; i++) {
        bool done = false;
        LS_TRY(ls__reduction_advance(reducer->reduction[i], &done));
        if (!done || i != at->reduced)
            continue;
        at->reduced++;
        if (rounds_at_once(reducer)) {
            round_owned(reducer, i);
            at->rounded++;
        }
    }
    return LS_OK;
}

/* The i-th bucket to be shared. */
static int64_t shared_bucket(const ls__reducer *reducer, int64_t i)
{
    return reducer->shares_mean ? i : reducer->buckets - 1 - i;
}

static ls__sharing *sharing_at(const ls__reducer *reducer, int64_t i)
{
    return reducer->sharing[shared_bucket(reducer, i)];
}

static ls_status advance_sharings(ls__reducer *reducer)
{
    bucket_progress *at = &reducer->progress;

    while (at->sharing < at->rounded && at->sharing - at->shared < reducer->in_flight)
        LS_TRY(ls__sharing_start(sharing_at(reducer, at->sharing++)));
    for (int64_t i = at->shared; i < at->sharing; i++) {
        bool done = false;
        LS_TRY(ls__sharing_advance(sharing_at(reducer, i), &done));
        if (done && i == at->shared)
            at->shared++;
    }
    return LS_OK;
}

/* Keeps the time during which something is in flight. */
static void note_flight(ls__reducer *reducer)
{
    const bucket_progress *at = &reducer->progress;
    bool flying = at->started > at->reduced || at->sharing > at->shared;

    if (flying && reducer->in_flight_since == 0)
        reducer->in_flight_since = ls__clock_seconds();
    if (!flying && reducer->in_flight_since > 0) {
        reducer->hidden_seconds += ls__clock_seconds() - reducer->in_flight_since;
        reducer->in_flight_since = 0;
    }
}

static ls_status advance(ls__reducer *reducer)
{
    LS_TRY(advance_reductions(reducer));
    return advance_sharings(reducer);
}

/* ---- addends ---- */

/* Counts what backward handed out, by bucket. */
static void note_handed(ls__reducer *reducer, int64_t offset, int64_t count)
{
    int64_t size = reducer->bucket_units * LS__REDUCE_UNIT;
    int64_t end = reducer->padded - offset; /* both from the end of the array */
    int64_t begin = end - count;

    for (int64_t bucket = begin / size; bucket * size < end; bucket++) {
        int64_t from = bucket * size > begin ? bucket * size : begin;
        int64_t to = (bucket + 1) * size < end ? (bucket + 1) * size : end;
        reducer->handed[bucket] += to - from;
    }
}

/* Backward hands out the same for every micro-batch: what it was for the first tells when a bucket
 * of a later one is complete. */
static void learn(ls__reducer *reducer)
{
    if (reducer->learned)
        return;
    memcpy(reducer->expected, reducer->handed, (size_t)reducer->buckets * sizeof(int64_t));
    reducer->learned = true;
}

/* Sends off the buckets that are complete, and helps those on their way along. */
static void make_progress(ls__reducer *reducer)
{
    bucket_progress *at = &reducer->progress;

    if (!reducer->last || !reducer->learned || reducer->status != LS_OK)
        return;
    while (at->ready < reducer->buckets &&
           reducer->handed[at->ready] == reducer->expected[at->ready])
        at->ready++;
    reducer->status = advance(reducer);
    note_flight(reducer);
}

static void add_floats(void *context, int64_t offset, int64_t count, const float *addend)
{
    ls__reducer *reducer = context;

    ls__sums_add_floats(reducer->mean + offset, addend, count);
    note_handed(reducer, offset, count);
    make_progress(reducer);
}

static void add_lanes(void *context, int64_t offset, int64_t count, const float *addend)
{
    ls__reducer *reducer = context;

    ls__sums_add(reducer->exact, offset, addend, count);
    note_handed(reducer, offset, count);
    make_progress(reducer);
}

/* ---- a step ---- */

void ls__reducer_set_scale(ls__reducer *reducer, double scale)
{
    reducer->divisor = reducer->micro_batches * scale;
}

ls__gradient_sink ls__reducer_start(ls__reducer *reducer)
{
    if (!reducer->late)
        reducer->progress = (bucket_progress){0};
    reducer->status = LS_OK;
    reducer->last = false;
    reducer->hidden_seconds = 0;
    reducer->in_flight_since = reducer->late ? ls__clock_seconds() : 0;
    if (reducer->exact) {
        ls_exact_reset(reducer->exact);
        return (ls__gradient_sink){.ready = add_lanes, .context = reducer};
    }
    memset(reducer->mean, 0, (size_t)reducer->padded * sizeof *reducer->mean);
    return (ls__gradient_sink){.ready = add_floats, .context = reducer};
}

void ls__reducer_next(ls__reducer *reducer, bool last)
{
    if (reducer->late && reducer->status == LS_OK)
        reducer->status = ls__reducer_settle(reducer);
    memset(reducer->handed, 0, (size_t)reducer->buckets * sizeof(int64_t));
    reducer->last = last;
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

/* The oldest on its way is the one that is waited for. */
static ls_status timed_out(ls__reducer *reducer)
{
    const bucket_progress *at = &reducer->progress;
    double seconds = ls__world_timeout(reducer->world);
    bool reducing = at->reduced < at->started;
    int64_t bucket = reducing ? at->reduced : shared_bucket(reducer, at->shared);
    ls_range units = {0};
    ls_status status = reducing
                           ? ls__reduction_timed_out(reducer->reduction[bucket], seconds, &units)
                           : ls__sharing_timed_out(reducer->sharing[bucket], seconds, &units);

    note_stall(reducer, bucket, units);
    return status;
}

/* Until `count`, one of the progress counters, has come to `wanted`. */
static ls_status wait_until(ls__reducer *reducer, const int64_t *count, int64_t wanted)
{
    const ls_transport *transport = ls__world_transport(reducer->world);
    double deadline = ls__clock_seconds() + ls__world_timeout(reducer->world);
    int looks = 0;

    for (;;) {
        LS_TRY(advance(reducer));
        if (*count >= wanted)
            return LS_OK;
        if (ls__look_until(transport, &looks, deadline))
            return timed_out(reducer);
    }
}

static ls_status wait_for_all(ls__reducer *reducer, const int64_t *count)
{
    return wait_until(reducer, count, reducer->buckets);
}

static ls_status deliver_spills(ls__reducer *reducer)
{
    LS_TRY(ls__spill_post_deliver(reducer->post, &reducer->spilled_now));
    reducer->spilled += reducer->spilled_now;
    return LS_OK;
}

static void round_all(ls__reducer *reducer)
{
    for (int64_t i = 0; i < reducer->buckets; i++)
        round_owned(reducer, i);
    reducer->progress.rounded = reducer->buckets;
}

ls_status ls__reducer_gather(ls__reducer *reducer)
{
    LS_TRY(reducer->status);
    learn(reducer);
    if (reducer->in_flight_since > 0)
        reducer->hidden_seconds += ls__clock_seconds() - reducer->in_flight_since;
    reducer->progress.ready = reducer->buckets;
    LS_TRY(wait_for_all(reducer, &reducer->progress.reduced));
    if (reducer->exact)
        LS_TRY(deliver_spills(reducer));
    if (!rounds_at_once(reducer))
        round_all(reducer);
    return LS_OK;
}

ls_status ls__reducer_share(ls__reducer *reducer)
{
    LS_TRY(wait_for_all(reducer, &reducer->progress.shared));
    if (!rounds_at_once(reducer) || !reducer->exact || reducer->spilled_now == 0)
        return LS_OK;
    round_all(reducer);
    reducer->progress.sharing = 0;
    reducer->progress.shared = 0;
    return wait_for_all(reducer, &reducer->progress.shared);
}

/* ---- in the background ---- */

ls_status ls__reducer_share_late(ls__reducer *reducer)
{
    reducer->late = true;
    return advance(reducer);
}

/* Waits for the first `buckets` to be shared, and keeps how long that took. */
static ls_status wait_for_shared(ls__reducer *reducer, int64_t buckets)
{
    double started = ls__clock_seconds();
    ls_status status = wait_until(reducer, &reducer->progress.shared, buckets);
    double waited = ls__clock_seconds() - started;

    reducer->waited_seconds += waited;
    if (reducer->in_flight_since > 0)
        reducer->in_flight_since += waited; /* that was not hidden */
    return status;
}

void ls__reducer_need(void *context, int64_t offset, int64_t count)
{
    ls__reducer *reducer = context;
    int64_t behind = reducer->padded - offset - count; /* elements after the last that is needed */
    int64_t last = behind / (reducer->bucket_units * LS__REDUCE_UNIT);

    if (!reducer->late || reducer->status != LS_OK)
        return;
    reducer->status = wait_for_shared(reducer, reducer->buckets - last);
}

ls_status ls__reducer_settle(ls__reducer *reducer)
{
    LS_TRY(reducer->status);
    if (!reducer->late)
        return LS_OK;
    LS_TRY(wait_for_shared(reducer, reducer->buckets));
    note_flight(reducer);
    reducer->late = false;
    reducer->settled_at = ls__world_transport(reducer->world)->traffic.sent_bytes;
    reducer->progress = (bucket_progress){0};
    return LS_OK;
}

int64_t ls__reducer_settled_at(const ls__reducer *reducer)
{
    return reducer->settled_at;
}

double ls__reducer_waited(ls__reducer *reducer)
{
    double waited = reducer->waited_seconds;

    reducer->waited_seconds = 0;
    return waited;
}

static void sum_units(void *context, int64_t offset, int64_t count)
{
    const ls__reducer *reducer = context;

    for (int64_t i = offset; i < offset + count; i += LS__REDUCE_UNIT)
        reducer->block_norms[i / LS__REDUCE_UNIT] =
            ls__norm_block(reducer->mean + i, LS__REDUCE_UNIT);
}

ls_status ls__reducer_norm(ls__reducer *reducer, double *norm)
{
    int64_t units = reducer->padded / LS__REDUCE_UNIT;
    int rank = ls__world_rank(reducer->world);

    if (!reducer->norms) {
        *norm = ls__norm(reducer->mean, reducer->padded);
        return LS_OK;
    }
    memset(reducer->block_norms, 0, (size_t)units * sizeof *reducer->block_norms);
    for (int64_t bucket = 0; bucket < reducer->buckets; bucket++) {
        ls_range owned = ls__reducer_owned(reducer, bucket, rank);
        ls__threads_over(owned.offset, owned.count, sum_units, reducer);
    }
    LS_TRY(ls_allreduce_start(reducer->norms));
    LS_TRY(ls_allreduce_wait(reducer->norms, ls__world_timeout(reducer->world)));
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
    ls_range own = ls__owned_units(reducer->algorithm, layout_of(reducer), rank, whole.count);

    return (ls_range){(whole.offset + own.offset) * LS__REDUCE_UNIT, own.count * LS__REDUCE_UNIT};
}

int64_t ls__reducer_spilled(const ls__reducer *reducer)
{
    return reducer->spilled;
}

double ls__reducer_hidden(const ls__reducer *reducer)
{
    return reducer->hidden_seconds;
}

const ls_algorithm *ls__reducer_algorithm(const ls__reducer *reducer)
{
    return reducer->algorithm;
}

int64_t ls__reducer_bucket_bytes(const ls__reducer *reducer)
{
    return reducer->bucket_units * LS__REDUCE_UNIT * (int64_t)sizeof(float);
}
