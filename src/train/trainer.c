#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "lockstep/schedule.h"
#include "math/gemm.h"
#include "optim/clip.h"
#include "optim/schedule.h"
#include "train/assemble.h"
#include "train/load.h"
#include "train/run_folder.h"
#include "train/stall.h"
#include "train/startup.h"
#include "train/stop.h"

/* ---- opening ---- */

static ls_status open_dataset(ls__trainer *trainer)
{
    const ls__train_settings *settings = trainer->settings;

    ls_status status = ls__dataset_open(&trainer->dataset, settings->data);
    if (status != LS_OK)
        return settings->resume ? ls__load_stored_data_failed(status) : status;
    LS_TRY(ls__feed_check(trainer->dataset, settings));
    LS_TRY(ls__feed_check_step(trainer->dataset, settings));
    LS_TRY(ls__dataset_load(trainer->dataset, trainer->arena));
    return ls__feed_open(&trainer->feed, trainer->dataset, settings, settings->micro_batch,
                         trainer->arena);
}

static ls_status open_model(ls__trainer *trainer)
{
    const ls__train_settings *settings = trainer->settings;
    ls__data_shape shape = ls__data_shape_of(ls__dataset_about(trainer->dataset));

    return ls__assemble_model(&trainer->model, settings, shape, settings->micro_batch,
                              trainer->arena);
}

/* With --shard-optimizer ranks read them from each other. */
static ls_status take_parameters(ls__trainer *trainer)
{
    int64_t count = ls__reducer_padded(trainer->model->tensors.total);

    if (trainer->settings->shard_optimizer)
        return ls__world_memory(trainer->world, trainer->arena, LS__PARAMETERS, count,
                                sizeof(float), &trainer->parameters);
    return ls__world_agree(trainer->world, ls__arena_take(trainer->arena, LS__PARAMETERS, count,
                                                          sizeof(float), &trainer->parameters));
}

static ls_status open_parameters(ls__trainer *trainer)
{
    LS_TRY(take_parameters(trainer));
    ls__tensors_initialise(&trainer->model->tensors, (uint64_t)trainer->settings->seed,
                           trainer->parameters);
    return LS_OK;
}

/* What one rank can do alone, in so many bytes of memory. */
static ls_status open_alone(ls__trainer *trainer, int64_t memory)
{
    const ls__train_settings *settings = trainer->settings;
    int64_t wanted = settings->eval_batches * settings->batch;

    LS_TRY(ls__arena_open(&trainer->arena, memory));
    LS_TRY(open_dataset(trainer));
    LS_TRY(open_model(trainer));
    return ls__evaluator_open(&trainer->evaluator, trainer->world, trainer->model, &trainer->feed,
                              wanted, trainer->arena);
}

/* ---- shares: the ranges of parameters that a rank updates ---- */

static int64_t share_count(const ls__trainer *trainer)
{
    return trainer->settings->shard_optimizer ? ls__reducer_buckets(trainer->reducer) : 1;
}

static ls_range share_at(const ls__trainer *trainer, int64_t index, int rank)
{
    int64_t total = trainer->model->tensors.total;

    if (!trainer->settings->shard_optimizer)
        return (ls_range){0, total};
    ls_range owned = ls__reducer_owned(trainer->reducer, index, rank);
    int64_t left = total - owned.offset;
    return (ls_range){owned.offset, owned.count < left ? owned.count : left < 0 ? 0 : left};
}

/* One slot a micro-batch, filled by its owner, known to all after each step. */
static ls_status open_losses(ls__trainer *trainer)
{
    int64_t parts = ls__micro_batches(trainer->settings);

    LS_TRY(ls__arena_take(trainer->arena, LS__COMMUNICATION, parts, sizeof *trainer->losses,
                          &trainer->losses));
    return ls__sharing_open(&trainer->loss_sharing, ls__world_control(trainer->world),
                            &(ls__sharing_plan){.algorithm = &ls_algorithm_ring,
                                                .units = parts,
                                                .data = trainer->losses,
                                                .size = sizeof *trainer->losses});
}

static ls_status open_optimizer(ls__trainer *trainer)
{
    ls__optimizer_settings settings = ls__assemble_optimizer(trainer->settings);
    int64_t kept = 0;

    for (int64_t i = 0; i < share_count(trainer); i++)
        kept += share_at(trainer, i, ls__world_rank(trainer->world)).count;
    return ls__optimizer_open(&trainer->optimizer, &settings, &trainer->model->tensors, kept,
                              trainer->arena);
}

static ls_status compare_machines(ls__trainer *trainer)
{
    ls__canary canary = {0};

    ls_status status = ls__canary_run(&canary, &trainer->evaluator, trainer->parameters, true);
    if (status == LS_OK)
        status = ls__gemm_failed();
    LS_TRY(ls__world_agree(trainer->world, status));
    return ls__startup_compare(trainer->world, &canary, (ls__format)trainer->settings->precision,
                               trainer->settings->reduce == LS__REDUCE_EXACT);
}

ls_status ls__trainer_open(ls__trainer *trainer, const ls__train_settings *settings,
                           ls__world *world)
{
    ls_status status = LS_OK;
    int64_t memory = 0;

    *trainer = (ls__trainer){.settings = settings, .world = world, .is_settled = true};
    trainer->scaler = ls__scaler_begin(settings->loss_scale, settings->loss_scale_growth,
                                       settings->loss_scale_floor);
    LS_TRY(
        ls__world_agree(world, ls__train_settings_check_ranks(settings, ls__world_ranks(world))));
    LS_TRY(ls__startup_memory(world, &memory));
    LS_TRY_TO(failed, ls__world_agree(world, open_alone(trainer, memory)));
    LS_TRY_TO(failed, open_parameters(trainer));
    LS_TRY_TO(failed, ls__feed_compare_data(trainer->dataset, world));
    LS_TRY_TO(failed, compare_machines(trainer));
    LS_TRY_TO(failed, ls__reducer_open(&trainer->reducer, settings, trainer->model->tensors.total,
                                       settings->shard_optimizer ? trainer->parameters : NULL,
                                       world, trainer->arena));
    trainer->model->gate = (ls__parameter_gate){ls__reducer_need, trainer->reducer};
    LS_TRY_TO(failed, ls__world_agree(world, open_optimizer(trainer)));
    LS_TRY_TO(failed, ls__world_agree(world, open_losses(trainer)));
    LS_TRY_TO(failed, ls__world_agree(world, ls__audit_open(&trainer->audit, settings, world,
                                                            trainer->model, &trainer->feed,
                                                            trainer->arena)));
    ls__arena_seal(trainer->arena);
    return LS_OK;
failed:
    ls__trainer_close(trainer);
    return status;
}

void ls__trainer_close(ls__trainer *trainer)
{
    ls__sharing_close(trainer->loss_sharing);
    ls__reducer_close(trainer->reducer);
    ls__model_close(trainer->model);
    ls__dataset_close(trainer->dataset);
    ls__arena_close(trainer->arena);
    *trainer = (ls__trainer){0};
}

/* ---- a step ---- */

/* Where tests spoil addends; nobody audits what has not passed here. */
static void pass_addend(void *next, int64_t offset, int64_t count, const float *addend)
{
    const ls__gradient_sink *sink = next;

    sink->ready(sink->context, offset, count, ls__fault_addend(offset, count, addend));
}

/* The sink for a micro-batch of this rank's. */
static ls__gradient_sink sink_for(ls__trainer *trainer, ls__gradient_sink sums, int64_t index)
{
    int64_t step = trainer->step + 1;
    int rank = ls__world_rank(trainer->world);

    if (!ls__audit_due(&trainer->audit, step) ||
        index != ls__audit_micro_batch(&trainer->audit, step, rank))
        return sums;
    return ls__audit_tap(&trainer->audit, sums);
}

static ls_range own_micro_batches(const ls__trainer *trainer)
{
    return ls_block(ls__micro_batches(trainer->settings), ls__world_ranks(trainer->world),
                    ls__world_rank(trainer->world));
}

/* Forward and backward of one micro-batch; returns its loss. */
static double compute_one(ls__trainer *trainer, int64_t index, ls__gradient_sink sink)
{
    const ls__train_settings *settings = trainer->settings;
    int64_t ordinal = trainer->step * settings->batch + index * settings->micro_batch;
    ls__gradient_sink pass = {.ready = pass_addend, .context = &sink};
    ls_range mine = own_micro_batches(trainer);
    ls__batch batch;

    ls__feed_train(&trainer->feed, ordinal, settings->micro_batch, &batch);
    double loss = ls__model_loss(trainer->model, trainer->parameters, &batch, true);
    ls__reducer_next(trainer->reducer, index == mine.offset + mine.count - 1);
    ls__model_backward(trainer->model, trainer->parameters, &batch, ls__fault_armed ? pass : sink);
    return loss;
}

/* Forward and backward of this rank's micro-batches: a contiguous run, which need not be as long
 * as the other ranks'. */
static void compute(ls__trainer *trainer)
{
    trainer->model->loss_scale = (float)trainer->scaler.scale;
    ls__reducer_set_scale(trainer->reducer, trainer->scaler.scale);
    ls__gradient_sink sums = ls__reducer_start(trainer->reducer);
    ls_range mine = own_micro_batches(trainer);

    for (int64_t i = mine.offset; i < mine.offset + mine.count; i++) {
        ls__gradient_sink sink = sink_for(trainer, sums, i);
        trainer->losses[i].loss = compute_one(trainer, i, sink);
        trainer->losses[i].stop = ls__stop_signal();
    }
}

/* Also what any rank was told by a signal: every rank has at least one micro-batch. */
static ls_status mean_loss(ls__trainer *trainer, double *loss)
{
    int64_t parts = ls__micro_batches(trainer->settings);
    double sum = 0;

    LS_TRY(ls__sharing_run(trainer->loss_sharing, ls__world_timeout(trainer->world)));
    trainer->stop = 0;
    for (int64_t i = 0; i < parts; i++) {
        sum += trainer->losses[i].loss;
        if (trainer->losses[i].stop)
            trainer->stop = (int)trainer->losses[i].stop;
    }
    *loss = sum / (double)parts;
    return LS_OK;
}

/* ---- a gradient that is not finite ---- */

/* The first element of this rank's share that is not finite; the end of all where there is none. */
static int64_t first_not_finite(const ls__trainer *trainer)
{
    const float *gradient = ls__reducer_mean(trainer->reducer);

    for (int64_t i = 0; i < share_count(trainer); i++) {
        ls_range range = share_at(trainer, i, ls__world_rank(trainer->world));
        for (int64_t at = range.offset; at < range.offset + range.count; at++)
            if (!isfinite(gradient[at]))
                return at;
    }
    return trainer->model->tensors.total;
}

static void look_for_not_finite(void *found, int64_t offset, int64_t count, const float *addend)
{
    bool *any = found;

    (void)offset;
    for (int64_t i = 0; i < count && !*any; i++)
        *any = !isfinite(addend[i]);
}

/* Computes once more: the first of this rank's micro-batches that brings such an addend, or V. */
static int64_t find_source(ls__trainer *trainer)
{
    ls_range mine = own_micro_batches(trainer);
    bool found = false;
    ls__gradient_sink sink = {.ready = look_for_not_finite, .context = &found};

    for (int64_t i = mine.offset; i < mine.offset + mine.count; i++) {
        compute_one(trainer, i, sink);
        if (found)
            return i;
    }
    return ls__micro_batches(trainer->settings);
}

static void describe_source(const ls__trainer *trainer, int64_t index, char *text, size_t size)
{
    int ranks = ls__world_ranks(trainer->world);
    int64_t parts = ls__micro_batches(trainer->settings);
    int rank = 0;

    if (index == parts) {
        snprintf(text, size,
                 "no micro-batch gives that when computed again: test this memory and "
                 "network, then go on with --resume");
        return;
    }
    while (index >= ls_block(parts, ranks, rank).offset + ls_block(parts, ranks, rank).count)
        rank++;
    snprintf(text, size,
             "first in micro-batch %lld, on rank %d (%s): lower --lr, or start from an older "
             "checkpoint",
             (long long)index, rank, ls__world_host(trainer->world, rank));
}

static ls_status diverged(ls__trainer *trainer)
{
    char source[256];
    int64_t first = 0;
    int64_t index = 0;

    LS_TRY(ls__world_lowest(trainer->world, first_not_finite(trainer), &first));
    LS_TRY(ls__world_lowest(trainer->world, find_source(trainer), &index));
    const ls__tensor *tensor = ls__tensors_at(&trainer->model->tensors, first);
    describe_source(trainer, index, source, sizeof source);
    return ls__world_agree(
        trainer->world,
        LS_FAIL(LS_DIVERGED,
                "step %lld: the gradient of %s is not finite (element %lld of "
                "all)%s, %s",
                (long long)trainer->step + 1, tensor ? tensor->name : "the model", (long long)first,
                ls__scaler_active(&trainer->scaler) ? ", with the loss scale at its floor" : "",
                source));
}

/* ---- the update ---- */

/* Clips and updates this rank's share, or skips the step. The norm is the same on every rank, and
 * finite where all means are, as it is summed in FP64: so is what follows from it. */
static ls_status update(ls__trainer *trainer, ls__step_metrics *metrics)
{
    const ls__train_settings *settings = trainer->settings;
    ls__learning_rate rates = {.highest = settings->lr,
                               .lowest = settings->min_lr,
                               .warmup = settings->warmup,
                               .decay = settings->decay_steps};
    float *gradient = ls__reducer_mean(trainer->reducer);
    int64_t update = ls__scaler_update(&trainer->scaler, trainer->step + 1);
    int64_t state = 0;

    metrics->lr = ls__learning_rate_at(&rates, trainer->step);
    LS_TRY(ls__reducer_norm(trainer->reducer, &metrics->grad_norm));
    if (!isfinite(metrics->grad_norm))
        return ls__scaler_overflow(&trainer->scaler) ? LS_OK : diverged(trainer);
    float factor = (float)ls__clip_factor(metrics->grad_norm, settings->clip);
    for (int64_t i = 0; i < share_count(trainer); i++) {
        ls_range range = share_at(trainer, i, ls__world_rank(trainer->world));
        if (factor < 1)
            ls__clip(gradient + range.offset, range.count, factor);
        ls__optimizer_step(&trainer->optimizer, trainer->parameters, gradient, metrics->lr, update,
                           range.offset, range.count, state);
        state += range.count;
    }
    ls__model_parameters_changed(trainer->model);
    ls__scaler_good(&trainer->scaler);
    return LS_OK;
}

/* The gradient's mean, then either all ranks update everything, or each its share:
 *
 *     reduce-scatter -> round -> all-gather of the mean -> clip, update all
 *     reduce-scatter -> round -> clip, update own share -> all-gather of the parameters
 *
 * The same bits and the same traffic either way. */
static ls_status reduce_and_update(ls__trainer *trainer, ls__step_metrics *metrics)
{
    bool shards = trainer->settings->shard_optimizer;
    double started = ls__clock_seconds();

    LS_TRY(ls__reducer_gather(trainer->reducer));
    metrics->hidden_seconds = ls__reducer_hidden(trainer->reducer);
    if (!shards)
        LS_TRY(ls__reducer_share(trainer->reducer));
    metrics->comm_seconds += ls__clock_seconds() - started;
    LS_TRY(update(trainer, metrics));
    /* Before the parameters: a short message waits behind long ones. */
    LS_TRY(mean_loss(trainer, &trainer->loss));
    return shards ? ls__reducer_share_late(trainer->reducer) : LS_OK;
}

static ls_status audit_gradients(ls__trainer *trainer)
{
    int64_t step = trainer->step + 1;

    return ls__audit_due(&trainer->audit, step)
               ? ls__audit_gradients(&trainer->audit, trainer->parameters, step)
               : LS_OK;
}

static ls_status audit_replicas(ls__trainer *trainer)
{
    return ls__audit_due(&trainer->audit, trainer->step)
               ? ls__audit_replicas(&trainer->audit, trainer->parameters, trainer->step)
               : LS_OK;
}

/* What can only be done when all of the last step's parameters are there. */
static ls_status settle(ls__trainer *trainer)
{
    ls__step_metrics *metrics = &trainer->unsettled;

    LS_TRY(ls__reducer_settle(trainer->reducer));
    int64_t settled_at = ls__reducer_settled_at(trainer->reducer);
    if (settled_at > trainer->sent_by_then)
        metrics->bytes_sent += settled_at - trainer->sent_by_then;
    ls__fault_enter_step(trainer->step);
    ls__fault_parameters(trainer->parameters, trainer->model->tensors.total);
    LS_TRY(audit_replicas(trainer));
    if (ls__world_rank(trainer->world) == 0)
        metrics->digest = ls__digest_of(trainer->parameters,
                                        (size_t)trainer->model->tensors.total * sizeof(float));
    trainer->is_settled = true;
    return LS_OK;
}

ls_status ls__trainer_settle(ls__trainer *trainer, ls__step_metrics *metrics, int *complete)
{
    if (trainer->is_settled)
        return LS_OK;
    LS_TRY(ls__stall_at(settle(trainer), "step %lld", (long long)trainer->step));
    metrics[(*complete)++] = trainer->unsettled;
    return LS_OK;
}

/* Whether the parameters may come while the next step's forward begins. Audits look at them at
 * once. */
static bool may_be_late(const ls__trainer *trainer)
{
    return trainer->settings->shard_optimizer && !ls__audit_due(&trainer->audit, trainer->step);
}

/* Forward and backward; meanwhile the step before settles, whose metrics then are complete. */
static ls_status compute_and_settle(ls__trainer *trainer, ls__step_metrics *metrics,
                                    ls__step_metrics *before, int *complete)
{
    double started = ls__clock_seconds();

    ls__reducer_waited(trainer->reducer);
    compute(trainer);
    LS_TRY(ls__trainer_settle(trainer, before, complete));
    ls__fault_enter_step(trainer->step + 1);
    metrics->comm_seconds = ls__reducer_waited(trainer->reducer);
    metrics->compute_seconds = ls__clock_seconds() - started - metrics->comm_seconds;
    return LS_OK;
}

static ls_status take_step(ls__trainer *trainer, ls__step_metrics *before, int *complete)
{
    const ls__train_settings *settings = trainer->settings;
    const ls_traffic *traffic = &ls__world_transport(trainer->world)->traffic;
    double started = ls__clock_seconds();
    int64_t sent = traffic->sent_bytes;
    ls__step_metrics metrics = {0};
    int64_t flops = ls__gemm_flops();

    metrics.loss_scale = ls__scaler_active(&trainer->scaler) ? trainer->scaler.scale : 0;
    LS_TRY(compute_and_settle(trainer, &metrics, before, complete));
    LS_TRY(ls__gemm_failed());
    if (ls__reducer_settled_at(trainer->reducer) > sent)
        sent = ls__reducer_settled_at(trainer->reducer);
    LS_TRY(audit_gradients(trainer));
    LS_TRY(reduce_and_update(trainer, &metrics));
    trainer->step++;
    metrics.step = trainer->step;
    metrics.steps = settings->steps;
    metrics.loss = trainer->loss;
    metrics.skipped = trainer->scaler.skipped;
    metrics.items = (double)settings->batch * (double)trainer->model->context;
    metrics.bytes_sent = traffic->sent_bytes - sent;
    metrics.flops = ls__gemm_flops() - flops;
    metrics.seconds = ls__clock_seconds() - started;
    trainer->unsettled = metrics;
    trainer->sent_by_then = traffic->sent_bytes;
    trainer->is_settled = false;
    return LS_OK;
}

ls_status ls__trainer_step(ls__trainer *trainer, ls__step_metrics *metrics, int *complete)
{
    char tensors[2 * LS__TENSOR_NAME + 64];
    int64_t step = trainer->step + 1;

    *complete = 0;
    ls__fault_enter_step(step);
    ls__fault_here(LS__FAULT_STEP);
    ls_status status = take_step(trainer, metrics, complete);
    LS_TRY(ls__stall_at(status, "step %lld%s", (long long)step,
                        ls__stall_tensors(tensors, sizeof tensors, &trainer->model->tensors,
                                          ls__reducer_stalled(trainer->reducer))));
    return may_be_late(trainer) ? LS_OK : ls__trainer_settle(trainer, metrics, complete);
}

/* ---- checkpoints ---- */

/* Whole state arrays exist where the optimizer is not sharded; else they are put together, between
 * steps, in memory that a step needs only while it runs. */
static float *whole_state(const ls__trainer *trainer, int index)
{
    if (!trainer->settings->shard_optimizer)
        return trainer->optimizer.state[index];
    return index == 0 ? ls__reducer_mean(trainer->reducer) : trainer->model->gradients;
}

/* Puts the shares of one state array together on all ranks. */
static ls_status assemble_state(const ls__trainer *trainer, int index)
{
    float *whole = whole_state(trainer, index);
    const float *own = trainer->optimizer.state[index];

    for (int64_t i = 0; i < share_count(trainer); i++)
        for (int rank = 0; rank < ls__world_ranks(trainer->world); rank++) {
            ls_range range = share_at(trainer, i, rank);
            size_t bytes = (size_t)range.count * sizeof *whole;
            if (rank == ls__world_rank(trainer->world)) {
                memcpy(whole + range.offset, own, bytes);
                own += range.count;
            }
            LS_TRY(ls__world_broadcast(trainer->world, rank, whole + range.offset, (int64_t)bytes));
        }
    return LS_OK;
}

/* The other way: keeps this rank's share of a whole state array. */
static void keep_share(const ls__trainer *trainer, int index)
{
    const float *whole = whole_state(trainer, index);
    float *own = trainer->optimizer.state[index];

    for (int64_t i = 0; i < share_count(trainer); i++) {
        ls_range range = share_at(trainer, i, ls__world_rank(trainer->world));
        memcpy(own, whole + range.offset, (size_t)range.count * sizeof *own);
        own += range.count;
    }
}

static ls__checkpoint_arrays arrays_of(ls__trainer *trainer)
{
    ls__checkpoint_arrays arrays = {.tensors = &trainer->model->tensors,
                                    .parameters = trainer->parameters};
    ls__optimizer_kind kind = trainer->optimizer.settings.kind;

    for (int i = 0; i < ls__optimizer_state_count(kind); i++) {
        arrays.state[i] = whole_state(trainer, i);
        arrays.state_name[i] = ls__optimizer_state_name(kind, i);
    }
    return arrays;
}

static ls_status describe(ls__trainer *trainer, ls__checkpoint_info *info)
{
    const ls__dataset_info *data = ls__dataset_about(trainer->dataset);
    char *configuration = NULL;

    *info = (ls__checkpoint_info){
        .step = trainer->step,
        .loss = trainer->loss,
        .seed = (uint64_t)trainer->settings->seed,
        .vocabulary_bytes = data->vocabulary_bytes,
        .loss_scale = ls__scaler_active(&trainer->scaler) ? trainer->scaler.scale : 0,
        .good_steps = trainer->scaler.good,
        .skipped_steps = trainer->scaler.skipped,
        .digest = ls__digest_of(trainer->parameters,
                                (size_t)trainer->model->tensors.total * sizeof(float)),
    };
    memcpy(info->vocabulary, data->vocabulary, (size_t)data->vocabulary_bytes);
    snprintf(info->model, sizeof info->model, "%s",
             trainer->settings->model == LS__MODEL_GPT ? "gpt" : "mlp");
    snprintf(info->blas_core, sizeof info->blas_core, "%s", ls__gemm_core());
    ls__startup_engine(info->engine, sizeof info->engine, (ls__format)trainer->settings->precision);
    LS_TRY(ls__run_configuration(trainer->settings, &configuration));
    snprintf(info->configuration, sizeof info->configuration, "%s", configuration);
    free(configuration);
    return LS_OK;
}

static ls_status save_alone(ls__trainer *trainer, const char *checkpoints)
{
    static ls__checkpoint_info info; /* large, and only rank 0 comes here */
    char path[LS__PATH_SIZE];
    ls__checkpoint_arrays arrays = arrays_of(trainer);

    LS_TRY(ls__checkpoint_path(path, checkpoints, trainer->step));
    LS_TRY(describe(trainer, &info));
    LS_TRY(ls__checkpoint_write(path, &info, &arrays));
    return ls__checkpoint_settle(checkpoints, trainer->step, trainer->settings->keep);
}

ls_status ls__trainer_save(ls__trainer *trainer, const char *checkpoints)
{
    bool writes = ls__world_rank(trainer->world) == 0;
    int states = ls__optimizer_state_count(trainer->optimizer.settings.kind);

    for (int i = 0; trainer->settings->shard_optimizer && i < states; i++)
        LS_TRY(assemble_state(trainer, i));
    return ls__world_agree(trainer->world, writes ? save_alone(trainer, checkpoints) : LS_OK);
}

static ls_status restore_alone(ls__trainer *trainer, const char *checkpoints)
{
    static ls__checkpoint_info info;
    char path[LS__PATH_SIZE];
    ls__checkpoint_arrays arrays = arrays_of(trainer);

    LS_TRY(ls__checkpoint_latest(checkpoints, path));
    LS_TRY(ls__checkpoint_read(path, &info, &arrays));
    trainer->step = info.step;
    trainer->loss = info.loss;
    if (ls__scaler_active(&trainer->scaler) && info.loss_scale > 0)
        ls__scaler_resume(&trainer->scaler, info.loss_scale, info.good_steps, info.skipped_steps);
    ls__startup_compare_checkpoint(info.blas_core, info.engine,
                                   (ls__format)trainer->settings->precision);
    return LS_OK;
}

/* Rank 0 alone needs to see the run's folder. */
ls_status ls__trainer_restore(ls__trainer *trainer, const char *checkpoints)
{
    bool reads = ls__world_rank(trainer->world) == 0;
    int64_t bytes = trainer->model->tensors.total * (int64_t)sizeof(float);
    ls__checkpoint_arrays arrays = arrays_of(trainer);

    LS_TRY(ls__world_agree(trainer->world, reads ? restore_alone(trainer, checkpoints) : LS_OK));
    LS_TRY(ls__world_broadcast(trainer->world, 0, &trainer->step, sizeof trainer->step));
    LS_TRY(ls__world_broadcast(trainer->world, 0, &trainer->loss, sizeof trainer->loss));
    LS_TRY(ls__world_broadcast(trainer->world, 0, &trainer->scaler, sizeof trainer->scaler));
    LS_TRY(ls__world_broadcast(trainer->world, 0, trainer->parameters, bytes));
    ls__model_parameters_changed(trainer->model);
    for (int i = 0; i < ls__optimizer_state_count(trainer->optimizer.settings.kind); i++) {
        LS_TRY(ls__world_broadcast(trainer->world, 0, arrays.state[i], bytes));
        if (trainer->settings->shard_optimizer)
            keep_share(trainer, i);
    }
    return LS_OK;
}
