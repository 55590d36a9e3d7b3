/* Dynamic loss scaling: which power of two the gradient is multiplied by on its way through
 * backward, so that formats with small exponents (FP16: 2^-24 .. 65504) hold it.
 *
 * P. Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2; rule and defaults are
 * those of PyTorch's torch.cuda.amp.GradScaler:
 *
 *     a step whose mean gradient is finite      after `interval` of them in a row: scale x 2
 *     one whose mean gradient is not            it is skipped, scale / 2
 *
 * but that there is a floor: an overflow there is no matter of the scale any more, and the run has
 * diverged. Multiplying by a power of two changes no digit: where nothing over- or underflows, a
 * gradient that was scaled and divided again has the bits of one that never was.
 *
 * Nothing here depends on the rank: what is fed in, whether the mean is finite, is the same on all.
 */
#ifndef LS_TRAIN_SCALER_H
#define LS_TRAIN_SCALER_H

#include <stdbool.h>
#include <stdint.h>

/* What --loss-scale is for FP16 where it is not given. */
#define LS__SCALE_F16 65536.0

/* The scale stays within these, both included: times 2^20 micro-batches it is a float. */
#define LS__SCALE_MIN 0x1p-64
#define LS__SCALE_MAX 0x1p64

typedef struct ls__scaler {
    double floor;     /* 0: there is no scaling */
    int64_t interval; /* good steps before the scale grows */
    double scale;     /* of the step to come, a power of two; 1 without scaling */
    int64_t good;     /* steps since the scale changed or a step was skipped */
    int64_t skipped;  /* steps in all, which are no updates */
} ls__scaler;

/* Whether a scale may be this: a power of two within the limits. */
bool ls__scaler_allows(double scale);

/* At the first step. `initial` 0 or NAN: no scaling; else initial >= floor, both allowed, and
 * interval >= 1. */
ls__scaler ls__scaler_begin(double initial, int64_t interval, double floor);

/* As after some steps, from the `scale`, `good` and `skipped` of then. */
void ls__scaler_resume(ls__scaler *scaler, double scale, int64_t good, int64_t skipped);

bool ls__scaler_active(const ls__scaler *scaler);

/* After a step that was an update. */
void ls__scaler_good(ls__scaler *scaler);

/* After a step whose gradient is not finite: whether it is to be skipped. False, with nothing
 * changed, at the floor and without scaling. */
bool ls__scaler_overflow(ls__scaler *scaler);

/* Which update step `step` is, both from 1: steps that were skipped before it do not count. */
int64_t ls__scaler_update(const ls__scaler *scaler, int64_t step);

#endif
