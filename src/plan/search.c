#include "plan/search.h"

#include <math.h>
#include <stdlib.h>

enum { MICRO_BATCH_MAX = 64, GROWTH = 32 };

typedef struct search {
    const ls__plan_question *question;
    ls__plan_answer *answer;
    int64_t room;
    double smallest; /* bytes that the layout of least memory needs, where nothing fits */
} search;

static bool divides(int64_t divisor, int64_t number)
{
    return number % divisor == 0;
}

static ls_status make_room(search *s)
{
    if (s->answer->count < s->room)
        return LS_OK;
    size_t room = (size_t)s->room + GROWTH;
    ls__plan_candidate *more = realloc(s->answer->best, room * sizeof *more);
    LS_FAIL_IF(!more, LS_NO_MEMORY, "no memory for %zu layouts", room);
    s->answer->best = more;
    s->room = (int64_t)room;
    return LS_OK;
}

/* Takes the layout for its grid's best where it fits and is faster. */
static void try_layout(search *s, const ls__plan_layout *layout, ls__plan_candidate *best)
{
    const ls__plan_question *q = s->question;
    ls__plan_candidate tried = {.layout = *layout};

    s->answer->tried++;
    tried.memory = ls__plan_memory_of(&q->model, &q->storage, layout);
    double bytes = ls__plan_memory_total(&tried.memory);
    s->smallest = fmin(s->smallest, bytes);
    if (bytes > q->cluster.memory) {
        s->answer->too_large++;
        return;
    }
    tried.step = ls__plan_step_of(&q->model, &q->storage, layout, &q->cluster);
    if (tried.step.total < best->step.total)
        *best = tried;
}

/* All kinds of sharding and recomputation of one grid and micro-batch. */
static void try_kinds(search *s, ls__plan_layout layout, ls__plan_candidate *best)
{
    int64_t most_sharding = layout.data > 1 ? 3 : 0;

    for (layout.sharding = 0; layout.sharding <= most_sharding; layout.sharding++)
        for (layout.recompute = 0; layout.recompute <= LS__PLAN_RECOMPUTE_FULL; layout.recompute++)
            try_layout(s, &layout, best);
}

static ls_status try_grid(search *s, int64_t tensor, int64_t pipeline)
{
    int64_t data = s->question->devices / (tensor * pipeline);
    ls__plan_candidate best = {.step.total = HUGE_VAL};

    for (int64_t micro_batch = 1; micro_batch <= MICRO_BATCH_MAX; micro_batch *= 2)
        if (divides(data * micro_batch, s->question->batch))
            try_kinds(s,
                      (ls__plan_layout){.tensor = tensor,
                                        .pipeline = pipeline,
                                        .data = data,
                                        .micro_batch = micro_batch,
                                        .micro_batches = s->question->batch / data / micro_batch},
                      &best);
    if (isinf(best.step.total))
        return LS_OK;
    LS_TRY(make_room(s));
    s->answer->best[s->answer->count++] = best;
    return LS_OK;
}

static ls_status try_all(search *s)
{
    const ls__plan_model *model = &s->question->model;
    int64_t devices = s->question->devices;

    for (int64_t tensor = 1; tensor <= model->heads && tensor <= devices; tensor++) {
        if (!divides(tensor, model->heads) || !divides(tensor, model->ffn))
            continue;
        for (int64_t pipeline = 1; pipeline <= model->layers; pipeline++)
            if (divides(pipeline, model->layers) && divides(tensor * pipeline, devices))
                LS_TRY(try_grid(s, tensor, pipeline));
    }
    return LS_OK;
}

static int by_time(const void *a, const void *b)
{
    double left = ((const ls__plan_candidate *)a)->step.total;
    double right = ((const ls__plan_candidate *)b)->step.total;

    return (left > right) - (left < right);
}

static ls_status nothing_found(const search *s)
{
    const ls__plan_question *q = s->question;

    LS_FAIL_IF(s->answer->tried == 0, LS_BAD_INPUT,
               "no layout of %lld devices shares --batch %lld: choose a batch that their number "
               "divides",
               (long long)q->devices, (long long)q->batch);
    return LS_FAIL(LS_BAD_INPUT,
                   "none of %lld layouts fits: the smallest needs %.1f GB of a device's %.1f GB: "
                   "use more or larger devices",
                   (long long)s->answer->tried, s->smallest / 1e9, q->cluster.memory / 1e9);
}

ls_status ls__plan_search(const ls__plan_question *question, ls__plan_answer *answer)
{
    search s = {.question = question, .answer = answer, .smallest = HUGE_VAL};

    *answer = (ls__plan_answer){0};
    ls_status status = try_all(&s);
    if (status == LS_OK && answer->count == 0)
        status = nothing_found(&s);
    if (status != LS_OK) {
        ls__plan_answer_free(answer);
        return status;
    }
    qsort(answer->best, (size_t)answer->count, sizeof *answer->best, by_time);
    return LS_OK;
}

void ls__plan_answer_free(ls__plan_answer *answer)
{
    free(answer->best);
    answer->best = NULL;
}
