#include "math/panels.h"

#include "base/threads.h"

typedef struct elementwise {
    ls__kernel *kernel;
    ls__values out, a, b;
    int64_t count;
    ls__scratch scratch;
} elementwise;

static void do_chunk(void *context, int64_t task, int thread)
{
    const elementwise *work = context;
    int64_t at = task * LS__CHUNK;
    int64_t count = ls__panel_size(task, work->count, LS__CHUNK);
    float *room = ls__scratch_of(work->scratch, thread);
    ls__values out = ls__from(work->out, at);
    const float *b = NULL;

    const float *a = ls__widened(ls__from(work->a, at), room, count);
    if (work->b.at)
        b = ls__widened(ls__from(work->b, at), room + LS__CHUNK, count);
    float *place = ls__place(out, room + 2 * LS__CHUNK);
    work->kernel(place, a, b, count);
    ls__store(out, place, count);
}

void ls__elementwise(ls__kernel *kernel, ls__values out, ls__values a, ls__values b, int64_t count,
                     ls__scratch scratch)
{
    elementwise work = {
        .kernel = kernel, .out = out, .a = a, .b = b, .count = count, .scratch = scratch};

    ls__threads_run(ls__panels(count, LS__CHUNK), do_chunk, &work);
}
