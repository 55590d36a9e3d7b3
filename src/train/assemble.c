#include "train/assemble.h"

#include "nn/gpt.h"
#include "nn/mlp.h"

ls__data_shape ls__data_shape_of(const ls__dataset_info *info)
{
    bool text = info->kind == LS__DATASET_TEXT;

    return (ls__data_shape){.inputs = info->rows * info->cols,
                            .classes = text ? info->vocabulary_size : info->classes};
}

static ls_status open_gpt(ls__model **model, const ls__train_settings *settings,
                          ls__data_shape shape, int64_t micro_batch, ls__arena *arena)
{
    ls__gpt_shape gpt = {.layers = settings->layers,
                         .heads = settings->heads,
                         .width = settings->width,
                         .context = settings->context,
                         .vocabulary = shape.classes,
                         .dropout = settings->dropout,
                         .format = (ls__format)settings->precision,
                         .recompute = settings->recompute};

    return ls__gpt_open(model, &gpt, micro_batch, (uint64_t)settings->seed, arena);
}

static ls_status open_mlp(ls__model **model, const ls__train_settings *settings,
                          ls__data_shape shape, int64_t micro_batch, ls__arena *arena)
{
    ls__mlp_shape mlp = {.inputs = shape.inputs,
                         .classes = shape.classes,
                         .hidden_count = settings->hidden.count,
                         .activation = (ls__activation)settings->activation,
                         .format = (ls__format)settings->precision};

    for (int i = 0; i < settings->hidden.count; i++)
        mlp.hidden[i] = settings->hidden.value[i];
    return ls__mlp_open(model, &mlp, micro_batch, arena);
}

ls_status ls__assemble_model(ls__model **model, const ls__train_settings *settings,
                             ls__data_shape shape, int64_t micro_batch, ls__arena *arena)
{
    if (settings->model == LS__MODEL_MLP)
        return open_mlp(model, settings, shape, micro_batch, arena);
    return open_gpt(model, settings, shape, micro_batch, arena);
}

ls__optimizer_settings ls__assemble_optimizer(const ls__train_settings *settings)
{
    return (ls__optimizer_settings){.kind = (ls__optimizer_kind)settings->optimizer,
                                    .weight_decay = settings->weight_decay,
                                    .beta1 = settings->beta1,
                                    .beta2 = settings->beta2,
                                    .epsilon = 1e-8,
                                    .momentum = settings->momentum};
}
