/* The time of a step of our own trainer, from constants that a machine was measured to have.
 *
 * A step of V micro-batches on N ranks that have C cores between them, of which rank 0's time is
 * asked for; v = ceil(V / N) are its own, and each rank gets s = min(1, C / N) of a core:
 *
 *     micro-batches   v (compute + add) / s
 *     own share       round / o / s                   o = N: a rank rounds what it owns
 *     update          (norm + update) / u / s         u = N with --shard-optimizer, else 1
 *     record          digest / s                      of all parameters, on rank 0
 *     all-reduce      buckets latency + D per_byte    measured on N ranks, so with s in it
 *
 * The all-reduce is not hidden: where ranks share memory it is work of the cores that compute, so
 * that what backward overlaps is waiting, of which there is little. Left out: evaluation,
 * checkpoints, what the copies of a batch cost, and ranks that start a step late. */
#ifndef LS_PLAN_PACE_H
#define LS_PLAN_PACE_H

#include "plan/trainer.h"

/* Rows of scores that attention computes at a time: LS__ATTENTION_STRIP of math/ops.h. */
enum { LS__PLAN_STRIP = 64 };

/* Seconds on one core, while as many processes compute as ranks have cores. */
typedef struct ls__plan_pace {
    double products;    /* of a micro-batch's linear layers and attention */
    double elementwise; /* of a micro-batch's norms, activations, loss and residual sums */
    double add;         /* of a micro-batch's gradient to the sums */
    double round;       /* all means, from the sums */
    double norm;        /* of the gradient */
    double update;      /* of all parameters */
    double digest;      /* of all parameters */
} ls__plan_pace;

/* An all-reduce of D bytes of FP32, by the kind of sum that the run has, takes latency + D
 * per_byte. */
typedef struct ls__plan_transport {
    double latency;  /* seconds */
    double per_byte; /* seconds a byte */
} ls__plan_transport;

/* FLOPs of rank 0's matrix products in a step. */
double ls__plan_run_flops(const ls__plan_run *run);

/* Seconds of a step. `cores`: of all ranks together. `transport` counts with several ranks only. */
double ls__plan_run_seconds(const ls__plan_run *run, const ls__plan_pace *pace,
                            const ls__plan_transport *transport, int64_t cores);

#endif
