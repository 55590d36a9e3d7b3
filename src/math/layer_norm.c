#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "math/lanes.h"
#include "math/ops.h"
#include "math/panels.h"

static const float epsilon = 1e-5f;

static void normalise(float *restrict out, const float *restrict in, const float *restrict gain,
                      const float *restrict shift, float mean, float rstd, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        out[c] = (in[c] - mean) * rstd * gain[c] + shift[c];
}

typedef struct forward {
    ls__values sum, out;
    float *mean, *rstd;
    ls__values in, branch; /* branch.at is NULL where nothing is added */
    const float *gain, *shift;
    int64_t rows, width;
    ls__scratch scratch;
} forward;

static void add_rows(float *out, const float *a, const float *b, int64_t width)
{
    LS__ELEMENTWISE
    for (int64_t c = 0; c < width; c++)
        out[c] = a[c] + b[c];
}

/* The row that is normalised. A sum is taken as it was stored, since backward finds it so. */
static const float *forward_input(const forward *f, int64_t at, float *room)
{
    const float *in = ls__widened(ls__from(f->in, at), room, f->width);

    if (!f->branch.at)
        return in;
    const float *branch = ls__widened(ls__from(f->branch, at), room + f->width, f->width);
    float *sum = ls__place(ls__from(f->sum, at), room);
    add_rows(sum, in, branch, f->width);
    ls__store(ls__from(f->sum, at), sum, f->width);
    return ls__widened(ls__from(f->sum, at), room, f->width);
}

static void forward_row(const forward *f, int64_t r, float *room)
{
    int64_t at = r * f->width;
    const float *row = forward_input(f, at, room);
    float *place = ls__place(ls__from(f->out, at), room + 2 * f->width);

    f->mean[r] = ls__sum(row, f->width) / (float)f->width;
    f->rstd[r] = 1 / sqrtf(ls__sum_squares(row, f->mean[r], f->width) / (float)f->width + epsilon);
    normalise(place, row, f->gain, f->shift, f->mean[r], f->rstd[r], f->width);
    ls__store(ls__from(f->out, at), place, f->width);
}

static void forward_panel(void *context, int64_t task, int thread)
{
    const forward *f = context;
    int64_t panel = ls__panel_rows(f->width);
    int64_t first = task * panel;

    for (int64_t r = first; r < first + ls__panel_size(task, f->rows, panel); r++)
        forward_row(f, r, ls__scratch_of(f->scratch, thread));
}

void ls__add_norm_forward(ls__values sum, ls__values out, float *mean, float *rstd, ls__values in,
                          ls__values branch, const float *gain, const float *shift, int64_t rows,
                          int64_t width, ls__scratch scratch)
{
    forward f = {.sum = sum,
                 .out = out,
                 .mean = mean,
                 .rstd = rstd,
                 .in = in,
                 .branch = branch,
                 .gain = gain,
                 .shift = shift,
                 .rows = rows,
                 .width = width,
                 .scratch = scratch};

    ls__threads_run(ls__panels(rows, ls__panel_rows(width)), forward_panel, &f);
}

void ls__layer_norm_forward(ls__values out, float *mean, float *rstd, ls__values in,
                            const float *gain, const float *shift, int64_t rows, int64_t width,
                            ls__scratch scratch)
{
    ls__add_norm_forward(in, out, mean, rstd, in, ls__floats(NULL), gain, shift, rows, width,
                         scratch);
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

/* Rows whose gradients of gain and shift are summed before those of other rows come to them. */
enum { GROUP = 128 };

typedef struct backward {
    ls__values d_in;
    float *d_gain, *d_shift;
    ls__values d_out, in;
    const float *gain, *mean, *rstd;
    int64_t rows, width;
    ls__scratch scratch;
} backward;

int64_t ls__ops_shared(int64_t rows, int64_t width)
{
    return ls__panels(rows, GROUP) * 2 * width;
}

static void backward_group(void *context, int64_t task, int thread)
{
    const backward *b = context;
    int64_t width = b->width;
    int64_t first = task * GROUP;
    float *d_gain = b->scratch.shared + task * 2 * width;
    float *room = ls__scratch_of(b->scratch, thread);

    memset(d_gain, 0, (size_t)(2 * width) * sizeof *d_gain);
    for (int64_t r = first; r < first + ls__panel_size(task, b->rows, GROUP); r++) {
        ls__values d_in = ls__from(b->d_in, r * width);
        const float *d_out = ls__widened(ls__from(b->d_out, r * width), room, width);
        const float *in = ls__widened(ls__from(b->in, r * width), room + width, width);
        float *sum = ls__place(d_in, room + 2 * width);

        if (sum != d_in.at)
            ls__widen(sum, d_in, width);
        backward_row(sum, d_gain, d_gain + width, d_out, in, b->gain, b->mean[r], b->rstd[r],
                     width);
        ls__store(d_in, sum, width);
    }
}

static void add_groups(const backward *b)
{
    int64_t width = b->width;

    memset(b->d_gain, 0, (size_t)width * sizeof *b->d_gain);
    memset(b->d_shift, 0, (size_t)width * sizeof *b->d_shift);
    for (int64_t group = 0; group < ls__panels(b->rows, GROUP); group++) {
        const float *d_gain = b->scratch.shared + group * 2 * width;

        add_rows(b->d_gain, b->d_gain, d_gain, width);
        add_rows(b->d_shift, b->d_shift, d_gain + width, width);
    }
}

void ls__layer_norm_backward(ls__values d_in, float *d_gain, float *d_shift, ls__values d_out,
                             ls__values in, const float *gain, const float *mean, const float *rstd,
                             int64_t rows, int64_t width, ls__scratch scratch)
{
    backward b = {.d_in = d_in,
                  .d_gain = d_gain,
                  .d_shift = d_shift,
                  .d_out = d_out,
                  .in = in,
                  .gain = gain,
                  .mean = mean,
                  .rstd = rstd,
                  .rows = rows,
                  .width = width,
                  .scratch = scratch};

    ls__threads_run(ls__panels(rows, GROUP), backward_group, &b);
    add_groups(&b);
}
