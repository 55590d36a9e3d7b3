/* lockstep bench step: where the time of a training step goes, on one rank, on tokens made up.
 *
 * Each repeat times one step, and products of square matrices before and after it, on as many
 * threads and in the same precision: the best of these is the peak of that repeat, since a
 * machine's speed drifts. What is printed is the repeat whose step came closest to its own peak in
 * the median.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/profile.h"
#include "base/rng.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "lockstep/exact.h"
#include "math/gemm.h"
#include "math/scratch.h"
#include "nn/model.h"
#include "optim/clip.h"
#include "plan/flops.h"
#include "plan/memory.h"
#include "train/assemble.h"
#include "train/settings.h"
#include "train/sums.h"

enum { PEAK_SIZE = 1024, PEAK_ELEMENTS = PEAK_SIZE * PEAK_SIZE, PEAK_RUNS = 3, REPEATS_MAX = 1000 };

typedef struct step_settings {
    ls__train_settings train; /* first, so that its flags' offsets hold */
    int64_t vocabulary, repeats, warmup;
    char json[LS__TEXT_MAX];
} step_settings;

#define AT(member) offsetof(step_settings, member)

static const ls__option own_options[] = {
    {"vocabulary", "65", "tokens", "kinds of token", AT(vocabulary), 2, 1 << 20, LS__OPTION_INT,
     LS__SCOPE_RUN, 0},
    {"repeats", "5", "steps", "timed steps", AT(repeats), 1, REPEATS_MAX, LS__OPTION_INT,
     LS__SCOPE_RUN, 0},
    {"warmup", "1", "steps", "steps before those", AT(warmup), 1, 1000, LS__OPTION_INT,
     LS__SCOPE_RUN, 0},
    {"json", "", "FILE", "write the numbers there too", AT(json), 0, 0, LS__OPTION_TEXT,
     LS__SCOPE_RUN, 0},
};

/* Of train's flags, those that a step depends on. */
static const char *const train_flags[] = {"layers",  "heads",     "width",       "context",
                                          "dropout", "batch",     "micro-batch", "optimizer",
                                          "seed",    "precision", "threads",     "recompute"};

enum {
    OWN_FLAGS = sizeof own_options / sizeof own_options[0],
    TRAIN_FLAGS = sizeof train_flags / sizeof train_flags[0]
};

typedef struct step_bench {
    step_settings settings;
    ls__arena *arena;
    ls__model *model;
    ls_exact *exact;
    ls__optimizer optimizer;
    double *lanes;     /* (parameters) */
    float *parameters; /* (parameters) */
    float *gradient;   /* (parameters) the mean over the batch */
    int32_t *tokens;   /* (batch * context + 1): one on from a token stands its target */
    ls__values left;   /* (PEAK_SIZE, PEAK_SIZE) of the products that show the peak */
    ls__values right;  /* the same */
    float *results;    /* (threads, PEAK_SIZE, PEAK_SIZE) */
    ls__scratch scratch;
    int64_t step;
    double loss; /* of the last step */
    ls__profile_clock clock;
} step_bench;

/* What one repeat measured. */
typedef struct step_time {
    ls__profile_clock clock;
    double seconds;
    double peak; /* FLOP/s */
} step_time;

/* ---- settings ---- */

static ls_status parse(step_settings *settings, int argc, char **argv, bool *help)
{
    ls__option rows[TRAIN_FLAGS + OWN_FLAGS];
    ls__option_table table = {.command = "lockstep bench step",
                              .summary = "time the parts of a GPT's training step on one rank",
                              .operands = "",
                              .option = rows,
                              .count = TRAIN_FLAGS + OWN_FLAGS};
    ls__parsed parsed;

    for (int i = 0; i < TRAIN_FLAGS; i++)
        rows[i] = *ls__train_option(train_flags[i]);
    memcpy(rows + TRAIN_FLAGS, own_options, sizeof own_options);
    ls__options_preset(&ls__train_options, &settings->train);
    LS_TRY(ls__options_parse(&table, settings, argc, argv, &parsed));
    *help = parsed.help;
    if (!parsed.help)
        return ls__train_settings_resolve_step(&settings->train);
    ls__options_help(&table, stdout);
    return LS_OK;
}

/* ---- what a step needs ---- */

static void fill_matrix(ls__values matrix, uint64_t seed, uint64_t from)
{
    for (int i = 0; i < PEAK_ELEMENTS; i++) {
        float value = (float)ls__normal(seed, LS__STREAM_SAMPLE, from + (uint64_t)i);
        ls__narrow(ls__from(matrix, i), &value, 1);
    }
}

static void make_up_inputs(step_bench *bench)
{
    const ls__train_settings *train = &bench->settings.train;
    uint64_t seed = (uint64_t)train->seed;

    for (int64_t i = 0; i < train->batch * train->context + 1; i++)
        bench->tokens[i] = (int32_t)ls__bounded(ls__random(seed, LS__STREAM_SAMPLE, 0, (uint64_t)i),
                                                (uint64_t)bench->settings.vocabulary);
    fill_matrix(bench->left, seed, 0);
    fill_matrix(bench->right, seed, PEAK_ELEMENTS);
}

static ls_status take_matrices(step_bench *bench)
{
    ls__format format = (ls__format)bench->settings.train.precision;
    int64_t size = ls__value_bytes(format);
    int64_t threads = ls__threads_count();
    ls__arena *arena = bench->arena;

    bench->left.format = format;
    bench->right.format = format;
    bench->scratch.floats = ls__product_scratch(format);
    LS_TRY(ls__arena_take(arena, LS__DATA, PEAK_ELEMENTS, size, &bench->left.at));
    LS_TRY(ls__arena_take(arena, LS__DATA, PEAK_ELEMENTS, size, &bench->right.at));
    LS_TRY(ls__arena_take(arena, LS__SCRATCH, threads * bench->scratch.floats, sizeof(float),
                          &bench->scratch.at));
    return ls__arena_take(arena, LS__DATA, threads * PEAK_ELEMENTS, sizeof(float), &bench->results);
}

static ls_status take_memory(step_bench *bench)
{
    const ls__train_settings *train = &bench->settings.train;
    int64_t total = bench->model->tensors.total;
    ls__arena *arena = bench->arena;

    LS_TRY(ls__arena_take(arena, LS__PARAMETERS, total, sizeof(float), &bench->parameters));
    LS_TRY(ls__arena_take(arena, LS__GRADIENTS, total, sizeof(float), &bench->gradient));
    LS_TRY(ls__arena_take(arena, LS__LANES, total, sizeof(double), &bench->lanes));
    LS_TRY(ls__arena_take(arena, LS__DATA, train->batch * train->context + 1, sizeof(int32_t),
                          &bench->tokens));
    return take_matrices(bench);
}

static ls_status open_bench(step_bench *bench)
{
    const ls__train_settings *train = &bench->settings.train;
    ls__data_shape shape = {.classes = bench->settings.vocabulary};
    ls__optimizer_settings optimizer = ls__assemble_optimizer(train);

    ls__gemm_start();
    LS_TRY(ls__threads_start((int)train->threads));
    LS_TRY(ls__arena_open(&bench->arena, ls__memory_available()));
    LS_TRY(ls__assemble_model(&bench->model, train, shape, train->micro_batch, bench->arena));
    LS_TRY(take_memory(bench));
    LS_TRY(ls_exact_open(&bench->exact, bench->model->tensors.total, bench->lanes));
    ls__tensors_initialise(&bench->model->tensors, (uint64_t)train->seed, bench->parameters);
    make_up_inputs(bench);
    return ls__optimizer_open(&bench->optimizer, &optimizer, &bench->model->tensors,
                              bench->model->tensors.total, bench->arena);
}

static void close_bench(step_bench *bench)
{
    ls_exact_close(bench->exact);
    ls__model_close(bench->model);
    ls__arena_close(bench->arena);
}

/* ---- one step ---- */

static void add_lanes(void *context, int64_t offset, int64_t count, const float *addend)
{
    step_bench *bench = context;
    ls__part part = bench->clock.part;

    ls__profile_mark(LS__PART_EXACT_ADD);
    ls__sums_add(bench->exact, offset, addend, count);
    ls__profile_mark(part);
}

static double run_micro_batch(step_bench *bench, int64_t index)
{
    const ls__train_settings *train = &bench->settings.train;
    int64_t first = index * train->micro_batch;
    int32_t *tokens = bench->tokens + first * train->context;
    ls__batch batch = {.samples = train->micro_batch,
                       .length = train->context,
                       .tokens = tokens,
                       .targets = tokens + 1,
                       .ordinal = (uint64_t)(bench->step * train->batch + first)};
    ls__gradient_sink sink = {.ready = add_lanes, .context = bench};

    bench->clock.pass = LS__FORWARD;
    double loss = ls__model_loss(bench->model, bench->parameters, &batch, true);
    ls__profile_mark(LS__PART_CROSS_ENTROPY);
    bench->clock.pass = LS__BACKWARD;
    ls__model_backward(bench->model, bench->parameters, &batch, sink);
    return loss;
}

static void update(step_bench *bench)
{
    const ls__train_settings *train = &bench->settings.train;
    int64_t total = bench->model->tensors.total;

    ls__profile_mark(LS__PART_EXACT_ADD);
    ls__sums_round(bench->exact, 0, total, (double)ls__micro_batches(train), bench->gradient);
    ls__profile_mark(LS__PART_OPTIMIZER);
    double factor = ls__clip_factor(ls__norm(bench->gradient, total), train->clip);
    ls__clip(bench->gradient, total, (float)factor);
    ls__optimizer_step(&bench->optimizer, bench->parameters, bench->gradient, train->min_lr,
                       bench->step, 0, total, 0);
    ls__model_parameters_changed(bench->model);
    ls__profile_mark(LS__PART_DIGEST);
    ls__digest_of(bench->parameters, (size_t)total * sizeof(float));
}

/* As the trainer's, without other ranks. */
static void run_step(step_bench *bench)
{
    int64_t parts = ls__micro_batches(&bench->settings.train);
    double sum = 0;

    bench->step++;
    ls_exact_reset(bench->exact);
    for (int64_t i = 0; i < parts; i++)
        sum += run_micro_batch(bench, i);
    bench->loss = sum / (double)parts;
    update(bench);
}

/* ---- measuring ---- */

/* A product of each thread's own. */
static void multiply(void *context, int64_t task, int thread)
{
    const step_bench *bench = context;
    ls__matrix left = {bench->left, PEAK_SIZE, LS__AS_IS};
    ls__matrix right = {bench->right, PEAK_SIZE, LS__AS_IS};
    ls__matrix out = {ls__floats(bench->results + task * PEAK_ELEMENTS), PEAK_SIZE, LS__AS_IS};

    ls__product(out, left, right, PEAK_SIZE, PEAK_SIZE, PEAK_SIZE, NULL, false,
                ls__scratch_of(bench->scratch, thread));
}

static double time_products(step_bench *bench)
{
    const double flops = 2.0 * PEAK_SIZE * PEAK_SIZE * PEAK_SIZE;
    int threads = ls__threads_count();
    double best = HUGE_VAL;

    for (int i = 0; i < PEAK_RUNS; i++) {
        double start = ls__clock_seconds();
        ls__threads_run(threads, multiply, bench);
        best = fmin(best, ls__clock_seconds() - start);
    }
    return threads * flops / best;
}

static void time_step(step_bench *bench, step_time *time)
{
    time->peak = time_products(bench);
    double start = ls__clock_seconds();
    bench->clock = (ls__profile_clock){.since = start};
    ls__profile = &bench->clock;
    run_step(bench);
    ls__profile_mark(LS__PART_DIGEST);
    ls__profile = NULL;
    time->clock = bench->clock;
    time->seconds = bench->clock.since - start;
    time->peak = fmax(time->peak, time_products(bench));
}

static int by_utilisation(const void *a, const void *b)
{
    const step_time *left = a;
    const step_time *right = b;
    double work_left = left->seconds * left->peak;
    double work_right = right->seconds * right->peak;

    return (work_left > work_right) - (work_left < work_right);
}

/* The same samples again and again are learnt, where steps are what they should be. */
static ls_status measure(step_bench *bench, step_time *median)
{
    static step_time times[REPEATS_MAX];
    int64_t repeats = bench->settings.repeats;
    double first = (double)NAN;

    for (int64_t i = 0; i < bench->settings.warmup; i++) {
        run_step(bench);
        first = i == 0 ? bench->loss : first;
    }
    for (int64_t i = 0; i < repeats; i++)
        time_step(bench, &times[i]);
    LS_TRY(ls__gemm_failed());
    LS_FAIL_IF(!(bench->loss < first), LS_CHECK_FAILED,
               "the loss went from %.4f to %.4f in %lld steps on the same samples", first,
               bench->loss, (long long)bench->step);
    qsort(times, (size_t)repeats, sizeof times[0], by_utilisation);
    *median = times[(repeats - 1) / 2];
    return LS_OK;
}

/* ---- reporting ---- */

static const char *const part_names[LS__PART_COUNT] = {
    [LS__PART_EMBEDDING] = "embedding",
    [LS__PART_NORM] = "layer norms",
    [LS__PART_QKV] = "QKV",
    [LS__PART_ATTENTION] = "attention",
    [LS__PART_PROJECTION] = "projection",
    [LS__PART_MLP] = "MLP",
    [LS__PART_HEAD] = "head",
    [LS__PART_CROSS_ENTROPY] = "cross-entropy",
    [LS__PART_EXACT_ADD] = "exact sum",
    [LS__PART_OPTIMIZER] = "optimizer",
    [LS__PART_DIGEST] = "digest",
};

static const ls__column columns[] = {
    {"part", "part", "", LS__COLUMN_TEXT, 0, 0},
    {"forward_seconds", "forward", "(ms)", LS__COLUMN_FIXED, 2, 1e-3},
    {"backward_seconds", "backward", "(ms)", LS__COLUMN_FIXED, 2, 1e-3},
    {"seconds", "all", "(ms)", LS__COLUMN_FIXED, 2, 1e-3},
    {"share", "share", "(%)", LS__COLUMN_FIXED, 1, 0.01},
    {"gemm_share", "in GEMM", "(%)", LS__COLUMN_FIXED, 1, 0.01},
};

static void print_row(ls__report *report, const char *name, double forward, double backward,
                      double all, double step, double gemm)
{
    ls__report_row(report, (ls__cell[]){{.text = name},
                                        {.number = forward},
                                        {.number = backward},
                                        {.number = all},
                                        {.number = all / step},
                                        {.number = gemm / all}});
}

/* Returns the seconds in products. */
static double print_parts(ls__report *report, const step_time *time)
{
    const ls__profile_clock *clock = &time->clock;
    double gemm = 0;

    ls__report_table(report, "parts", columns, sizeof columns / sizeof columns[0]);
    for (int part = 0; part < LS__PART_COUNT; part++) {
        bool model = part < LS__PART_EXACT_ADD; /* what follows is neither forward nor backward */
        double forward = clock->seconds[LS__FORWARD][part];
        double backward = clock->seconds[LS__BACKWARD][part];

        gemm += clock->gemm[part];
        print_row(report, part_names[part], model ? forward : (double)NAN,
                  model ? backward : (double)NAN, forward + backward, time->seconds,
                  clock->gemm[part]);
    }
    print_row(report, "step", (double)NAN, (double)NAN, time->seconds, time->seconds, gemm);
    return gemm;
}

/* Of products and attention, which needs the scores up to the diagonal and no others. */
static double needed_flops(const step_settings *settings)
{
    const ls__train_settings *train = &settings->train;
    double sequences = (double)train->batch;
    double T = (double)train->context;
    ls__plan_model model = {.layers = train->layers,
                            .width = train->width,
                            .heads = train->heads,
                            .context = train->context,
                            .vocabulary = settings->vocabulary,
                            .experts = 1,
                            .active_experts = 1,
                            .key_value_heads = train->heads,
                            .ffn = 4 * train->width};
    double attention = 3 * ls__plan_part_times(&model, LS__PLAN_ATTENTION) *
                       ls__plan_forward_flops(&model, LS__PLAN_ATTENTION, sequences);

    return ls__plan_step_flops(&model, sequences, LS__PLAN_RECOMPUTE_NONE) -
           attention * (T - 1) / (2 * T);
}

static void print_speed(ls__report *report, const step_settings *settings, const step_time *time,
                        double gemm)
{
    double tokens = (double)(settings->train.batch * settings->train.context);
    double flops = needed_flops(settings);
    double mfu = flops / time->seconds / time->peak;

    printf("\n%.0f tokens/s, %.1f%% of the time in GEMM\n", tokens / time->seconds,
           100 * gemm / time->seconds);
    printf("%.2f GFLOP a step, of attention only what the causal mask leaves: %.1f GFLOP/s, "
           "MFU %.3f of the %.1f GFLOP/s\nthat %s reached beside it on %d x %d matrices; the "
           "median of %lld steps\n",
           flops / 1e9, flops / time->seconds / 1e9, mfu, time->peak / 1e9,
           ls__gemm_engine((ls__format)settings->train.precision), PEAK_SIZE, PEAK_SIZE,
           (long long)settings->repeats);
    ls__report_fact(report, "tokens_per_second", tokens / time->seconds);
    ls__report_fact(report, "gemm_share", gemm / time->seconds);
    ls__report_fact(report, "step_flops", flops);
    ls__report_fact(report, "peak_flops_per_second", time->peak);
    ls__report_fact(report, "mfu", mfu);
}

static ls_status print_result(const step_bench *bench, const step_time *time)
{
    const ls__train_settings *train = &bench->settings.train;
    ls__report report;

    LS_TRY(ls__report_open(&report, bench->settings.json));
    printf("%lld layers, %lld heads, width %lld, context %lld, vocabulary %lld, dropout %g; batch "
           "%lld in %lld micro-batches;\none rank, %lld thread%s, %s, OpenBLAS %s\n\n",
           (long long)train->layers, (long long)train->heads, (long long)train->width,
           (long long)train->context, (long long)bench->settings.vocabulary, train->dropout,
           (long long)train->batch, (long long)ls__micro_batches(train), (long long)train->threads,
           train->threads == 1 ? "" : "s", ls__format_name((ls__format)train->precision),
           ls__gemm_core());
    double gemm = print_parts(&report, time);
    print_speed(&report, &bench->settings, time, gemm);
    return ls__report_close(&report);
}

ls_status ls__cli_bench_step(int argc, char **argv)
{
    static step_bench bench;
    step_time median;
    bool help = false;

    LS_TRY(parse(&bench.settings, argc, argv, &help));
    if (help)
        return LS_OK;
    ls_status status = open_bench(&bench);
    if (status == LS_OK)
        status = measure(&bench, &median);
    if (status == LS_OK)
        status = print_result(&bench, &median);
    close_bench(&bench);
    return status;
}
