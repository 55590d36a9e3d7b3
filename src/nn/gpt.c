#include "nn/gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile.h"
#include "base/threads.h"
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

/* What a layer's forward keeps for its backward. M = samples * length rows. */
typedef struct gpt_activations {
    float *in;              /* (M, C) the residual stream as it enters */
    float *ln_1, *ln_2;     /* (M, C) */
    float *mean_1, *rstd_1; /* (M) */
    float *mean_2, *rstd_2; /* (M) */
    float *qkv;             /* (M, 3C) */
    float *att;             /* (2, samples, heads, length) */
    float *heads;           /* (M, C) attention's output, heads side by side */
    float *middle;          /* (M, C) the residual stream between the two halves */
    float *fc;              /* (M, 4C) before GELU */
    float *gelu;            /* (M, 4C) after it */
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
    float *last;                             /* (M, C) the residual stream after all layers */
    float *ln_f;                             /* (M, C) */
    float *mean_f, *rstd_f;                  /* (M) */
    float *d_stream;                         /* (M, C) gradient of the residual stream */
    float *d_narrow;                         /* (M, C) */
    float *d_wide;                           /* (M, 4C); its first 3C columns' worth serves d_qkv */
    float *branch;                           /* (M, C) a projection's output, or its gradient */
    float *scores;                           /* attention's scratch, a piece a thread */
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
static void drop(const gpt *net, float *values, uint32_t site, const ls__batch *batch)
{
    int64_t count = batch->length * net->shape.width;

    for (int64_t sample = 0; sample < batch->samples; sample++) {
        uint64_t key = ls__dropout_key(net->model.seed, site, batch->ordinal + (uint64_t)sample);
        float *here = values + sample * count;
        ls__dropout(here, here, net->shape.dropout, key, 0, count);
    }
}

/* The gradient of a branch that was dropped at `site` and added to the residual stream: the
 * stream's own, masked. The stream needs its own unmasked for what flows past the branch. */
static const float *branch_gradient(gpt *net, uint32_t site, const ls__batch *batch)
{
    int64_t count = batch->samples * batch->length * net->shape.width;

    if (net->shape.dropout <= 0)
        return net->d_stream;
    memcpy(net->branch, net->d_stream, (size_t)count * sizeof(float));
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

static int64_t attention_floats(const ls__gpt_shape *shape)
{
    return ls__attention_scratch(LS__F32, shape->context, shape->width / shape->heads);
}

static ls__scratch attention_room(const gpt *net)
{
    return (ls__scratch){net->scores, attention_floats(&net->shape)};
}

/* ---- one layer, its first half: x += proj(attention(ln_1 x)) ---- */

static void attention_half_forward(gpt *net, int64_t index, const float *parameters,
                                   const ls__batch *batch, bool training)
{
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;

    ls__model_need(&net->model, at->ln_1_gain, at->proj_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_forward(kept->ln_1, kept->mean_1, kept->rstd_1, kept->in,
                           parameters + at->ln_1_gain, parameters + at->ln_1_shift, rows, C);
    ls__profile_mark(LS__PART_QKV);
    ls__linear_forward(kept->qkv, kept->ln_1, parameters + at->attn_weight,
                       parameters + at->attn_bias, rows, C, 3 * C);
    ls__profile_mark(LS__PART_ATTENTION);
    ls__attention_forward(ls__floats(kept->heads), kept->att, ls__floats(kept->qkv), batch->samples,
                          batch->length, net->shape.heads, C / net->shape.heads,
                          attention_dropout(net, index, batch, training), attention_room(net));
    ls__model_need(&net->model, at->proj_weight, at->ln_2_gain);
    ls__profile_mark(LS__PART_PROJECTION);
    ls__linear_forward(net->branch, kept->heads, parameters + at->proj_weight,
                       parameters + at->proj_bias, rows, C, C);
    if (training && net->shape.dropout > 0)
        drop(net, net->branch, site_projection(index), batch);
    ls__add(kept->middle, kept->in, net->branch, rows * C);
}

static void attention_half_backward(gpt *net, int64_t index, const float *parameters,
                                    const ls__batch *batch, ls__gradient_sink sink)
{
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *gradients = net->model.gradients;

    ls__profile_mark(LS__PART_PROJECTION);
    const float *d_branch = branch_gradient(net, site_projection(index), batch);
    ls__linear_backward(net->d_narrow, gradients + at->proj_weight, gradients + at->proj_bias,
                        d_branch, kept->heads, parameters + at->proj_weight, rows, C, C);
    sink.ready(sink.context, at->proj_weight, C * (C + 1), gradients + at->proj_weight);
    ls__profile_mark(LS__PART_ATTENTION);
    ls__attention_backward(ls__floats(net->d_wide), ls__floats(net->d_narrow),
                           ls__floats(kept->qkv), kept->att, batch->samples, batch->length,
                           net->shape.heads, C / net->shape.heads,
                           attention_dropout(net, index, batch, true), attention_room(net));
    ls__profile_mark(LS__PART_QKV);
    ls__linear_backward(net->d_narrow, gradients + at->attn_weight, gradients + at->attn_bias,
                        net->d_wide, kept->ln_1, parameters + at->attn_weight, rows, C, 3 * C);
    sink.ready(sink.context, at->attn_weight, 3 * C * (C + 1), gradients + at->attn_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_backward(net->d_stream, gradients + at->ln_1_gain, gradients + at->ln_1_shift,
                            net->d_narrow, kept->in, parameters + at->ln_1_gain, kept->mean_1,
                            kept->rstd_1, rows, C);
    sink.ready(sink.context, at->ln_1_gain, 2 * C, gradients + at->ln_1_gain);
}

/* ---- its second half: x += proj(gelu(fc(ln_2 x))) ---- */

static void mlp_half_forward(gpt *net, int64_t index, float *out, const float *parameters,
                             const ls__batch *batch, bool training)
{
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;

    ls__model_need(&net->model, at->ln_2_gain, at->out_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_forward(kept->ln_2, kept->mean_2, kept->rstd_2, kept->middle,
                           parameters + at->ln_2_gain, parameters + at->ln_2_shift, rows, C);
    ls__profile_mark(LS__PART_MLP);
    ls__linear_forward(kept->fc, kept->ln_2, parameters + at->fc_weight, parameters + at->fc_bias,
                       rows, C, 4 * C);
    ls__gelu_forward(kept->gelu, kept->fc, rows * 4 * C);
    ls__model_need(&net->model, at->out_weight, at->out_weight + C * (4 * C + 1));
    ls__linear_forward(net->branch, kept->gelu, parameters + at->out_weight,
                       parameters + at->out_bias, rows, 4 * C, C);
    if (training && net->shape.dropout > 0)
        drop(net, net->branch, site_mlp(index), batch);
    ls__add(out, kept->middle, net->branch, rows * C);
}

static void mlp_half_backward(gpt *net, int64_t index, const float *parameters,
                              const ls__batch *batch, ls__gradient_sink sink)
{
    const gpt_offsets *at = &net->layer[index].at;
    const gpt_activations *kept = &net->layer[index].kept;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *gradients = net->model.gradients;

    ls__profile_mark(LS__PART_MLP);
    const float *d_branch = branch_gradient(net, site_mlp(index), batch);
    ls__linear_backward(net->d_wide, gradients + at->out_weight, gradients + at->out_bias, d_branch,
                        kept->gelu, parameters + at->out_weight, rows, 4 * C, C);
    sink.ready(sink.context, at->out_weight, C * (4 * C + 1), gradients + at->out_weight);
    ls__gelu_backward(net->d_wide, net->d_wide, kept->fc, rows * 4 * C);
    ls__linear_backward(net->d_narrow, gradients + at->fc_weight, gradients + at->fc_bias,
                        net->d_wide, kept->ln_2, parameters + at->fc_weight, rows, C, 4 * C);
    sink.ready(sink.context, at->fc_weight, 4 * C * (C + 1), gradients + at->fc_weight);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_backward(net->d_stream, gradients + at->ln_2_gain, gradients + at->ln_2_shift,
                            net->d_narrow, kept->middle, parameters + at->ln_2_gain, kept->mean_2,
                            kept->rstd_2, rows, C);
    sink.ready(sink.context, at->ln_2_gain, 2 * C, gradients + at->ln_2_gain);
}

/* ---- the whole ---- */

/* Where layer `index` puts its output: the next layer's input, or what ln_f reads. */
static float *stream_after(const gpt *net, int64_t index)
{
    return index + 1 < net->shape.layers ? net->layer[index + 1].kept.in : net->last;
}

static void gpt_forward(ls__model *model, const float *parameters, const ls__batch *batch,
                        bool training)
{
    gpt *net = (gpt *)model;
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *stream = net->layer[0].kept.in;

    ls__model_need(model, net->wte, net->layer[0].at.ln_1_gain);
    ls__profile_mark(LS__PART_EMBEDDING);
    ls__embedding_forward(stream, batch->tokens, parameters + net->wte, parameters + net->wpe,
                          batch->samples, batch->length, C);
    if (training && net->shape.dropout > 0)
        drop(net, stream, site_embedding(), batch);
    for (int64_t i = 0; i < net->shape.layers; i++) {
        attention_half_forward(net, i, parameters, batch, training);
        mlp_half_forward(net, i, stream_after(net, i), parameters, batch, training);
    }
    ls__model_need(model, net->ln_f_gain, model->tensors.total);
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_forward(net->ln_f, net->mean_f, net->rstd_f, net->last,
                           parameters + net->ln_f_gain, parameters + net->ln_f_shift, rows, C);
    ls__profile_mark(LS__PART_HEAD);
    ls__linear_forward(model->logits, net->ln_f, parameters + net->wte, NULL, rows, C,
                       model->classes);
}

/* The head and ln_f: leaves the gradient of the residual stream in d_stream. */
static void head_backward(gpt *net, const float *parameters, const ls__batch *batch,
                          ls__gradient_sink sink)
{
    int64_t rows = batch->samples * batch->length;
    int64_t C = net->shape.width;
    float *gradients = net->model.gradients;

    ls__profile_mark(LS__PART_HEAD);
    ls__linear_backward(net->d_narrow, gradients + net->wte, NULL, net->model.logits, net->ln_f,
                        parameters + net->wte, rows, C, net->model.classes);
    sink.ready(sink.context, net->wte, net->model.classes * C, gradients + net->wte);
    memset(net->d_stream, 0, (size_t)(rows * C) * sizeof(float));
    ls__profile_mark(LS__PART_NORM);
    ls__layer_norm_backward(net->d_stream, gradients + net->ln_f_gain, gradients + net->ln_f_shift,
                            net->d_narrow, net->last, parameters + net->ln_f_gain, net->mean_f,
                            net->rstd_f, rows, C);
    sink.ready(sink.context, net->ln_f_gain, 2 * C, gradients + net->ln_f_gain);
}

static void gpt_backward(ls__model *model, const float *parameters, const ls__batch *batch,
                         ls__gradient_sink sink)
{
    gpt *net = (gpt *)model;
    int64_t C = net->shape.width;
    float *gradients = model->gradients;

    head_backward(net, parameters, batch, sink);
    for (int64_t i = net->shape.layers - 1; i >= 0; i--) {
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
    float *base;
    int64_t used; /* floats */
    bool overflow;
} carver;

static void carve(carver *from, float **view, int64_t rows, int64_t columns)
{
    int64_t count = 0;

    from->overflow |=
        __builtin_mul_overflow(rows, columns, &count) || __builtin_add_overflow(count, 15, &count);
    count -= count % 16; /* each view starts on a cache line */
    *view = from->base ? from->base + from->used : NULL;
    from->overflow |= __builtin_add_overflow(from->used, count, &from->used);
}

static void carve_layer(gpt_activations *kept, const ls__gpt_shape *shape, int64_t rows,
                        carver *from)
{
    int64_t C = shape->width;

    carve(from, &kept->in, rows, C);
    carve(from, &kept->ln_1, rows, C);
    carve(from, &kept->mean_1, rows, 1);
    carve(from, &kept->rstd_1, rows, 1);
    carve(from, &kept->qkv, rows, 3 * C);
    carve(from, &kept->att, rows, 2 * shape->heads);
    carve(from, &kept->heads, rows, C);
    carve(from, &kept->middle, rows, C);
    carve(from, &kept->ln_2, rows, C);
    carve(from, &kept->mean_2, rows, 1);
    carve(from, &kept->rstd_2, rows, 1);
    carve(from, &kept->fc, rows, 4 * C);
    carve(from, &kept->gelu, rows, 4 * C);
}

static void carve_all(gpt *net, carver *from)
{
    int64_t rows = net->model.micro_batch * net->shape.context;
    int64_t C = net->shape.width;

    for (int64_t i = 0; i < net->shape.layers; i++)
        carve_layer(&net->layer[i].kept, &net->shape, rows, from);
    carve(from, &net->last, rows, C);
    carve(from, &net->ln_f, rows, C);
    carve(from, &net->mean_f, rows, 1);
    carve(from, &net->rstd_f, rows, 1);
    carve(from, &net->d_stream, rows, C);
    carve(from, &net->d_narrow, rows, C);
    carve(from, &net->d_wide, rows, 4 * C);
    carve(from, &net->branch, rows, C);
    carve(from, &net->scores, ls__threads_count(), attention_floats(&net->shape));
}

static ls_status take_activations(gpt *net, ls__arena *arena)
{
    carver sizes = {0};
    carver views = {0};

    carve_all(net, &sizes);
    LS_FAIL_IF(sizes.overflow, LS_NO_MEMORY,
               "the activations need more bytes than 64 bits count: use a smaller --context, "
               "--width or --micro-batch");
    LS_TRY(ls__arena_take(arena, LS__ACTIVATIONS, sizes.used, sizeof(float), &views.base));
    carve_all(net, &views);
    return ls__arena_take(arena, LS__ACTIVATIONS, net->model.micro_batch, sizeof(uint64_t),
                          &net->keys);
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
    *model = &net->model;
    return LS_OK;
failed:
    ls__model_close(&net->model);
    return status;
}
