#include "support/math_ops.h"

#include <string.h>

#include "base/threads.h"
#include "math/ops.h"
#include "math/ref.h"
#include "support/tensor.h"

/* Keys of the samples' dropout masks. */
static const uint64_t keys[] = {11, 0xfedcba9876543210u, 33, 44, 55, 66, 77, 88};

/* linear: in (rows, width), weight (out_width, width), bias (out_width). */

static void linear_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    sizes->out = s->rows * s->out_width;
    sizes->in[0] = s->rows * s->width;
    sizes->in[1] = s->out_width * s->width;
    sizes->in[2] = s->out_width;
}

static void linear_forward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__ref_linear_forward(op->out, op->in[0], op->in[1], op->in[2], s->rows, s->width,
                           s->out_width);
}

static void linear_backward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__ref_linear_backward(op->d_in[0], op->d_in[1], op->d_in[2], op->d_out, op->in[0], op->in[1],
                            s->rows, s->width, s->out_width);
}

static void linear_forward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__linear_forward(ls__floats(op->out), ls__floats(op->in[0]), ls__floats(op->in[1]), op->in[2],
                       s->rows, s->width, s->out_width, op->room);
}

static void linear_backward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__linear_backward(ls__floats(op->d_in[0]), op->d_in[1], op->d_in[2], ls__floats(op->d_out),
                        ls__floats(op->in[0]), ls__floats(op->in[1]), s->rows, s->width,
                        s->out_width, op->room);
}

/* linear without bias: in (rows, width), weight (out_width, width). */

static void linear_no_bias_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    linear_sizes(sizes, s);
    sizes->in[2] = 0;
}

/* layer_norm: in (rows, width), gain (width), shift (width); saved mean, rstd (rows). */

static void layer_norm_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    sizes->out = s->rows * s->width;
    sizes->in[0] = s->rows * s->width;
    sizes->in[1] = s->width;
    sizes->in[2] = s->width;
    sizes->saved[0] = s->rows;
    sizes->saved[1] = s->rows;
}

static void layer_norm_forward64(ls__op64 *op)
{
    ls__ref_layer_norm_forward(op->out, op->saved[0], op->saved[1], op->in[0], op->in[1], op->in[2],
                               op->shape.rows, op->shape.width);
}

static void layer_norm_backward64(ls__op64 *op)
{
    ls__ref_layer_norm_backward(op->d_in[0], op->d_in[1], op->d_in[2], op->d_out, op->in[0],
                                op->in[1], op->saved[0], op->saved[1], op->shape.rows,
                                op->shape.width);
}

static void layer_norm_forward32(ls__op32 *op)
{
    ls__layer_norm_forward(ls__floats(op->out), op->saved[0], op->saved[1], ls__floats(op->in[0]),
                           op->in[1], op->in[2], op->shape.rows, op->shape.width, op->room);
}

static void layer_norm_backward32(ls__op32 *op)
{
    ls__layer_norm_backward(ls__floats(op->d_in[0]), op->d_in[1], op->d_in[2],
                            ls__floats(op->d_out), ls__floats(op->in[0]), op->in[1], op->saved[0],
                            op->saved[1], op->shape.rows, op->shape.width, op->room);
}

/* gelu, relu, scale, dropout: in (rows, width). */

static void elementwise_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    sizes->out = s->rows * s->width;
    sizes->in[0] = s->rows * s->width;
}

static int64_t elements(const ls__op_shape *s)
{
    return s->rows * s->width;
}

static void gelu_forward64(ls__op64 *op)
{
    ls__ref_gelu_forward(op->out, op->in[0], elements(&op->shape));
}

static void gelu_backward64(ls__op64 *op)
{
    ls__ref_gelu_backward(op->d_in[0], op->d_out, op->in[0], elements(&op->shape));
}

static void gelu_forward32(ls__op32 *op)
{
    ls__gelu_forward(ls__floats(op->out), ls__floats(op->in[0]), elements(&op->shape), op->room);
}

static void gelu_backward32(ls__op32 *op)
{
    ls__gelu_backward(ls__floats(op->d_in[0]), ls__floats(op->d_out), ls__floats(op->in[0]),
                      elements(&op->shape), op->room);
}

static void relu_forward64(ls__op64 *op)
{
    ls__ref_relu_forward(op->out, op->in[0], elements(&op->shape));
}

static void relu_backward64(ls__op64 *op)
{
    ls__ref_relu_backward(op->d_in[0], op->d_out, op->in[0], elements(&op->shape));
}

static void relu_forward32(ls__op32 *op)
{
    ls__relu_forward(ls__floats(op->out), ls__floats(op->in[0]), elements(&op->shape), op->room);
}

static void relu_backward32(ls__op32 *op)
{
    ls__relu_backward(ls__floats(op->d_in[0]), ls__floats(op->d_out), ls__floats(op->in[0]),
                      elements(&op->shape), op->room);
}

static void scale_forward64(ls__op64 *op)
{
    ls__ref_scale(op->out, op->in[0], -0.375, elements(&op->shape));
}

static void scale_backward64(ls__op64 *op)
{
    ls__ref_scale(op->d_in[0], op->d_out, -0.375, elements(&op->shape));
}

static void scale_forward32(ls__op32 *op)
{
    ls__scale(op->out, op->in[0], -0.375f, elements(&op->shape));
}

static void scale_backward32(ls__op32 *op)
{
    ls__scale(op->d_in[0], op->d_out, -0.375f, elements(&op->shape));
}

static void dropout_forward64(ls__op64 *op)
{
    ls__ref_dropout(op->out, op->in[0], op->shape.rate, keys[0], 0, elements(&op->shape));
}

static void dropout_backward64(ls__op64 *op)
{
    ls__ref_dropout(op->d_in[0], op->d_out, op->shape.rate, keys[0], 0, elements(&op->shape));
}

static void dropout_forward32(ls__op32 *op)
{
    ls__dropout(op->out, op->in[0], op->shape.rate, keys[0], 0, elements(&op->shape));
}

static void dropout_backward32(ls__op32 *op)
{
    ls__dropout(op->d_in[0], op->d_out, op->shape.rate, keys[0], 0, elements(&op->shape));
}

/* attention: in = qkv (rows, T, 3 heads width), out (rows, T, heads width); saved att. */

static void attention_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    sizes->out = s->rows * s->T * s->heads * s->width;
    sizes->in[0] = 3 * sizes->out;
    sizes->saved[0] = s->rows * s->heads * s->T * s->T; /* FP32: statistics, which are fewer */
    sizes->saved[0] += 2 * s->rows * s->heads * s->T;
}

static ls__attention_dropout attention_dropout(const ls__op_shape *s)
{
    return (ls__attention_dropout){.rate = s->rate, .key = keys};
}

static void attention_forward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__ref_attention_forward(op->out, op->saved[0], op->in[0], s->rows, s->T, s->heads, s->width,
                              attention_dropout(s));
}

static void attention_backward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__ref_attention_backward(op->d_in[0], op->d_out, op->in[0], op->saved[0], s->rows, s->T,
                               s->heads, s->width, attention_dropout(s));
}

static void attention_forward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__attention_forward(ls__floats(op->out), op->saved[0], ls__floats(op->in[0]), s->rows, s->T,
                          s->heads, s->width, attention_dropout(s), op->room);
}

static void attention_backward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__attention_backward(ls__floats(op->d_in[0]), ls__floats(op->d_out), ls__floats(op->in[0]),
                           op->saved[0], s->rows, s->T, s->heads, s->width, attention_dropout(s),
                           op->room);
}

/* embedding: wte (out_width, width), wpe (T, width); tokens (rows, T). */

static void embedding_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    sizes->out = s->rows * s->T * s->width;
    sizes->in[0] = s->out_width * s->width;
    sizes->in[1] = s->T * s->width;
    sizes->tokens = s->rows * s->T;
    sizes->bound = s->out_width;
}

static void embedding_forward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__ref_embedding_forward(op->out, op->tokens, op->in[0], op->in[1], s->rows, s->T, s->width);
}

static void embedding_backward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__ref_embedding_backward(op->d_in[0], op->d_in[1], op->d_out, op->tokens, s->rows, s->T,
                               s->width, s->out_width);
}

static void embedding_forward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__embedding_forward(ls__floats(op->out), op->tokens, op->in[0], op->in[1], s->rows, s->T,
                          s->width, op->room);
}

static void embedding_backward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    ls__embedding_backward(op->d_in[0], op->d_in[1], ls__floats(op->d_out), op->tokens, s->rows,
                           s->T, s->width, s->out_width);
}

/* cross_entropy: in = logits (rows, width), saved probabilities and losses; out is one number, the
 * sum of the losses, because the backward has one scale for all rows. */

static void cross_entropy_sizes(ls__op_sizes *sizes, const ls__op_shape *s)
{
    sizes->out = 1;
    sizes->in[0] = s->rows * s->width;
    sizes->saved[0] = s->rows * s->width;
    sizes->saved[1] = s->rows;
    sizes->tokens = s->rows;
    sizes->bound = s->width;
}

static void cross_entropy_forward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    memcpy(op->saved[0], op->in[0], (size_t)elements(s) * sizeof *op->in[0]);
    ls__ref_cross_entropy_forward(op->saved[1], op->saved[0], op->tokens, s->rows, s->width);
    op->out[0] = 0;
    for (int64_t r = 0; r < s->rows; r++)
        op->out[0] += op->saved[1][r];
}

static void cross_entropy_backward64(ls__op64 *op)
{
    const ls__op_shape *s = &op->shape;

    memcpy(op->d_in[0], op->saved[0], (size_t)elements(s) * sizeof *op->in[0]);
    ls__ref_cross_entropy_backward(op->d_in[0], op->tokens, op->d_out[0], s->rows, s->width);
}

static void cross_entropy_forward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;
    double sum = 0;

    memcpy(op->saved[0], op->in[0], (size_t)elements(s) * sizeof *op->in[0]);
    ls__cross_entropy_forward(op->saved[1], ls__floats(op->saved[0]), op->tokens, s->rows, s->width,
                              op->room);
    for (int64_t r = 0; r < s->rows; r++)
        sum += (double)op->saved[1][r];
    op->out[0] = (float)sum;
}

static void cross_entropy_backward32(ls__op32 *op)
{
    const ls__op_shape *s = &op->shape;

    memcpy(op->d_in[0], op->saved[0], (size_t)elements(s) * sizeof *op->in[0]);
    ls__cross_entropy_backward(ls__floats(op->d_in[0]), op->tokens, op->d_out[0], s->rows, s->width,
                               op->room);
}

ls__scratch ls__test_scratch(const ls__op_shape *s)
{
    int64_t floats = ls__attention_scratch(LS__F32, s->T, s->width);
    int64_t shared = ls__ops_shared(s->rows, s->width);

    return (ls__scratch){.at = ls__test_floats(floats * ls__threads_count()),
                         .floats = floats,
                         .shared = ls__test_floats(shared)};
}

static const ls__op_shape linear_shapes[] = {
    {.rows = 1, .width = 1, .out_width = 1},   {.rows = 1, .width = 3, .out_width = 5},
    {.rows = 7, .width = 17, .out_width = 3},  {.rows = 5, .width = 1, .out_width = 65},
    {.rows = 64, .width = 32, .out_width = 9}, {0},
};

static const ls__op_shape row_shapes[] = {
    {.rows = 1, .width = 1},  {.rows = 1, .width = 3},   {.rows = 5, .width = 16},
    {.rows = 3, .width = 65}, {.rows = 9, .width = 128}, {0},
};

static const ls__op_shape dropout_shapes[] = {
    {.rows = 1, .width = 1, .rate = 0.25},
    {.rows = 5, .width = 13, .rate = 0.5},
    {.rows = 3, .width = 64, .rate = 0.1},
    {.rows = 2, .width = 9, .rate = 0},
    {0},
};

static const ls__op_shape attention_shapes[] = {
    {.rows = 1, .width = 1, .T = 1, .heads = 1},
    {.rows = 2, .width = 3, .T = 5, .heads = 1},
    {.rows = 1, .width = 8, .T = 17, .heads = 3},
    {.rows = 2, .width = 4, .T = 32, .heads = 2},
    {.rows = 2, .width = 4, .T = 9, .heads = 2, .rate = 0.3},
    {.rows = 3, .width = 5, .T = 16, .heads = 1, .rate = 0.1},
    {0},
};

static const ls__op_shape embedding_shapes[] = {
    {.rows = 1, .width = 1, .out_width = 1, .T = 1},
    {.rows = 2, .width = 3, .out_width = 4, .T = 5},
    {.rows = 3, .width = 17, .out_width = 65, .T = 8},
    {0},
};

const ls__math_op ls__math_ops[] = {
    {
        .name = "linear",
        .sizes = linear_sizes,
        .forward64 = linear_forward64,
        .backward64 = linear_backward64,
        .forward32 = linear_forward32,
        .backward32 = linear_backward32,
        .shapes = linear_shapes,
        .large = {.rows = 256, .width = 128, .out_width = 384},
    },
    {
        .name = "linear, no bias",
        .sizes = linear_no_bias_sizes,
        .forward64 = linear_forward64,
        .backward64 = linear_backward64,
        .forward32 = linear_forward32,
        .backward32 = linear_backward32,
        .shapes = linear_shapes,
        .large = {.rows = 256, .width = 128, .out_width = 65},
    },
    {
        .name = "layer norm",
        .sizes = layer_norm_sizes,
        .forward64 = layer_norm_forward64,
        .backward64 = layer_norm_backward64,
        .forward32 = layer_norm_forward32,
        .backward32 = layer_norm_backward32,
        .shapes = row_shapes,
        .large = {.rows = 256, .width = 384},
        .by_row = true,
    },
    {
        .name = "gelu",
        .sizes = elementwise_sizes,
        .forward64 = gelu_forward64,
        .backward64 = gelu_backward64,
        .forward32 = gelu_forward32,
        .backward32 = gelu_backward32,
        .shapes = row_shapes,
        .large = {.rows = 256, .width = 384},
        .by_row = true,
    },
    {
        .name = "relu",
        .sizes = elementwise_sizes,
        .forward64 = relu_forward64,
        .backward64 = relu_backward64,
        .forward32 = relu_forward32,
        .backward32 = relu_backward32,
        .shapes = row_shapes,
        .large = {.rows = 256, .width = 384},
        .by_row = true,
    },
    {
        .name = "scale",
        .sizes = elementwise_sizes,
        .forward64 = scale_forward64,
        .backward64 = scale_backward64,
        .forward32 = scale_forward32,
        .backward32 = scale_backward32,
        .shapes = row_shapes,
        .large = {.rows = 256, .width = 384},
        .by_row = true,
    },
    {
        .name = "dropout",
        .sizes = elementwise_sizes,
        .forward64 = dropout_forward64,
        .backward64 = dropout_backward64,
        .forward32 = dropout_forward32,
        .backward32 = dropout_backward32,
        .shapes = dropout_shapes,
        .large = {.rows = 256, .width = 384, .rate = 0.2},
    },
    {
        .name = "attention",
        .sizes = attention_sizes,
        .forward64 = attention_forward64,
        .backward64 = attention_backward64,
        .forward32 = attention_forward32,
        .backward32 = attention_backward32,
        .shapes = attention_shapes,
        .large = {.rows = 2, .width = 32, .T = 64, .heads = 4},
        .by_row = true,
    },
    {
        .name = "embedding",
        .sizes = embedding_sizes,
        .forward64 = embedding_forward64,
        .backward64 = embedding_backward64,
        .forward32 = embedding_forward32,
        .backward32 = embedding_backward32,
        .shapes = embedding_shapes,
        .large = {.rows = 4, .width = 128, .out_width = 65, .T = 64},
    },
    {
        .name = "cross-entropy",
        .sizes = cross_entropy_sizes,
        .forward64 = cross_entropy_forward64,
        .backward64 = cross_entropy_backward64,
        .forward32 = cross_entropy_forward32,
        .backward32 = cross_entropy_backward32,
        .shapes = row_shapes,
        .large = {.rows = 256, .width = 256},
    },
};

const int ls__math_op_count = sizeof ls__math_ops / sizeof ls__math_ops[0];

ls__op_sizes ls__op_sizes_of(const ls__math_op *op, const ls__op_shape *shape)
{
    ls__op_sizes sizes = {0};

    op->sizes(&sizes, shape);
    return sizes;
}

ls__op64 ls__op_random(const ls__math_op *op, const ls__op_shape *shape)
{
    ls__op_sizes sizes = ls__op_sizes_of(op, shape);
    ls__op64 tensors = {.shape = *shape};

    tensors.out = ls__doubles(sizes.out);
    tensors.d_out = ls__random_doubles(sizes.out, 1);
    for (int i = 0; i < LS__OP_INPUTS; i++)
        if (sizes.in[i] > 0) {
            tensors.in[i] = ls__random_doubles(sizes.in[i], 1);
            tensors.d_in[i] = ls__doubles(sizes.in[i]);
        }
    for (int i = 0; i < LS__OP_SAVED; i++)
        tensors.saved[i] = ls__doubles(sizes.saved[i]);
    tensors.tokens = sizes.tokens > 0 ? ls__random_ints(sizes.tokens, sizes.bound) : NULL;
    return tensors;
}

static float *moved(const double *x, int64_t count, int64_t offset)
{
    float *copy = ls__test_floats(count + offset) + offset;

    for (int64_t i = 0; i < count; i++)
        copy[i] = (float)x[i];
    return copy;
}

ls__op32 ls__op_in_fp32(const ls__math_op *op, const ls__op64 *reference, int64_t offset)
{
    ls__op_sizes sizes = ls__op_sizes_of(op, &reference->shape);
    ls__op32 tensors = {.shape = reference->shape, .tokens = reference->tokens};

    tensors.out = ls__test_floats(sizes.out + offset) + offset;
    tensors.d_out = moved(reference->d_out, sizes.out, offset);
    for (int i = 0; i < LS__OP_INPUTS; i++)
        if (sizes.in[i] > 0) {
            tensors.in[i] = moved(reference->in[i], sizes.in[i], offset);
            tensors.d_in[i] = ls__test_floats(sizes.in[i] + offset) + offset;
        }
    for (int i = 0; i < LS__OP_SAVED; i++)
        tensors.saved[i] = ls__test_floats(sizes.saved[i] + offset) + offset;
    tensors.room = ls__test_scratch(&reference->shape);
    return tensors;
}
