#include <string.h>

#include "math/ops.h"

static void add_rows(float *restrict out, const float *restrict a, const float *restrict b,
                     int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        out[c] = a[c] + b[c];
}

void ls__embedding_forward(float *out, const int32_t *tokens, const float *wte, const float *wpe,
                           int64_t batch, int64_t T, int64_t width)
{
    for (int64_t r = 0; r < batch * T; r++)
        add_rows(out + r * width, wte + tokens[r] * width, wpe + r % T * width, width);
}

static void accumulate(float *restrict sum, const float *restrict in, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        sum[c] += in[c];
}

void ls__embedding_backward(float *d_wte, float *d_wpe, const float *d_out, const int32_t *tokens,
                            int64_t batch, int64_t T, int64_t width, int64_t vocabulary)
{
    memset(d_wte, 0, (size_t)(vocabulary * width) * sizeof *d_wte);
    memset(d_wpe, 0, (size_t)(T * width) * sizeof *d_wpe);
    for (int64_t r = 0; r < batch * T; r++) {
        accumulate(d_wte + tokens[r] * width, d_out + r * width, width);
        accumulate(d_wpe + r % T * width, d_out + r * width, width);
    }
}
