/* lockstep plan --check: predictions beside what real runs on this machine measure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/file.h"
#include "cli/plan.h"
#include "cli/plan_pace.h"
#include "cli/runs.h"
#include "cli/start.h"
#include "data/dataset.h"
#include "data/import.h"
#include "train/metrics.h"
#include "train/predict.h"
#include "train/run_folder.h"

enum {
    COUNTS = 3, /* of ranks */
    STRETCH = 8,
    STEPS_MAX = 256, /* of a run */
    FLAGS_MAX = 16,
    TEXT = 200000, /* bytes */
    IMAGES = 2000,
    SIDE = 28, /* pixels */
    LABELS = 10
};

static const int64_t rank_counts[COUNTS] = {1, 2, 4};

/* How far a prediction may be from what is measured, as a share of it. */
static const double memory_bar = 0.01;
static const double resident_bar = 0.05;
static const double step_bar = 0.15;

/* ---- flags ---- */

typedef struct check_settings {
    int64_t steps;
    int64_t tries;
    bool timing;
    char json[LS__TEXT_MAX];
} check_settings;

static const ls__option options[] = {
    {"steps", "20", "steps", "of each run; the fastest eight in a row count",
     offsetof(check_settings, steps), 1, STEPS_MAX, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"tries", "3", "times", "to measure a step's time until it is within its bar",
     offsetof(check_settings, tries), 1, 100, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"timing", "true", "", "predict and measure times too; --timing=false: on a busy machine",
     offsetof(check_settings, timing), 0, 0, LS__OPTION_SWITCH, LS__SCOPE_RUN, 0},
    {"json", "", "FILE", "write the numbers there too", offsetof(check_settings, json), 0, 0,
     LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep plan --check",
    .summary = "hold the planner's formulas against training runs on this machine",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "Seven small models are trained on 1, 2 and 4 ranks. All figures are rank 0's. Memory is\n"
        "the trainer's own ledger (src/plan/trainer.h); its total is compared with what the "
        "process\n"
        "grew by in set-up. A step's time is predicted (src/plan/pace.h) from the speed of the\n"
        "kernels alone, measured just before, and compared with the fastest eight steps in a row.\n"
        "Exit code 1 where memory is off by more than 1%, the total by more than 5%, a step by "
        "more\n"
        "than 15%, or operations or bytes sent differ at all. Times need a machine that does\n"
        "nothing else: where others were at work --tries takes the fastest of several "
        "measurements.\n"
        "It takes a minute or two.\n",
};

/* ---- the runs ---- */

typedef struct configuration {
    const char *name;             /* in sentences, and in JSON */
    const char *flags[FLAGS_MAX]; /* names and values, closed with NULL */
} configuration;

static const configuration configurations[] = {
    {"gpt_exact", {"width", "256", "batch", "16"}},
    {"gpt_exact_sharded",
     {"width", "320", "heads", "5", "layers", "2", "context", "128", "batch", "8",
      "shard-optimizer", "true"}},
    {"gpt_f32", {"width", "384", "layers", "2", "batch", "16", "reduce", "f32"}},
    {"gpt_bf16",
     {"width", "384", "layers", "2", "context", "128", "batch", "16", "precision", "bf16"}},
    {"mlp_exact", {"model", "mlp", "hidden", "1024,1024", "batch", "512"}},
    {"mlp_exact_sgd_sharded",
     {"model", "mlp", "hidden", "1536,512,512", "batch", "256", "optimizer", "sgd",
      "shard-optimizer", "true"}},
    {"mlp_f32_sharded",
     {"model", "mlp", "hidden", "1536,1024", "batch", "512", "reduce", "f32", "shard-optimizer",
      "true"}},
};

/* Of all runs. Buckets of a size that is given, as one that is measured cannot be predicted. */
static const char *const common_flags[] = {"bucket", "1M",   "eval-every", "0", "eval-batches",
                                           "1",      "keep", "1",          NULL};

static ls_status set_flags(ls__train_settings *settings, const char *const *flags)
{
    for (; *flags; flags += 2)
        LS_TRY(ls__options_set(&ls__train_options, settings, flags[0], flags[1]));
    return LS_OK;
}

/* In `folder` stand the datasets, and the run will. */
static ls_status settle(ls__train_settings *settings, const configuration *c, const char *folder,
                        const check_settings *check)
{
    ls__options_preset(&ls__train_options, settings);
    LS_TRY(set_flags(settings, common_flags));
    LS_TRY(set_flags(settings, c->flags));
    settings->steps = check->steps;
    settings->checkpoint_every = check->steps;
    LS_TRY(ls__path_join(settings->data, folder,
                         settings->model == LS__MODEL_GPT ? "text.h5" : "images.h5"));
    LS_TRY(ls__path_join(settings->run, folder, c->name));
    return ls__train_settings_resolve(settings);
}

/* ---- datasets: what is in them does not matter ---- */

static ls_status write_bytes(const char *path, const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return ls__fail_errno("create", path);
    bool written = fwrite(bytes, 1, count, file) == count;
    if (fclose(file) != 0 || !written)
        return ls__fail_errno("write", path);
    return LS_OK;
}

static ls_status make_text(const char *folder)
{
    static uint8_t text[TEXT];
    char source[LS__PATH_SIZE];
    char path[LS__PATH_SIZE];
    const char *sources[] = {source};

    for (int i = 0; i < TEXT; i++)
        text[i] = (uint8_t)(' ' + i * (i / 64 + 1) % 64);
    LS_TRY(ls__path_join(source, folder, "text"));
    LS_TRY(ls__path_join(path, folder, "text.h5"));
    LS_TRY(write_bytes(source, text, TEXT));
    return ls__import_text(sources, 1, path, 0.1);
}

/* A file as MNIST's: big-endian words, then bytes below LABELS. */
static ls_status write_idx(const char *path, const uint32_t *header, int words, int64_t count)
{
    static uint8_t bytes[16 + IMAGES * SIDE * SIDE];
    size_t length = 0;

    for (int i = 0; i < words; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes[length++] = (uint8_t)(header[i] >> shift);
    for (int64_t i = 0; i < count; i++)
        bytes[length++] = (uint8_t)(i % LABELS);
    return write_bytes(path, bytes, length);
}

static ls_status make_images(const char *folder)
{
    static const uint32_t image_header[] = {0x803, IMAGES, SIDE, SIDE};
    static const uint32_t label_header[] = {0x801, IMAGES};
    char images[LS__PATH_SIZE];
    char labels[LS__PATH_SIZE];
    char path[LS__PATH_SIZE];
    ls__image_files files = {images, labels, images, labels};

    LS_TRY(ls__path_join(images, folder, "images"));
    LS_TRY(ls__path_join(labels, folder, "labels"));
    LS_TRY(ls__path_join(path, folder, "images.h5"));
    LS_TRY(write_idx(images, image_header, 4, (int64_t)IMAGES * SIDE * SIDE));
    LS_TRY(write_idx(labels, label_header, 2, IMAGES));
    return ls__import_images(&files, path);
}

/* ---- what is predicted, and what is measured ---- */

/* Of rank 0. NAN: not known. */
typedef struct account {
    double memory[LS__CATEGORY_COUNT]; /* bytes */
    double total;                      /* bytes; measured: by which the process grew */
    double flops, sent;                /* of a step */
    double seconds;                    /* of a step */
} account;

/* What the time is predicted from. */
typedef struct constants {
    ls__plan_pace pace;
    ls__plan_transport transport;
} constants;

typedef struct comparison {
    ls__plan_run run;
    constants constants;
    account predicted, measured;
} comparison;

static void predict(comparison *c, bool timing, int64_t cores)
{
    int64_t booked[LS__CATEGORY_COUNT];
    account *predicted = &c->predicted;

    ls__plan_run_memory(&c->run, booked);
    predicted->total = 0;
    for (int category = 0; category < LS__CATEGORY_COUNT; category++) {
        predicted->memory[category] = (double)booked[category];
        predicted->total += predicted->memory[category];
    }
    predicted->flops = ls__plan_run_flops(&c->run);
    predicted->sent = (double)ls__plan_run_sent_bytes(&c->run);
    predicted->seconds =
        timing ? ls__plan_run_seconds(&c->run, &c->constants.pace, &c->constants.transport, cores)
               : (double)NAN;
}

/* The first number behind a key of the run's metrics. */
static ls_status read_first(const char *metrics, const char *object, const char *key,
                            double *number)
{
    int count = 0;

    LS_TRY(ls__metrics_read_numbers(metrics, object, key, number, 1, &count));
    LS_FAIL_IF(count == 0, LS_BAD_INPUT, "%s says nothing of %s", metrics, key);
    return LS_OK;
}

/* The fastest stretch of the steps, as the constants are the fastest of their repeats: what takes
 * longer on a shared machine is the work of others. A stretch, not a step: where ranks share cores,
 * one rank's step is short when another did its own work in the step before. */
static ls_status read_step_seconds(const char *metrics, double *seconds)
{
    double ms[STEPS_MAX];
    int count = 0;

    LS_TRY(ls__metrics_read_numbers(metrics, NULL, "step_ms", ms, STEPS_MAX, &count));
    LS_FAIL_IF(count == 0, LS_BAD_INPUT, "%s has no steps", metrics);
    int length = count < STRETCH ? count : STRETCH;
    *seconds = (double)INFINITY;
    for (int first = 0; first + length <= count; first++) {
        double sum = 0;
        for (int i = 0; i < length; i++)
            sum += ms[first + i] * 1e-3;
        *seconds = fmin(*seconds, sum / length);
    }
    return LS_OK;
}

static ls_status read_account(const char *run, account *measured)
{
    ls__run_folder folder;

    LS_TRY(ls__run_folder_name(&folder, run));
    for (ls__category category = 0; category < LS__CATEGORY_COUNT; category++)
        LS_TRY(read_first(folder.metrics, "memory", ls__category_name(category),
                          &measured->memory[category]));
    LS_TRY(read_first(folder.metrics, "memory", "resident", &measured->total));
    if (measured->total == 0)
        measured->total = (double)NAN;
    LS_TRY(read_first(folder.metrics, NULL, "flops", &measured->flops));
    LS_TRY(read_first(folder.metrics, NULL, "bytes_sent", &measured->sent));
    return read_step_seconds(folder.metrics, &measured->seconds);
}

static double off_by(double predicted, double measured)
{
    return predicted == measured ? 0 : fabs(predicted / measured - 1);
}

static ls_status measure_constants(const ls__plan_run *run, int64_t cores, const char *folder,
                                   constants *found)
{
    char log[LS__PATH_SIZE];

    LS_TRY(ls__pace_measure(run, run->ranks < cores ? run->ranks : cores, &found->pace));
    if (run->ranks == 1)
        return LS_OK;
    LS_TRY(ls__path_join(log, folder, "bench.log"));
    return ls__pace_transport(run, log, &found->transport);
}

static ls_status run_once(const ls__train_settings *settings, comparison *c)
{
    double before = c->measured.seconds;

    LS_TRY(ls__runs_train("plan --check", settings, c->run.ranks));
    LS_TRY(read_account(settings->run, &c->measured));
    c->measured.seconds = fmin(c->measured.seconds, before);
    ls__runs_folder_remove(settings->run);
    return LS_OK;
}

/* A step whose time is outside its bar is measured again, and so are the constants. */
static ls_status compare(const check_settings *check, const ls__train_settings *settings,
                         const char *folder, comparison *c)
{
    ls__cores usable = ls__cores_usable();
    int64_t cores = ls__cores_count(&usable);

    c->measured.seconds = (double)INFINITY;
    for (int64_t i = 0; i < check->tries; i++) {
        if (check->timing)
            LS_TRY(measure_constants(&c->run, cores, folder, &c->constants));
        LS_TRY(run_once(settings, c));
        predict(c, check->timing, cores);
        if (!(off_by(c->predicted.seconds, c->measured.seconds) > step_bar))
            break;
    }
    return LS_OK;
}

/* ---- tables ---- */

static const ls__column memory_columns[] = {
    {"category", "memory", "(MB)", LS__COLUMN_TEXT, 0, 0},
    {"predicted_1", "predicted", "1 rank", LS__COLUMN_FIXED, 3, 1e6},
    {"measured_1", "measured", "", LS__COLUMN_FIXED, 3, 1e6},
    {"predicted_2", "predicted", "2 ranks", LS__COLUMN_FIXED, 3, 1e6},
    {"measured_2", "measured", "", LS__COLUMN_FIXED, 3, 1e6},
    {"predicted_4", "predicted", "4 ranks", LS__COLUMN_FIXED, 3, 1e6},
    {"measured_4", "measured", "", LS__COLUMN_FIXED, 3, 1e6},
    {"worst_off", "off by", "(%)", LS__COLUMN_FIXED, 2, 0.01},
    {"verdict", "verdict", "", LS__COLUMN_TEXT, 0, 0},
};

/* What is not known, NAN, is not held against anyone. */
static const char *judge(int *outside, double off, double bar)
{
    if (!(off > bar))
        return "ok";
    ++*outside;
    return "OUTSIDE";
}

/* The value of an account's member at an offset. */
static double value_at(const account *a, size_t offset)
{
    return *(const double *)(const void *)((const char *)a + offset);
}

static void print_memory_row(ls__report *report, const char *name, const comparison *c,
                             size_t offset, double bar, int *outside)
{
    enum { CELLS = sizeof memory_columns / sizeof memory_columns[0] };
    ls__cell cells[CELLS] = {{.text = name}};
    double worst = (double)NAN;

    for (int i = 0; i < COUNTS; i++) {
        double predicted = value_at(&c[i].predicted, offset);
        double measured = value_at(&c[i].measured, offset);
        cells[1 + 2 * i].number = predicted;
        cells[2 + 2 * i].number = measured;
        worst = fmax(worst, off_by(predicted, measured));
    }
    cells[CELLS - 2].number = worst;
    cells[CELLS - 1].text = judge(outside, worst, bar);
    ls__report_row(report, cells);
}

static void print_memory(ls__report *report, const char *name, const comparison *c, int *outside)
{
    char title[64];

    snprintf(title, sizeof title, "%s_memory", name);
    ls__report_table(report, title, memory_columns,
                     sizeof memory_columns / sizeof memory_columns[0]);
    for (ls__category category = 0; category < LS__CATEGORY_COUNT; category++)
        print_memory_row(report, ls__category_name(category), c,
                         offsetof(account, memory) + (size_t)category * sizeof(double), memory_bar,
                         outside);
    print_memory_row(report, "total, resident", c, offsetof(account, total), resident_bar, outside);
}

static const ls__column step_columns[] = {
    {"ranks", "ranks", "", LS__COLUMN_FIXED, 0, 0},
    {"predicted_flops", "predicted", "(GFLOP)", LS__COLUMN_FIXED, 4, 1e9},
    {"measured_flops", "measured", "(GFLOP)", LS__COLUMN_FIXED, 4, 1e9},
    {"predicted_sent_bytes", "predicted", "sent (MB)", LS__COLUMN_FIXED, 4, 1e6},
    {"measured_sent_bytes", "measured", "sent (MB)", LS__COLUMN_FIXED, 4, 1e6},
    {"predicted_step_seconds", "predicted", "step (ms)", LS__COLUMN_FIXED, 2, 1e-3},
    {"measured_step_seconds", "measured", "step (ms)", LS__COLUMN_FIXED, 2, 1e-3},
    {"step_off", "off by", "(%)", LS__COLUMN_FIXED, 1, 0.01},
    {"verdict", "verdict", "", LS__COLUMN_TEXT, 0, 0},
};

static const char *judge_step(const account *predicted, const account *measured, double off,
                              int *outside)
{
    bool equal = predicted->flops == measured->flops && predicted->sent == measured->sent;

    return judge(outside, equal ? off : (double)INFINITY, step_bar);
}

static void print_steps(ls__report *report, const char *name, const comparison *c, int *outside)
{
    char title[64];

    snprintf(title, sizeof title, "%s_steps", name);
    ls__report_table(report, title, step_columns, sizeof step_columns / sizeof step_columns[0]);
    for (int i = 0; i < COUNTS; i++) {
        const account *predicted = &c[i].predicted;
        const account *measured = &c[i].measured;
        double off = off_by(predicted->seconds, measured->seconds);
        ls__report_row(report,
                       (ls__cell[]){{.number = (double)rank_counts[i]},
                                    {.number = predicted->flops},
                                    {.number = measured->flops},
                                    {.number = predicted->sent},
                                    {.number = measured->sent},
                                    {.number = predicted->seconds},
                                    {.number = measured->seconds},
                                    {.number = off},
                                    {.text = judge_step(predicted, measured, off, outside)}});
    }
}

static const ls__column constant_columns[] = {
    {"ranks", "ranks", "", LS__COLUMN_FIXED, 0, 0},
    {"product_flops_per_second", "products", "(GFLOP/s)", LS__COLUMN_FIXED, 1, 1e9},
    {"elementwise_seconds", "elementwise", "(ms)", LS__COLUMN_FIXED, 3, 1e-3},
    {"add_bytes_per_second", "adding", "(GB/s)", LS__COLUMN_FIXED, 1, 1e9},
    {"update_bytes_per_second", "optimizer", "(GB/s)", LS__COLUMN_FIXED, 1, 1e9},
    {"latency_seconds", "latency", "(us)", LS__COLUMN_FIXED, 1, 1e-6},
    {"all_reduce_bytes_per_second", "all-reduce", "(GB/s)", LS__COLUMN_FIXED, 2, 1e9},
};

/* Bytes read and written an element. */
static double add_bytes(const ls__plan_run *run)
{
    return run->exact ? 20 : 12;
}

static double update_bytes(const ls__plan_run *run)
{
    return run->adamw ? 28 : 20;
}

static void print_constants(ls__report *report, const char *name, const comparison *c)
{
    char title[64];

    snprintf(title, sizeof title, "%s_constants", name);
    ls__report_table(report, title, constant_columns,
                     sizeof constant_columns / sizeof constant_columns[0]);
    for (int i = 0; i < COUNTS; i++) {
        const ls__plan_pace *pace = &c[i].constants.pace;
        const ls__plan_transport *transport = &c[i].constants.transport;
        const ls__plan_run *run = &c[i].run;
        double parameters = (double)ls__plan_run_parameters(run);
        ls__plan_run one = *run;
        one.ranks = 1;
        one.batch = one.micro_batch;
        ls__report_row(report,
                       (ls__cell[]){{.number = (double)rank_counts[i]},
                                    {.number = ls__plan_run_flops(&one) / pace->products},
                                    {.number = pace->elementwise},
                                    {.number = add_bytes(run) * parameters / pace->add},
                                    {.number = update_bytes(run) * parameters / pace->update},
                                    {.number = transport->latency},
                                    {.number = 1 / transport->per_byte}});
    }
}

/* ---- all of it ---- */

static void print_flags(const configuration *c)
{
    printf("%s:", c->name);
    for (const char *const *flag = c->flags; *flag; flag += 2)
        printf(" --%s=%s", flag[0], flag[1]);
    printf("\n");
}

static ls_status check_one(const check_settings *check, const configuration *c, const char *folder,
                           ls__report *report, int *outside)
{
    static ls__train_settings settings;
    static ls__dataset_info data;
    static comparison found[COUNTS];
    ls__dataset *dataset = NULL;

    LS_TRY(settle(&settings, c, folder, check));
    LS_TRY(ls__dataset_open(&dataset, settings.data));
    data = *ls__dataset_about(dataset);
    ls__dataset_close(dataset);
    print_flags(c);
    for (int i = 0; i < COUNTS; i++) {
        found[i] = (comparison){.run = ls__predict_run(&settings, &data, 0, rank_counts[i])};
        LS_TRY(compare(check, &settings, folder, &found[i]));
    }
    print_memory(report, c->name, found, outside);
    printf("\n");
    if (check->timing) {
        print_constants(report, c->name, found);
        printf("\n");
    }
    print_steps(report, c->name, found, outside);
    printf("\n");
    fflush(stdout);
    return LS_OK;
}

static ls_status check_all(const check_settings *check, const char *folder, ls__report *report,
                           int *outside)
{
    LS_TRY(make_text(folder));
    LS_TRY(make_images(folder));
    for (size_t i = 0; i < sizeof configurations / sizeof configurations[0]; i++)
        LS_TRY(check_one(check, &configurations[i], folder, report, outside));
    ls__report_fact(report, "outside", *outside);
    return LS_OK;
}

static ls_status check_in_temporary(const check_settings *check, ls__report *report, int *outside)
{
    char folder[LS__PATH_SIZE];

    LS_TRY(ls__runs_folder_make(folder, "lockstep-plan-XXXXXX"));
    ls_status status = check_all(check, folder, report, outside);
    ls__runs_folder_remove(folder);
    return status;
}

ls_status ls__cli_plan_check(int argc, char **argv)
{
    static check_settings check;
    ls__report report;
    ls__parsed parsed;
    int outside = 0;

    LS_TRY(ls__cli_refuse_mpi("plan --check", "starts mpirun itself"));
    LS_TRY(ls__options_parse(&table, &check, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    if (*check.json)
        LS_TRY(ls__file_check_writable(check.json));
    ls__launch_catch_signals();
    LS_TRY(ls__report_open(&report, check.json));
    ls_status status = check_in_temporary(&check, &report, &outside);
    ls_status written = ls__report_close(&report);
    LS_TRY(status);
    LS_TRY(written);
    LS_FAIL_IF(outside > 0, LS_CHECK_FAILED, "%d row%s of the tables above are outside the bars",
               outside, outside == 1 ? "" : "s");
    printf("every row is within its bar\n");
    return LS_OK;
}
