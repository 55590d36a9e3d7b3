#include "plan/flops.h"

#include "plan/memory.h"

const char *ls__plan_part_name(ls__plan_part part)
{
    static const char *const names[] = {"QKV", "attention", "projection", "FFN", "head"};

    return names[part];
}

static double ffn_flops(const ls__plan_model *model, double tokens)
{
    double matrices = model->family == LS__PLAN_LLAMA ? 3 : 2;
    double router = model->experts > 1 ? (double)model->experts : 0;

    return 2 * tokens * (double)model->width *
           (matrices * (double)model->active_experts * (double)model->ffn + router);
}

double ls__plan_forward_flops(const ls__plan_model *model, ls__plan_part part, double sequences)
{
    double n = (double)model->context;
    double d = (double)model->width;
    double tokens = sequences * n;

    switch (part) {
    case LS__PLAN_QKV:
        return 2 * tokens * d * (d + 2 * ls__plan_key_value_width(model));
    case LS__PLAN_ATTENTION:
        return 4 * tokens * n * d;
    case LS__PLAN_PROJECTION:
        return 2 * tokens * d * d;
    case LS__PLAN_FFN:
        return ffn_flops(model, tokens);
    case LS__PLAN_HEAD:
        return 2 * tokens * d * (double)model->vocabulary;
    case LS__PLAN_PART_COUNT:
        break;
    }
    return 0;
}

double ls__plan_part_times(const ls__plan_model *model, ls__plan_part part)
{
    return part == LS__PLAN_HEAD ? 1 : (double)model->layers;
}

/* How many times a forward's worth a part costs in a step. */
static double passes(ls__plan_part part, int recompute)
{
    bool again = (recompute == LS__PLAN_RECOMPUTE_FULL && part != LS__PLAN_HEAD) ||
                 (recompute == LS__PLAN_RECOMPUTE_SELECTIVE && part == LS__PLAN_ATTENTION);

    return again ? 4 : 3;
}

double ls__plan_step_flops(const ls__plan_model *model, double sequences, int recompute)
{
    double sum = 0;

    for (ls__plan_part part = 0; part < LS__PLAN_PART_COUNT; part++)
        sum += passes(part, recompute) * ls__plan_part_times(model, part) *
               ls__plan_forward_flops(model, part, sequences);
    return sum;
}
