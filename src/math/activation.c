#include "math/elementary.h"
#include "math/lanes.h"
#include "math/ops.h"
#include "math/panels.h"

/* GELU is x/2 (1 + tanh(u)), u = linear x (1 + cubic x^2). */
static const float linear = 0.7978845608028654f; /* sqrt(2/pi) */
static const float cubic = 0.044715f;

static void gelu(float *out, const float *in, const float *none, int64_t count)
{
    (void)none;
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++) {
        float x = in[i];

        out[i] = 0.5f * x * (1 + ls__tanh(linear * x * (1 + cubic * x * x)));
    }
}

/* The derivative is (1 + t)/2 + x/2 (1 - t^2) u', with t = tanh(u) and u' = linear (1 + 3 cubic
 * x^2). */
static void gelu_backward(float *d_in, const float *d_out, const float *in, int64_t count)
{
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++) {
        float x = ls__clamp(in[i], ls__tanh_bounds); /* beyond, t is 1, and u' would overflow */
        float square = cubic * x * x;
        float t = ls__tanh(linear * x * (1 + square));
        float slope = linear * (1 + 3 * square);

        d_in[i] = d_out[i] * 0.5f * (1 + t) * (1 + x * (1 - t) * slope);
    }
}

/* Written so that a NaN is not taken for a negative number. */
static void relu(float *out, const float *in, const float *none, int64_t count)
{
    (void)none;
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++)
        out[i] = in[i] < 0 ? 0 : in[i];
}

static void relu_backward(float *d_in, const float *d_out, const float *in, int64_t count)
{
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++)
        d_in[i] = in[i] <= 0 ? 0 : d_out[i];
}

void ls__gelu_forward(ls__values out, ls__values in, int64_t count, ls__scratch scratch)
{
    ls__elementwise(gelu, out, in, ls__floats(NULL), count, scratch);
}

void ls__gelu_backward(ls__values d_in, ls__values d_out, ls__values in, int64_t count,
                       ls__scratch scratch)
{
    ls__elementwise(gelu_backward, d_in, d_out, in, count, scratch);
}

void ls__relu_forward(ls__values out, ls__values in, int64_t count, ls__scratch scratch)
{
    ls__elementwise(relu, out, in, ls__floats(NULL), count, scratch);
}

void ls__relu_backward(ls__values d_in, ls__values d_out, ls__values in, int64_t count,
                       ls__scratch scratch)
{
    ls__elementwise(relu_backward, d_in, d_out, in, count, scratch);
}
