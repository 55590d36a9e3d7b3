/* The step's gradient: addends in, their mean over the global batch out.
 *
 * A micro-batch's backward hands its addends to the reducer's sink, which adds them to this rank's
 * sums at once. ls__reducer_gather then brings the sums over all ranks to their owners, who round:
 * each rank owns some ranges of the gradient. Whoever needs all of it calls ls__reducer_share.
 *
 *     --reduce exact   sums are lanes (lockstep/exact.h): nothing is rounded before the end, so the
 *                      mean has the same bits whatever the ranks, the algorithm and the buckets
 *     --reduce f32     FP32 sums in the order of the micro-batches and then of the algorithm
 *
 * The flat array is cut into units of LS__REDUCE_UNIT elements, the blocks of the gradient's norm,
 * which are never split between owners, and into buckets of whole units. Arrays that are handed in
 * are as long as ls__reducer_padded says; elements beyond the parameters are zero. */
#ifndef LS_TRAIN_REDUCE_H
#define LS_TRAIN_REDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "comm/world.h"
#include "lockstep/schedule.h"
#include "nn/model.h"
#include "optim/clip.h"
#include "train/settings.h"

enum { LS__REDUCE_UNIT = LS__NORM_BLOCK };

typedef struct ls__reducer ls__reducer;

/* `parameters` rounded up to whole units. */
int64_t ls__reducer_padded(int64_t parameters);

/* `shared` (padded) is what ls__reducer_share copies: parameters, where each rank updates those it
 * owns the gradient of; NULL: the mean, for ranks that all update all. Memory comes from the arena,
 * under gradients, lanes and communication. Collective. If this succeeded you must close. */
ls_status ls__reducer_open(ls__reducer **reducer, const ls__train_settings *settings,
                           int64_t parameters, float *shared, ls__world *world, ls__arena *arena);
void ls__reducer_close(ls__reducer *reducer); /* NULL is fine */

/* From the next start on addends are `scale` times the gradient's, a power of two; 1 from opening.
 * The division that takes the scale out is the one that makes a mean of a sum: there is no rounding
 * for it. */
void ls__reducer_set_scale(ls__reducer *reducer, double scale);

/* Forgets the step before, and gives the sink for this step's addends. */
ls__gradient_sink ls__reducer_start(ls__reducer *reducer);

/* Before each micro-batch's backward; settles what was shared late. During the last one of this
 * rank's in a step, buckets that are complete are sent off at once, and those on their way are
 * helped along with every addend: so communication hides behind the rest of backward. (Not in the
 * first step, which shows what backward hands out.) */
void ls__reducer_next(ls__reducer *reducer, bool last);

/* Collective; blocks, at most the world's timeout. Afterwards the ranges that this rank owns of
 * ls__reducer_mean are the gradient of the global batch. */
ls_status ls__reducer_gather(ls__reducer *reducer);

/* After a gather or share that ended in LS_TIMEOUT: the elements that were waited for, as far as is
 * known; else none. */
ls_range ls__reducer_stalled(const ls__reducer *reducer);

/* The mean (padded), the reducer's own; valid until the next start. */
float *ls__reducer_mean(ls__reducer *reducer);

/* Collective: copies each owner's ranges of the shared array to all ranks. */
ls_status ls__reducer_share(ls__reducer *reducer);

/* The same of an array that was given at opening, in the background: it begins, and goes on with
 * every ls__reducer_need of the next step's forward, which asks for what it is about to read, in
 * the order of the array; ls__reducer_settle waits for the rest. What fails within need is returned
 * by settle. */
ls_status ls__reducer_share_late(ls__reducer *reducer);
void ls__reducer_need(void *reducer, int64_t offset, int64_t count);
ls_status ls__reducer_settle(ls__reducer *reducer);

/* What the transport had sent when the last late sharing was settled: up to there its bytes belong
 * to the step before. */
int64_t ls__reducer_settled_at(const ls__reducer *reducer);

/* Seconds that ls__reducer_need and _settle have waited since the last call of this. */
double ls__reducer_waited(ls__reducer *reducer);

/* Collective where `shared` was given, else after ls__reducer_share: the norm of the mean
 * (optim/clip.h), the same bits either way. */
ls_status ls__reducer_norm(ls__reducer *reducer, double *norm);

/* The ranges of elements that a rank owns, one a bucket; some may be empty. */
int64_t ls__reducer_buckets(const ls__reducer *reducer);
ls_range ls__reducer_owned(const ls__reducer *reducer, int64_t bucket, int rank);

/* Seconds of this step's forward and backward during which a bucket was on its way. */
double ls__reducer_hidden(const ls__reducer *reducer);

/* What the policy (comm/policy.h) and the measurement at start (train/bucket.h) chose, or the
 * settings. */
const ls_algorithm *ls__reducer_algorithm(const ls__reducer *reducer);
int64_t ls__reducer_bucket_bytes(const ls__reducer *reducer); /* of gradient */

/* Spills that had to be delivered to other ranks in all steps so far. */
int64_t ls__reducer_spilled(const ls__reducer *reducer);

#endif
