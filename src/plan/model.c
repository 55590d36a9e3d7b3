#include "plan/model.h"

#include <string.h>

#include "base/options.h"

#define GPT   .family = LS__PLAN_GPT, .vocabulary = 50257, .dropout = true
#define LLAMA .family = LS__PLAN_LLAMA, .vocabulary = 32000

const char *const ls__plan_model_names[] = {"gpt2",      "gpt3-175b",    "llama-7b",
                                            "llama-65b", "mixtral-8x7b", NULL};

static const ls__plan_model models[] = {
    {GPT, .layers = 12, .width = 768, .heads = 12, .context = 1024},
    {GPT, .layers = 96, .width = 12288, .heads = 96, .context = 2048},
    {LLAMA, .layers = 32, .width = 4096, .heads = 32, .ffn = 11008, .context = 2048},
    {LLAMA, .layers = 80, .width = 8192, .heads = 64, .ffn = 22016, .context = 2048},
    {LLAMA, .layers = 32, .width = 4096, .heads = 32, .key_value_heads = 8, .ffn = 14336,
     .context = 32768, .experts = 8, .active_experts = 2},
};

enum { MODELS = sizeof models / sizeof models[0] };

ls_status ls__plan_model_find(const char *name, ls__plan_model *model)
{
    for (int i = 0; i < MODELS; i++) {
        if (strcmp(name, ls__plan_model_names[i]) != 0)
            continue;
        *model = models[i];
        model->experts = model->experts ? model->experts : 1;
        model->active_experts = model->active_experts ? model->active_experts : 1;
        return LS_OK;
    }
    const char *nearest = ls__nearest_name(name, ls__plan_model_names, MODELS);
    return LS_FAIL(LS_BAD_USAGE,
                   "--model: no model is called '%.200s'%s%s%s: choose from gpt2, gpt3-175b, "
                   "llama-7b, llama-65b, mixtral-8x7b, or name a file that ends in .ini",
                   name, nearest ? " (did you mean " : "", nearest ? nearest : "",
                   nearest ? "?)" : "");
}

ls_status ls__plan_model_resolve(ls__plan_model *model)
{
    if (model->count > 0)
        return LS_OK;
    if (model->key_value_heads == 0)
        model->key_value_heads = model->heads;
    if (model->ffn == 0)
        model->ffn = 4 * model->width;
    LS_FAIL_IF(model->width % model->heads != 0, LS_BAD_USAGE,
               "--heads %lld does not divide --width %lld: choose a width that is a multiple of "
               "the heads",
               (long long)model->heads, (long long)model->width);
    LS_FAIL_IF(model->heads % model->key_value_heads != 0, LS_BAD_USAGE,
               "--kv-heads %lld does not divide --heads %lld", (long long)model->key_value_heads,
               (long long)model->heads);
    LS_FAIL_IF(model->active_experts > model->experts, LS_BAD_USAGE,
               "--active-experts %lld is above --experts %lld", (long long)model->active_experts,
               (long long)model->experts);
    return LS_OK;
}

double ls__plan_key_value_width(const ls__plan_model *model)
{
    int64_t width = model->width / model->heads * model->key_value_heads;

    return (double)width;
}

static double layer_parameters(const ls__plan_model *model, int64_t experts)
{
    double d = (double)model->width;
    double f = (double)model->ffn;
    double kv = ls__plan_key_value_width(model);
    double e = (double)experts;
    double attention = d * (d + 2 * kv) + d * d;
    double router = model->experts > 1 ? d * (double)model->experts : 0;

    if (model->family == LS__PLAN_LLAMA)
        return attention + e * 3 * d * f + 2 * d + router;
    return attention + 2 * d + 2 * kv + e * (2 * d * f + f + d) + 4 * d + router;
}

static double norm_parameters(const ls__plan_model *model)
{
    if (model->vocabulary == 0)
        return 0;
    return model->family == LS__PLAN_GPT ? 2 * (double)model->width : (double)model->width;
}

double ls__plan_layer_parameters(const ls__plan_model *model)
{
    return layer_parameters(model, model->experts);
}

double ls__plan_head_parameters(const ls__plan_model *model)
{
    return (double)model->vocabulary * (double)model->width;
}

double ls__plan_embedding_parameters(const ls__plan_model *model)
{
    bool positions = model->family == LS__PLAN_GPT && model->vocabulary > 0;

    return ls__plan_head_parameters(model) +
           (positions ? (double)model->context * (double)model->width : 0);
}

static double parameters(const ls__plan_model *model, int64_t experts)
{
    double head = model->family == LS__PLAN_GPT ? 0 : ls__plan_head_parameters(model);

    if (model->count > 0)
        return model->count;
    return (double)model->layers * layer_parameters(model, experts) +
           ls__plan_embedding_parameters(model) + norm_parameters(model) + head;
}

double ls__plan_parameters(const ls__plan_model *model)
{
    return parameters(model, model->experts);
}

double ls__plan_active_parameters(const ls__plan_model *model)
{
    return parameters(model, model->active_experts);
}
