/* Makes a model from settings: the one place that knows which model a name means. */
#ifndef LS_TRAIN_ASSEMBLE_H
#define LS_TRAIN_ASSEMBLE_H

#include <stdint.h>

#include "base/arena.h"
#include "data/dataset.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "train/settings.h"

/* What a model needs to know of the data. */
typedef struct ls__data_shape {
    int64_t inputs;  /* pixels of an image; unused for text */
    int64_t classes; /* labels, or tokens of the vocabulary */
} ls__data_shape;

ls__data_shape ls__data_shape_of(const ls__dataset_info *info);

ls_status ls__assemble_model(ls__model **model, const ls__train_settings *settings,
                             ls__data_shape shape, int64_t micro_batch, ls__arena *arena);

ls__optimizer_settings ls__assemble_optimizer(const ls__train_settings *settings);

#endif
