/* A run in the planner's terms: its flags, and what its dataset says. */
#ifndef LS_TRAIN_PREDICT_H
#define LS_TRAIN_PREDICT_H

#include "data/dataset.h"
#include "plan/trainer.h"
#include "train/settings.h"

/* For rank `rank` of `ranks` that stand on one node, as --allreduce auto asks. `settings` are
 * resolved, --bucket is not 0, and they outlive the result. */
ls__plan_run ls__predict_run(const ls__train_settings *settings, const ls__dataset_info *data,
                             int64_t rank, int64_t ranks);

#endif
