#include <math.h>

#include "base/threads.h"
#include "math/ops.h"
#include "math/panels.h"
#include "math/softmax.h"

typedef struct rows_of_logits rows_of_logits;

/* Row r from `in` to `out`, which may be the same. */
typedef void row_task(const rows_of_logits *work, float *out, const float *in, int64_t r);

struct rows_of_logits {
    row_task *task;
    float *loss;
    ls__values logits; /* or probabilities */
    const int32_t *targets;
    float scale;
    int64_t rows, classes;
    ls__scratch scratch;
};

static void do_panel(void *context, int64_t index, int thread)
{
    const rows_of_logits *work = context;
    int64_t panel = ls__panel_rows(work->classes);
    int64_t first = index * panel;
    float *room = ls__scratch_of(work->scratch, thread);

    for (int64_t r = first; r < first + ls__panel_size(index, work->rows, panel); r++) {
        ls__values row = ls__from(work->logits, r * work->classes);
        float *place = ls__place(row, room);

        work->task(work, place, ls__widened(row, room, work->classes), r);
        ls__store(row, place, work->classes);
    }
}

static void do_rows(rows_of_logits *work)
{
    ls__threads_run(ls__panels(work->rows, ls__panel_rows(work->classes)), do_panel, work);
}

/* -log(p) = log(sum of exponentials) - (logit - largest), which is finite where p is not. */
static void forward_row(const rows_of_logits *work, float *out, const float *row, int64_t r)
{
    float largest = ls__max(row, work->classes);
    float below = row[work->targets[r]] - largest;
    float sum = ls__softmax_exponentials(out, row, largest, work->classes);

    ls__scale(out, out, 1 / sum, work->classes);
    work->loss[r] = (float)(log((double)sum) - (double)below);
}

void ls__cross_entropy_forward(float *loss, ls__values logits, const int32_t *targets, int64_t rows,
                               int64_t classes, ls__scratch scratch)
{
    do_rows(&(rows_of_logits){.task = forward_row,
                              .loss = loss,
                              .logits = logits,
                              .targets = targets,
                              .rows = rows,
                              .classes = classes,
                              .scratch = scratch});
}

/* scale p, and scale (p - 1) for the target. */
static void backward_row(const rows_of_logits *work, float *out, const float *p, int64_t r)
{
    int32_t target = work->targets[r];
    float of_target = (p[target] - 1) * work->scale;

    ls__scale(out, p, work->scale, work->classes);
    out[target] = of_target;
}

void ls__cross_entropy_backward(ls__values probabilities, const int32_t *targets, float scale,
                                int64_t rows, int64_t classes, ls__scratch scratch)
{
    do_rows(&(rows_of_logits){.task = backward_row,
                              .logits = probabilities,
                              .targets = targets,
                              .scale = scale,
                              .rows = rows,
                              .classes = classes,
                              .scratch = scratch});
}
