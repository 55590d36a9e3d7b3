#include "nn/gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile.h"
#include "math/ops.h"

/* Offsets of a layer's tensors in the flat parameters. Those named together stand side by side:
 * a weight with its bias, a gain with its shift. */
typedef struct gpt_offsets {
    int64_t ln_1_gain, ln_1_shift;
    int64_t attn_weight, attn_bias; /* (3C, C), (3C) */
    int64_t proj_weight, proj_bias; /* (C, C), (C) */
    int64_t ln_2_gain, ln_2_shift;
    int64_t fc_weight, fc_bias;   /* (4C, C), (4C) */
    int64_t out_weight, out_bias; /* (C, 4C), (C) */
} gpt_offsets;

/* What a layer's forward keeps for its backward. M = samples * length rows. With recomputation all
 * layers share one set of these, but for `in`. */
typedef struct gpt_activations {
    ls__values in;          /* (M, C) the residual stream as it enters */
    ls__values ln_1, ln_2;  /* (M, C) */
    float *mean_1, *rstd_1; /* (M) */
    float *mean_2, *rstd_2; /* (M) */
    ls__values qkv;         /* (M, 3C) */
    float *statistics;      /* (2, samples, heads, length) of attention's rows */
    ls__values heads;       /* (M, C) attention's output, heads side by side */
    ls__values middle;      /* (M, C) the residual stream between the two halves */
    ls__values fc;          /* (M, 4C) before GELU */
    ls__values gelu;        /* (M, 4C) after it */
} gpt_activations;

typedef struct gpt_layer {
    gpt_offsets at;
    gpt_activations kept;
} gpt_layer;

typedef struct gpt {
    ls__model model; /* first, so that a pointer to one is a pointer to the other */
    ls__gpt_shape shape;
    int64_t wte, wpe, ln_f_gain, ln_f_shift; /* offsets */
    gpt_layer *layer;                        /* (layers) */
    ls__values last;                         /* (M, C) the residual stream after all layers */
    ls__values ln_f;                         /* (M, C) */
    float *mean_f, *rstd_f;                  /* (M) */
    ls__values d_stream;                     /* (M, C) gradient of the residual stream */
    ls__values d_narrow;                     /* (M, C) */
    ls__values d_wide;                       /* (M, 4C); its first 3C columns' worth serves d_qkv */
    ls__values branch;                       /* (M, C) a projection's output, or its gradient */
    uint64_t *keys;                          /* (micro_batch) dropout keys of attention */
} gpt;

/* The model's dropouts, in the order of the forward pass; they key the masks. */
static uint32_t site_embedding(void)
{
    return 0;
}

static uint32_t site_attention(int64_t layer)
{
    return (uint32_t)(1 + 3 * layer);
}

static uint32_t site_projection(int64_t layer)
{
    return (uint32_t)(2 + 3 * layer);
}

static uint32_t site_mlp(int64_t layer)
{
    return (uint32_t)(3 + 3 * layer);
}

/* Masks a (samples, length, C) tensor in place: each sample by a key of its own. The same call
 * serves gradients. */
static void drop(const gpt *net, ls__values values, uint32_t site, const ls__batch *batch)
{
    int64_t count = batch->length * net->shape.width;

    for (int64_t sample = 0; sample < batch->samples; sample++) {
        uint64_t key = ls__dropout_key(net->model.seed, site, batch->ordinal + (uint64_t)sample);

        ls__dropout_sample(ls__from(values, sample * count), net->shape.dropout, key, count,
                           net->model.scratch);
    }
}

static size_t stream_bytes(const gpt *net, const ls__batch *batch)
{
    int64_t count = batch->samples * batch->length * net->shape.width;

    return (size_t)(count * ls__value_bytes(net->model.format));
}

/* The gradient of a branch that was dropped at `site` and added to the residual stream: the
 * stream's own, masked. The stream needs its own unmasked for what flows past the branch. */
static ls__values branch_gradient(gpt *net, uint32_t site, const ls__batch *batch)
{
    if (net->shape.dropout <= 0)
        return net->d_stream;
    memcpy(net->branch.at, net->d_stream.at, stream_bytes(net, batch));
    drop(net, net->branch, site, batch);
    return net->branch;
}

static ls__attention_dropout attention_dropout(const gpt *net, int64_t layer,
                                               const ls__batch *batch, bool training)
{
    double rate = training ? net->shape.dropout : 0;

    for (int64_t sample = 0; rate > 0 && sample < batch->samples; sample++)
        net->keys[sample] = ls__dropout_key(net->model.seed, site_attention(layer),
                                            batch->ordinal + (uint64_t)sample);
    return (ls__attention_dropout){.rate = rate, .key = net->keys};
}

/* ---- one layer, its first half: x += proj(attention(ln_1 x)) ---- */

/* From ln_1 to the branch that is yet to be added to the stream. */
static void attention_half_forward(gpt *net, int64_t index, const float *parameters,
                                   const ls__batch *batch, bool training)
{
    ls__model *model = &net->model;
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;

    ls__profile_mark(LS__PART_QKV);
    ls__linear_forward(kept->qkv, kept->ln_1, ls__model_weights(model, parameters, at->attn_weight),
                       parameters + at->attn_bias, rows, C, 3 * C, model->scratch);
    ls__profile_mark(LS__PART_ATTENTION);
    ls__attention_forward(kept->heads, kept->statistics, kept->qkv, batch->samples, batch->length,
                          net->shape.heads, C / net->shape.heads,
                          attention_dropout(net, index, batch, training), model->scratch);
    ls__model_need(model, parameters, at->proj_weight, at->ln_2_gain);
    ls__profile_mark(LS__PART_PROJECTION);
    ls__linear_forward(net->branch, kept->heads,
                       ls__model_weights(model, parameters, at->proj_weight),
                       parameters + at->proj_bias, rows, C, C, model->scratch);
    if (training && net->shape.dropout > 0)
        drop(net, net->branch, site_projection(index), batch);
}

static void attention_half_backward(gpt *net, int64_t index, const float *parameters,
                                    const ls__batch *batch, ls__gradient_sink sink)
{
    ls__model *model = &net->model;
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *gradients = model->gradients;

    ls__profile_mark(LS__PART_PROJECTION);
    ls__values d_branch = branch_gradient(net, site_projection(index), batch);
    ls__linear_backward(net->d_narrow, gradients + at->proj_weight, gradients + at->proj_bias,
                        d_branch, kept->heads,
                        ls__model_weights(model, parameters, at->proj_weight), rows, C, C,
                        model->scratch);
    sink.ready(sink.context, at->proj_weight, C * (C + 1), gradients + at->proj_weight);
    ls__profile_mark(LS__PART_ATTENTION);
    ls__attention_backward(net->d_wide, net->d_narrow, kept->qkv, kept->statistics, batch->samples,
                           batch->length, net->shape.heads, C / net->shape.heads,
                           attention_dropout(net, index, batch, true), model->scratch);
    ls__profile_mark(LS__PART_QKV);
    ls__linear_backward(net->d_narrow, gradients + at->attn_weight, gradients + at->attn_bias,
                        net->d_wide, kept->ln_1,
                        ls__model_weights(model, parameters, at->attn_weight), rows, C, 3 * C,
                        model->scratch);
    sink.ready(sink.context, at->attn_weight, 3 * C * (C + 1), gradients + at->attn_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_backward(net->d_stream, gradients + at->ln_1_gain, gradients + at->ln_1_shift,
                            net->d_narrow, kept->in, parameters + at->ln_1_gain, kept->mean_1,
                            kept->rstd_1, rows, C, model->scratch);
    sink.ready(sink.context, at->ln_1_gain, 2 * C, gradients + at->ln_1_gain);
}

/* ---- its second half: x += proj(gelu(fc(ln_2 x))) ---- */

/* Adds the first half's branch to the stream, and goes as far as GELU. */
static void mlp_half_forward(gpt *net, int64_t index, const float *parameters,
                             const ls__batch *batch)
{
    ls__model *model = &net->model;
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;

    ls__model_need(model, parameters, at->ln_2_gain, at->out_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__add_norm_forward(kept->middle, kept->ln_2, kept->mean_2, kept->rstd_2, kept->in,
                         net->branch, parameters + at->ln_2_gain, parameters + at->ln_2_shift, rows,
                         C, model->scratch);
    ls__profile_mark(LS__PART_MLP);
    ls__linear_forward(kept->fc, kept->ln_2, ls__model_weights(model, parameters, at->fc_weight),
                       parameters + at->fc_bias, rows, C, 4 * C, model->scratch);
    ls__gelu_forward(kept->gelu, kept->fc, rows * 4 * C, model->scratch);
}

/* The branch that is yet to be added to the stream. */
static void mlp_project(gpt *net, int64_t index, const float *parameters, const ls__batch *batch,
                        bool training)
{
    ls__model *model = &net->model;
    const gpt_offsets *at = &net->layer[index].at;
    int64_t C = net->shape.width;

    ls__model_need(model, parameters, at->out_weight, at->out_weight + C * (4 * C + 1));
    ls__linear_forward(net->branch, net->layer[index].kept.gelu,
                       ls__model_weights(model, parameters, at->out_weight),
                       parameters + at->out_bias, batch->samples * batch->length, 4 * C, C,
                       model->scratch);
    if (training && net->shape.dropout > 0)
        drop(net, net->branch, site_mlp(index), batch);
}

static void mlp_half_backward(gpt *net, int64_t index, const float *parameters,
                              const ls__batch *batch, ls__gradient_sink sink)
{
    ls__model *model = &net->model;
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *gradients = model->gradients;

    ls__profile_mark(LS__PART_MLP);
    ls__values d_branch = branch_gradient(net, site_mlp(index), batch);
    ls__linear_backward(net->d_wide, gradients + at->out_weight, gradients + at->out_bias, d_branch,
                        kept->gelu, ls__model_weights(model, parameters, at->out_weight), rows,
                        4 * C, C, model->scratch);
    sink.ready(sink.context, at->out_weight, C * (4 * C + 1), gradients + at->out_weight);
    ls__gelu_backward(net->d_wide, net->d_wide, kept->fc, rows * 4 * C, model->scratch);
    ls__linear_backward(
        net->d_narrow, gradients + at->fc_weight, gradients + at->fc_bias, net->d_wide, kept->ln_2,
        ls__model_weights(model, parameters, at->fc_weight), rows, C, 4 * C, model->scratch);
    sink.ready(sink.context, at->fc_weight, 4 * C * (C + 1), gradients + at->fc_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_backward(net->d_stream, gradients + at->ln_2_gain, gradients + at->ln_2_shift,
                            net->d_narrow, kept->middle, parameters + at->ln_2_gain, kept->mean_2,
                            kept->rstd_2, rows, C, model->scratch);
    sink.ready(sink.context, at->ln_2_gain, 2 * C, gradients + at->ln_2_gain);
}

/* ---- the whole ---- */

/* The stream as it enters layer `index`, and its norm: the branch of the layer before is added on
 * the way. The first layer's stream is there already. */
static void enter_layer(gpt *net, int64_t index, const float *parameters, const ls__batch *batch)
{
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;

    ls__model_need(&net->model, parameters, at->ln_1_gain, at->proj_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__add_norm_forward(kept->in, kept->ln_1, kept->mean_1, kept->rstd_1,
                         index > 0 ? net->layer[index - 1].kept.middle : kept->in,
                         index > 0 ? net->branch : ls__floats(NULL), parameters + at->ln_1_gain,
                         parameters + at->ln_1_shift, rows, net->shape.width, net->model.scratch);
}

static void gpt_forward(ls__model *model, const float *parameters, const ls__batch *batch,
                        bool training)
{
    gpt *net = (gpt *)model;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    int64_t layers = net->shape.layers;
    ls__values stream = net->layer[0].kept.in;

    ls__model_need(model, parameters, net->wte, net->layer[0].at.ln_1_gain);
    ls__profile_mark(LS__PART_EMBEDDING);
    ls__embedding_forward(stream, batch->tokens, parameters + net->wte, parameters + net->wpe,
                          batch->samples, batch->length, C, model->scratch);
    if (training && net->shape.dropout > 0)
        drop(net, stream, site_embedding(), batch);
    for (int64_t i = 0; i < layers; i++) {
        enter_layer(net, i, parameters, batch);
        attention_half_forward(net, i, parameters, batch, training);
        mlp_half_forward(net, i, parameters, batch);
        mlp_project(net, i, parameters, batch, training);
    }
    ls__model_need(model, parameters, net->ln_f_gain, model->tensors.total);
    ls__profile_mark(LS__PART_NORM);
    ls__add_norm_forward(net->last, net->ln_f, net->mean_f, net->rstd_f,
                         net->layer[layers - 1].kept.middle, net->branch,
                         parameters + net->ln_f_gain, parameters + net->ln_f_shift, rows, C,
                         model->scratch);
    ls__profile_mark(LS__PART_HEAD);
    ls__linear_forward(model->logits, net->ln_f, ls__model_weights(model, parameters, net->wte),
                       NULL, rows, C, model->classes, model->scratch);
}

/* Fills a layer's activations again from the stream that entered it: the same operations on the
 * same values, so the same bits. */
static void recompute(gpt *net, int64_t index, const float *parameters, const ls__batch *batch)
{
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;

    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_forward(kept->ln_1, kept->mean_1, kept->rstd_1, kept->in,
                           parameters + at->ln_1_gain, parameters + at->ln_1_shift,
                           batch->samples * batch->length, net->shape.width, net->model.scratch);
    attention_half_forward(net, index, parameters, batch, true);
    mlp_half_forward(net, index, parameters, batch);
}

/* The head and ln_f: leaves the gradient of the residual stream in d_stream. */
static void head_backward(gpt *net, const float *parameters, const ls__batch *batch,
                          ls__gradient_sink sink)
{
    ls__model *model = &net->model;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *gradients = model->gradients;

    ls__profile_mark(LS__PART_HEAD);
    ls__linear_backward(net->d_narrow, gradients + net->wte, NULL, model->logits, net->ln_f,
                        ls__model_weights(model, parameters, net->wte), rows, C, model->classes,
                        model->scratch);
    sink.ready(sink.context, net->wte, model->classes * C, gradients + net->wte);
    memset(net->d_stream.at, 0, stream_bytes(net, batch));
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_backward(net->d_stream, gradients + net->ln_f_gain, gradients + net->ln_f_shift,
                            net->d_narrow, net->last, parameters + net->ln_f_gain, net->mean_f,
                            net->rstd_f, rows, C, model->scratch);
    sink.ready(sink.context, net->ln_f_gain, 2 * C, gradients + net->ln_f_gain);
}

static void gpt_backward(ls__model *model, const float *parameters, const ls__batch *batch,
                         ls__gradient_sink sink)
{
    gpt *net = (gpt *)model;
    int64_t C = net->shape.width;
    int64_t last = net->shape.layers - 1;
    float *gradients = model->gradients;

    head_backward(net, parameters, batch, sink);
    for (int64_t i = last; i >= 0; i--) {
        if (net->shape.recompute && i != last) /* forward has just filled the last layer's */
            recompute(net, i, parameters, batch);
        mlp_half_backward(net, i, parameters, batch, sink);
        attention_half_backward(net, i, parameters, batch, sink);
    }
    ls__profile_mark(LS__PART_EMBEDDING);
    if (net->shape.dropout > 0)
        drop(net, net->d_stream, site_embedding(), batch);
    /* The tied weight's second addend takes the place of its first, which the sink has had. */
    ls__embedding_backward(gradients + net->wte, gradients + net->wpe, net->d_stream, batch->tokens,
                           batch->samples, batch->length, C, model->classes);
    sink.ready(sink.context, net->wpe, batch->length * C, gradients + net->wpe);
    sink.ready(sink.context, net->wte, model->classes * C, gradients + net->wte);
}

static void gpt_close(ls__model *model)
{
    gpt *net = (gpt *)model;

    free(net->layer);
    free(net);
}

/* ---- opening ---- */

static ls_status add_layer_matrix(gpt *net, int64_t layer, const char *name, int64_t rows,
                                  int64_t columns, double std, int64_t *weight, int64_t *bias)
{
    char full[LS__TENSOR_NAME];

    snprintf(full, sizeof full, "h.%lld.%s.weight", (long long)layer, name);
    LS_TRY(ls__tensors_add_matrix(&net->model.tensors, full, rows, columns, std, weight));
    snprintf(full, sizeof full, "h.%lld.%s.bias", (long long)layer, name);
    return ls__tensors_add_vector(&net->model.tensors, full, rows, 0, bias);
}

static ls_status add_norm(gpt *net, const char *name, int64_t *gain, int64_t *shift)
{
    char full[LS__TENSOR_NAME];

    snprintf(full, sizeof full, "%.32s.weight", name);
    LS_TRY(ls__tensors_add_vector(&net->model.tensors, full, net->shape.width, 1, gain));
    snprintf(full, sizeof full, "%.32s.bias", name);
    return ls__tensors_add_vector(&net->model.tensors, full, net->shape.width, 0, shift);
}

static ls_status add_layer(gpt *net, int64_t index)
{
    gpt_offsets *at = &net->layer[index].at;
    int64_t C = net->shape.width;
    double residual_std = 0.02 / sqrt(2 * (double)net->shape.layers);
    char name[LS__TENSOR_NAME];

    snprintf(name, sizeof name, "h.%lld.ln_1", (long long)index);
    LS_TRY(add_norm(net, name, &at->ln_1_gain, &at->ln_1_shift));
    LS_TRY(add_layer_matrix(net, index, "attn.c_attn", 3 * C, C, 0.02, &at->attn_weight,
                            &at->attn_bias));
    LS_TRY(add_layer_matrix(net, index, "attn.c_proj", C, C, residual_std, &at->proj_weight,
                            &at->proj_bias));
    snprintf(name, sizeof name, "h.%lld.ln_2", (long long)index);
    LS_TRY(add_norm(net, name, &at->ln_2_gain, &at->ln_2_shift));
    LS_TRY(add_layer_matrix(net, index, "mlp.c_fc", 4 * C, C, 0.02, &at->fc_weight, &at->fc_bias));
    return add_layer_matrix(net, index, "mlp.c_proj", C, 4 * C, residual_std, &at->out_weight,
                            &at->out_bias);
}

static ls_status add_tensors(gpt *net)
{
    ls__tensors *tensors = &net->model.tensors;
    int64_t C = net->shape.width;

    LS_TRY(ls__model_check_size("4 x width", 4 * C));
    LS_TRY(ls__model_check_size("the vocabulary", net->shape.vocabulary));
    LS_TRY(
        ls__tensors_add_matrix(tensors, "wte.weight", net->shape.vocabulary, C, 0.02, &net->wte));
    LS_TRY(ls__tensors_add_matrix(tensors, "wpe.weight", net->shape.context, C, 0.02, &net->wpe));
    for (int64_t i = 0; i < net->shape.layers; i++)
        LS_TRY(add_layer(net, i));
    return add_norm(net, "ln_f", &net->ln_f_gain, &net->ln_f_shift);
}

/* One request to the arena serves all activations: their sum is known, or refused, before any of
 * them is taken. In the first pass `base` is NULL and only sizes are added up. */
typedef struct carver {
    char *base;
    ls__format format;
    int64_t used; /* bytes */
    bool overflow;
} carver;

static void *carve(carver *from, int64_t rows, int64_t columns, int64_t value_bytes)
{
    int64_t bytes = 0;
    char *view = from->base ? from->base + from->used : NULL;

    from->overflow |= __builtin_mul_overflow(rows, columns, &bytes) ||
                      __builtin_mul_overflow(bytes, value_bytes, &bytes) ||
                      __builtin_add_overflow(bytes, LS__ARENA_ALIGNMENT - 1, &bytes);
    bytes -= bytes % LS__ARENA_ALIGNMENT; /* each view starts on a cache line */
    from->overflow |= __builtin_add_overflow(from->used, bytes, &from->used);
    return view;
}

static void carve_values(carver *from, ls__values *view, int64_t rows, int64_t columns)
{
    *view = (ls__values){carve(from, rows, columns, ls__value_bytes(from->format)), from->format};
}

static void carve_floats(carver *from, float **view, int64_t rows, int64_t columns)
{
    *view = carve(from, rows, columns, (int64_t)sizeof **view);
}

/* All that a layer keeps but the stream that enters it. */
static void carve_layer(gpt_activations *kept, const ls__gpt_shape *shape, int64_t rows,
                        carver *from)
{
    int64_t C = shape->width;

    carve_values(from, &kept->ln_1, rows, C);
    carve_floats(from, &kept->mean_1, rows, 1);
    carve_floats(from, &kept->rstd_1, rows, 1);
    carve_values(from, &kept->qkv, rows, 3 * C);
    carve_floats(from, &kept->statistics, 2 * rows, shape->heads);
    carve_values(from, &kept->heads, rows, C);
    carve_values(from, &kept->middle, rows, C);
    carve_values(from, &kept->ln_2, rows, C);
    carve_floats(from, &kept->mean_2, rows, 1);
    carve_floats(from, &kept->rstd_2, rows, 1);
    carve_values(from, &kept->fc, rows, 4 * C);
    carve_values(from, &kept->gelu, rows, 4 * C);
}

static void carve_layers(gpt *net, int64_t rows, carver *from)
{
    for (int64_t i = 0; i < net->shape.layers; i++) {
        gpt_activations *kept = &net->layer[i].kept;

        if (net->shape.recompute && i > 0)
            *kept = net->layer[0].kept;
        else
            carve_layer(kept, &net->shape, rows, from);
        carve_values(from, &kept->in, rows, net->shape.width);
    }
}

static void carve_all(gpt *net, carver *from)
{
    int64_t rows = net->model.micro_batch * net->shape.context;
    int64_t C = net->shape.width;

    carve_layers(net, rows, from);
    carve_values(from, &net->last, rows, C);
    carve_values(from, &net->ln_f, rows, C);
    carve_floats(from, &net->mean_f, rows, 1);
    carve_floats(from, &net->rstd_f, rows, 1);
    carve_values(from, &net->d_stream, rows, C);
    carve_values(from, &net->d_narrow, rows, C);
    carve_values(from, &net->d_wide, rows, 4 * C);
    carve_values(from, &net->branch, rows, C);
}

static ls_status take_activations(gpt *net, ls__arena *arena)
{
    carver sizes = {.format = net->model.format};
    carver views = {.format = net->model.format};

    carve_all(net, &sizes);
    LS_FAIL_IF(sizes.overflow, LS_NO_MEMORY,
               "the activations need more bytes than 64 bits count: use a smaller --context, "
               "--width or --micro-batch");
    LS_TRY(ls__arena_take(arena, LS__ACTIVATIONS, sizes.used, 1, &views.base));
    carve_all(net, &views);
    return ls__arena_take(arena, LS__ACTIVATIONS, net->model.micro_batch, sizeof(uint64_t),
                          &net->keys);
}

static ls_status take_scratch(gpt *net, ls__arena *arena)
{
    const ls__gpt_shape *shape = &net->shape;
    int64_t attention =
        ls__attention_scratch(shape->format, shape->context, shape->width / shape->heads);

    return ls__model_take_scratch(
        &net->model, arena, 4 * shape->width, attention,
        ls__ops_shared(net->model.micro_batch * shape->context, shape->width));
}

ls_status ls__gpt_open(ls__model **model, const ls__gpt_shape *shape, int64_t micro_batch,
                       uint64_t seed, ls__arena *arena)
{
    static const ls__model_ops ops = {gpt_forward, gpt_backward, gpt_close};
    ls_status status = LS_OK;
    gpt *net = calloc(1, sizeof *net);

    LS_FAIL_IF(!net, LS_NO_MEMORY, "no memory for a GPT");
    net->model = (ls__model){.ops = &ops,
                             .micro_batch = micro_batch,
                             .format = shape->format,
                             .context = shape->context,
                             .classes = shape->vocabulary,
                             .seed = seed};
    net->shape = *shape;
    net->layer = calloc((size_t)shape->layers, sizeof *net->layer);
    if (!net->layer) {
        status = LS_FAIL(LS_NO_MEMORY, "no memory for %lld layers", (long long)shape->layers);
        goto failed;
    }
    LS_TRY_TO(failed, add_tensors(net));
    LS_TRY_TO(failed, ls__model_take_common(&net->model, arena));
    LS_TRY_TO(failed, take_activations(net, arena));
    LS_TRY_TO(failed, take_scratch(net, arena));
    *model = &net->model;
    return LS_OK;
failed:
    ls__model_close(&net->model);
    return status;
}
