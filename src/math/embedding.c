#include <string.h>

#include "base/threads.h"
#include "math/ops.h"
#include "math/panels.h"

static void add_rows(float *restrict out, const float *restrict a, const float *restrict b,
                     int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        out[c] = a[c] + b[c];
}

typedef struct forward {
    ls__values out;
    const int32_t *tokens;
    const float *wte, *wpe;
    int64_t rows, T, width;
    ls__scratch scratch;
} forward;

static void forward_panel(void *context, int64_t task, int thread)
{
    const forward *f = context;
    int64_t panel = ls__panel_rows(f->width);
    int64_t first = task * panel;
    float *room = ls__scratch_of(f->scratch, thread);

    for (int64_t r = first; r < first + ls__panel_size(task, f->rows, panel); r++) {
        ls__values out = ls__from(f->out, r * f->width);
        float *place = ls__place(out, room);

        add_rows(place, f->wte + f->tokens[r] * f->width, f->wpe + r % f->T * f->width, f->width);
        ls__store(out, place, f->width);
    }
}

void ls__embedding_forward(ls__values out, const int32_t *tokens, const float *wte,
                           const float *wpe, int64_t batch, int64_t T, int64_t width,
                           ls__scratch scratch)
{
    forward f = {.out = out,
                 .tokens = tokens,
                 .wte = wte,
                 .wpe = wpe,
                 .rows = batch * T,
                 .T = T,
                 .width = width,
                 .scratch = scratch};

    ls__threads_run(ls__panels(f.rows, ls__panel_rows(width)), forward_panel, &f);
}

/* Columns that are one task: rows of the same token must be added in order. */
enum { COLUMNS = 128 };

typedef struct backward {
    float *d_wte, *d_wpe;
    ls__values d_out;
    const int32_t *tokens;
    int64_t rows, T, width, vocabulary;
} backward;

static void accumulate(float *restrict sum, const float *restrict in, int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        sum[c] += in[c];
}

static void clear_columns(float *matrix, int64_t rows, int64_t first, int64_t count, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        memset(matrix + r * width + first, 0, (size_t)count * sizeof *matrix);
}

static void backward_columns(void *context, int64_t task, int thread)
{
    const backward *b = context;
    int64_t first = task * COLUMNS;
    int64_t count = ls__panel_size(task, b->width, COLUMNS);
    float room[COLUMNS];

    (void)thread;
    clear_columns(b->d_wte, b->vocabulary, first, count, b->width);
    clear_columns(b->d_wpe, b->T, first, count, b->width);
    for (int64_t r = 0; r < b->rows; r++) {
        const float *d_out = ls__widened(ls__from(b->d_out, r * b->width + first), room, count);

        accumulate(b->d_wte + b->tokens[r] * b->width + first, d_out, count);
        accumulate(b->d_wpe + r % b->T * b->width + first, d_out, count);
    }
}

void ls__embedding_backward(float *d_wte, float *d_wpe, ls__values d_out, const int32_t *tokens,
                            int64_t batch, int64_t T, int64_t width, int64_t vocabulary)
{
    backward b = {.d_wte = d_wte,
                  .d_wpe = d_wpe,
                  .d_out = d_out,
                  .tokens = tokens,
                  .rows = batch * T,
                  .T = T,
                  .width = width,
                  .vocabulary = vocabulary};

    ls__threads_run(ls__panels(width, COLUMNS), backward_columns, &b);
}
