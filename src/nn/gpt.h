/* A GPT-2-style decoder: token and learned position embeddings; per layer x += proj(attention(
 * ln_1 x)), x += proj(gelu(fc(ln_2 x))); then ln_f and a head tied to the token embedding. Dropout,
 * where asked for, after the embedding, on attention probabilities and on both projections.
 *
 * Tensors carry GPT-2's names; matrices are stored (out, in), as PyTorch's nn.Linear does. Initial
 * values as GPT-2's: 0.02, residual projections 0.02 / sqrt(2 layers), biases 0, gains 1 (Radford
 * et al. 2019, section 2.3). */
#ifndef LS_NN_GPT_H
#define LS_NN_GPT_H

#include "base/arena.h"
#include "nn/model.h"

typedef struct ls__gpt_shape {
    int64_t layers;
    int64_t heads; /* divides width, which the caller checks */
    int64_t width;
    int64_t context;
    int64_t vocabulary;
    double dropout;    /* 0 .. 1, 1 excluded */
    ls__format format; /* of activations and of the weights that products read */
    bool recompute;    /* backward computes a layer's activations again: the same bits */
} ls__gpt_shape;

/* `seed` keys the dropout. */
ls_status ls__gpt_open(ls__model **model, const ls__gpt_shape *shape, int64_t micro_batch,
                       uint64_t seed, ls__arena *arena);

#endif
