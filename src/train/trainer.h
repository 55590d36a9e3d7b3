/* One rank's share of a training run: everything a step needs, taken at start.
 *
 * All functions here are collective over the world unless they say otherwise. */
#ifndef LS_TRAIN_TRAINER_H
#define LS_TRAIN_TRAINER_H

#include <stdint.h>

#include "base/arena.h"
#include "ckpt/checkpoint.h"
#include "comm/reduction.h"
#include "comm/world.h"
#include "data/dataset.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "train/audit.h"
#include "train/evaluate.h"
#include "train/feed.h"
#include "train/metrics.h"
#include "train/reduce.h"
#include "train/scaler.h"
#include "train/settings.h"

/* What a micro-batch's owner tells the others in a step. */
typedef struct ls__micro_batch_result {
    double loss;
    int64_t stop; /* the signal that told this rank to stop, or 0 */
} ls__micro_batch_result;

typedef struct ls__trainer {
    const ls__train_settings *settings;
    ls__world *world;
    ls__arena *arena;
    ls__dataset *dataset;
    ls__feed feed;
    ls__model *model;
    float *parameters; /* (model->tensors.total) */
    ls__reducer *reducer;
    ls__optimizer optimizer;
    ls__scaler scaler; /* the same on all ranks */
    ls__evaluator evaluator;
    ls__audit audit;
    ls__micro_batch_result *losses; /* (V) one slot a micro-batch */
    ls__sharing *loss_sharing;
    ls__step_metrics unsettled; /* of the last step, while its parameters are still on their way */
    int64_t sent_by_then;       /* bytes that the transport had sent at that step's end */
    bool is_settled;            /* there are none such */
    int64_t step;               /* steps done */
    double loss;                /* of the last of them */
    int stop; /* the signal that told a rank to stop, by then; the same on all ranks */
} ls__trainer;

/* Opens the dataset, the model, the reduction and the optimizer, at step 0 with initial weights.
 * `settings` are resolved, the same on all ranks, and outlive the trainer. Where any rank fails,
 * every rank returns that failure. If this succeeded you must close. */
ls_status ls__trainer_open(ls__trainer *trainer, const ls__train_settings *settings,
                           ls__world *world);
void ls__trainer_close(ls__trainer *trainer); /* not collective; a zeroed trainer is fine */

/* One step: forward and backward of this rank's micro-batches, the gradient's mean over all, clip,
 * update. With a sharded optimizer the updated parameters may still be on their way when it
 * returns: the next step's forward waits for them, bucket by bucket, and anyone else calls
 * ls__trainer_settle first. *complete: how many steps became settled, with their metrics (2) in
 * order: the one before, this one, both or neither; also where the step then fails.
 * Where the gradient is not finite the parameters stay those before the step, on all ranks: with
 * loss scaling above its floor the step is skipped, which only the scaler notes; else LS_DIVERGED.
 * LS_COMM on all ranks where an audit finds that ranks compute or hold different bits. */
ls_status ls__trainer_step(ls__trainer *trainer, ls__step_metrics *metrics, int *complete);

/* Waits until all parameters are there. Where they were not, adds one to *complete and puts the
 * step's metrics at metrics[*complete] as it was. */
ls_status ls__trainer_settle(ls__trainer *trainer, ls__step_metrics *metrics, int *complete);

/* Rank 0 writes a checkpoint into the folder and removes those beyond settings->keep. */
ls_status ls__trainer_save(ls__trainer *trainer, const char *checkpoints);

/* Rank 0 reads the newest whole checkpoint in the folder and hands it to all ranks. */
ls_status ls__trainer_restore(ls__trainer *trainer, const char *checkpoints);

#endif
