/* Floating-point operations of a Transformer, by part; a multiplication with its addition counts 2.
 *
 * Forward, for B sequences of n tokens, d channels, kv of keys and values, inner width f, k experts
 * a token, E in all, V tokens in the vocabulary; a layer:
 *
 *     QKV           2 B n d (d + 2 kv)                  6 B n d^2 where kv = d
 *     attention     4 B n^2 d                           Q K' and its product with V, without a mask
 *     projection    2 B n d^2
 *     FFN           2 B n d (m k f + E)                 m = 2 (gpt) or 3 (llama) matrices; E: the
 *                                                       router, where there are several experts
 *     head          2 B n d V                           once
 *
 * Backward is twice that: a product for the gradient of each operand. Full recomputation adds one
 * forward of the layers, selective one of attention. Elementwise work, norms and the optimizer are
 * left out: some 1%. Attention that skips what a causal mask hides does half of its line.
 *
 * Beside it stands 6 P a token, the rule of thumb (J. Kaplan et al. 2020, section 2.1): 2 P forward
 * and 4 P backward, with the active parameters P and without attention's n^2. Source of the parts:
 * D. Narayanan et al. 2021, appendix. */
#ifndef LS_PLAN_FLOPS_H
#define LS_PLAN_FLOPS_H

#include <stdint.h>

#include "plan/model.h"

typedef enum ls__plan_part {
    LS__PLAN_QKV,
    LS__PLAN_ATTENTION,
    LS__PLAN_PROJECTION,
    LS__PLAN_FFN,
    LS__PLAN_HEAD,
    LS__PLAN_PART_COUNT
} ls__plan_part;

const char *ls__plan_part_name(ls__plan_part part);

/* Forward over `sequences` of the model's context, of one layer (the head: of the model). */
double ls__plan_forward_flops(const ls__plan_model *model, ls__plan_part part, double sequences);

/* How often a part stands in the model: `layers`, the head once. */
double ls__plan_part_times(const ls__plan_model *model, ls__plan_part part);

/* Forward, backward and recomputation (LS__PLAN_RECOMPUTE_...) of the whole model. */
double ls__plan_step_flops(const ls__plan_model *model, double sequences, int recompute);

#endif
