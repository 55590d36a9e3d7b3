#include <string.h>

#include "base/threads.h"
#include "math/gemm.h"
#include "math/ops.h"
#include "math/panels.h"

/* A product, cut into tiles of C that are a task each. */
typedef struct product {
    ls__matrix c, a, b;
    int64_t m, n, k;
    const float *bias;
    int64_t rows, columns; /* of a tile */
} product;

/* The most rows and columns of a tile. OpenBLAS orders both operands anew in each call, which large
 * tiles make up for; oneDNN does best while a tile's rows stay in a near cache. */
typedef struct tile_size {
    int64_t rows, columns;
} tile_size;

static const tile_size float_tile = {1024, 768};
static const tile_size reduced_tile = {256, INT32_MAX};

/* As even as whole vectors allow: not 256, 256, 16. */
static int64_t even_size(int64_t count, int64_t most)
{
    int64_t size = ls__panels(count, ls__panels(count, most));

    return ls__panels(size, 16) * 16;
}

static ls__matrix matrix(ls__values values, int64_t stride, ls__op op)
{
    return (ls__matrix){values, stride, op};
}

static product cut(ls__matrix c, ls__matrix a, ls__matrix b, int64_t m, int64_t n, int64_t k,
                   const float *bias)
{
    tile_size most = a.values.format == LS__F32 ? float_tile : reduced_tile;

    return (product){.c = c,
                     .a = a,
                     .b = b,
                     .m = m,
                     .n = n,
                     .k = k,
                     .bias = bias,
                     .rows = even_size(m, most.rows),
                     .columns = even_size(n, most.columns)};
}

static int64_t tiles(const product *p)
{
    return ls__panels(p->m, p->rows) * ls__panels(p->n, p->columns);
}

static void do_tile(const product *p, int64_t index, float *room)
{
    int64_t across = ls__panels(p->n, p->columns);
    int64_t row = index / across * p->rows;
    int64_t column = index % across * p->columns;

    ls__product(ls__matrix_from(p->c, row, column), ls__matrix_from(p->a, row, 0),
                ls__matrix_from(p->b, 0, column), ls__panel_size(index / across, p->m, p->rows),
                ls__panel_size(index % across, p->n, p->columns), p->k,
                p->bias ? p->bias + column : NULL, false, room);
}

/* ---- forward ---- */

typedef struct forward {
    product out;
    ls__scratch scratch;
} forward;

static void forward_task(void *context, int64_t task, int thread)
{
    const forward *f = context;

    do_tile(&f->out, task, ls__scratch_of(f->scratch, thread));
}

void ls__linear_forward(ls__values out, ls__values in, ls__values weight, const float *bias,
                        int64_t rows, int64_t in_width, int64_t out_width, ls__scratch scratch)
{
    forward f = {.out =
                     cut(matrix(out, out_width, LS__AS_IS), matrix(in, in_width, LS__AS_IS),
                         matrix(weight, in_width, LS__TRANSPOSED), rows, out_width, in_width, bias),
                 .scratch = scratch};

    ls__threads_run(tiles(&f.out), forward_task, &f);
}

/* ---- backward ---- */

/* Columns of d_bias that are one task. */
enum { SUMMED = 256 };

typedef struct backward {
    product d_in, d_weight;
    int64_t d_in_tasks, d_weight_tasks; /* those of d_bias come after these */
    float *d_bias;
    ls__values d_out;
    int64_t rows, out_width;
    ls__scratch scratch;
} backward;

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
        do_tile(&b->d_in, task, room);
    else if (task - b->d_in_tasks < b->d_weight_tasks)
        do_tile(&b->d_weight, task - b->d_in_tasks, room);
    else
        sum_columns(b, task - b->d_in_tasks - b->d_weight_tasks);
}

void ls__linear_backward(ls__values d_in, float *d_weight, float *d_bias, ls__values d_out,
                         ls__values in, ls__values weight, int64_t rows, int64_t in_width,
                         int64_t out_width, ls__scratch scratch)
{
    backward b = {.d_in =
                      cut(matrix(d_in, in_width, LS__AS_IS), matrix(d_out, out_width, LS__AS_IS),
                          matrix(weight, in_width, LS__AS_IS), rows, in_width, out_width, NULL),
                  .d_weight = cut(matrix(ls__floats(d_weight), in_width, LS__AS_IS),
                                  matrix(d_out, out_width, LS__TRANSPOSED),
                                  matrix(in, in_width, LS__AS_IS), out_width, in_width, rows, NULL),
                  .d_bias = d_bias,
                  .d_out = d_out,
                  .rows = rows,
                  .out_width = out_width,
                  .scratch = scratch};

    b.d_in_tasks = d_in.at ? tiles(&b.d_in) : 0;
    b.d_weight_tasks = tiles(&b.d_weight);
    ls__threads_run(b.d_in_tasks + b.d_weight_tasks + (d_bias ? ls__panels(out_width, SUMMED) : 0),
                    backward_task, &b);
}
