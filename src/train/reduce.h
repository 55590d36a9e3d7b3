/* The step's gradient: addends in, their mean over the global batch out, the same on every rank.
 *
 * A micro-batch's backward hands its addends to the reducer's sink, which adds them to this rank's
 * sums at once; ls__reducer_finish sums over ranks and divides by the number of micro-batches.
 * --reduce f32: FP32 sums, in the order of the micro-batches and then of the all-reduce. */
#ifndef LS_TRAIN_REDUCE_H
#define LS_TRAIN_REDUCE_H

#include <stdint.h>

#include "base/arena.h"
#include "comm/world.h"
#include "nn/model.h"
#include "train/settings.h"

typedef struct ls__reducer ls__reducer;

/* Collective: checks that all ranks mean the same reduction. Memory comes from the arena, under
 * gradients and communication. If this succeeded you must close. */
ls_status ls__reducer_open(ls__reducer **reducer, const ls__train_settings *settings,
                           int64_t parameters, ls__world *world, ls__arena *arena);
void ls__reducer_close(ls__reducer *reducer); /* NULL is fine */

/* Forgets the step before, and gives the sink for this step's addends. */
ls__gradient_sink ls__reducer_start(ls__reducer *reducer);

/* Collective; blocks, at most the world's timeout. Afterwards *mean (parameters) is the gradient of
 * the global batch, the reducer's own, valid until the next start. */
ls_status ls__reducer_finish(ls__reducer *reducer, float **mean);

#endif
