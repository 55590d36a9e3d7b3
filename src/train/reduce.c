#include "train/reduce.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/collective.h"

struct ls__reducer {
    ls_allreduce *allreduce;
    float *sums; /* (count) */
    int64_t count;
    int64_t micro_batches;
    double timeout;
};

static ls_status open_allreduce(ls__reducer *reducer, const ls_algorithm *algorithm,
                                ls__world *world, ls__arena *arena)
{
    ls_payload payload = {.data = reducer->sums, .count = reducer->count, .type = &ls_sum_f32};
    int64_t scratch =
        ls_allreduce_scratch(algorithm, ls__world_ranks(world), reducer->count, &ls_sum_f32);

    if (scratch > 0)
        LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, scratch, 1, &payload.scratch));
    return ls_allreduce_open(&reducer->allreduce, ls__world_transport(world), algorithm, &payload);
}

ls_status ls__reducer_open(ls__reducer **reducer, const ls__train_settings *settings,
                           int64_t parameters, ls__world *world, ls__arena *arena)
{
    ls_status status = LS_OK;
    ls__reducer *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the reducer");
    opened->count = parameters;
    opened->micro_batches = ls__micro_batches(settings);
    opened->timeout = ls__world_timeout(world);
    status = ls__arena_take(arena, LS__GRADIENTS, parameters, sizeof(float), &opened->sums);
    if (status == LS_OK)
        status = open_allreduce(opened, ls_algorithm_at(settings->allreduce), world, arena);
    LS_TRY_TO(failed, ls__world_agree(world, status));
    LS_TRY_TO(failed, ls_allreduce_check(opened->allreduce, opened->timeout));
    *reducer = opened;
    return LS_OK;
failed:
    ls__reducer_close(opened);
    return status;
}

void ls__reducer_close(ls__reducer *reducer)
{
    if (!reducer)
        return;
    ls_allreduce_close(reducer->allreduce);
    free(reducer);
}

static void add_addend(void *context, int64_t offset, int64_t count, const float *addend)
{
    ls__reducer *reducer = context;
    float *restrict sums = reducer->sums + offset;

    for (int64_t i = 0; i < count; i++)
        sums[i] += addend[i];
}

ls__gradient_sink ls__reducer_start(ls__reducer *reducer)
{
    memset(reducer->sums, 0, (size_t)reducer->count * sizeof *reducer->sums);
    return (ls__gradient_sink){.ready = add_addend, .context = reducer};
}

ls_status ls__reducer_finish(ls__reducer *reducer, float **mean)
{
    float divisor = (float)reducer->micro_batches;

    LS_TRY(ls_allreduce_start(reducer->allreduce));
    LS_TRY(ls_allreduce_wait(reducer->allreduce, reducer->timeout));
    for (int64_t i = 0; i < reducer->count; i++)
        reducer->sums[i] /= divisor;
    *mean = reducer->sums;
    return LS_OK;
}
