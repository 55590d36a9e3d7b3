#include "support/reference_model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "math/ref.h"

/* Everything a run needs, taken one after the other from one block. */
typedef struct workspace {
    double *block;
    int64_t taken;
    int64_t size;
} workspace;

static workspace open_workspace(int64_t size)
{
    workspace space = {calloc((size_t)size, sizeof(double)), 0, size};

    if (!space.block)
        abort();
    return space;
}

static double *take(workspace *space, int64_t count)
{
    double *piece = space->block + space->taken;

    space->taken += count;
    assert(space->taken <= space->size);
    return piece;
}

static double mean(const double *x, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i++)
        sum += x[i];
    return sum / (double)count;
}

/* Where each tensor starts in the flat parameters. */
typedef struct layer_offsets {
    int64_t ln_1_gain, ln_1_shift, attn_weight, attn_bias, attn_proj_weight, attn_proj_bias;
    int64_t ln_2_gain, ln_2_shift, fc_weight, fc_bias, mlp_proj_weight, mlp_proj_bias;
    int64_t end;
} layer_offsets;

static layer_offsets offsets_of_layer(const ls__reference_gpt_shape *s, int64_t layer)
{
    int64_t C = s->width;
    layer_offsets o;
    int64_t size = 12 * C * C + 13 * C;

    o.ln_1_gain = (s->vocabulary + s->T) * C + layer * size;
    o.ln_1_shift = o.ln_1_gain + C;
    o.attn_weight = o.ln_1_shift + C;
    o.attn_bias = o.attn_weight + 3 * C * C;
    o.attn_proj_weight = o.attn_bias + 3 * C;
    o.attn_proj_bias = o.attn_proj_weight + C * C;
    o.ln_2_gain = o.attn_proj_bias + C;
    o.ln_2_shift = o.ln_2_gain + C;
    o.fc_weight = o.ln_2_shift + C;
    o.fc_bias = o.fc_weight + 4 * C * C;
    o.mlp_proj_weight = o.fc_bias + 4 * C;
    o.mlp_proj_bias = o.mlp_proj_weight + 4 * C * C;
    o.end = o.mlp_proj_bias + C;
    return o;
}

/* The final norm's gain starts where a layer after the last would; its shift follows. */
static int64_t offset_of_final_norm(const ls__reference_gpt_shape *s)
{
    return offsets_of_layer(s, s->layers).ln_1_gain;
}

int64_t ls__reference_gpt_parameters(const ls__reference_gpt_shape *shape)
{
    return offset_of_final_norm(shape) + 2 * shape->width;
}

/* What a layer's forward leaves for its backward. */
typedef struct layer_values {
    double *in; /* (rows, C), the residual stream */
    double *mean_1, *rstd_1;
    double *norm_1; /* (rows, C) */
    double *qkv;    /* (rows, 3C) */
    double *att;    /* (batch, heads, T, T) */
    double *mixed;  /* (rows, C), attention's output before its projection */
    double *middle; /* (rows, C), the residual stream */
    double *mean_2, *rstd_2;
    double *norm_2; /* (rows, C) */
    double *fc;     /* (rows, 4C) */
    double *gelu;   /* (rows, 4C) */
} layer_values;

typedef struct gpt_run {
    const ls__reference_gpt_shape *shape;
    const double *params;
    double *grads;
    int64_t batch, rows; /* rows = batch T */
    ls__reference_dropout dropout;
    workspace space;
} gpt_run;

static uint64_t dropout_key(const gpt_run *run, uint32_t site, int64_t sample)
{
    return ls__dropout_key(run->dropout.seed, site, run->dropout.first_sample + (uint64_t)sample);
}

/* In place on (batch, T, C); its own backward. */
static void drop(const gpt_run *run, double *x, uint32_t site)
{
    int64_t count = run->shape->T * run->shape->width;

    for (int64_t b = 0; run->dropout.rate > 0 && b < run->batch; b++)
        ls__ref_dropout(x + b * count, x + b * count, run->dropout.rate, dropout_key(run, site, b),
                        0, count);
}

/* Fills `keys`, which the result points to. */
static ls__attention_dropout attention_dropout(const gpt_run *run, int64_t layer, uint64_t *keys)
{
    for (int64_t b = 0; b < run->batch; b++)
        keys[b] = dropout_key(run, (uint32_t)(1 + 3 * layer), b);
    return (ls__attention_dropout){.rate = run->dropout.rate, .key = keys};
}

static layer_values take_layer(gpt_run *run)
{
    const ls__reference_gpt_shape *s = run->shape;
    int64_t size = run->rows * s->width;
    layer_values v;

    v.in = take(&run->space, size);
    v.mean_1 = take(&run->space, run->rows);
    v.rstd_1 = take(&run->space, run->rows);
    v.norm_1 = take(&run->space, size);
    v.qkv = take(&run->space, 3 * size);
    v.att = take(&run->space, run->batch * s->heads * s->T * s->T);
    v.mixed = take(&run->space, size);
    v.middle = take(&run->space, size);
    v.mean_2 = take(&run->space, run->rows);
    v.rstd_2 = take(&run->space, run->rows);
    v.norm_2 = take(&run->space, size);
    v.fc = take(&run->space, 4 * size);
    v.gelu = take(&run->space, 4 * size);
    return v;
}

/* From v->in to out. */
static void forward_layer(const gpt_run *run, int64_t layer, const layer_values *v, double *out)
{
    const ls__reference_gpt_shape *s = run->shape;
    const double *p = run->params;
    layer_offsets o = offsets_of_layer(s, layer);
    int64_t C = s->width;
    uint64_t keys[LS__REFERENCE_MAX_BATCH];

    ls__ref_layer_norm_forward(v->norm_1, v->mean_1, v->rstd_1, v->in, p + o.ln_1_gain,
                               p + o.ln_1_shift, run->rows, C);
    ls__ref_linear_forward(v->qkv, v->norm_1, p + o.attn_weight, p + o.attn_bias, run->rows, C,
                           3 * C);
    ls__ref_attention_forward(v->mixed, v->att, v->qkv, run->batch, s->T, s->heads, C / s->heads,
                              attention_dropout(run, layer, keys));
    ls__ref_linear_forward(v->middle, v->mixed, p + o.attn_proj_weight, p + o.attn_proj_bias,
                           run->rows, C, C);
    drop(run, v->middle, (uint32_t)(2 + 3 * layer));
    ls__ref_add(v->middle, v->middle, v->in, run->rows * C);

    ls__ref_layer_norm_forward(v->norm_2, v->mean_2, v->rstd_2, v->middle, p + o.ln_2_gain,
                               p + o.ln_2_shift, run->rows, C);
    ls__ref_linear_forward(v->fc, v->norm_2, p + o.fc_weight, p + o.fc_bias, run->rows, C, 4 * C);
    ls__ref_gelu_forward(v->gelu, v->fc, run->rows * 4 * C);
    ls__ref_linear_forward(out, v->gelu, p + o.mlp_proj_weight, p + o.mlp_proj_bias, run->rows,
                           4 * C, C);
    drop(run, out, (uint32_t)(3 + 3 * layer));
    ls__ref_add(out, out, v->middle, run->rows * C);
}

/* Scratch of the backward pass. */
typedef struct gradients {
    double *stream; /* (rows, C), of the residual stream */
    double *branch; /* (rows, C) */
    double *inner;  /* (rows, 4C) */
    double *outer;  /* (rows, 4C) */
} gradients;

static void backward_mlp(const gpt_run *run, int64_t layer, const layer_values *v,
                         const gradients *d)
{
    const double *p = run->params;
    double *g = run->grads;
    layer_offsets o = offsets_of_layer(run->shape, layer);
    int64_t C = run->shape->width;

    memcpy(d->branch, d->stream, (size_t)(run->rows * C) * sizeof(double));
    drop(run, d->branch, (uint32_t)(3 + 3 * layer));
    ls__ref_linear_backward(d->outer, g + o.mlp_proj_weight, g + o.mlp_proj_bias, d->branch,
                            v->gelu, p + o.mlp_proj_weight, run->rows, 4 * C, C);
    ls__ref_gelu_backward(d->inner, d->outer, v->fc, run->rows * 4 * C);
    ls__ref_linear_backward(d->branch, g + o.fc_weight, g + o.fc_bias, d->inner, v->norm_2,
                            p + o.fc_weight, run->rows, C, 4 * C);
    ls__ref_layer_norm_backward(d->stream, g + o.ln_2_gain, g + o.ln_2_shift, d->branch, v->middle,
                                p + o.ln_2_gain, v->mean_2, v->rstd_2, run->rows, C);
}

static void backward_attention(const gpt_run *run, int64_t layer, const layer_values *v,
                               const gradients *d)
{
    const ls__reference_gpt_shape *s = run->shape;
    const double *p = run->params;
    double *g = run->grads;
    layer_offsets o = offsets_of_layer(s, layer);
    int64_t C = s->width;
    uint64_t keys[LS__REFERENCE_MAX_BATCH];

    memcpy(d->branch, d->stream, (size_t)(run->rows * C) * sizeof(double));
    drop(run, d->branch, (uint32_t)(2 + 3 * layer));
    ls__ref_linear_backward(d->outer, g + o.attn_proj_weight, g + o.attn_proj_bias, d->branch,
                            v->mixed, p + o.attn_proj_weight, run->rows, C, C);
    ls__ref_attention_backward(d->inner, d->outer, v->qkv, v->att, run->batch, s->T, s->heads,
                               C / s->heads, attention_dropout(run, layer, keys));
    ls__ref_linear_backward(d->branch, g + o.attn_weight, g + o.attn_bias, d->inner, v->norm_1,
                            p + o.attn_weight, run->rows, C, 3 * C);
    ls__ref_layer_norm_backward(d->stream, g + o.ln_1_gain, g + o.ln_1_shift, d->branch, v->in,
                                p + o.ln_1_gain, v->mean_1, v->rstd_1, run->rows, C);
}

/* What the head's forward leaves for its backward. */
typedef struct head_values {
    double *in; /* (rows, C), the residual stream */
    double *mean, *rstd;
    double *norm;   /* (rows, C) */
    double *logits; /* (rows, vocabulary), then probabilities, then their gradients */
    double *losses; /* (rows) */
} head_values;

static head_values take_head(gpt_run *run)
{
    const ls__reference_gpt_shape *s = run->shape;
    head_values v;

    v.in = take(&run->space, run->rows * s->width);
    v.mean = take(&run->space, run->rows);
    v.rstd = take(&run->space, run->rows);
    v.norm = take(&run->space, run->rows * s->width);
    v.logits = take(&run->space, run->rows * s->vocabulary);
    v.losses = take(&run->space, run->rows);
    return v;
}

static double forward_head(const gpt_run *run, const head_values *v, const int32_t *targets)
{
    const ls__reference_gpt_shape *s = run->shape;
    const double *gain = run->params + offset_of_final_norm(s);

    ls__ref_layer_norm_forward(v->norm, v->mean, v->rstd, v->in, gain, gain + s->width, run->rows,
                               s->width);
    ls__ref_linear_forward(v->logits, v->norm, run->params, NULL, run->rows, s->width,
                           s->vocabulary);
    ls__ref_cross_entropy_forward(v->losses, v->logits, targets, run->rows, s->vocabulary);
    return mean(v->losses, run->rows);
}

/* Leaves the head's share of wte's gradient in d_wte. */
static void backward_head(const gpt_run *run, const head_values *v, const int32_t *targets,
                          double *d_wte, const gradients *d)
{
    const ls__reference_gpt_shape *s = run->shape;
    int64_t norm = offset_of_final_norm(s);

    ls__ref_cross_entropy_backward(v->logits, targets, 1 / (double)run->rows, run->rows,
                                   s->vocabulary);
    ls__ref_linear_backward(d->branch, d_wte, NULL, v->logits, v->norm, run->params, run->rows,
                            s->width, s->vocabulary);
    memset(d->stream, 0, (size_t)(run->rows * s->width) * sizeof(double));
    ls__ref_layer_norm_backward(d->stream, run->grads + norm, run->grads + norm + s->width,
                                d->branch, v->in, run->params + norm, v->mean, v->rstd, run->rows,
                                s->width);
}

/* wte is used twice, so its gradient is a sum. */
static void backward_embedding(const gpt_run *run, const int32_t *tokens, const double *d_wte,
                               const gradients *d)
{
    const ls__reference_gpt_shape *s = run->shape;
    int64_t count = s->vocabulary * s->width;

    drop(run, d->stream, 0);
    ls__ref_embedding_backward(run->grads, run->grads + count, d->stream, tokens, run->batch, s->T,
                               s->width, s->vocabulary);
    ls__ref_add(run->grads, run->grads, d_wte, count);
}

static int64_t gpt_workspace(const ls__reference_gpt_shape *s, int64_t batch)
{
    int64_t rows = batch * s->T;
    int64_t layer = rows * (16 * s->width + 4 + s->heads * s->T);
    int64_t head = rows * (2 * s->width + 3 + s->vocabulary);

    return s->layers * layer + head + rows * 10 * s->width + s->vocabulary * s->width;
}

double ls__reference_gpt(const ls__reference_gpt_shape *shape, const double *params, double *grads,
                         const int32_t *tokens, const int32_t *targets, int64_t batch,
                         ls__reference_dropout dropout)
{
    const ls__reference_gpt_shape *s = shape;
    gpt_run run = {
        s, params, grads, batch, batch * s->T, dropout, open_workspace(gpt_workspace(s, batch))};
    layer_values *layers = calloc((size_t)s->layers + 1, sizeof *layers);
    head_values head = take_head(&run);

    if (!layers || batch > LS__REFERENCE_MAX_BATCH)
        abort();
    for (int64_t l = 0; l < s->layers; l++)
        layers[l] = take_layer(&run);
    layers[s->layers].in = head.in; /* each layer writes what the next reads */

    ls__ref_embedding_forward(layers[0].in, tokens, params, params + s->vocabulary * s->width,
                              batch, s->T, s->width);
    drop(&run, layers[0].in, 0);
    for (int64_t l = 0; l < s->layers; l++)
        forward_layer(&run, l, &layers[l], layers[l + 1].in);
    double loss = forward_head(&run, &head, targets);

    if (grads) {
        int64_t size = run.rows * s->width;
        gradients d = {take(&run.space, size), take(&run.space, size), take(&run.space, 4 * size),
                       take(&run.space, 4 * size)};
        double *d_wte = take(&run.space, s->vocabulary * s->width);

        backward_head(&run, &head, targets, d_wte, &d);
        for (int64_t l = s->layers; l-- > 0;) {
            backward_mlp(&run, l, &layers[l], &d);
            backward_attention(&run, l, &layers[l], &d);
        }
        backward_embedding(&run, tokens, d_wte, &d);
    }
    free(layers);
    free(run.space.block);
    return loss;
}

/* Where layer `layer`'s weight starts in the flat parameters; its bias follows it. */
static int64_t offset_of_mlp_layer(const ls__reference_mlp_shape *s, int64_t layer)
{
    int64_t offset = 0;

    for (int64_t l = 0; l < layer; l++)
        offset += (s->widths[l] + 1) * s->widths[l + 1];
    return offset;
}

int64_t ls__reference_mlp_parameters(const ls__reference_mlp_shape *shape)
{
    return offset_of_mlp_layer(shape, shape->layers);
}

static void activate(const ls__reference_mlp_shape *s, double *out, const double *in, int64_t count)
{
    if (s->gelu)
        ls__ref_gelu_forward(out, in, count);
    else
        ls__ref_relu_forward(out, in, count);
}

static void activate_backward(const ls__reference_mlp_shape *s, double *d_in, const double *d_out,
                              const double *in, int64_t count)
{
    if (s->gelu)
        ls__ref_gelu_backward(d_in, d_out, in, count);
    else
        ls__ref_relu_backward(d_in, d_out, in, count);
}

/* What one layer of the MLP keeps: before its activation, and after it. */
typedef struct mlp_values {
    const double *in; /* (batch, widths[l]) */
    double *sums;     /* (batch, widths[l + 1]) */
    double *out;      /* (batch, widths[l + 1]); the last layer's is not used */
    double *d_sums;   /* (batch, widths[l + 1]) */
    double *d_in;     /* (batch, widths[l]) */
} mlp_values;

static void backward_mlp_layers(const ls__reference_mlp_shape *s, const double *params,
                                double *grads, mlp_values *layers, int64_t batch)
{
    for (int64_t l = s->layers; l-- > 0;) {
        mlp_values *v = &layers[l];
        int64_t weight = offset_of_mlp_layer(s, l);
        int64_t bias = weight + s->widths[l] * s->widths[l + 1];

        if (l + 1 < s->layers)
            activate_backward(s, v->d_sums, layers[l + 1].d_in, v->sums, batch * s->widths[l + 1]);
        ls__ref_linear_backward(v->d_in, grads + weight, grads + bias, v->d_sums, v->in,
                                params + weight, batch, s->widths[l], s->widths[l + 1]);
    }
}

double ls__reference_mlp(const ls__reference_mlp_shape *shape, const double *params, double *grads,
                         const double *in, const int32_t *labels, int64_t batch)
{
    const ls__reference_mlp_shape *s = shape;
    int64_t classes = s->widths[s->layers];
    int64_t size = 1;

    for (int64_t l = 0; l < s->layers; l++)
        size += s->widths[l] + 3 * s->widths[l + 1];
    workspace space = open_workspace(batch * size);
    double *losses = take(&space, batch);
    mlp_values *layers = calloc((size_t)s->layers, sizeof *layers);

    if (!layers)
        abort();
    for (int64_t l = 0; l < s->layers; l++) {
        mlp_values *v = &layers[l];
        int64_t count = batch * s->widths[l + 1];
        const double *weight = params + offset_of_mlp_layer(s, l);

        v->in = l == 0 ? in : layers[l - 1].out;
        v->sums = take(&space, count);
        v->out = take(&space, count);
        v->d_sums = take(&space, count);
        v->d_in = take(&space, batch * s->widths[l]);
        ls__ref_linear_forward(v->sums, v->in, weight, weight + s->widths[l] * s->widths[l + 1],
                               batch, s->widths[l], s->widths[l + 1]);
        activate(s, v->out, v->sums, count);
    }

    double *logits = layers[s->layers - 1].d_sums;

    memcpy(logits, layers[s->layers - 1].sums, (size_t)(batch * classes) * sizeof *logits);
    ls__ref_cross_entropy_forward(losses, logits, labels, batch, classes);
    double loss = mean(losses, batch);

    if (grads) {
        ls__ref_cross_entropy_backward(logits, labels, 1 / (double)batch, batch, classes);
        backward_mlp_layers(s, params, grads, layers, batch);
    }
    free(layers);
    free(space.block);
    return loss;
}
