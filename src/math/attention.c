#include <math.h>
#include <string.h>

#include "math/gemm.h"
#include "math/ops.h"
#include "math/softmax.h"

/* One head of one sample. q, k and v are (T, head_width) with rows `stride` = 3 width apart. */
typedef struct head_view {
    const float *q;
    const float *k;
    const float *v;
    int64_t stride;
    int64_t T;
    int64_t width;          /* of the head */
    int64_t out_stride;     /* between the rows of out and d_out */
    float scale;            /* 1 / sqrt(head width) */
    double rate;            /* of dropout */
    uint64_t key;           /* of the sample's mask */
    uint64_t first_element; /* the mask's index of this head's probability (0, 0) */
} head_view;

static head_view view_head(const float *qkv, int64_t sample, int64_t head, int64_t T, int64_t heads,
                           int64_t head_width, ls__attention_dropout dropout)
{
    int64_t width = heads * head_width;
    const float *q = qkv + sample * T * 3 * width + head * head_width;

    return (head_view){
        .q = q,
        .k = q + width,
        .v = q + 2 * width,
        .stride = 3 * width,
        .T = T,
        .width = head_width,
        .out_stride = width,
        .scale = 1 / sqrtf((float)head_width),
        .rate = dropout.rate,
        .key = dropout.rate > 0 ? dropout.key[sample] : 0,
        .first_element = (uint64_t)(head * T * T),
    };
}

/* How many columns of a row are worked on: the row + 1 that count, made up to whole blocks where
 * the row has room, so that the loops over it have no remainder. */
static int64_t causal_span(int64_t row, int64_t T)
{
    int64_t span = (row + LS__LANES) / LS__LANES * LS__LANES;

    return span < T ? span : T;
}

static void set(float *x, float value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = value;
}

static void causal_softmax(float *scores, int64_t T)
{
    for (int64_t r = 0; r < T; r++) {
        float *row = scores + r * T;
        int64_t span = causal_span(r, T);

        set(row + r + 1, -INFINITY, span - r - 1);
        float sum = ls__softmax_exponentials(row, row, ls__max(row, span), span);
        ls__scale(row, row, 1 / sum, r + 1);
        set(row + r + 1, 0, T - r - 1);
    }
}

/* Drops elements of each row up to the diagonal; above it `out` gets zeros. out may be in. */
static void causal_dropout(float *out, const float *in, const head_view *head)
{
    for (int64_t r = 0; r < head->T; r++) {
        int64_t start = r * head->T;

        ls__dropout(out + start, in + start, head->rate, head->key,
                    head->first_element + (uint64_t)start, r + 1);
        set(out + start + r + 1, 0, head->T - r - 1);
    }
}

static void forward_head(float *out, float *att, float *scratch, const head_view *head)
{
    int64_t T = head->T;
    const float *weights = att;

    ls__gemm(LS__AS_IS, LS__TRANSPOSED, T, T, head->width, head->scale, head->q, head->stride,
             head->k, head->stride, 0, att, T);
    causal_softmax(att, T);
    if (head->rate > 0) {
        causal_dropout(scratch, att, head);
        weights = scratch;
    }
    ls__gemm(LS__AS_IS, LS__AS_IS, T, head->width, T, 1, weights, T, head->v, head->stride, 0, out,
             head->out_stride);
}

void ls__attention_forward(float *out, float *att, float *scratch, const float *qkv, int64_t batch,
                           int64_t T, int64_t heads, int64_t head_width,
                           ls__attention_dropout dropout)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++) {
            head_view head = view_head(qkv, b, h, T, heads, head_width, dropout);

            forward_head(out + (b * T * heads + h) * head_width, att + (b * heads + h) * T * T,
                         scratch, &head);
        }
}

/* Turns d_att, the gradient of the probabilities, into that of the scores, in place:
 * att (d_att - sum of att d_att), zero above the diagonal. */
static void causal_softmax_backward(float *restrict d_att, const float *restrict att, int64_t T)
{
    for (int64_t r = 0; r < T; r++) {
        float *d_row = d_att + r * T;
        const float *row = att + r * T;
        int64_t span = causal_span(r, T);
        float sum = ls__dot(d_row, row, span);

        for (int64_t c = 0; c < span; c++)
            d_row[c] = row[c] * (d_row[c] - sum);
        set(d_row + r + 1, 0, T - r - 1);
    }
}

/* d_q, d_k and d_v lie as q, k and v do: the offset from q to d_q is that from qkv to d_qkv. */
static void backward_head(float *d_q, float *scratch, const float *d_out, const float *att,
                          const head_view *head)
{
    int64_t T = head->T;
    int64_t stride = head->stride;
    float *d_k = d_q + (head->k - head->q);
    float *d_v = d_q + (head->v - head->q);
    float *d_att = scratch;
    const float *weights = att;

    if (head->rate > 0) {
        causal_dropout(scratch + T * T, att, head);
        weights = scratch + T * T;
    }
    ls__gemm(LS__TRANSPOSED, LS__AS_IS, T, head->width, T, 1, weights, T, d_out, head->out_stride,
             0, d_v, stride);
    ls__gemm(LS__AS_IS, LS__TRANSPOSED, T, T, head->width, 1, d_out, head->out_stride, head->v,
             stride, 0, d_att, T);
    if (head->rate > 0)
        causal_dropout(d_att, d_att, head);
    causal_softmax_backward(d_att, att, T);
    ls__gemm(LS__AS_IS, LS__AS_IS, T, head->width, T, head->scale, d_att, T, head->k, stride, 0,
             d_q, stride);
    ls__gemm(LS__TRANSPOSED, LS__AS_IS, T, head->width, T, head->scale, d_att, T, head->q, stride,
             0, d_k, stride);
}

void ls__attention_backward(float *d_qkv, float *scratch, const float *d_out, const float *qkv,
                            const float *att, int64_t batch, int64_t T, int64_t heads,
                            int64_t head_width, ls__attention_dropout dropout)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++) {
            head_view head = view_head(qkv, b, h, T, heads, head_width, dropout);

            backward_head(d_qkv + (head.q - qkv), scratch, d_out + (b * T * heads + h) * head_width,
                          att + (b * heads + h) * T * T, &head);
        }
}
