/* Evaluation on held-out samples: each counted once, the same value at any number of ranks. */
#ifndef LS_TRAIN_EVALUATE_H
#define LS_TRAIN_EVALUATE_H

#include <stdint.h>

#include "base/arena.h"
#include "comm/world.h"
#include "nn/model.h"
#include "train/feed.h"

typedef struct ls__evaluation {
    int64_t samples; /* sequences or images */
    double loss;     /* mean cross-entropy, nats */
    double accuracy; /* share of rows whose target is the most probable class */
} ls__evaluation;

/* One slot a micro-batch, filled by its owner, summed in index order. */
typedef struct ls__eval_slot {
    double loss; /* summed over samples */
    double hits;
} ls__eval_slot;

typedef struct ls__evaluator {
    ls__world *world;
    ls__model *model;
    ls__feed *feed;
    int64_t samples;     /* to evaluate on; 0: there are none */
    int64_t micro_batch; /* the last one may be smaller: that too depends on its index alone */
    int64_t slots;
    ls__eval_slot *slot; /* (slots) */
} ls__evaluator;

/* `wanted` samples at most, 0 for all. Everything handed in must outlive the evaluator. */
ls_status ls__evaluator_open(ls__evaluator *evaluator, ls__world *world, ls__model *model,
                             ls__feed *feed, int64_t wanted, ls__arena *arena);

/* The micro-batch of one slot, which points into the feed: valid until the next call. */
void ls__evaluator_batch(ls__evaluator *evaluator, int64_t index, ls__batch *batch);

/* Collective. Ranks take contiguous runs of the micro-batches. */
ls_status ls__evaluate(ls__evaluator *evaluator, const float *parameters, ls__evaluation *result);

#endif
