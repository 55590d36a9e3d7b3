/* The audit: finds a rank that computes wrong bits, or holds wrong ones.
 *
 * On every K-th step (--audit-every K) each rank recomputes one micro-batch of the rank after it,
 *
 *     rank 0 audits 1,  1 audits 2,  ...  N - 1 audits 0          (N = 1: itself)
 *
 * before the update, and compares its gradient, tensor by tensor, with the digests that the owner
 * took of its addends on their way into the sums. Which of the owner's micro-batches it is follows
 * from the step, so that all have their turn. After the update, all ranks compare digests of their
 * parameters.
 *
 * What it costs: one micro-batch in K steps, and 16 bytes a tensor between two ranks. It changes no
 * bit of the run, and none of the counters of its traffic. What it does not see: an error in a
 * micro-batch whose turn it is not, and one that every replica has taken over in the same way. */
#ifndef LS_TRAIN_AUDIT_H
#define LS_TRAIN_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/digest.h"
#include "comm/world.h"
#include "nn/model.h"
#include "train/feed.h"
#include "train/settings.h"

typedef struct ls__audit {
    const ls__train_settings *settings;
    ls__world *world;
    ls__model *model;
    ls__feed *feed;
    ls__digest *own;        /* (tensors) of this rank's addends */
    ls__digest *recomputed; /* (tensors) of the audited rank's, by this rank */
    ls__digest *received;   /* (tensors) of the audited rank's, by itself */
    ls__digest *replica;    /* (ranks) of all parameters */
    ls__digest *into;       /* where the tap puts digests now */
    ls__gradient_sink next; /* where it passes addends on to */
} ls__audit;

/* Takes memory under communication; none where --audit-every is 0. All pointers are kept. */
ls_status ls__audit_open(ls__audit *audit, const ls__train_settings *settings, ls__world *world,
                         ls__model *model, ls__feed *feed, ls__arena *arena);

/* Whether a step is audited; steps count from 1. */
bool ls__audit_due(const ls__audit *audit, int64_t step);

/* The index, 0 .. V - 1, of the micro-batch of a rank that is audited in a step. */
int64_t ls__audit_micro_batch(const ls__audit *audit, int64_t step, int rank);

/* The sink for that micro-batch of this rank's own: takes digests, then hands on to `next`. */
ls__gradient_sink ls__audit_tap(ls__audit *audit, ls__gradient_sink next);

/* Collective; all micro-batches of the step are computed, and `parameters` are still those that
 * they were computed with. LS_COMM on all ranks where a recomputation differs, naming both ranks,
 * their hosts, the step and the tensor. Leaves another batch in the model and the feed. */
ls_status ls__audit_gradients(ls__audit *audit, const float *parameters, int64_t step);

/* Collective; after the update. LS_COMM on all ranks where the ranks' parameters differ, naming two
 * ranks (the second of the majority, where there is one), the step and the tensor. */
ls_status ls__audit_replicas(ls__audit *audit, const float *parameters, int64_t step);

#endif
