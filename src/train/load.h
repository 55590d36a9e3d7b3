/* A finished or running run's model, read back from its folder. */
#ifndef LS_TRAIN_LOAD_H
#define LS_TRAIN_LOAD_H

#include <stdint.h>

#include "base/arena.h"
#include "ckpt/checkpoint.h"
#include "comm/world.h"
#include "nn/model.h"
#include "train/settings.h"

typedef struct ls__loaded {
    ls__train_settings settings; /* the run's own */
    ls__checkpoint_info info;
    ls__arena *arena;
    ls__model *model;
    float *parameters; /* (model->tensors.total) */
} ls__loaded;

/* Reads the configuration of the run and its checkpoint of `step`, -1: the newest whole one; the
 * model takes batches of `micro_batch` samples, 0: as in training. Memory is at most `limit` bytes,
 * 0: no limit. Not collective. LS_BAD_INPUT where the run is not there, has no checkpoint, or one
 * that is not of its model. If this succeeded you must close. The struct is large: do not put it on
 * the stack. */
ls_status ls__load_run(ls__loaded *loaded, const char *run, int64_t step, int64_t micro_batch,
                       int64_t limit);

/* Collective: rank 0 alone reads the run's newest whole checkpoint, and hands it to all ranks. The
 * model takes batches as in training. Where any rank fails, every rank returns that failure. */
ls_status ls__load_run_together(ls__loaded *loaded, const char *run, ls__world *world,
                                int64_t limit);

void ls__loaded_close(ls__loaded *loaded);

/* After a failure, `status`, with a dataset whose path came from a run's configuration: says so,
 * and how to name another. Returns `status`. */
ls_status ls__load_stored_data_failed(ls_status status);

#endif
