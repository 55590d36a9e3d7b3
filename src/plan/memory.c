#include "plan/memory.h"

enum { MICRO_BATCH_MAX = 1 << 24 };

static const double fp32 = 4;

double ls__plan_memory_total(const ls__plan_memory *memory)
{
    return memory->parameters + memory->gradients + memory->optimizer + memory->master +
           memory->activations + memory->buffers;
}

ls_status ls__plan_layout_check(const ls__plan_model *model, const ls__plan_layout *layout)
{
    if (model->count > 0)
        return LS_OK;
    LS_FAIL_IF(model->heads % layout->tensor != 0 || model->ffn % layout->tensor != 0, LS_BAD_USAGE,
               "--tp %lld does not divide the %lld heads and the MLP's width of %lld",
               (long long)layout->tensor, (long long)model->heads, (long long)model->ffn);
    LS_FAIL_IF(model->layers % layout->pipeline != 0, LS_BAD_USAGE,
               "--pp %lld does not divide the %lld layers", (long long)layout->pipeline,
               (long long)model->layers);
    return LS_OK;
}

double ls__plan_device_parameters(const ls__plan_model *model, const ls__plan_layout *layout)
{
    return ls__plan_parameters(model) / (double)(layout->tensor * layout->pipeline);
}

/* ---- parameters, and what is kept for each ---- */

static double sharded(double bytes, const ls__plan_layout *layout, int from)
{
    return layout->sharding >= from ? bytes / (double)layout->data : bytes;
}

static double element_bytes(const ls__plan_storage *storage)
{
    return ls__plan_number_of((ls__plan_format)storage->format).bytes;
}

static double moment_bytes(const ls__plan_storage *storage)
{
    return storage->optimizer == LS__PLAN_ADAMW ? 2 * fp32 : fp32;
}

static double master_bytes(const ls__plan_storage *storage)
{
    return storage->master && element_bytes(storage) < fp32 ? fp32 : 0;
}

double ls__plan_bytes_per_parameter(const ls__plan_storage *storage)
{
    return 2 * element_bytes(storage) + moment_bytes(storage) + master_bytes(storage);
}

static void add_states(ls__plan_memory *memory, const ls__plan_storage *storage,
                       const ls__plan_layout *layout, double parameters)
{
    memory->parameters = sharded(element_bytes(storage) * parameters, layout, 3);
    memory->gradients = sharded(element_bytes(storage) * parameters, layout, 2);
    memory->optimizer = sharded(moment_bytes(storage) * parameters, layout, 1);
    memory->master = sharded(master_bytes(storage) * parameters, layout, 1);
}

/* ---- activations ---- */

static double activation_bytes(const ls__plan_storage *storage)
{
    return ls__plan_number_of((ls__plan_format)storage->activation_format).bytes;
}

static double tokens_of(const ls__plan_model *model, int64_t sequences)
{
    return (double)sequences * (double)model->context;
}

/* The terms in a s^2 b. */
static double score_bytes(const ls__plan_model *model, const ls__plan_storage *storage,
                          const ls__plan_layout *layout)
{
    double e = activation_bytes(storage);
    double scores = (double)model->heads * (double)model->context *
                    tokens_of(model, layout->micro_batch) / (double)layout->tensor;

    return scores * (model->dropout ? 2 * e + 1 : e);
}

/* All others. */
static double channel_bytes(const ls__plan_model *model, const ls__plan_storage *storage,
                            const ls__plan_layout *layout)
{
    double d = (double)model->width;
    double e = activation_bytes(storage);
    double experts = (double)model->active_experts;
    double inner = (model->family == LS__PLAN_LLAMA ? 3 : 2) * (double)model->ffn;
    double whole = d * (3 + experts) * e + (model->dropout ? 2 * d : 0);
    double split = (2 * d + 2 * ls__plan_key_value_width(model) + experts * inner) * e;

    return tokens_of(model, layout->micro_batch) * (whole + split / (double)layout->tensor);
}

/* A tensor of the residual stream. */
static double stream_bytes(const ls__plan_model *model, const ls__plan_storage *storage,
                           const ls__plan_layout *layout)
{
    return tokens_of(model, layout->micro_batch) * (double)model->width * activation_bytes(storage);
}

double ls__plan_layer_activations(const ls__plan_model *model, const ls__plan_storage *storage,
                                  const ls__plan_layout *layout)
{
    if (layout->recompute == LS__PLAN_RECOMPUTE_FULL)
        return stream_bytes(model, storage, layout);
    double channels = channel_bytes(model, storage, layout);
    if (layout->recompute == LS__PLAN_RECOMPUTE_SELECTIVE)
        return channels;
    return channels + score_bytes(model, storage, layout);
}

double ls__plan_simple_activations(const ls__plan_model *model, const ls__plan_storage *storage,
                                   int64_t sequences)
{
    double d = (double)model->width;

    return tokens_of(model, sequences) * (3 * d + (double)model->context + 4 * d) *
           activation_bytes(storage);
}

static double head_activations(const ls__plan_model *model, const ls__plan_storage *storage,
                               const ls__plan_layout *layout)
{
    if (model->vocabulary == 0)
        return 0;
    return 2 * stream_bytes(model, storage, layout) + fp32 * tokens_of(model, layout->micro_batch) *
                                                          (double)model->vocabulary /
                                                          (double)layout->tensor;
}

/* ---- buffers ---- */

static double recomputed_bytes(const ls__plan_model *model, const ls__plan_storage *storage,
                               const ls__plan_layout *layout)
{
    if (layout->recompute == LS__PLAN_RECOMPUTE_NONE)
        return 0;
    double scores = score_bytes(model, storage, layout);
    if (layout->recompute == LS__PLAN_RECOMPUTE_SELECTIVE)
        return scores;
    return scores + channel_bytes(model, storage, layout);
}

static double buffer_bytes(const ls__plan_model *model, const ls__plan_storage *storage,
                           const ls__plan_layout *layout)
{
    double layer =
        element_bytes(storage) * ls__plan_layer_parameters(model) / (double)layout->tensor;

    return (layout->pipeline > 1 ? 2 * stream_bytes(model, storage, layout) : 0) +
           (layout->sharding == 3 ? layer : 0) + recomputed_bytes(model, storage, layout);
}

/* ---- stages ---- */

static double stage_parameters(const ls__plan_model *model, const ls__plan_layout *layout,
                               bool first, bool last)
{
    double layers = ls__plan_layer_parameters(model) * (double)model->layers;
    double all = ls__plan_parameters(model);
    double embedding = ls__plan_embedding_parameters(model);

    if (first && last)
        return all / (double)layout->tensor;
    /* What is neither layer nor embedding: the last norm, and a head that is not tied. */
    double end = model->family == LS__PLAN_GPT
                     ? all - layers - embedding + ls__plan_head_parameters(model)
                     : all - layers - embedding;
    return (layers / (double)layout->pipeline + (first ? embedding : 0) + (last ? end : 0)) /
           (double)layout->tensor;
}

static double in_flight(const ls__plan_layout *layout, bool last)
{
    if (last)
        return 1;
    return (double)(layout->micro_batches < layout->pipeline ? layout->micro_batches
                                                             : layout->pipeline);
}

static ls__plan_memory stage_memory(const ls__plan_model *model, const ls__plan_storage *storage,
                                    const ls__plan_layout *layout, bool first, bool last)
{
    ls__plan_memory memory = {0};
    double layers = (double)model->layers / (double)layout->pipeline;

    add_states(&memory, storage, layout, stage_parameters(model, layout, first, last));
    memory.activations =
        in_flight(layout, last) * layers * ls__plan_layer_activations(model, storage, layout) +
        (last ? head_activations(model, storage, layout) : 0);
    memory.buffers = buffer_bytes(model, storage, layout);
    return memory;
}

ls__plan_memory ls__plan_memory_of(const ls__plan_model *model, const ls__plan_storage *storage,
                                   const ls__plan_layout *layout)
{
    ls__plan_memory first = {0};

    if (model->count > 0) {
        add_states(&first, storage, layout, ls__plan_device_parameters(model, layout));
        return first;
    }
    if (layout->pipeline == 1)
        return stage_memory(model, storage, layout, true, true);
    first = stage_memory(model, storage, layout, true, false);
    ls__plan_memory last = stage_memory(model, storage, layout, false, true);
    return ls__plan_memory_total(&first) >= ls__plan_memory_total(&last) ? first : last;
}

int64_t ls__plan_largest_micro_batch(const ls__plan_model *model, const ls__plan_storage *storage,
                                     const ls__plan_layout *layout, double bytes)
{
    int64_t fits = 0;
    int64_t too_many = MICRO_BATCH_MAX;

    while (too_many - fits > 1) {
        ls__plan_layout tried = *layout;
        tried.micro_batch = fits + (too_many - fits) / 2;
        ls__plan_memory memory = ls__plan_memory_of(model, storage, &tried);
        if (ls__plan_memory_total(&memory) <= bytes)
            fits = tried.micro_batch;
        else
            too_many = tried.micro_batch;
    }
    return fits;
}
