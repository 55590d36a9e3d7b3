#include "train/predict.h"

#include "math/ops.h"
#include "nn/model.h"
#include "optim/optimizer.h"
#include "plan/pace.h"

/* The planner knows no layer beside it, so here is where what it repeats is held to the original.
 */
_Static_assert((int)LS__PLAN_STRIP == (int)LS__ATTENTION_STRIP,
               "the planner's strip is attention's");
_Static_assert((int)LS__PLAN_F32 == (int)LS__F32 && (int)LS__PLAN_BF16 == (int)LS__BF16 &&
                   (int)LS__PLAN_F16 == (int)LS__F16,
               "the planner's formats are those of values, in the same order");

static int64_t scratch_bytes(const ls__train_settings *settings, int64_t classes, bool is_gpt)
{
    ls__format format = (ls__format)settings->precision;
    int64_t width = settings->width;

    if (!is_gpt)
        return ls__model_scratch_bytes(format, settings->threads, 1, classes, 0, 0);
    return ls__model_scratch_bytes(
        format, settings->threads, 4 * width, classes,
        ls__attention_scratch(format, settings->context, width / settings->heads),
        ls__ops_shared(settings->micro_batch * settings->context, width));
}

ls__plan_run ls__predict_run(const ls__train_settings *settings, const ls__dataset_info *data,
                             int64_t rank, int64_t ranks)
{
    bool text = data->kind == LS__DATASET_TEXT;
    int64_t samples = data->count[LS__SPLIT_TRAIN] + data->count[LS__SPLIT_HELD_OUT];
    int64_t held_out = text ? (data->count[LS__SPLIT_HELD_OUT] - 1) / settings->context
                            : data->count[LS__SPLIT_HELD_OUT];
    int64_t wanted = settings->eval_batches * settings->batch;

    return (ls__plan_run){
        .layers = settings->layers,
        .heads = settings->heads,
        .width = settings->width,
        .context = settings->context,
        .inputs = data->rows * data->cols,
        .hidden = settings->hidden.value,
        .hidden_count = text ? 0 : settings->hidden.count,
        .classes = text ? data->vocabulary_size : data->classes,
        .format = (ls__plan_format)settings->precision,
        .recompute = settings->recompute,
        .scratch = scratch_bytes(settings, text ? data->vocabulary_size : data->classes, text),
        .batch = settings->batch,
        .micro_batch = settings->micro_batch,
        .adamw = settings->optimizer == LS__ADAMW,
        .exact = settings->reduce == LS__REDUCE_EXACT,
        .sharded = settings->shard_optimizer,
        .direct = settings->allreduce == LS__ALLREDUCE_AUTO,
        .bucket = settings->bucket,
        .rank = rank,
        .ranks = ranks,
        .dataset_bytes = samples * (text ? data->token_bytes : data->rows * data->cols + 1),
        .evaluated = wanted > 0 && wanted < held_out ? wanted : held_out,
    };
}
