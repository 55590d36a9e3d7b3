#include "nn/mlp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "math/ops.h"

typedef struct mlp_layer {
    int64_t in_width;
    int64_t out_width;
    int64_t weight; /* offsets in the flat parameters; the bias follows the weight */
    int64_t bias;
    ls__values sums; /* (micro_batch, out_width) before the activation; logits for the last layer */
    ls__values out;  /* (micro_batch, out_width) after it; at NULL for the last layer */
    ls__values d_out; /* (micro_batch, out_width) gradient; at NULL for the last layer */
} mlp_layer;

typedef struct mlp {
    ls__model model; /* first, so that a pointer to one is a pointer to the other */
    ls__activation activation;
    ls__values images; /* (micro_batch, inputs) the batch's, rounded; at NULL for FP32 */
    int count;
    mlp_layer layer[LS__MLP_HIDDEN_MAX + 1];
} mlp;

static void activate(const mlp *net, const mlp_layer *layer, int64_t samples)
{
    int64_t count = samples * layer->out_width;

    if (net->activation == LS__RELU)
        ls__relu_forward(layer->out, layer->sums, count, net->model.scratch);
    else
        ls__gelu_forward(layer->out, layer->sums, count, net->model.scratch);
}

/* Turns the gradient of what the activation gave into that of what it was given. */
static void activate_backward(const mlp *net, const mlp_layer *layer, int64_t samples)
{
    int64_t count = samples * layer->out_width;

    if (net->activation == LS__RELU)
        ls__relu_backward(layer->d_out, layer->d_out, layer->sums, count, net->model.scratch);
    else
        ls__gelu_backward(layer->d_out, layer->d_out, layer->sums, count, net->model.scratch);
}

/* The batch's images in the model's format. */
static ls__values round_images(const mlp *net, const ls__batch *batch)
{
    if (!net->images.at)
        return ls__floats(batch->images);
    ls__narrow(net->images, batch->images, batch->samples * net->layer[0].in_width);
    return net->images;
}

static void mlp_forward(ls__model *model, const float *parameters, const ls__batch *batch,
                        bool training)
{
    mlp *net = (mlp *)model;
    ls__values in = round_images(net, batch);

    (void)training; /* there is no dropout here */
    for (int i = 0; i < net->count; i++) {
        const mlp_layer *layer = &net->layer[i];
        ls__model_need(model, parameters, layer->weight,
                       layer->weight + layer->out_width * (layer->in_width + 1));
        ls__linear_forward(layer->sums, in, ls__model_weights(model, parameters, layer->weight),
                           parameters + layer->bias, batch->samples, layer->in_width,
                           layer->out_width, model->scratch);
        if (!layer->out.at)
            break;
        activate(net, layer, batch->samples);
        in = layer->out;
    }
}

static void mlp_backward(ls__model *model, const float *parameters, const ls__batch *batch,
                         ls__gradient_sink sink)
{
    mlp *net = (mlp *)model;
    ls__values images = net->images.at ? net->images : ls__floats(batch->images);
    ls__values d_out = model->logits;

    for (int i = net->count - 1; i >= 0; i--) {
        const mlp_layer *layer = &net->layer[i];
        const mlp_layer *below = i > 0 ? &net->layer[i - 1] : NULL;
        float *gradient = model->gradients + layer->weight;
        ls__linear_backward(below ? below->d_out : ls__floats(NULL), gradient,
                            model->gradients + layer->bias, d_out, below ? below->out : images,
                            ls__model_weights(model, parameters, layer->weight), batch->samples,
                            layer->in_width, layer->out_width, model->scratch);
        sink.ready(sink.context, layer->weight, layer->out_width * (layer->in_width + 1), gradient);
        if (!below)
            break;
        activate_backward(net, below, batch->samples);
        d_out = below->d_out;
    }
}

static void mlp_close(ls__model *model)
{
    free((mlp *)model);
}

static ls_status add_tensors(mlp *net)
{
    char name[LS__TENSOR_NAME];

    for (int i = 0; i < net->count; i++) {
        mlp_layer *layer = &net->layer[i];
        LS_TRY(ls__model_check_size("a layer's width", layer->in_width));
        LS_TRY(ls__model_check_size("a layer's width", layer->out_width));
        snprintf(name, sizeof name, "layers.%d.weight", i);
        LS_TRY(ls__tensors_add_matrix(&net->model.tensors, name, layer->out_width, layer->in_width,
                                      sqrt(2.0 / (double)layer->in_width), &layer->weight));
        snprintf(name, sizeof name, "layers.%d.bias", i);
        LS_TRY(
            ls__tensors_add_vector(&net->model.tensors, name, layer->out_width, 0, &layer->bias));
    }
    return LS_OK;
}

static ls_status take_values(mlp *net, ls__arena *arena, int64_t width, ls__values *values)
{
    values->format = net->model.format;
    return ls__arena_take(arena, LS__ACTIVATIONS, net->model.micro_batch,
                          width * ls__value_bytes(values->format), &values->at);
}

static ls_status take_activations(mlp *net, ls__arena *arena)
{
    if (net->model.format != LS__F32)
        LS_TRY(take_values(net, arena, net->layer[0].in_width, &net->images));
    for (int i = 0; i < net->count - 1; i++) {
        mlp_layer *layer = &net->layer[i];
        LS_TRY(take_values(net, arena, layer->out_width, &layer->sums));
        LS_TRY(take_values(net, arena, layer->out_width, &layer->out));
        LS_TRY(take_values(net, arena, layer->out_width, &layer->d_out));
    }
    net->layer[net->count - 1].sums = net->model.logits;
    return LS_OK;
}

static void lay_out(mlp *net, const ls__mlp_shape *shape)
{
    int64_t in_width = shape->inputs;

    net->count = shape->hidden_count + 1;
    for (int i = 0; i < net->count; i++) {
        net->layer[i].in_width = in_width;
        net->layer[i].out_width = i < shape->hidden_count ? shape->hidden[i] : shape->classes;
        in_width = net->layer[i].out_width;
    }
}

ls_status ls__mlp_open(ls__model **model, const ls__mlp_shape *shape, int64_t micro_batch,
                       ls__arena *arena)
{
    static const ls__model_ops ops = {mlp_forward, mlp_backward, mlp_close};
    ls_status status = LS_OK;
    mlp *net = calloc(1, sizeof *net);

    LS_FAIL_IF(!net, LS_NO_MEMORY, "no memory for an MLP");
    net->model = (ls__model){.ops = &ops,
                             .micro_batch = micro_batch,
                             .format = shape->format,
                             .context = 1,
                             .classes = shape->classes};
    net->activation = shape->activation;
    lay_out(net, shape);
    LS_TRY_TO(failed, add_tensors(net));
    LS_TRY_TO(failed, ls__model_take_common(&net->model, arena));
    LS_TRY_TO(failed, take_activations(net, arena));
    LS_TRY_TO(failed, ls__model_take_scratch(&net->model, arena, 1, 0, 0));
    *model = &net->model;
    return LS_OK;
failed:
    ls__model_close(&net->model);
    return status;
}
