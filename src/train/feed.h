/* Feeds a model: fills micro-batches from a dataset. */
#ifndef LS_TRAIN_FEED_H
#define LS_TRAIN_FEED_H

#include <stdint.h>

#include "base/arena.h"
#include "comm/world.h"
#include "data/dataset.h"
#include "nn/model.h"
#include "train/settings.h"

typedef struct ls__feed {
    const ls__dataset *dataset;
    int64_t context; /* tokens of a sequence; 1 for images */
    int64_t inputs;  /* pixels of an image; 0 for text */
    uint64_t seed;
    int32_t *tokens; /* (micro_batch, context); NULL for images */
    float *images;   /* (micro_batch, inputs); NULL for text */
    int32_t *targets;
} ls__feed;

/* Takes room for one micro-batch of `micro_batch` samples. The dataset is loaded, and fits the
 * settings (ls__feed_check). */
ls_status ls__feed_open(ls__feed *feed, const ls__dataset *dataset,
                        const ls__train_settings *settings, int64_t micro_batch, ls__arena *arena);

/* LS_BAD_INPUT or LS_BAD_USAGE where the dataset is not for this model. */
ls_status ls__feed_check(const ls__dataset *dataset, const ls__train_settings *settings);

/* LS_BAD_INPUT where the training split is too small for one step, saying what a step needs. */
ls_status ls__feed_check_step(const ls__dataset *dataset, const ls__train_settings *settings);

/* Collective: the same path may lead to other data on another host. LS_BAD_INPUT on every rank
 * where a rank has loaded other data than rank 0, naming the rank. */
ls_status ls__feed_compare_data(const ls__dataset *dataset, ls__world *world);

/* The training samples with ordinals `ordinal` .. + samples - 1, in the order of the seed. The
 * batch points into the feed: valid until the next call. */
void ls__feed_train(ls__feed *feed, int64_t ordinal, int64_t samples, ls__batch *batch);

/* How many held-out samples there are: windows that do not overlap, or images. */
int64_t ls__feed_held_out_count(const ls__feed *feed);

/* Held-out samples first .. first + samples - 1 of `wanted` spread evenly over all of them. */
void ls__feed_held_out(ls__feed *feed, int64_t wanted, int64_t first, int64_t samples,
                       ls__batch *batch);

#endif
