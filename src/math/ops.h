/* The operations that models are made of, each a forward and a backward with the same order of
 * arguments: results first, then inputs, then sizes. All are FP32 on plain row-major pointers; the
 * shape stands beside each. Nothing is allocated, nothing can fail.
 *
 * Sums within an operation run in one fixed order that depends only on the shapes, whatever the
 * instruction set: the same shapes and inputs give the same bits. A backward writes its results
 * (it does not add to them) unless its comment says so.
 *
 * math/ref.h has the same operations in FP64, slow and obvious. */
#ifndef LS_MATH_OPS_H
#define LS_MATH_OPS_H

#include <stdint.h>

#include "math/format.h"
#include "math/scratch.h"

/* out = in weight^T + bias. */
void ls__linear_forward(float *out,          /* (rows, out_width) */
                        const float *in,     /* (rows, in_width) */
                        const float *weight, /* (out_width, in_width) */
                        const float *bias,   /* (out_width), or NULL for none */
                        int64_t rows, int64_t in_width, int64_t out_width);

void ls__linear_backward(float *d_in,         /* (rows, in_width), or NULL where nobody asks */
                         float *d_weight,     /* (out_width, in_width) */
                         float *d_bias,       /* (out_width), or NULL for none */
                         const float *d_out,  /* (rows, out_width) */
                         const float *in,     /* (rows, in_width) */
                         const float *weight, /* (out_width, in_width) */
                         int64_t rows, int64_t in_width, int64_t out_width);

/* out = (in - mean) rstd gain + shift over each row; variance over `width`, epsilon 1e-5. */
void ls__layer_norm_forward(float *out,         /* (rows, width) */
                            float *mean,        /* (rows), kept for backward */
                            float *rstd,        /* (rows), 1 / sqrt(variance + epsilon), kept */
                            const float *in,    /* (rows, width) */
                            const float *gain,  /* (width) */
                            const float *shift, /* (width) */
                            int64_t rows, int64_t width);

/* Adds to d_in, which holds the gradient of the residual stream that `in` is; writes the others. */
void ls__layer_norm_backward(float *d_in,        /* (rows, width), added to */
                             float *d_gain,      /* (width) */
                             float *d_shift,     /* (width) */
                             const float *d_out, /* (rows, width) */
                             const float *in,    /* (rows, width) */
                             const float *gain,  /* (width) */
                             const float *mean,  /* (rows) */
                             const float *rstd,  /* (rows) */
                             int64_t rows, int64_t width);

/* GELU in the tanh form of GPT-2: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). out may be in. */
void ls__gelu_forward(float *out, const float *in, int64_t count);

/* d_in = d_out gelu'(in). d_in may be d_out. */
void ls__gelu_backward(float *d_in, const float *d_out, const float *in, int64_t count);

/* max(x, 0); the derivative at 0 is 0. out may be in, d_in may be d_out. */
void ls__relu_forward(float *out, const float *in, int64_t count);
void ls__relu_backward(float *d_in, const float *d_out, const float *in, int64_t count);

/* out = a + b. out may be a or b. */
void ls__add(float *out, const float *a, const float *b, int64_t count);

/* out = scale in. out may be in. */
void ls__scale(float *out, const float *in, float scale, int64_t count);

/* Dropout: element e of a sample is kept with probability 1 - rate, and then divided by it. Whether
 * it is kept is a pure function of (key, e); the key is one of (seed, site, sample), so the same at
 * any number of ranks. A backward calls the same function on gradients: the mask is drawn again,
 * not stored. `site` says which of the model's dropouts; `sample` is step * batch + index in the
 * batch. */
uint64_t ls__dropout_key(uint64_t seed, uint32_t site, uint64_t sample);

/* out[i] = in[i] kept(key, first + i) / (1 - rate). out may be in. */
void ls__dropout(float *out, const float *in, double rate, uint64_t key, uint64_t first,
                 int64_t count);

/* What attention needs to know about dropout on its probabilities. */
typedef struct ls__attention_dropout {
    double rate;         /* 0: no dropout, keys unused */
    const uint64_t *key; /* (batch), one a sample; element index (head T + row) T + column */
} ls__attention_dropout;

/* Rows of the (T, T) matrix of scores that attention has in hand at a time. */
int64_t ls__attention_strip(ls__format format, int64_t T);

/* Floats of scratch that attention needs of each thread. */
int64_t ls__attention_scratch(ls__format format, int64_t T, int64_t head_width);

/* Causal multi-head attention: per head, out = dropout(softmax(mask(q k^T / sqrt(head_width)))) v.
 * width = heads head_width. The values of a call have one format, which the weights of v are
 * rounded to as well; scores and their softmax are FP32. A head of a sample is a task. */
void ls__attention_forward(ls__values out,    /* (batch, T, width) */
                           float *statistics, /* (2, batch, heads, T): of each row, its largest
                                                 score, scaled, and 1 / (sum of exponentials); kept
                                                 for backward */
                           ls__values qkv,    /* (batch, T, 3 width): q, k, v side by side */
                           int64_t batch, int64_t T, int64_t heads, int64_t head_width,
                           ls__attention_dropout dropout, ls__scratch scratch);

/* Gradients of k and v are summed in FP32 and rounded to the format once, as is what is rounded of
 * the strip: the weights, and the gradients of the scores. */
void ls__attention_backward(ls__values d_qkv,        /* (batch, T, 3 width) */
                            ls__values d_out,        /* (batch, T, width) */
                            ls__values qkv,          /* (batch, T, 3 width) */
                            const float *statistics, /* (2, batch, heads, T) */
                            int64_t batch, int64_t T, int64_t heads, int64_t head_width,
                            ls__attention_dropout dropout, ls__scratch scratch);

/* out = tokens' rows of wte + the first T rows of wpe. */
void ls__embedding_forward(float *out,            /* (batch, T, width) */
                           const int32_t *tokens, /* (batch, T), each within the vocabulary */
                           const float *wte,      /* (vocabulary, width) */
                           const float *wpe,      /* (T or more, width) */
                           int64_t batch, int64_t T, int64_t width);

/* Writes all of d_wte (zero for tokens that do not occur) and the first T rows of d_wpe. */
void ls__embedding_backward(float *d_wte,          /* (vocabulary, width) */
                            float *d_wpe,          /* (T, width) */
                            const float *d_out,    /* (batch, T, width) */
                            const int32_t *tokens, /* (batch, T) */
                            int64_t batch, int64_t T, int64_t width, int64_t vocabulary);

/* Turns logits into probabilities in place (softmax over each row) and gives -log of the target's
 * probability, computed from the logits (finite however small the probability). */
void ls__cross_entropy_forward(float *loss,            /* (rows) */
                               float *logits,          /* (rows, classes), becomes probabilities */
                               const int32_t *targets, /* (rows), each within the classes */
                               int64_t rows, int64_t classes);

/* Turns probabilities into d_logits in place: scale (probability - [class is the target]). */
void ls__cross_entropy_backward(float *probabilities, /* (rows, classes), becomes d_logits */
                                const int32_t *targets, float scale, int64_t rows, int64_t classes);

#endif
