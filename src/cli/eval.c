/* lockstep eval */
#include <math.h>
#include <stdio.h>

#include "base/options.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "data/dataset.h"
#include "train/assemble.h"
#include "train/evaluate.h"
#include "train/load.h"
#include "train/startup.h"

typedef struct eval_settings {
    char run[LS__TEXT_MAX];
    char data[LS__TEXT_MAX];
    int64_t ranks;
    int64_t batches;
    int64_t threads;
    double stall_timeout;
} eval_settings;

#define AT(member) offsetof(eval_settings, member)

static const ls__option options[] = {
    {"run", "", "DIR", "the folder of the run", AT(run), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"data", "", "FILE", "another dataset than the run's", AT(data), 0, 0, LS__OPTION_TEXT,
     LS__SCOPE_RUN, 0},
    {"eval-batches", "0", "batches", "how many batches of held-out samples; 0: all samples",
     AT(batches), 0, 1e9, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"ranks", "0", "N", "start N ranks with mpirun; 0: as many as mpirun started", AT(ranks), 0,
     65536, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"threads", "1", "threads", "threads that compute inside each rank", AT(threads), 1,
     LS__THREADS_MAX, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"stall-timeout", "120", "seconds", "how long a rank waits for another", AT(stall_timeout), 1,
     1e6, LS__OPTION_REAL, LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep eval",
    .summary = "evaluate a run's newest checkpoint on held-out data",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
};

/* What an evaluation holds. */
typedef struct session {
    ls__loaded loaded;
    ls__dataset *dataset;
    ls__feed feed;
    ls__evaluator evaluator;
} session;

/* Token numbers mean the same only under the same vocabulary. */
static ls_status check_classes(const session *s, const char *path)
{
    int64_t classes = ls__data_shape_of(ls__dataset_about(s->dataset)).classes;

    LS_FAIL_IF(classes > s->loaded.model->classes, LS_BAD_INPUT,
               "%.600s has %lld classes, the model knows %lld: evaluate on data like its own", path,
               (long long)classes, (long long)s->loaded.model->classes);
    return LS_OK;
}

static ls_status open_dataset(session *s, const eval_settings *settings)
{
    if (*settings->data)
        return ls__dataset_open(&s->dataset, settings->data);
    ls_status status = ls__dataset_open(&s->dataset, s->loaded.settings.data);
    return status == LS_OK ? LS_OK : ls__load_stored_data_failed(status);
}

/* What one rank does alone once it has the model. */
static ls_status open_data(session *s, const eval_settings *settings, ls__world *world)
{
    const ls__train_settings *run = &s->loaded.settings;

    LS_TRY(open_dataset(s, settings));
    LS_TRY(ls__feed_check(s->dataset, run));
    LS_TRY(check_classes(s, ls__dataset_path(s->dataset)));
    LS_TRY(ls__dataset_load(s->dataset, s->loaded.arena));
    LS_TRY(ls__feed_open(&s->feed, s->dataset, run, run->micro_batch, s->loaded.arena));
    LS_TRY(ls__evaluator_open(&s->evaluator, world, s->loaded.model, &s->feed,
                              settings->batches * run->batch, s->loaded.arena));
    LS_FAIL_IF(s->evaluator.samples == 0, LS_BAD_INPUT,
               "%.600s has no held-out samples of --context %lld: make it with a larger --val",
               ls__dataset_path(s->dataset), (long long)run->context);
    return LS_OK;
}

static ls_status compare_machines(session *s, ls__world *world)
{
    ls__canary canary = {0};

    ls_status status = ls__canary_run(&canary, &s->evaluator, s->loaded.parameters, false);
    LS_TRY(ls__world_agree(world, status));
    return ls__startup_compare(world, &canary, (ls__format)s->loaded.settings.precision,
                               s->loaded.settings.reduce == LS__REDUCE_EXACT);
}

/* Collective. Only rank 0 needs to see the run's folder, all need the dataset. */
static ls_status open_session(session *s, eval_settings *settings, ls__world *world)
{
    int64_t memory = 0;

    LS_TRY(ls__world_broadcast(world, 0, settings, sizeof *settings));
    LS_FAIL_IF(!*settings->run, LS_BAD_USAGE, "--run is missing: name the folder of a run");
    LS_TRY(ls__world_agree(world, ls__threads_start((int)settings->threads)));
    LS_TRY(ls__startup_memory(world, &memory));
    LS_TRY(ls__load_run_together(&s->loaded, settings->run, world, memory));
    LS_TRY(ls__world_agree(world, open_data(s, settings, world)));
    LS_TRY(ls__feed_compare_data(s->dataset, world));
    return compare_machines(s, world);
}

static void print_result(const session *s, const ls__evaluation *result)
{
    bool text = s->loaded.settings.model == LS__MODEL_GPT;

    printf("step %lld: validation loss %.4f nats over %lld %s", (long long)s->loaded.info.step,
           result->loss, (long long)result->samples, text ? "sequences" : "images");
    if (!text)
        printf(", accuracy %.4f", result->accuracy);
    else if (s->loaded.info.vocabulary_bytes > 0)
        printf(", %.4f bits per byte", result->loss / log(2));
    printf("\n");
}

ls_status ls__cli_eval(int argc, char **argv)
{
    static session s;
    static eval_settings settings;
    ls__cli_program program = {.table = &table,
                               .settings = &settings,
                               .size = sizeof settings,
                               .ranks = &settings.ranks,
                               .threads = &settings.threads,
                               .stall_timeout = &settings.stall_timeout};
    ls__world *world = NULL;
    ls__evaluation result;

    LS_TRY(ls__cli_start(&program, argc, argv, &world));
    if (!world)
        return LS_OK;
    ls_status status = open_session(&s, &settings, world);
    if (status == LS_OK)
        status = ls__evaluate(&s.evaluator, s.loaded.parameters, &result);
    if (status == LS_OK && ls__world_rank(world) == 0)
        print_result(&s, &result);
    ls__dataset_close(s.dataset);
    ls__loaded_close(&s.loaded);
    return status;
}
