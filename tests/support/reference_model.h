/* Whole models in FP64, forward and backward, composed of the reference operations of math/ref.h:
 * what the FP32 models are compared with. Slow, obvious, on flat parameters in the project's order.
 *
 * Each function returns the mean loss over the batch and, where `grads` is not NULL, writes its
 * gradient by every parameter there, in the order of `params`. */
#ifndef LS_TESTS_SUPPORT_REFERENCE_MODEL_H
#define LS_TESTS_SUPPORT_REFERENCE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* A GPT: x = embedding; x += attention(norm x); x += mlp(norm x); ...; logits = norm(x) wte^T.
 * Parameters, C the width, each weight (out, in) row-major:
 *     wte (vocabulary, C); wpe (T, C);
 *     a layer: ln_1 weight, bias (C); c_attn weight (3C, C), bias (3C); c_proj weight (C, C), bias
 *     (C); ln_2 weight, bias (C); c_fc weight (4C, C), bias (4C); c_proj weight (C, 4C), bias (C);
 *     ln_f weight, bias (C). */
typedef struct ls__reference_gpt_shape {
    int64_t layers, heads, width, T, vocabulary;
} ls__reference_gpt_shape;

/* Sites: 0 the embedding; layer l: 1 + 3l attention's probabilities, 2 + 3l its projection, 3 + 3l
 * the MLP's output. Element t C + c of a sample; of probabilities as math/ops.h says. */
typedef struct ls__reference_dropout {
    double rate; /* 0: none */
    uint64_t seed;
    uint64_t first_sample; /* the ordinal of the batch's first */
} ls__reference_dropout;

enum { LS__REFERENCE_MAX_BATCH = 64 };

int64_t ls__reference_gpt_parameters(const ls__reference_gpt_shape *shape);

double ls__reference_gpt(const ls__reference_gpt_shape *shape, const double *params, double *grads,
                         const int32_t *tokens,  /* (batch, T) */
                         const int32_t *targets, /* (batch, T) */
                         int64_t batch, ls__reference_dropout dropout);

/* An MLP: an activation between layers, none after the last.
 * Parameters, for each layer: weight (out, in), bias (out). */
typedef struct ls__reference_mlp_shape {
    int64_t layers;
    const int64_t *widths; /* (layers + 1): of the input, then of each layer's output */
    bool gelu;             /* else ReLU */
} ls__reference_mlp_shape;

int64_t ls__reference_mlp_parameters(const ls__reference_mlp_shape *shape);

double ls__reference_mlp(const ls__reference_mlp_shape *shape, const double *params, double *grads,
                         const double *in,      /* (batch, widths[0]) */
                         const int32_t *labels, /* (batch) */
                         int64_t batch);

#endif
