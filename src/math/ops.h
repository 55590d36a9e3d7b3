/* The operations that models are made of, each a forward and a backward with the same order of
 * arguments: results first, then inputs, then sizes. All arrays are row-major; the shape stands
 * beside each. ls__values are in any format, the same for all of a call; arithmetic is FP32, and a
 * result is rounded when it is stored. Nothing is allocated here, and nothing fails but
 * oneDNN, which has memory of its own: ls__gemm_failed (math/gemm.h) tells.
 *
 * The threads of ls__threads_run share the work. Sums within an operation run in one fixed order
 * that depends only on the shapes, whatever the instruction set and the number of threads: the same
 * shapes and inputs give the same bits. A backward writes its results (it does not add to them)
 * unless its comment says so.
 *
 * Each call takes scratch memory of the sizes that ls__ops_scratch and ls__ops_shared give, of
 * which most operations use a part, and FP32 ones but attention and layer norm's backward none.
 *
 * math/ref.h has the same operations in FP64, slow and obvious. */
#ifndef LS_MATH_OPS_H
#define LS_MATH_OPS_H

#include <stdint.h>

#include "math/format.h"
#include "math/scratch.h"

/* Floats that a thread's piece of scratch needs for any operation but attention, where rows are at
 * most `widest` values, and those that all threads share for at most `rows` such rows. */
int64_t ls__ops_scratch(ls__format format, int64_t widest);
int64_t ls__ops_shared(int64_t rows, int64_t width);

/* out = in weight^T + bias. */
void ls__linear_forward(ls__values out,    /* (rows, out_width) */
                        ls__values in,     /* (rows, in_width) */
                        ls__values weight, /* (out_width, in_width) */
                        const float *bias, /* (out_width), or NULL for none */
                        int64_t rows, int64_t in_width, int64_t out_width, ls__scratch scratch);

void ls__linear_backward(ls__values d_in,   /* (rows, in_width); at NULL where nobody asks */
                         float *d_weight,   /* (out_width, in_width) */
                         float *d_bias,     /* (out_width), or NULL for none */
                         ls__values d_out,  /* (rows, out_width) */
                         ls__values in,     /* (rows, in_width) */
                         ls__values weight, /* (out_width, in_width) */
                         int64_t rows, int64_t in_width, int64_t out_width, ls__scratch scratch);

/* out = (in - mean) rstd gain + shift over each row; variance over `width`, epsilon 1e-5. */
void ls__layer_norm_forward(ls__values out,     /* (rows, width) */
                            float *mean,        /* (rows), kept for backward */
                            float *rstd,        /* (rows), 1 / sqrt(variance + epsilon), kept */
                            ls__values in,      /* (rows, width) */
                            const float *gain,  /* (width) */
                            const float *shift, /* (width) */
                            int64_t rows, int64_t width, ls__scratch scratch);

/* sum = in + branch, and the layer norm of sum, in one pass. sum may be in or branch. */
void ls__add_norm_forward(ls__values sum, ls__values out, float *mean, float *rstd, ls__values in,
                          ls__values branch, const float *gain, const float *shift, int64_t rows,
                          int64_t width, ls__scratch scratch);

/* Adds to d_in, which holds the gradient of the residual stream that `in` is; writes the others. */
void ls__layer_norm_backward(ls__values d_in,   /* (rows, width), added to */
                             float *d_gain,     /* (width) */
                             float *d_shift,    /* (width) */
                             ls__values d_out,  /* (rows, width) */
                             ls__values in,     /* (rows, width) */
                             const float *gain, /* (width) */
                             const float *mean, /* (rows) */
                             const float *rstd, /* (rows) */
                             int64_t rows, int64_t width, ls__scratch scratch);

/* GELU in the tanh form of GPT-2: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). out may be in. */
void ls__gelu_forward(ls__values out, ls__values in, int64_t count, ls__scratch scratch);

/* d_in = d_out gelu'(in). d_in may be d_out. */
void ls__gelu_backward(ls__values d_in, ls__values d_out, ls__values in, int64_t count,
                       ls__scratch scratch);

/* max(x, 0); the derivative at 0 is 0. out may be in, d_in may be d_out. */
void ls__relu_forward(ls__values out, ls__values in, int64_t count, ls__scratch scratch);
void ls__relu_backward(ls__values d_in, ls__values d_out, ls__values in, int64_t count,
                       ls__scratch scratch);

/* out = scale in. out may be in. One thread does it. */
void ls__scale(float *out, const float *in, float scale, int64_t count);

/* Dropout: element e of a sample is kept with probability 1 - rate, and then divided by it. Whether
 * it is kept is a pure function of (key, e); the key is one of (seed, site, sample), so the same at
 * any number of ranks. A backward calls the same function on gradients: the mask is drawn again,
 * not stored. `site` says which of the model's dropouts; `sample` is step * batch + index in the
 * batch. */
uint64_t ls__dropout_key(uint64_t seed, uint32_t site, uint64_t sample);

/* out[i] = in[i] kept(key, first + i) / (1 - rate). out may be in. One thread does it. */
void ls__dropout(float *out, const float *in, double rate, uint64_t key, uint64_t first,
                 int64_t count);

/* The same in place, from element 0 on, by all threads. */
void ls__dropout_sample(ls__values values, double rate, uint64_t key, int64_t count,
                        ls__scratch scratch);

/* What attention needs to know about dropout on its probabilities. */
typedef struct ls__attention_dropout {
    double rate;         /* 0: no dropout, keys unused */
    const uint64_t *key; /* (batch), one a sample; element index (head T + row) T + column */
} ls__attention_dropout;

/* Rows of the (T, T) matrix of scores that attention has in hand at a time. */
enum { LS__ATTENTION_STRIP = 64 };

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
void ls__embedding_forward(ls__values out,        /* (batch, T, width) */
                           const int32_t *tokens, /* (batch, T), each within the vocabulary */
                           const float *wte,      /* (vocabulary, width) */
                           const float *wpe,      /* (T or more, width) */
                           int64_t batch, int64_t T, int64_t width, ls__scratch scratch);

/* Writes all of d_wte (zero for tokens that do not occur) and the first T rows of d_wpe. */
void ls__embedding_backward(float *d_wte,          /* (vocabulary, width) */
                            float *d_wpe,          /* (T, width) */
                            ls__values d_out,      /* (batch, T, width) */
                            const int32_t *tokens, /* (batch, T) */
                            int64_t batch, int64_t T, int64_t width, int64_t vocabulary);

/* Turns logits into probabilities in place (softmax over each row) and gives -log of the target's
 * probability, computed from the logits (finite however small the probability). */
void ls__cross_entropy_forward(float *loss,            /* (rows) */
                               ls__values logits,      /* (rows, classes), become probabilities */
                               const int32_t *targets, /* (rows), each within the classes */
                               int64_t rows, int64_t classes, ls__scratch scratch);

/* Turns probabilities into d_logits in place: scale (probability - [class is the target]). */
void ls__cross_entropy_backward(ls__values probabilities, /* (rows, classes), become d_logits */
                                const int32_t *targets, float scale, int64_t rows, int64_t classes,
                                ls__scratch scratch);

#endif
