#include <math.h>

#include "base/threads.h"
#include "math/ops.h"
#include "math/panels.h"
#include "math/softmax.h"

typedef struct rows_of_logits {
    float *loss;
    ls__values logits; /* or probabilities */
    const int32_t *targets;
    float scale;
    int64_t rows, classes;
    ls__scratch scratch;
} rows_of_logits;

/* -log(p) = log(sum of exponentials) - (logit - largest), which is finite where p is not. */
static float forward_row(float *out, const float *row, int32_t target, int64_t classes)
{
    float largest = ls__max(row, classes);
    float below = row[target] - largest;
    float sum = ls__softmax_exponentials(out, row, largest, classes);

    ls__scale(out, out, 1 / sum, classes);
    return (float)(log((double)sum) - (double)below);
}

static void forward_panel(void *context, int64_t task, int thread)
{
    const rows_of_logits *work = context;
    int64_t panel = ls__panel_rows(work->classes);
    int64_t first = task * panel;
    float *room = ls__scratch_of(work->scratch, thread);

    for (int64_t r = first; r < first + ls__panel_size(task, work->rows, panel); r++) {
        ls__values row = ls__from(work->logits, r * work->classes);
        const float *logits = ls__widened(row, room, work->classes);
        float *place = ls__place(row, room);

        work->loss[r] = forward_row(place, logits, work->targets[r], work->classes);
        ls__store(row, place, work->classes);
    }
}

void ls__cross_entropy_forward(float *loss, ls__values logits, const int32_t *targets, int64_t rows,
                               int64_t classes, ls__scratch scratch)
{
    rows_of_logits work = {.loss = loss,
                           .logits = logits,
                           .targets = targets,
                           .rows = rows,
                           .classes = classes,
                           .scratch = scratch};

    ls__threads_run(ls__panels(rows, ls__panel_rows(classes)), forward_panel, &work);
}

/* scale p, and scale (p - 1) for the target. */
static void backward_row(float *out, const float *p, int32_t target, float scale, int64_t classes)
{
    float of_target = (p[target] - 1) * scale;

    ls__scale(out, p, scale, classes);
    out[target] = of_target;
}

static void backward_panel(void *context, int64_t task, int thread)
{
    const rows_of_logits *work = context;
    int64_t panel = ls__panel_rows(work->classes);
    int64_t first = task * panel;
    float *room = ls__scratch_of(work->scratch, thread);

    for (int64_t r = first; r < first + ls__panel_size(task, work->rows, panel); r++) {
        ls__values row = ls__from(work->logits, r * work->classes);
        const float *p = ls__widened(row, room, work->classes);
        float *place = ls__place(row, room);

        backward_row(place, p, work->targets[r], work->scale, work->classes);
        ls__store(row, place, work->classes);
    }
}

void ls__cross_entropy_backward(ls__values probabilities, const int32_t *targets, float scale,
                                int64_t rows, int64_t classes, ls__scratch scratch)
{
    rows_of_logits work = {.logits = probabilities,
                           .targets = targets,
                           .scale = scale,
                           .rows = rows,
                           .classes = classes,
                           .scratch = scratch};

    ls__threads_run(ls__panels(rows, ls__panel_rows(classes)), backward_panel, &work);
}
