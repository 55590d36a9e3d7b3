#include "math/ref.h"

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"

static void set(double *x, double value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = value;
}

void ls__ref_linear_forward(double *out, const double *in, const double *weight, const double *bias,
                            int64_t rows, int64_t in_width, int64_t out_width)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out_width; o++) {
            double sum = bias ? bias[o] : 0;

            for (int64_t i = 0; i < in_width; i++)
                sum += in[r * in_width + i] * weight[o * in_width + i];
            out[r * out_width + o] = sum;
        }
}

void ls__ref_linear_backward(double *d_in, double *d_weight, double *d_bias, const double *d_out,
                             const double *in, const double *weight, int64_t rows, int64_t in_width,
                             int64_t out_width)
{
    if (d_in)
        set(d_in, 0, rows * in_width);
    if (d_bias)
        set(d_bias, 0, out_width);
    set(d_weight, 0, out_width * in_width);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out_width; o++) {
            double d = d_out[r * out_width + o];

            if (d_bias)
                d_bias[o] += d;
            for (int64_t i = 0; i < in_width; i++) {
                d_weight[o * in_width + i] += d * in[r * in_width + i];
                if (d_in)
                    d_in[r * in_width + i] += d * weight[o * in_width + i];
            }
        }
}

void ls__ref_layer_norm_forward(double *out, double *mean, double *rstd, const double *in,
                                const double *gain, const double *shift, int64_t rows,
                                int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        double squares = 0;

        for (int64_t c = 0; c < width; c++)
            sum += in[r * width + c];
        mean[r] = sum / (double)width;
        for (int64_t c = 0; c < width; c++)
            squares += pow(in[r * width + c] - mean[r], 2);
        rstd[r] = 1 / sqrt(squares / (double)width + 1e-5);
        for (int64_t c = 0; c < width; c++)
            out[r * width + c] = (in[r * width + c] - mean[r]) * rstd[r] * gain[c] + shift[c];
    }
}

/* Each output is (in - mean) rstd gain + shift, and mean and rstd depend on the whole row. */
void ls__ref_layer_norm_backward(double *d_in, double *d_gain, double *d_shift, const double *d_out,
                                 const double *in, const double *gain, const double *mean,
                                 const double *rstd, int64_t rows, int64_t width)
{
    set(d_gain, 0, width);
    set(d_shift, 0, width);
    for (int64_t r = 0; r < rows; r++) {
        double d_mean = 0;
        double d_variance = 0;

        for (int64_t c = 0; c < width; c++) {
            double d = d_out[r * width + c];
            double centred = in[r * width + c] - mean[r];

            d_gain[c] += d * centred * rstd[r];
            d_shift[c] += d;
            d_mean -= d * gain[c] * rstd[r];
            d_variance += d * gain[c] * centred * -0.5 * pow(rstd[r], 3);
        }
        for (int64_t c = 0; c < width; c++)
            d_in[r * width + c] += d_out[r * width + c] * gain[c] * rstd[r] +
                                   d_mean / (double)width +
                                   d_variance * 2 * (in[r * width + c] - mean[r]) / (double)width;
    }
}

/* The argument of GELU's tanh. */
static double gelu_argument(double x)
{
    return sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3));
}

void ls__ref_gelu_forward(double *out, const double *in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = in[i] / 2 * (1 + tanh(gelu_argument(in[i])));
}

void ls__ref_gelu_backward(double *d_in, const double *d_out, const double *in, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double t = tanh(gelu_argument(in[i]));
        double slope = sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * pow(in[i], 2));

        d_in[i] = d_out[i] * ((1 + t) / 2 + in[i] / 2 * (1 - t * t) * slope);
    }
}

void ls__ref_relu_forward(double *out, const double *in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = in[i] > 0 ? in[i] : 0;
}

void ls__ref_relu_backward(double *d_in, const double *d_out, const double *in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        d_in[i] = in[i] > 0 ? d_out[i] : 0;
}

void ls__ref_add(double *out, const double *a, const double *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = a[i] + b[i];
}

void ls__ref_scale(double *out, const double *in, double scale, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = scale * in[i];
}

/* What dropout multiplies element `index` by. */
static double dropout_factor(double rate, uint64_t key, uint64_t index)
{
    uint32_t word = ls__random(key, LS__STREAM_DROPOUT, 0, index / 4).word[index % 4];

    return word < floor(rate * 0x1p32) ? 0 : 1 / (1 - rate);
}

void ls__ref_dropout(double *out, const double *in, double rate, uint64_t key, uint64_t first,
                     int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = in[i] * dropout_factor(rate, key, first + (uint64_t)i);
}

/* One head of one sample; q, k, v, and out, at (time, element of the head). */
typedef struct head_index {
    int64_t b, h, T, heads, width;
    ls__attention_dropout dropout;
} head_index;

enum { Q, K, V };

static int64_t at_qkv(const head_index *i, int which, int64_t t, int64_t e)
{
    return (((i->b * i->T + t) * 3 + which) * i->heads + i->h) * i->width + e;
}

static int64_t at_out(const head_index *i, int64_t t, int64_t e)
{
    return ((i->b * i->T + t) * i->heads + i->h) * i->width + e;
}

static int64_t at_att(const head_index *i, int64_t row, int64_t column)
{
    return ((i->b * i->heads + i->h) * i->T + row) * i->T + column;
}

static double att_factor(const head_index *i, int64_t row, int64_t column)
{
    int64_t element = (i->h * i->T + row) * i->T + column;

    if (i->dropout.rate == 0)
        return 1;
    return dropout_factor(i->dropout.rate, i->dropout.key[i->b], (uint64_t)element);
}

static void attention_forward_row(double *out, double *att, const double *qkv, const head_index *i,
                                  int64_t row)
{
    double largest = -HUGE_VAL;
    double sum = 0;

    for (int64_t c = 0; c <= row; c++) {
        double score = 0;

        for (int64_t e = 0; e < i->width; e++)
            score += qkv[at_qkv(i, Q, row, e)] * qkv[at_qkv(i, K, c, e)];
        att[at_att(i, row, c)] = score / sqrt((double)i->width);
        largest = fmax(largest, att[at_att(i, row, c)]);
    }
    for (int64_t c = 0; c <= row; c++)
        sum += exp(att[at_att(i, row, c)] - largest);
    for (int64_t c = 0; c < i->T; c++)
        att[at_att(i, row, c)] = c <= row ? exp(att[at_att(i, row, c)] - largest) / sum : 0;
    for (int64_t e = 0; e < i->width; e++) {
        out[at_out(i, row, e)] = 0;
        for (int64_t c = 0; c <= row; c++)
            out[at_out(i, row, e)] +=
                att[at_att(i, row, c)] * att_factor(i, row, c) * qkv[at_qkv(i, V, c, e)];
    }
}

void ls__ref_attention_forward(double *out, double *att, const double *qkv, int64_t batch,
                               int64_t T, int64_t heads, int64_t head_width,
                               ls__attention_dropout dropout)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t row = 0; row < T; row++) {
                head_index index = {b, h, T, heads, head_width, dropout};

                attention_forward_row(out, att, qkv, &index, row);
            }
}

/* The gradient of one probability: what the values it weighs make of the row's d_out. */
static double att_gradient(const double *d_out, const double *qkv, const head_index *i, int64_t row,
                           int64_t column)
{
    double sum = 0;

    for (int64_t e = 0; e < i->width; e++)
        sum += d_out[at_out(i, row, e)] * qkv[at_qkv(i, V, column, e)];
    return sum * att_factor(i, row, column);
}

static void attention_backward_row(double *d_qkv, const double *d_out, const double *qkv,
                                   const double *att, const head_index *i, int64_t row)
{
    double common = 0; /* what the softmax takes off each gradient of the row */

    for (int64_t c = 0; c <= row; c++)
        common += att[at_att(i, row, c)] * att_gradient(d_out, qkv, i, row, c);
    for (int64_t c = 0; c <= row; c++) {
        double p = att[at_att(i, row, c)];
        double d_score = p * (att_gradient(d_out, qkv, i, row, c) - common);
        double d_dot = d_score / sqrt((double)i->width);

        for (int64_t e = 0; e < i->width; e++) {
            d_qkv[at_qkv(i, Q, row, e)] += d_dot * qkv[at_qkv(i, K, c, e)];
            d_qkv[at_qkv(i, K, c, e)] += d_dot * qkv[at_qkv(i, Q, row, e)];
            d_qkv[at_qkv(i, V, c, e)] += p * att_factor(i, row, c) * d_out[at_out(i, row, e)];
        }
    }
}

void ls__ref_attention_backward(double *d_qkv, const double *d_out, const double *qkv,
                                const double *att, int64_t batch, int64_t T, int64_t heads,
                                int64_t head_width, ls__attention_dropout dropout)
{
    set(d_qkv, 0, batch * T * 3 * heads * head_width);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t row = 0; row < T; row++) {
                head_index index = {b, h, T, heads, head_width, dropout};

                attention_backward_row(d_qkv, d_out, qkv, att, &index, row);
            }
}

void ls__ref_embedding_forward(double *out, const int32_t *tokens, const double *wte,
                               const double *wpe, int64_t batch, int64_t T, int64_t width)
{
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t c = 0; c < width; c++)
                out[(b * T + t) * width + c] =
                    wte[tokens[b * T + t] * width + c] + wpe[t * width + c];
}

void ls__ref_embedding_backward(double *d_wte, double *d_wpe, const double *d_out,
                                const int32_t *tokens, int64_t batch, int64_t T, int64_t width,
                                int64_t vocabulary)
{
    set(d_wte, 0, vocabulary * width);
    set(d_wpe, 0, T * width);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t c = 0; c < width; c++) {
                double d = d_out[(b * T + t) * width + c];

                d_wte[tokens[b * T + t] * width + c] += d;
                d_wpe[t * width + c] += d;
            }
}

void ls__ref_cross_entropy_forward(double *loss, double *logits, const int32_t *targets,
                                   int64_t rows, int64_t classes)
{
    for (int64_t r = 0; r < rows; r++) {
        double *row = logits + r * classes;
        double largest = -HUGE_VAL;
        double sum = 0;

        for (int64_t c = 0; c < classes; c++)
            largest = fmax(largest, row[c]);
        for (int64_t c = 0; c < classes; c++)
            sum += exp(row[c] - largest);
        loss[r] = log(sum) + largest - row[targets[r]];
        for (int64_t c = 0; c < classes; c++)
            row[c] = exp(row[c] - largest) / sum;
    }
}

void ls__ref_cross_entropy_backward(double *probabilities, const int32_t *targets, double scale,
                                    int64_t rows, int64_t classes)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < classes; c++) {
            bool target = c == targets[r];

            probabilities[r * classes + c] = scale * (probabilities[r * classes + c] - target);
        }
}
