#include "nn/model.h"

#include <assert.h>
#include <limits.h>

#include "base/profile.h"
#include "base/threads.h"
#include "math/ops.h"
#include "math/panels.h"

enum { LINE = 16 }; /* floats of a cache line, where threads' pieces begin */

void ls__model_close(ls__model *model)
{
    if (!model)
        return;
    ls__tensors_free(&model->tensors);
    model->ops->close(model);
}

ls_status ls__model_check_size(const char *what, int64_t size)
{
    LS_FAIL_IF(size > INT_MAX, LS_BAD_USAGE,
               "%s is %lld, above the %d that a matrix product can count: make it smaller", what,
               (long long)size, INT_MAX);
    return LS_OK;
}

/* FP32 products read the parameters themselves. */
static ls_status take_weights(ls__model *model, ls__arena *arena)
{
    model->weights_are_old = true;
    if (model->format == LS__F32)
        return LS_OK;
    model->weights.format = model->format;
    return ls__arena_take(arena, LS__WEIGHTS, model->tensors.total, ls__value_bytes(model->format),
                          &model->weights.at);
}

ls_status ls__model_take_common(ls__model *model, ls__arena *arena)
{
    int64_t rows = 0;
    int64_t logits = 0;

    LS_FAIL_IF(__builtin_mul_overflow(model->micro_batch, model->context, &rows) ||
                   __builtin_mul_overflow(rows, model->classes, &logits),
               LS_NO_MEMORY, "micro-batch %lld x context %lld x %lld classes: no machine holds it",
               (long long)model->micro_batch, (long long)model->context, (long long)model->classes);
    LS_TRY(ls__model_check_size("micro-batch x context", rows));
    model->loss_scale = 1;
    model->logits.format = model->format;
    LS_TRY(ls__arena_take(arena, LS__ACTIVATIONS, logits, ls__value_bytes(model->format),
                          &model->logits.at));
    LS_TRY(ls__arena_take(arena, LS__ACTIVATIONS, rows, sizeof(float), &model->losses));
    LS_TRY(take_weights(model, arena));
    return ls__arena_take(arena, LS__GRADIENTS, model->tensors.total, sizeof(float),
                          &model->gradients);
}

/* Of one thread's piece. */
static int64_t scratch_floats(ls__format format, int64_t widest, int64_t classes, int64_t floats)
{
    int64_t wide = ls__ops_scratch(format, widest > classes ? widest : classes);

    return ls__panels(wide > floats ? wide : floats, LINE) * LINE;
}

int64_t ls__model_scratch_bytes(ls__format format, int64_t threads, int64_t widest, int64_t classes,
                                int64_t floats, int64_t shared)
{
    int64_t each = scratch_floats(format, widest, classes, floats);

    return (threads * each + classes + shared) * (int64_t)sizeof(float);
}

ls_status ls__model_take_scratch(ls__model *model, ls__arena *arena, int64_t widest, int64_t floats,
                                 int64_t shared)
{
    ls__scratch *scratch = &model->scratch;

    scratch->floats = scratch_floats(model->format, widest, model->classes, floats);
    LS_TRY(ls__arena_take(arena, LS__SCRATCH, ls__threads_count() * scratch->floats, sizeof(float),
                          &scratch->at));
    LS_TRY(ls__arena_take(arena, LS__SCRATCH, model->classes, sizeof(float), &model->row));
    return ls__arena_take(arena, LS__SCRATCH, shared, sizeof(float), &scratch->shared);
}

/* ---- weights ---- */

void ls__model_parameters_changed(ls__model *model)
{
    model->weights_are_old = true;
}

typedef struct rounding {
    ls__values to;
    const float *from;
} rounding;

static void round_range(void *context, int64_t offset, int64_t count)
{
    const rounding *work = context;

    ls__narrow(ls__from(work->to, offset), work->from + offset, count);
}

void ls__model_need(const ls__model *model, const float *parameters, int64_t first, int64_t end)
{
    if (model->gate.need)
        model->gate.need(model->gate.context, first, end - first);
    if (!model->weights.at || !model->weights_are_old)
        return;
    rounding work = {model->weights, parameters};
    ls__threads_over(first, end - first, round_range, &work);
}

ls__values ls__model_weights(const ls__model *model, const float *parameters, int64_t offset)
{
    return model->weights.at ? ls__from(model->weights, offset) : ls__floats(parameters + offset);
}

/* ---- forward and backward ---- */

static void forward(ls__model *model, const float *parameters, const ls__batch *batch,
                    bool training)
{
    model->ops->forward(model, parameters, batch, training);
    model->weights_are_old = false;
}

void ls__model_logits(ls__model *model, const float *parameters, const ls__batch *batch)
{
    forward(model, parameters, batch, false);
}

const float *ls__model_row(const ls__model *model, int64_t row)
{
    return ls__widened(ls__from(model->logits, row * model->classes), model->row, model->classes);
}

double ls__model_loss(ls__model *model, const float *parameters, const ls__batch *batch,
                      bool training)
{
    int64_t rows = batch->samples * batch->length;
    double sum = 0;

    assert(batch->samples <= model->micro_batch && batch->length <= model->context);
    forward(model, parameters, batch, training);
    ls__profile_mark(LS__PART_CROSS_ENTROPY);
    ls__cross_entropy_forward(model->losses, model->logits, batch->targets, rows, model->classes,
                              model->scratch);
    for (int64_t row = 0; row < rows; row++)
        sum += (double)model->losses[row];
    return sum / (double)rows;
}

int64_t ls__most_probable(const float *row, int64_t classes)
{
    int64_t best = 0;

    for (int64_t i = 1; i < classes; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

int64_t ls__model_hits(const ls__model *model, const ls__batch *batch)
{
    int64_t hits = 0;

    for (int64_t row = 0; row < batch->samples * batch->length; row++)
        hits += ls__most_probable(ls__model_row(model, row), model->classes) == batch->targets[row];
    return hits;
}

void ls__model_backward(ls__model *model, const float *parameters, const ls__batch *batch,
                        ls__gradient_sink sink)
{
    int64_t rows = batch->samples * batch->length;

    ls__profile_mark(LS__PART_CROSS_ENTROPY);
    ls__cross_entropy_backward(model->logits, batch->targets, model->loss_scale / (float)rows, rows,
                               model->classes, model->scratch);
    model->ops->backward(model, parameters, batch, sink);
}
