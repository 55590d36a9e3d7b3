#include <string.h>

#include "math/gemm.h"
#include "math/lanes.h"
#include "math/ops.h"

void ls__linear_forward(float *out, const float *in, const float *weight, const float *bias,
                        int64_t rows, int64_t in_width, int64_t out_width)
{
    /* The product is added to the bias rather than the bias to it: one pass over `out` less. */
    for (int64_t r = 0; bias && r < rows; r++)
        memcpy(out + r * out_width, bias, (size_t)out_width * sizeof *out);
    ls__gemm(LS__AS_IS, LS__TRANSPOSED, rows, out_width, in_width, 1, in, in_width, weight,
             in_width, bias ? 1 : 0, out, out_width);
}

/* Rows are added four at a time, each four as (0 + 1) + (2 + 3). */
static void column_sums(float *restrict sums, const float *restrict in, int64_t rows, int64_t width)
{
    int64_t r = 0;

    memset(sums, 0, (size_t)width * sizeof *sums);
    for (; r + 4 <= rows; r += 4) {
        const float *row = in + r * width;

        for (int64_t c = 0; c < width; c++)
            sums[c] += (row[c] + row[width + c]) + (row[2 * width + c] + row[3 * width + c]);
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < width; c++)
            sums[c] += in[r * width + c];
}

void ls__linear_backward(float *d_in, float *d_weight, float *d_bias, const float *d_out,
                         const float *in, const float *weight, int64_t rows, int64_t in_width,
                         int64_t out_width)
{
    if (d_in)
        ls__gemm(LS__AS_IS, LS__AS_IS, rows, in_width, out_width, 1, d_out, out_width, weight,
                 in_width, 0, d_in, in_width);
    ls__gemm(LS__TRANSPOSED, LS__AS_IS, out_width, in_width, rows, 1, d_out, out_width, in,
             in_width, 0, d_weight, in_width);
    if (d_bias)
        column_sums(d_bias, d_out, rows, out_width);
}
