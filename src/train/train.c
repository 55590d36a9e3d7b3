#include "train/train.h"

#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/units.h"
#include "base/version.h"
#include "math/gemm.h"
#include "train/run_folder.h"
#include "train/stall.h"
#include "train/stop.h"
#include "train/trainer.h"

/* A training run in progress. */
typedef struct run {
    ls__trainer trainer;
    ls__run_folder folder;
    ls__metrics metrics;
    bool writes;      /* rank 0: owns the folder */
    int64_t resident; /* bytes by which set-up made this rank grow; 0: not known */
} run;

/* Ranks bound to a core each have that one only: what counts is all that the ranks of this host may
 * use together. `all` (ranks) is room. */
static ls_status gather_cores(ls__world *world, ls__cores *mine, ls__cores *all)
{
    const char *host = ls__world_host(world, ls__world_rank(world));

    *mine = ls__cores_usable();
    LS_TRY(ls__world_all_gather(world, mine, all, sizeof *mine));
    for (int rank = 0; rank < ls__world_ranks(world); rank++)
        if (strcmp(ls__world_host(world, rank), host) == 0)
            ls__cores_add(mine, &all[rank]);
    return LS_OK;
}

/* Where the threads of a host's ranks outnumber its cores, they give them away at once when they
 * wait, for each other or for other ranks, and the host's first rank says so. */
static void mind_crowding(ls__world *world, int cores)
{
    int ranks = ls__world_host_ranks(world);
    int threads = ls__threads_count();
    const char *host = ls__world_host(world, ls__world_rank(world));

    if (ranks * threads <= cores)
        return;
    ls__threads_look(false);
    ls__world_transport(world)->spins = 0;
    ls__world_control(world)->spins = 0;
    if (ls__world_host_rank(world) != 0)
        return;
    if (threads == 1)
        ls__log_warning("%d ranks share the %d cores of %s: expect each to be slower", ranks, cores,
                        host);
    else
        ls__log_warning("%d rank%s of %d threads may use %d core%s of %s: expect each to be slower",
                        ranks, ranks == 1 ? "" : "s", threads, cores, cores == 1 ? "" : "s", host);
}

static ls_status mind_oversubscription(ls__world *world)
{
    ls__cores cores;
    ls__cores *all = calloc((size_t)ls__world_ranks(world), sizeof *all);
    ls_status status = all ? LS_OK : LS_FAIL(LS_NO_MEMORY, "no memory for the cores of all ranks");

    status = ls__world_agree(world, status);
    if (status == LS_OK)
        status = gather_cores(world, &cores, all);
    free(all);
    LS_TRY(status);
    mind_crowding(world, ls__cores_count(&cores));
    return LS_OK;
}

/* The names of all hosts, each once, as JSON strings. */
static void print_hosts(FILE *stream, const ls__world *world)
{
    for (int rank = 0; rank < ls__world_ranks(world); rank++) {
        bool known = false;
        for (int before = 0; before < rank && !known; before++)
            known = strcmp(ls__world_host(world, before), ls__world_host(world, rank)) == 0;
        if (!known)
            fprintf(stream, "%s\"%s\"", rank ? ", " : "", ls__world_host(world, rank));
    }
}

/* By category as booked, then what the system says. */
static void print_memory(FILE *stream, const run *r)
{
    for (ls__category category = 0; category < LS__CATEGORY_COUNT; category++)
        fprintf(stream, "\"%s\": %lld, ", ls__category_name(category),
                (long long)ls__arena_booked(r->trainer.arena, category));
    fprintf(stream, "\"resident\": %lld", (long long)r->resident);
}

/* The line at the top of the metrics, and again at each resumption. */
static ls_status write_run_line(run *r)
{
    const ls__trainer *trainer = &r->trainer;
    char *line = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&line, &size);

    LS_FAIL_IF(!stream, LS_NO_MEMORY, "no memory for a line of metrics");
    fprintf(stream,
            "{\"run\": {\"version\": \"%s\", \"ranks\": %d, \"model\": \"%s\", \"parameters\": "
            "%lld, \"from_step\": %lld, \"blas_core\": \"%s\", \"threads\": %d, \"allreduce\": "
            "\"%s\", \"bucket_bytes\": %lld, \"memory\": {",
            LS__VERSION, ls__world_ranks(trainer->world),
            trainer->settings->model == LS__MODEL_GPT ? "gpt" : "mlp",
            (long long)trainer->model->tensors.total, (long long)trainer->step, ls__gemm_core(),
            ls__threads_count(), ls__reducer_algorithm(trainer->reducer)->name,
            (long long)ls__reducer_bucket_bytes(trainer->reducer));
    print_memory(stream, r);
    fprintf(stream, "}, \"hosts\": [");
    print_hosts(stream, trainer->world);
    fprintf(stream, "]}}");
    LS_FAIL_IF(fclose(stream) != 0, LS_NO_MEMORY, "no memory for a line of metrics");
    ls_status status = ls__metrics_line(&r->metrics, line);
    free(line);
    return status;
}

/* Says what will be trained, on what. */
static void announce(const run *r)
{
    const ls__trainer *trainer = &r->trainer;
    ls__format precision = (ls__format)trainer->settings->precision;
    char memory[32];
    char threads[32] = "";
    char engine[96] = "";

    if (ls__threads_count() > 1)
        snprintf(threads, sizeof threads, " of %d threads", ls__threads_count());
    if (precision != LS__F32)
        snprintf(engine, sizeof engine, ", %s by %s", ls__format_name(precision),
                 ls__gemm_engine(precision));
    ls__log_info(
        "%s with %lld parameters, %lld micro-batches of %lld a step, %d rank%s%s, %s each, "
        "OpenBLAS %s%s",
        trainer->settings->model == LS__MODEL_GPT ? "GPT" : "MLP",
        (long long)trainer->model->tensors.total, (long long)ls__micro_batches(trainer->settings),
        (long long)trainer->settings->micro_batch, ls__world_ranks(trainer->world),
        ls__world_ranks(trainer->world) == 1 ? "" : "s", threads,
        ls__format_bytes(memory, sizeof memory, ls__arena_total(trainer->arena)), ls__gemm_core(),
        engine);
    if (trainer->step > 0)
        ls__log_info("going on from step %lld", (long long)trainer->step);
    if (trainer->step >= trainer->settings->steps)
        ls__log_info("nothing to do: %lld of %lld steps are done", (long long)trainer->step,
                     (long long)trainer->settings->steps);
    if (trainer->evaluator.samples == 0)
        ls__log_info("no evaluation: %s has no held-out samples", trainer->settings->data);
}

/* The folder comes last in set-up: whatever is wrong with a run is found before it leaves a trace.
 */
static ls_status prepare_folder(run *r, bool *resumes)
{
    const ls__train_settings *settings = r->trainer.settings;

    int64_t *steps = NULL;
    int64_t count = 0;

    *resumes = false;
    if (!r->writes)
        return LS_OK;
    LS_TRY(ls__run_folder_name(&r->folder, settings->run));
    LS_TRY(ls__checkpoint_steps(r->folder.checkpoints, &steps, &count));
    free(steps);
    *resumes = settings->resume && count > 0;
    if (settings->resume && count == 0 && ls__run_folder_in_use(&r->folder))
        ls__log_info("no checkpoint yet: starting again from step 0");
    return ls__run_folder_prepare(&r->folder, settings);
}

/* A resumed run goes on on the ranks that it is given now, which need not be meant. */
static void tell_of_other_ranks(const run *r)
{
    int64_t before = ls__metrics_last_ranks(r->folder.metrics);
    int now = ls__world_ranks(r->trainer.world);
    bool exact = r->trainer.settings->reduce == LS__REDUCE_EXACT;

    if (before > 0 && before != now)
        ls__log_info("the run was on %lld rank%s, now it is on %d: %s", (long long)before,
                     before == 1 ? "" : "s", now,
                     exact ? "its bits stay the same" : "with --reduce f32 its bits change");
}

static ls_status open_metrics(run *r)
{
    const ls__trainer *trainer = &r->trainer;
    bool images = trainer->settings->model == LS__MODEL_MLP;

    const char *restart = getenv("LOCKSTEP_RESTART"); /* the launcher's line about why */

    if (!r->writes)
        return LS_OK;
    tell_of_other_ranks(r);
    LS_TRY(ls__metrics_open(&r->metrics, r->folder.metrics, trainer->step, images));
    LS_TRY(write_run_line(r));
    return restart ? ls__metrics_line(&r->metrics, restart) : LS_OK;
}

static ls_status open_run(run *r, const ls__train_settings *settings, ls__world *world)
{
    bool resumes = false;

    r->writes = ls__world_rank(world) == 0;
    ls__world_set_timeout(world, settings->stall_timeout); /* a resumed run brings its own */
    LS_TRY(ls__world_agree(world, ls__fault_arm(ls__world_rank(world))));
    LS_TRY(ls__world_agree(world, ls__threads_start((int)settings->threads)));
    int64_t resident = ls__memory_resident();
    LS_TRY(ls__trainer_open(&r->trainer, settings, world));
    r->resident = resident > 0 ? ls__memory_resident() - resident : 0;
    LS_TRY(ls__world_agree(world, prepare_folder(r, &resumes)));
    LS_TRY(ls__world_broadcast(world, 0, &resumes, sizeof resumes));
    if (resumes)
        LS_TRY(ls__trainer_restore(&r->trainer, r->folder.checkpoints));
    LS_TRY(ls__world_agree(world, open_metrics(r)));
    LS_TRY(mind_oversubscription(world));
    announce(r);
    return LS_OK;
}

static ls_status evaluate(run *r)
{
    const ls__dataset_info *info = ls__dataset_about(r->trainer.dataset);
    ls__evaluation result;

    LS_TRY(ls__evaluate(&r->trainer.evaluator, r->trainer.parameters, &result));
    ls__eval_metrics line = {.step = r->trainer.step,
                             .loss = result.loss,
                             .accuracy = result.accuracy,
                             .bytes = info->vocabulary_bytes > 0};
    return r->writes ? ls__metrics_eval(&r->metrics, &line) : LS_OK;
}

static bool due(int64_t step, int64_t every, int64_t last)
{
    return every > 0 && (step % every == 0 || step == last);
}

/* A rank was told to stop, and all know it since the step: the work done is kept. */
static ls_status stop_here(run *r)
{
    long long step = r->trainer.step;
    char why[LS_ERROR_TEXT];

    if (!due(step, r->trainer.settings->checkpoint_every, r->trainer.settings->steps))
        LS_TRY(ls__trainer_save(&r->trainer, r->folder.checkpoints));
    snprintf(why, sizeof why, "stopped by %s at step %lld: checkpoint saved, go on with --resume",
             ls__stop_name(r->trainer.stop), step);
    return ls_fail_from(0, LS_STOPPED, why);
}

static ls_status write_steps(run *r, const ls__step_metrics *metrics, int count)
{
    for (int i = 0; r->writes && i < count; i++)
        LS_TRY(ls__metrics_step(&r->metrics, &metrics[i]));
    return LS_OK;
}

static ls_status take_step(run *r)
{
    ls__step_metrics metrics[2];
    int complete = 0;

    ls_status status = ls__trainer_step(&r->trainer, metrics, &complete);
    ls_status written = write_steps(r, metrics, complete);
    return status != LS_OK ? status : written;
}

static ls_status settle(run *r)
{
    ls__step_metrics metrics;
    int complete = 0;

    LS_TRY(ls__trainer_settle(&r->trainer, &metrics, &complete));
    return write_steps(r, &metrics, complete);
}

static ls_status run_steps(run *r)
{
    const ls__train_settings *settings = r->trainer.settings;

    while (r->trainer.step < settings->steps) {
        LS_TRY(take_step(r));
        int64_t step = r->trainer.step;
        bool evaluates =
            due(step, settings->eval_every, settings->steps) && r->trainer.evaluator.samples > 0;
        bool saves = due(step, settings->checkpoint_every, settings->steps);
        bool stops = r->trainer.stop && step < settings->steps;
        if (evaluates || saves || stops)
            LS_TRY(settle(r));
        if (evaluates)
            LS_TRY(ls__stall_at(evaluate(r), "evaluation after step %lld", (long long)step));
        if (saves)
            LS_TRY(ls__stall_at(ls__trainer_save(&r->trainer, r->folder.checkpoints),
                                "saving after step %lld", (long long)step));
        if (stops)
            return stop_here(r);
    }
    return LS_OK;
}

/* Skipped steps are part of the game, but who reads the end should know how many they were. */
static void tell_of_skipped(const run *r)
{
    const ls__scaler *scaler = &r->trainer.scaler;

    if (scaler->skipped > 0)
        ls__log_info("%lld of %lld steps were skipped, as their scaled gradients were not finite; "
                     "the loss scale is now %g",
                     (long long)scaler->skipped, (long long)r->trainer.step, scaler->scale);
}

ls_status ls__train(const ls__train_settings *settings, ls__world *world)
{
    run r = {0};
    ls_status status = open_run(&r, settings, world);

    if (status == LS_OK)
        status = run_steps(&r);
    if (status == LS_OK)
        tell_of_skipped(&r);
    ls_status closed = ls__metrics_close(&r.metrics);
    ls__trainer_close(&r.trainer);
    return status != LS_OK ? status : closed;
}
