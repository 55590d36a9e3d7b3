/* The operations of math/ops.h in FP64, slow and obvious: the independent reference that the fast
 * ones are tested against. Formulas written out element by element, libm's functions; nothing is
 * shared with the fast path but the rule of which elements dropout drops. Arguments are those of
 * math/ops.h in the same order, without scratch. */
#ifndef LS_MATH_REF_H
#define LS_MATH_REF_H

#include <stdint.h>

#include "math/ops.h"

void ls__ref_linear_forward(double *out, const double *in, const double *weight, const double *bias,
                            int64_t rows, int64_t in_width, int64_t out_width);
void ls__ref_linear_backward(double *d_in, double *d_weight, double *d_bias, const double *d_out,
                             const double *in, const double *weight, int64_t rows, int64_t in_width,
                             int64_t out_width);

void ls__ref_layer_norm_forward(double *out, double *mean, double *rstd, const double *in,
                                const double *gain, const double *shift, int64_t rows,
                                int64_t width);
void ls__ref_layer_norm_backward(double *d_in, double *d_gain, double *d_shift, const double *d_out,
                                 const double *in, const double *gain, const double *mean,
                                 const double *rstd, int64_t rows, int64_t width);

void ls__ref_gelu_forward(double *out, const double *in, int64_t count);
void ls__ref_gelu_backward(double *d_in, const double *d_out, const double *in, int64_t count);

void ls__ref_relu_forward(double *out, const double *in, int64_t count);
void ls__ref_relu_backward(double *d_in, const double *d_out, const double *in, int64_t count);

void ls__ref_add(double *out, const double *a, const double *b, int64_t count);
void ls__ref_scale(double *out, const double *in, double scale, int64_t count);

void ls__ref_dropout(double *out, const double *in, double rate, uint64_t key, uint64_t first,
                     int64_t count);

void ls__ref_attention_forward(double *out, double *att, const double *qkv, int64_t batch,
                               int64_t T, int64_t heads, int64_t head_width,
                               ls__attention_dropout dropout);
void ls__ref_attention_backward(double *d_qkv, const double *d_out, const double *qkv,
                                const double *att, int64_t batch, int64_t T, int64_t heads,
                                int64_t head_width, ls__attention_dropout dropout);

void ls__ref_embedding_forward(double *out, const int32_t *tokens, const double *wte,
                               const double *wpe, int64_t batch, int64_t T, int64_t width);
void ls__ref_embedding_backward(double *d_wte, double *d_wpe, const double *d_out,
                                const int32_t *tokens, int64_t batch, int64_t T, int64_t width,
                                int64_t vocabulary);

void ls__ref_cross_entropy_forward(double *loss, double *logits, const int32_t *targets,
                                   int64_t rows, int64_t classes);
void ls__ref_cross_entropy_backward(double *probabilities, const int32_t *targets, double scale,
                                    int64_t rows, int64_t classes);

#endif
