/* A whole training run: from settings to the last checkpoint. */
#ifndef LS_TRAIN_TRAIN_H
#define LS_TRAIN_TRAIN_H

#include "comm/world.h"
#include "lockstep/status.h"
#include "train/settings.h"

/* Collective. Trains until settings->steps are done: steps, evaluations, checkpoints, metrics and
 * progress. Told to stop by a signal on any rank (train/stop.h), all finish the step, save a
 * checkpoint and return LS_STOPPED. LOCKSTEP_RESTART in the environment of rank 0 is a line for the
 * metrics. `settings` are resolved. Where set-up fails on any rank all ranks return that failure;
 * a failure later on may be one rank's alone, and the caller ends the others. */
ls_status ls__train(const ls__train_settings *settings, ls__world *world);

#endif
