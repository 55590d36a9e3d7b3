/* What a device holds while a Transformer is trained, by category.
 *
 * P_dev parameters on the device, stored in elements of e bytes (4 for f32, 2 for bf16 and f16):
 *
 *     parameters   e P_dev
 *     gradients    e P_dev
 *     optimizer    AdamW 8 P_dev, SGD with momentum 4 P_dev: moments are FP32
 *     master       4 P_dev, an FP32 copy of the parameters, where asked for and e < 4
 *
 * So FP32 AdamW takes 16 bytes a parameter, BF16 12, and with a master copy 16 again. Sharding over
 * the D data-parallel ranks (ZeRO: S. Rajbhandari et al. 2020) divides by D: from 1 on the
 * optimizer and the master copy, from 2 on the gradients too, with 3 the parameters as well.
 *
 * Activations of a layer, for b sequences of s tokens, d channels, a heads, a tensor-parallel
 * degree t, k experts a token, with i = 2 f (gpt) or 3 f (llama) inner values, as V. Korthikanti
 * et al. 2022 ("Reducing Activation Recomputation in Large Transformer Models", section 4.1) count:
 *
 *     s b d (3 + k) e                        inputs of both norms, of QKV and of each MLP
 *     s b (2 d + 2 kv + k i) e / t           Q, K, V, the heads' output, the MLP's inner values
 *     a s^2 b e / t                          softmax(Q K'), a matrix a head
 *     2 s b d + a s^2 b (e + 1) / t          with dropout: masks, and the scores once more
 *
 * which for e = 2, t = 1, f = 4 d and dropout is their s b d (34 + 5 a s / d) bytes. Recomputing
 * selectively keeps no a s^2 b terms (so does fused attention); in full, only the layer's input,
 * s b d e. Around the layers: 2 s b d e + 4 s b V / t for the last norm, the head and FP32 logits.
 *
 * The simple formula B n (3 d + n + 4 d) e, often repeated, leaves out the heads' score matrices
 * (it counts one matrix of n^2 a sequence, for any number of heads) and most of the MLP's inner
 * values. The trainer's own ledger confirms the longer one: s b d 16 e + a s^2 b e with e = 4 and
 * 16 bytes a token of norm statistics (nn/gpt.c; it recomputes dropout masks from keys). See
 * plan/trainer.h for all that differs between this and the trainer.
 *
 * A pipeline of p stages (1F1B: D. Narayanan et al. 2021) has at most p micro-batches in flight on
 * its first stage, one on its last. The first has the embedding, the last the head, for which a
 * tied embedding is held twice where p > 1. The ledger is of the stage that holds the most.
 *
 * Buffers: what pipeline stages hand on, 2 s b d e, where p > 1; one layer's gathered parameters
 * with sharding 3; one layer's recomputed activations. What allocators, libraries and collectives
 * take on top is not in here. */
#ifndef LS_PLAN_MEMORY_H
#define LS_PLAN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/format.h"
#include "plan/model.h"

#define LS__PLAN_OPTIMIZER_NAMES "adamw|sgd"
#define LS__PLAN_RECOMPUTE_NAMES "none|selective|full"

enum { LS__PLAN_ADAMW, LS__PLAN_SGD };

enum { LS__PLAN_RECOMPUTE_NONE, LS__PLAN_RECOMPUTE_SELECTIVE, LS__PLAN_RECOMPUTE_FULL };

/* How numbers are kept. */
typedef struct ls__plan_storage {
    int format;            /* ls__plan_format of parameters and gradients */
    int activation_format; /* ls__plan_format */
    int optimizer;
    bool master;
} ls__plan_storage;

/* How the work is laid out: tensor x pipeline x data devices. */
typedef struct ls__plan_layout {
    int64_t tensor;
    int64_t pipeline;
    int64_t data;
    int64_t micro_batch;   /* sequences */
    int64_t micro_batches; /* that a replica computes in a step */
    int64_t sharding;      /* 0 .. 3 */
    int recompute;
} ls__plan_layout;

/* Bytes. */
typedef struct ls__plan_memory {
    double parameters;
    double gradients;
    double optimizer;
    double master;
    double activations;
    double buffers;
} ls__plan_memory;

double ls__plan_memory_total(const ls__plan_memory *memory);

/* LS_BAD_USAGE where tensor does not divide the heads or the MLP's width, or pipeline the layers.
 */
ls_status ls__plan_layout_check(const ls__plan_model *model, const ls__plan_layout *layout);

/* The mean over all devices of a replica: P / (tensor x pipeline). */
double ls__plan_device_parameters(const ls__plan_model *model, const ls__plan_layout *layout);

/* Parameter, gradient, moments and master copy, before sharding. */
double ls__plan_bytes_per_parameter(const ls__plan_storage *storage);

/* Of the device that holds the most. The model is resolved, the layout checked. */
ls__plan_memory ls__plan_memory_of(const ls__plan_model *model, const ls__plan_storage *storage,
                                   const ls__plan_layout *layout);

/* The most sequences of a micro-batch with which the total is at most `bytes`; 0: not even one. */
int64_t ls__plan_largest_micro_batch(const ls__plan_model *model, const ls__plan_storage *storage,
                                     const ls__plan_layout *layout, double bytes);

/* Bytes that a layer keeps between forward and backward. */
double ls__plan_layer_activations(const ls__plan_model *model, const ls__plan_storage *storage,
                                  const ls__plan_layout *layout);

/* B n (3 d + n + 4 d) e: the simple formula, for comparison. */
double ls__plan_simple_activations(const ls__plan_model *model, const ls__plan_storage *storage,
                                   int64_t sequences);

#endif
