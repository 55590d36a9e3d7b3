/* The shape of a Transformer, and how many parameters it has.
 *
 * With d channels, kv = d key_value_heads / heads, an inner width f, E experts, V tokens in the
 * vocabulary and a context of n, a layer has
 *
 *     gpt:    d (d + 2 kv) + d^2 + 2 d + 2 kv    attention, with biases
 *             E (2 d f + f + d)                  MLP: up, GELU, down, with biases
 *             4 d                                two layer norms
 *     llama:  d (d + 2 kv) + d^2                 attention
 *             E 3 d f                            MLP: gate and up, SiLU, down
 *             2 d                                two RMS norms
 *     both:   d E                                the router, where E > 1
 *
 * which for a GPT with f = 4 d are 12 d^2 + 13 d. Around the layers stand V d of embedding and one
 * more norm; gpt adds n d of positions and uses the embedding as its head, llama has V d of head.
 * These formulas give GPT-2's 124.4 M and LLaMA's 6.74 G exactly.
 *
 * Sources: A. Radford et al. 2019 (gpt2); T. Brown et al. 2020, table 2.1 (gpt3-175b);
 * H. Touvron et al. 2023, table 2 (llama-7b, llama-65b); A. Jiang et al. 2024, table 1
 * (mixtral-8x7b: 47 G parameters in all, of which 13 G work on a token). */
#ifndef LS_PLAN_MODEL_H
#define LS_PLAN_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

#define LS__PLAN_FAMILY_NAMES "gpt|llama"

enum { LS__PLAN_GPT, LS__PLAN_LLAMA };

typedef struct ls__plan_model {
    double count; /* above 0: that many parameters of a shape that is not known; all else is 0 */
    int family;
    int64_t layers;
    int64_t width;
    int64_t heads;
    int64_t key_value_heads; /* 0: as many as heads */
    int64_t ffn;             /* inner width of an MLP; 0: 4 width */
    int64_t context;
    int64_t vocabulary; /* 0: the layers alone, without embedding, head and what belongs to them */
    int64_t experts;
    int64_t active_experts; /* that work on a token */
    bool dropout;           /* in training: keeps masks */
} ls__plan_model;

/* The names of the models that are known, closed with NULL. */
extern const char *const ls__plan_model_names[];

/* A known model; LS_BAD_USAGE, naming the nearest, for an unknown one. */
ls_status ls__plan_model_find(const char *name, ls__plan_model *model);

/* LS_BAD_USAGE where heads do not divide the width, key and value heads the heads, or more experts
 * are active than there are. Otherwise fills in what 0 stands for. */
ls_status ls__plan_model_resolve(ls__plan_model *model);

/* All below take resolved models. Counts are doubles, exact up to 2^53. */

double ls__plan_key_value_width(const ls__plan_model *model);
double ls__plan_layer_parameters(const ls__plan_model *model);
double ls__plan_embedding_parameters(const ls__plan_model *model); /* tokens and positions */
double ls__plan_head_parameters(const ls__plan_model *model); /* V d, even where it is shared */
double ls__plan_parameters(const ls__plan_model *model);

/* Of those, the ones that work on a token: all but the idle experts. */
double ls__plan_active_parameters(const ls__plan_model *model);

#endif
