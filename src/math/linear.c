#include <string.h>

#include "base/threads.h"
#include "math/gemm.h"
#include "math/ops.h"
#include "math/panels.h"

/* A panel of a product's rows, as even as whole vectors allow: not 256, 256, 16. */
static int64_t product_panel(int64_t rows)
{
    int64_t panels = ls__panels(rows, LS__PRODUCT_PANEL);
    int64_t size = ls__panels(rows, panels);

    return ls__panels(size, 16) * 16;
}

static ls__matrix matrix(ls__values values, int64_t stride, ls__op op)
{
    return (ls__matrix){values, stride, op};
}

/* ---- forward ---- */

typedef struct forward {
    ls__values out, in, weight;
    const float *bias;
    int64_t rows, in_width, out_width;
    int64_t panel;
    ls__scratch scratch;
} forward;

static void forward_panel(void *context, int64_t task, int thread)
{
    const forward *f = context;
    int64_t first = task * f->panel;

    ls__product(matrix(ls__from(f->out, first * f->out_width), f->out_width, LS__AS_IS),
                matrix(ls__from(f->in, first * f->in_width), f->in_width, LS__AS_IS),
                matrix(f->weight, f->in_width, LS__TRANSPOSED),
                ls__panel_size(task, f->rows, f->panel), f->out_width, f->in_width, f->bias, false,
                ls__scratch_of(f->scratch, thread));
}

void ls__linear_forward(ls__values out, ls__values in, ls__values weight, const float *bias,
                        int64_t rows, int64_t in_width, int64_t out_width, ls__scratch scratch)
{
    forward f = {.out = out,
                 .in = in,
                 .weight = weight,
                 .bias = bias,
                 .rows = rows,
                 .in_width = in_width,
                 .out_width = out_width,
                 .panel = product_panel(rows),
                 .scratch = scratch};

    ls__threads_run(ls__panels(rows, f.panel), forward_panel, &f);
}

/* ---- backward ---- */

/* Columns of d_bias that are one task. */
enum { SUMMED = 256 };

typedef struct backward {
    ls__values d_in;
    float *d_weight, *d_bias;
    ls__values d_out, in, weight;
    int64_t rows, in_width, out_width;
    int64_t panel, weight_panel;      /* rows of d_in, and of d_weight */
    int64_t d_in_tasks, weight_tasks; /* the tasks of d_bias come after these */
    ls__scratch scratch;
} backward;

static void d_in_panel(const backward *b, int64_t index, float *room)
{
    int64_t first = index * b->panel;

    ls__product(matrix(ls__from(b->d_in, first * b->in_width), b->in_width, LS__AS_IS),
                matrix(ls__from(b->d_out, first * b->out_width), b->out_width, LS__AS_IS),
                matrix(b->weight, b->in_width, LS__AS_IS), ls__panel_size(index, b->rows, b->panel),
                b->in_width, b->out_width, NULL, false, room);
}

static void d_weight_panel(const backward *b, int64_t index, float *room)
{
    int64_t first = index * b->weight_panel;

    ls__product(matrix(ls__floats(b->d_weight + first * b->in_width), b->in_width, LS__AS_IS),
                matrix(ls__from(b->d_out, first), b->out_width, LS__TRANSPOSED),
                matrix(b->in, b->in_width, LS__AS_IS),
                ls__panel_size(index, b->out_width, b->weight_panel), b->in_width, b->rows, NULL,
                false, room);
}

static void add_four(float *restrict sums, const float *restrict a, const float *restrict b,
                     const float *restrict c, const float *restrict d, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sums[i] += (a[i] + b[i]) + (c[i] + d[i]);
}

static void add_one(float *restrict sums, const float *restrict a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sums[i] += a[i];
}

/* Rows are added four at a time, each four as (0 + 1) + (2 + 3). */
static void sum_columns(const backward *b, int64_t index)
{
    float room[4][SUMMED];
    int64_t first = index * SUMMED;
    int64_t count = ls__panel_size(index, b->out_width, SUMMED);
    float *sums = b->d_bias + first;
    int64_t r = 0;

    memset(sums, 0, (size_t)count * sizeof *sums);
    for (; r + 4 <= b->rows; r += 4) {
        const float *row[4];

        for (int64_t i = 0; i < 4; i++)
            row[i] =
                ls__widened(ls__from(b->d_out, (r + i) * b->out_width + first), room[i], count);
        add_four(sums, row[0], row[1], row[2], row[3], count);
    }
    for (; r < b->rows; r++)
        add_one(sums, ls__widened(ls__from(b->d_out, r * b->out_width + first), room[0], count),
                count);
}

static void backward_task(void *context, int64_t task, int thread)
{
    const backward *b = context;
    float *room = ls__scratch_of(b->scratch, thread);

    if (task < b->d_in_tasks)
        d_in_panel(b, task, room);
    else if (task - b->d_in_tasks < b->weight_tasks)
        d_weight_panel(b, task - b->d_in_tasks, room);
    else
        sum_columns(b, task - b->d_in_tasks - b->weight_tasks);
}

void ls__linear_backward(ls__values d_in, float *d_weight, float *d_bias, ls__values d_out,
                         ls__values in, ls__values weight, int64_t rows, int64_t in_width,
                         int64_t out_width, ls__scratch scratch)
{
    backward b = {.d_in = d_in,
                  .d_weight = d_weight,
                  .d_bias = d_bias,
                  .d_out = d_out,
                  .in = in,
                  .weight = weight,
                  .rows = rows,
                  .in_width = in_width,
                  .out_width = out_width,
                  .panel = product_panel(rows),
                  .weight_panel = product_panel(out_width),
                  .scratch = scratch};

    b.d_in_tasks = d_in.at ? ls__panels(rows, b.panel) : 0;
    b.weight_tasks = ls__panels(out_width, b.weight_panel);
    ls__threads_run(b.d_in_tasks + b.weight_tasks + (d_bias ? ls__panels(out_width, SUMMED) : 0),
                    backward_task, &b);
}
