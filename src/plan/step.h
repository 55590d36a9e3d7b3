/* The time of a training step, predicted: compute at a share of a device's peak, and the
 * communication of tensor, pipeline and data parallelism by plan/collectives.h.
 *
 * Devices are numbered tensor first, then data, then pipeline (D. Narayanan et al. 2021, section
 * 3.3), so a node of g devices holds whole tensor groups where t <= g, and g / t ranks of a data
 * group. Each device has its own link to other nodes.
 *
 * One micro-batch on one stage, with b sequences of s tokens, d channels, e bytes an element:
 *
 *     compute     FLOPs of the micro-batch / (t p) / (peak x efficiency)
 *     tensor      4 all-reduces a layer of s b d e bytes over t ranks, two forward and two
 *                 backward; 6 where layers are recomputed in full
 *     pipeline    2 messages of s b d e bytes, forward and backward, where p > 1
 *
 * Why two all-reduces and not four: the first matrix of a pair is split by columns, so that each
 * rank applies the nonlinearity to its own columns, and the second by rows, whose partial products
 * are summed: one all-reduce a pair (M. Shoeybi et al. 2019, section 3). A nonlinearity after a
 * matrix that is split by rows needs the sum first.
 *
 * m micro-batches through p stages take (m + p - 1) times that: the bubble, in which a stage waits,
 * is (p - 1) / (m + p - 1) of the step. Then, over the D data ranks, with G bytes of gradients and
 * W of parameters on a device:
 *
 *     sharding 0    all-reduce of G
 *     sharding 1    reduce-scatter of G, all-gather of W
 *     sharding 2    m reduce-scatters of G, all-gather of W: no rank keeps all gradients
 *     sharding 3    m reduce-scatters of G, 2 m all-gathers of W
 *
 * With overlap, data communication hides behind compute: a micro-batch's behind all of its compute,
 * the last one's together with that of once a step behind the last backward pass, 2/3 of compute.
 * Tensor and pipeline communication do not hide. Left out: the optimizer, stragglers, how the
 * efficiency of small matrices drops, experts spread over devices (which need all-to-all). */
#ifndef LS_PLAN_STEP_H
#define LS_PLAN_STEP_H

#include <stdbool.h>

#include "plan/collectives.h"
#include "plan/memory.h"

typedef struct ls__plan_cluster {
    double memory;     /* bytes of a device */
    double peak;       /* FLOP/s of a device, in the format of the training */
    double efficiency; /* the share of the peak that kernels reach */
    int64_t per_node;  /* devices */
    ls__link within;   /* of a device, to the others of its node */
    ls__link across;   /* of a device, to other nodes */
    bool overlap;
} ls__plan_cluster;

/* Seconds of a step. */
typedef struct ls__plan_step {
    double compute;
    double bubble;
    double tensor;
    double pipeline;
    double data; /* what is not hidden */
    double total;
} ls__plan_step;

/* (p - 1) / (m + p - 1): the share of a step in which a stage of the pipeline waits. */
double ls__plan_bubble(int64_t pipeline, int64_t micro_batches);

/* The model is resolved, the layout checked. */
ls__plan_step ls__plan_step_of(const ls__plan_model *model, const ls__plan_storage *storage,
                               const ls__plan_layout *layout, const ls__plan_cluster *cluster);

/* ---- data parallelism alone, as the ranks grow ---- */

/* A step of N ranks that hold the whole model each and all-reduce its gradients. */
typedef struct ls__plan_replicas {
    const char *algorithm; /* of plan/collectives.h */
    ls__network network;   /* its `ranks` are not used */
    double bytes;          /* of gradients */
    double compute;        /* seconds of a step on one rank */
    bool strong;           /* the global batch stays: N ranks compute N times as fast; else weak:
                              each rank's stays */
} ls__plan_replicas;

typedef struct ls__plan_replicas_time {
    double compute;
    double communication;
    double apart;    /* the step where communication follows compute: their sum */
    double together; /* the step where it hides behind the backward pass, 2/3 of compute */
} ls__plan_replicas_time;

ls__plan_replicas_time ls__plan_replicas_step(const ls__plan_replicas *replicas, int64_t ranks);

/* The fewest ranks, among 2 .. most, at which communication takes longer than compute, or, with
 * overlap, than the backward pass that can hide it; 0: none. With `hier` only whole nodes count. */
int64_t ls__plan_overtaken(const ls__plan_replicas *replicas, bool overlap, int64_t most);

#endif
