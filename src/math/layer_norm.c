#include <math.h>
#include <string.h>

#include "math/lanes.h"
#include "math/ops.h"

static const float epsilon = 1e-5f;

static void normalise(float *restrict out, const float *restrict in, const float *restrict gain,
                      const float *restrict shift, float mean, float rstd, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        out[c] = (in[c] - mean) * rstd * gain[c] + shift[c];
}

void ls__layer_norm_forward(float *out, float *mean, float *rstd, const float *in,
                            const float *gain, const float *shift, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = in + r * width;

        mean[r] = ls__sum(row, width) / (float)width;
        rstd[r] = 1 / sqrtf(ls__sum_squares(row, mean[r], width) / (float)width + epsilon);
        normalise(out + r * width, row, gain, shift, mean[r], rstd[r], width);
    }
}

/* With g = d_out gain, the gradient of the normalised row, and x the normalised row:
 *     d_in = rstd (g - mean(g) - x mean(g x)). */
typedef struct row_sums {
    ls__lanes g;
    ls__lanes gx; /* still without the factor rstd of x */
} row_sums;

static inline void add_block(row_sums *sums, const float *d_out, const float *in, const float *gain,
                             float mean)
{
    ls__eight low = *ls__eight_at(d_out) * *ls__eight_at(gain);
    ls__eight high = *ls__eight_at(d_out + 8) * *ls__eight_at(gain + 8);

    sums->g.low += low;
    sums->g.high += high;
    sums->gx.low += low * (*ls__eight_at(in) - mean);
    sums->gx.high += high * (*ls__eight_at(in + 8) - mean);
}

static void sum_row(float *sum_g, float *sum_gx, const float *d_out, const float *in,
                    const float *gain, float mean, int64_t width)
{
    row_sums sums = {{{0}, {0}}, {{0}, {0}}};
    int64_t whole = ls__whole_lanes(width);

    for (int64_t i = 0; i < whole; i += LS__LANES)
        add_block(&sums, d_out + i, in + i, gain + i, mean);
    if (whole < width) {
        float last_d_out[LS__LANES];
        float last_in[LS__LANES];
        float last_gain[LS__LANES];

        ls__last_block(last_d_out, d_out, width, 0);
        ls__last_block(last_in, in, width, mean);
        ls__last_block(last_gain, gain, width, 0);
        add_block(&sums, last_d_out, last_in, last_gain, mean);
    }
    *sum_g = ls__fold(&sums.g);
    *sum_gx = ls__fold(&sums.gx);
}

static void backward_row(float *restrict d_in, float *restrict d_gain, float *restrict d_shift,
                         const float *restrict d_out, const float *restrict in,
                         const float *restrict gain, float mean, float rstd, int64_t width)
{
    float mean_g;
    float mean_gx;

    sum_row(&mean_g, &mean_gx, d_out, in, gain, mean, width);
    mean_g /= (float)width;
    mean_gx = mean_gx * rstd / (float)width;
    for (int64_t c = 0; c < width; c++) {
        float x = (in[c] - mean) * rstd;

        d_in[c] += rstd * (d_out[c] * gain[c] - mean_g - x * mean_gx);
        d_gain[c] += d_out[c] * x;
        d_shift[c] += d_out[c];
    }
}

void ls__layer_norm_backward(float *d_in, float *d_gain, float *d_shift, const float *d_out,
                             const float *in, const float *gain, const float *mean,
                             const float *rstd, int64_t rows, int64_t width)
{
    memset(d_gain, 0, (size_t)width * sizeof *d_gain);
    memset(d_shift, 0, (size_t)width * sizeof *d_shift);
    for (int64_t r = 0; r < rows; r++)
        backward_row(d_in + r * width, d_gain, d_shift, d_out + r * width, in + r * width, gain,
                     mean[r], rstd[r], width);
}
