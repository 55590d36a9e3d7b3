/* What `bench precision` finds out, and how it is shown. */
#ifndef LS_CLI_BENCH_PRECISION_H
#define LS_CLI_BENCH_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/report.h"
#include "lockstep/status.h"
#include "math/census.h"
#include "math/format.h"

enum { LS__PRECISION_SNAPSHOTS = 3, LS__PRECISION_TENTHS = 10 };

/* ---- a step of the FP32 training, looked at ---- */

/* Where gradients are looked at: the mean over the batch by the weights, which the optimizer gets;
 * and by the logits, each micro-batch's, where backward begins. */
typedef enum ls__precision_place {
    LS__AT_WEIGHTS,
    LS__AT_LOGITS,
    LS__PRECISION_PLACES,
} ls__precision_place;

/* What a gradient is stored as, and times what. */
typedef enum ls__precision_storage {
    LS__STORED_F16,
    LS__STORED_F16_SCALED, /* by what train begins with */
    LS__STORED_F16_BEST,   /* by the most that overflows nothing in either place */
    LS__STORED_BF16,
    LS__PRECISION_STORAGES,
} ls__precision_storage;

/* Updates of all weights, and of those that are about 1: the gains of layer norms. */
typedef enum ls__precision_group {
    LS__GROUP_ALL,
    LS__GROUP_GAINS,
    LS__PRECISION_GROUPS,
} ls__precision_group;

typedef struct ls__precision_snapshot {
    int64_t step;
    double best_scale;
    ls__magnitudes magnitudes[LS__PRECISION_PLACES];
    ls__census census[LS__PRECISION_PLACES][LS__PRECISION_STORAGES];
    int64_t weights[LS__PRECISION_GROUPS];
    ls__updates bf16[LS__PRECISION_GROUPS], f16[LS__PRECISION_GROUPS];
} ls__precision_snapshot;

/* ---- trainings ---- */

typedef enum ls__precision_run {
    LS__RUN_F32,
    LS__RUN_BF16,
    LS__RUN_F16,
    LS__RUN_BF16_ALONE, /* without FP32 master weights */
    LS__PRECISION_RUNS,
} ls__precision_run;

typedef struct ls__precision_curve {
    double *loss;     /* (steps) nats, over the batch; NAN from where the run diverged */
    int64_t diverged; /* the step; 0: it did not */
    int64_t skipped;
    double scale; /* after the last step; 1 without loss scaling */
} ls__precision_curve;

typedef struct ls__precision_result {
    int64_t steps;
    double scale; /* of LS__STORED_F16_SCALED */
    ls__precision_snapshot snapshot[LS__PRECISION_SNAPSHOTS];
    ls__precision_curve curve[LS__PRECISION_RUNS];
} ls__precision_result;

/* ---- showing ---- */

/* The tables of the snapshots, and the table of the curves. */
void ls__precision_print_snapshots(ls__report *report, const ls__precision_result *result);
void ls__precision_print_curves(ls__report *report, const ls__precision_result *result);

/* The curves as an SVG picture. */
ls_status ls__precision_plot(const char *path, const ls__precision_result *result);

#endif
