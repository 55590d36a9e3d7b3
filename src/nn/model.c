#include "nn/model.h"

#include <assert.h>
#include <limits.h>

#include "base/profile.h"
#include "math/ops.h"

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

ls_status ls__model_take_common(ls__model *model, ls__arena *arena)
{
    int64_t rows = 0;
    int64_t logits = 0;

    LS_FAIL_IF(__builtin_mul_overflow(model->micro_batch, model->context, &rows) ||
                   __builtin_mul_overflow(rows, model->classes, &logits),
               LS_NO_MEMORY, "micro-batch %lld x context %lld x %lld classes: no machine holds it",
               (long long)model->micro_batch, (long long)model->context, (long long)model->classes);
    LS_TRY(ls__model_check_size("micro-batch x context", rows));
    LS_TRY(ls__arena_take(arena, LS__ACTIVATIONS, logits, sizeof(float), &model->logits));
    LS_TRY(ls__arena_take(arena, LS__ACTIVATIONS, rows, sizeof(float), &model->losses));
    return ls__arena_take(arena, LS__GRADIENTS, model->tensors.total, sizeof(float),
                          &model->gradients);
}

const float *ls__model_logits(ls__model *model, const float *parameters, const ls__batch *batch)
{
    model->ops->forward(model, parameters, batch, false);
    return model->logits;
}

double ls__model_loss(ls__model *model, const float *parameters, const ls__batch *batch,
                      bool training)
{
    int64_t rows = batch->samples * batch->length;
    double sum = 0;

    assert(batch->samples <= model->micro_batch && batch->length <= model->context);
    model->ops->forward(model, parameters, batch, training);
    ls__profile_mark(LS__PART_CROSS_ENTROPY);
    ls__cross_entropy_forward(model->losses, model->logits, batch->targets, rows, model->classes);
    for (int64_t row = 0; row < rows; row++)
        sum += (double)model->losses[row];
    return sum / (double)rows;
}

void ls__model_need(const ls__model *model, int64_t first, int64_t end)
{
    if (model->gate.need)
        model->gate.need(model->gate.context, first, end - first);
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
        hits += ls__most_probable(model->logits + row * model->classes, model->classes) ==
                batch->targets[row];
    return hits;
}

void ls__model_backward(ls__model *model, const float *parameters, const ls__batch *batch,
                        ls__gradient_sink sink)
{
    int64_t rows = batch->samples * batch->length;

    ls__profile_mark(LS__PART_CROSS_ENTROPY);
    ls__cross_entropy_backward(model->logits, batch->targets, 1.0f / (float)rows, rows,
                               model->classes);
    model->ops->backward(model, parameters, batch, sink);
}
