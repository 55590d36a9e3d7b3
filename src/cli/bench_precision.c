/* lockstep bench precision: what number formats do to real gradients and updates.
 *
 * Four trainings with the same seed and samples, one after the other on one rank, by the trainer
 * itself. The first is in FP32, and three of its steps are looked at: the gradient, and the update
 * that followed. Of the others, the last has no master weights: its parameters are rounded after
 * each update, here.
 *
 * Sources: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018: FP32 master weights
 * (section 3.1), loss scaling (3.2), FP32 sums (3.3, which all of Lockstep's are). D. Kalamkar et
 * al., "A Study of BFLOAT16 for Deep Learning Training", 2019: BF16 needs no loss scaling, and
 * updates FP32 weights. The formats: IEEE 754-2019. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/bench_precision.h"
#include "cli/commands.h"
#include "cli/plot.h"
#include "cli/start.h"
#include "plan/memory.h"
#include "train/trainer.h"

enum { STEPS_MIN = 10, BUCKET = 64 << 20 };

typedef struct precision_settings {
    ls__train_settings train; /* first, so that its flags' offsets hold */
    char json[LS__TEXT_MAX], plot[LS__TEXT_MAX];
} precision_settings;

#define AT(member) offsetof(precision_settings, member)

static const ls__option own_options[] = {
    {"json", "", "FILE", "write the numbers there too", AT(json), 0, 0, LS__OPTION_TEXT,
     LS__SCOPE_RUN, 0},
    {"plot", "", "FILE.svg", "draw the losses, with gnuplot", AT(plot), 0, 0, LS__OPTION_TEXT,
     LS__SCOPE_RUN, 0},
};

/* Of train's flags, those that such a training depends on; a preset of its own, or NULL. */
static const struct {
    const char *name, *preset;
} train_flags[] = {
    {"data", NULL},
    {"layers", NULL},
    {"heads", NULL},
    {"width", NULL},
    {"context", NULL},
    {"dropout", NULL},
    {"batch", NULL},
    {"micro-batch", NULL},
    {"steps", "200"},
    {"lr", NULL},
    {"warmup", "20"},
    {"weight-decay", NULL},
    {"clip", NULL},
    {"loss-scale", NULL},
    {"loss-scale-growth", NULL},
    {"loss-scale-floor", NULL},
    {"seed", NULL},
    {"threads", NULL},
    {"recompute", NULL},
};

enum {
    OWN_FLAGS = sizeof own_options / sizeof own_options[0],
    TRAIN_FLAGS = sizeof train_flags / sizeof train_flags[0]
};

typedef struct precision_bench {
    precision_settings settings;
    ls__world *world;
    ls__trainer trainer; /* of the training under way */
    ls__arena *arena;    /* of what follows */
    double *sums;        /* (parameters) of the micro-batches' gradients */
    float *gradient;     /* (parameters) their mean */
    float *logits;       /* (batch * context, classes) the gradient by them */
    float *before;       /* (parameters) before the update */
    ls__precision_result result;
} precision_bench;

/* ---- settings ---- */

static ls__option train_option(int index)
{
    ls__option row = *ls__train_option(train_flags[index].name);

    if (train_flags[index].preset)
        row.preset = train_flags[index].preset;
    if (strcmp(row.name, "steps") == 0)
        row.min = STEPS_MIN;
    return row;
}

static ls_status start(precision_bench *bench, int argc, char **argv)
{
    static const int64_t as_started = 0; /* no --ranks */
    ls__option rows[TRAIN_FLAGS + OWN_FLAGS];
    ls__option_table table = {.command = "lockstep bench precision",
                              .summary =
                                  "what bf16 and f16 do to the gradients, updates and losses of a "
                                  "training",
                              .operands = "",
                              .option = rows,
                              .count = TRAIN_FLAGS + OWN_FLAGS};
    ls__cli_program program = {.table = &table,
                               .settings = &bench->settings,
                               .size = sizeof bench->settings,
                               .ranks = &as_started,
                               .stall_timeout = &bench->settings.train.stall_timeout};

    for (int i = 0; i < TRAIN_FLAGS; i++)
        rows[i] = train_option(i);
    memcpy(rows + TRAIN_FLAGS, own_options, sizeof own_options);
    ls__options_preset(&ls__train_options, &bench->settings.train);
    return ls__cli_start(&program, argc, argv, &bench->world);
}

static ls_status check_data(const ls__train_settings *train)
{
    ls__dataset *dataset = NULL;

    LS_FAIL_IF(!*train->data, LS_BAD_USAGE,
               "--data is missing: name a dataset made by lockstep data text");
    LS_TRY(ls__dataset_open(&dataset, train->data));
    bool is_text = ls__dataset_about(dataset)->kind == LS__DATASET_TEXT;
    ls__dataset_close(dataset);
    LS_FAIL_IF(!is_text, LS_BAD_INPUT, "%.600s has images: name a text", train->data);
    return LS_OK;
}

static ls_status check(precision_settings *settings)
{
    ls__train_settings resolved = settings->train;

    resolved.precision = LS__F16; /* where --loss-scale counts */
    LS_TRY(ls__train_settings_resolve_step(&resolved));
    LS_TRY(check_data(&settings->train));
    if (*settings->json)
        LS_TRY(ls__file_check_writable(settings->json));
    return *settings->plot ? ls__plot_check(settings->plot) : LS_OK;
}

/* ---- trainings ---- */

static const ls__format format_of[LS__PRECISION_RUNS] = {
    [LS__RUN_F32] = LS__F32,
    [LS__RUN_BF16] = LS__BF16,
    [LS__RUN_F16] = LS__F16,
    [LS__RUN_BF16_ALONE] = LS__BF16,
};

static ls_status settle(const precision_bench *bench, ls__precision_run run,
                        ls__train_settings *train)
{
    *train = bench->settings.train;
    train->precision = (int)format_of[run];
    train->min_lr = train->lr / 10;
    train->decay_steps = train->steps;
    train->bucket = BUCKET;
    if (train->precision != LS__F16)
        train->loss_scale = 0;
    return ls__train_settings_resolve_step(train);
}

static void round_weights(precision_bench *bench)
{
    ls__trainer *trainer = &bench->trainer;

    ls__round_to(trainer->parameters, trainer->model->tensors.total, LS__BF16);
    ls__model_parameters_changed(trainer->model);
}

/* ---- looking at a step ---- */

static void add_to_sums(void *context, int64_t offset, int64_t count, const float *addend)
{
    double *sums = (double *)context + offset;

    for (int64_t i = 0; i < count; i++)
        sums[i] += (double)addend[i];
}

/* Of one micro-batch of the step to come: backward leaves the gradient by the logits in their
 * place. */
static void compute_micro_batch(precision_bench *bench, int64_t index)
{
    ls__trainer *trainer = &bench->trainer;
    const ls__train_settings *train = trainer->settings;
    int64_t first = index * train->micro_batch;
    ls__gradient_sink sink = {.ready = add_to_sums, .context = bench->sums};
    int64_t row = train->context * trainer->model->classes;
    ls__batch batch;

    ls__feed_train(&trainer->feed, trainer->step * train->batch + first, train->micro_batch,
                   &batch);
    ls__model_loss(trainer->model, trainer->parameters, &batch, true);
    ls__model_backward(trainer->model, trainer->parameters, &batch, sink);
    ls__widen(bench->logits + first * row, trainer->model->logits, train->micro_batch * row);
}

static void compute_gradient(precision_bench *bench)
{
    ls__trainer *trainer = &bench->trainer;
    int64_t total = trainer->model->tensors.total;
    int64_t parts = ls__micro_batches(trainer->settings);

    memset(bench->sums, 0, (size_t)total * sizeof *bench->sums);
    trainer->model->loss_scale = 1;
    for (int64_t i = 0; i < parts; i++)
        compute_micro_batch(bench, i);
    for (int64_t i = 0; i < total; i++)
        bench->gradient[i] = (float)(bench->sums[i] / (double)parts);
}

static void count_gradients(const precision_bench *bench, ls__precision_snapshot *snapshot)
{
    const ls__model *model = bench->trainer.model;
    const ls__train_settings *train = bench->trainer.settings;
    const float *values[] = {bench->gradient, bench->logits};
    int64_t count[] = {model->tensors.total, train->batch * train->context * model->classes};
    float largest = 0;

    for (int place = 0; place < LS__PRECISION_PLACES; place++) {
        ls__magnitudes_add(&snapshot->magnitudes[place], values[place], count[place]);
        largest = fmaxf(largest, snapshot->magnitudes[place].largest);
    }
    snapshot->best_scale = ls__census_scale(largest, LS__F16);
    const double scale[] = {1, bench->result.scale, snapshot->best_scale, 1};
    for (int place = 0; place < LS__PRECISION_PLACES; place++)
        for (int i = 0; i < LS__PRECISION_STORAGES; i++)
            ls__census_add(&snapshot->census[place][i], values[place], count[place], scale[i],
                           i == LS__STORED_BF16 ? LS__BF16 : LS__F16);
}

static bool is_gain(const ls__tensor *tensor)
{
    return tensor->dimensions == 1 && tensor->initial_value == 1;
}

static void count_group(const precision_bench *bench, const ls__tensor *tensor,
                        ls__precision_group group, ls__precision_snapshot *snapshot)
{
    const float *before = bench->before + tensor->offset;
    const float *after = bench->trainer.parameters + tensor->offset;

    snapshot->weights[group] += tensor->count;
    ls__updates_add(&snapshot->bf16[group], before, after, tensor->count, LS__BF16);
    ls__updates_add(&snapshot->f16[group], before, after, tensor->count, LS__F16);
}

static void count_updates(const precision_bench *bench, ls__precision_snapshot *snapshot)
{
    const ls__tensors *tensors = &bench->trainer.model->tensors;

    for (int i = 0; i < tensors->count; i++) {
        count_group(bench, &tensors->tensor[i], LS__GROUP_ALL, snapshot);
        if (is_gain(&tensors->tensor[i]))
            count_group(bench, &tensors->tensor[i], LS__GROUP_GAINS, snapshot);
    }
}

/* The snapshot of this step, or NULL. */
static ls__precision_snapshot *snapshot_of(precision_bench *bench, int64_t step)
{
    for (int i = 0; i < LS__PRECISION_SNAPSHOTS; i++)
        if (bench->result.snapshot[i].step == step)
            return &bench->result.snapshot[i];
    return NULL;
}

/* ---- a training ---- */

static ls_status step_once(precision_bench *bench, ls__precision_run run, ls__step_metrics *metrics)
{
    int complete = 0;

    LS_TRY(ls__trainer_step(&bench->trainer, metrics, &complete));
    if (run == LS__RUN_BF16_ALONE)
        round_weights(bench);
    bench->result.curve[run].loss[bench->trainer.step - 1] = metrics->loss;
    return LS_OK;
}

/* The trainer computes the same gradient once more, and its norm is to be that of ours. */
static ls_status step_and_look(precision_bench *bench, ls__precision_snapshot *snapshot)
{
    int64_t total = bench->trainer.model->tensors.total;
    ls__step_metrics metrics[2] = {0};

    compute_gradient(bench);
    memcpy(bench->before, bench->trainer.parameters, (size_t)total * sizeof *bench->before);
    LS_TRY(step_once(bench, LS__RUN_F32, metrics));
    double norm = ls__norm(bench->gradient, total);
    LS_FAIL_IF(!(fabs(norm - metrics->grad_norm) <= 1e-5 * norm), LS_CHECK_FAILED,
               "step %lld: the gradient's norm is %.9g, and the trainer's %.9g",
               (long long)snapshot->step, norm, metrics->grad_norm);
    count_gradients(bench, snapshot);
    count_updates(bench, snapshot);
    return LS_OK;
}

static ls_status run_steps(precision_bench *bench, ls__precision_run run)
{
    ls__step_metrics metrics[2] = {0};

    if (run == LS__RUN_BF16_ALONE)
        round_weights(bench);
    while (bench->trainer.step < bench->result.steps) {
        ls__precision_snapshot *snapshot = snapshot_of(bench, bench->trainer.step + 1);
        if (run == LS__RUN_F32 && snapshot)
            LS_TRY(step_and_look(bench, snapshot));
        else
            LS_TRY(step_once(bench, run, metrics));
    }
    return LS_OK;
}

/* Sizes are the same in all trainings: with the first. */
static ls_status take_memory(precision_bench *bench)
{
    const ls__model *model = bench->trainer.model;
    const ls__train_settings *train = bench->trainer.settings;
    int64_t total = model->tensors.total;

    if (bench->arena)
        return LS_OK;
    LS_TRY(ls__arena_open(&bench->arena, ls__memory_available()));
    LS_TRY(ls__arena_take(bench->arena, LS__GRADIENTS, total, sizeof(double), &bench->sums));
    LS_TRY(ls__arena_take(bench->arena, LS__GRADIENTS, total, sizeof(float), &bench->gradient));
    LS_TRY(ls__arena_take(bench->arena, LS__PARAMETERS, total, sizeof(float), &bench->before));
    LS_TRY(ls__arena_take(bench->arena, LS__ACTIVATIONS, train->batch * train->context,
                          model->classes * (int64_t)sizeof(float), &bench->logits));
    for (int run = 0; run < LS__PRECISION_RUNS; run++) {
        LS_TRY(ls__arena_take(bench->arena, LS__DATA, train->steps, sizeof(double),
                              &bench->result.curve[run].loss));
        for (int64_t i = 0; i < train->steps; i++)
            bench->result.curve[run].loss[i] = (double)NAN;
    }
    return LS_OK;
}

/* That a format diverges is a result. */
static ls_status run_open(precision_bench *bench, ls__precision_run run)
{
    ls__precision_curve *curve = &bench->result.curve[run];

    LS_TRY(take_memory(bench));
    ls_status status = run_steps(bench, run);
    curve->skipped = bench->trainer.scaler.skipped;
    curve->scale = bench->trainer.scaler.scale;
    if (status == LS_DIVERGED && run != LS__RUN_F32) {
        curve->diverged = bench->trainer.step + 1;
        return LS_OK;
    }
    return status;
}

static ls_status train(precision_bench *bench, ls__precision_run run)
{
    ls__train_settings settings;

    LS_TRY(settle(bench, run, &settings));
    LS_TRY(ls__trainer_open(&bench->trainer, &settings, bench->world));
    ls_status status = run_open(bench, run);
    ls__trainer_close(&bench->trainer);
    return status;
}

/* ---- all of it ---- */

static void set_out(precision_bench *bench)
{
    ls__precision_result *result = &bench->result;

    result->steps = bench->settings.train.steps;
    result->scale =
        bench->settings.train.loss_scale > 0 ? bench->settings.train.loss_scale : LS__SCALE_F16;
    result->snapshot[0].step = 1;
    result->snapshot[1].step = result->steps / 2;
    result->snapshot[2].step = result->steps;
}

static void print_settings(const ls__train_settings *train)
{
    ls__train_settings resolved = *train;

    ls__train_settings_resolve_step(&resolved);
    printf("%lld layers, %lld heads, width %lld, context %lld; batch %lld in %lld micro-batches; "
           "%lld steps,\nlearning rate %g after %lld, seed %lld; one rank\n\n",
           (long long)train->layers, (long long)train->heads, (long long)train->width,
           (long long)train->context, (long long)train->batch,
           (long long)ls__micro_batches(&resolved), (long long)train->steps, train->lr,
           (long long)train->warmup, (long long)train->seed);
}

static ls_status run_all(precision_bench *bench, ls__report *report)
{
    print_settings(&bench->settings.train);
    LS_TRY(train(bench, LS__RUN_F32));
    ls__precision_print_snapshots(report, &bench->result);
    fflush(stdout);
    for (int run = LS__RUN_F32 + 1; run < LS__PRECISION_RUNS; run++)
        LS_TRY(train(bench, (ls__precision_run)run));
    ls__precision_print_curves(report, &bench->result);
    return *bench->settings.plot ? ls__precision_plot(bench->settings.plot, &bench->result) : LS_OK;
}

ls_status ls__cli_bench_precision(int argc, char **argv)
{
    static precision_bench bench;
    ls__report report;

    LS_TRY(start(&bench, argc, argv));
    if (!bench.world)
        return LS_OK;
    LS_TRY(check(&bench.settings));
    LS_TRY(ls__threads_start((int)bench.settings.train.threads));
    LS_TRY(ls__report_open(&report, bench.settings.json));
    set_out(&bench);
    ls_status status = run_all(&bench, &report);
    ls_status written = ls__report_close(&report);
    ls__arena_close(bench.arena);
    return status == LS_OK ? written : status;
}
