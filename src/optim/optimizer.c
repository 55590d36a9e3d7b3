#include "optim/optimizer.h"

#include <math.h>

#include "base/threads.h"

int ls__optimizer_state_count(ls__optimizer_kind kind)
{
    return kind == LS__ADAMW ? 2 : 1;
}

const char *ls__optimizer_state_name(ls__optimizer_kind kind, int index)
{
    if (kind == LS__SGD)
        return "momentum_buffer";
    return index == 0 ? "exp_avg" : "exp_avg_sq";
}

ls_status ls__optimizer_open(ls__optimizer *optimizer, const ls__optimizer_settings *settings,
                             const ls__tensors *tensors, int64_t kept, ls__arena *arena)
{
    *optimizer = (ls__optimizer){.settings = *settings, .tensors = tensors};
    for (int i = 0; i < ls__optimizer_state_count(settings->kind); i++)
        LS_TRY(ls__arena_take(arena, LS__OPTIMIZER, kept, sizeof(float), &optimizer->state[i]));
    return LS_OK;
}

/* Constants of one AdamW update, computed in FP64 and rounded once. */
typedef struct adamw_factors {
    float keep;         /* 1 - lr decay: what weight decay leaves of a parameter */
    float beta1, rest1; /* beta1, 1 - beta1 */
    float beta2, rest2;
    float step;      /* lr / (1 - beta1^t) */
    float root_bias; /* sqrt(1 - beta2^t) */
    float epsilon;
} adamw_factors;

static adamw_factors adamw_factors_of(const ls__optimizer_settings *s, double learning_rate,
                                      double decay, int64_t update)
{
    double t = (double)update;

    return (adamw_factors){
        .keep = (float)(1 - learning_rate * decay),
        .beta1 = (float)s->beta1,
        .rest1 = (float)(1 - s->beta1),
        .beta2 = (float)s->beta2,
        .rest2 = (float)(1 - s->beta2),
        .step = (float)(learning_rate / (1 - pow(s->beta1, t))),
        .root_bias = (float)sqrt(1 - pow(s->beta2, t)),
        .epsilon = (float)s->epsilon,
    };
}

static void adamw(float *restrict p, const float *restrict g, float *restrict m, float *restrict v,
                  adamw_factors f, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        m[i] = f.beta1 * m[i] + f.rest1 * g[i];
        v[i] = f.beta2 * v[i] + f.rest2 * (g[i] * g[i]);
        p[i] = p[i] * f.keep - f.step * (m[i] / (sqrtf(v[i]) / f.root_bias + f.epsilon));
    }
}

static void sgd(float *restrict p, const float *restrict g, float *restrict momentum, float keep,
                float factor, float rate, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        momentum[i] = factor * momentum[i] + g[i];
        p[i] = p[i] * keep - rate * momentum[i];
    }
}

/* An update of a share of the parameters, for threads to do pieces of. */
typedef struct share_update {
    const ls__optimizer *optimizer;
    float *parameters;
    const float *gradients;
    double learning_rate;
    int64_t update;
    int64_t state; /* of element 0: what its index would be */
} share_update;

/* One stretch that lies within one tensor. */
static void step_within(const share_update *u, double decay, int64_t from, int64_t count)
{
    const ls__optimizer_settings *s = &u->optimizer->settings;
    float *const *state = u->optimizer->state;
    float *p = u->parameters + from;
    const float *g = u->gradients + from;
    int64_t at = u->state + from;

    if (s->kind == LS__ADAMW)
        adamw(p, g, state[0] + at, state[1] + at,
              adamw_factors_of(s, u->learning_rate, decay, u->update), count);
    else
        sgd(p, g, state[0] + at, (float)(1 - u->learning_rate * decay), (float)s->momentum,
            (float)u->learning_rate, count);
}

static void step_range(void *context, int64_t first, int64_t count)
{
    const share_update *u = context;
    const ls__tensors *tensors = u->optimizer->tensors;
    int64_t end = first + count;

    for (int i = 0; i < tensors->count; i++) {
        const ls__tensor *tensor = &tensors->tensor[i];
        int64_t tensor_end = tensor->offset + tensor->count;
        int64_t from = tensor->offset > first ? tensor->offset : first;
        int64_t to = tensor_end < end ? tensor_end : end;
        double decay = tensor->dimensions > 1 ? u->optimizer->settings.weight_decay : 0;
        if (from < to)
            step_within(u, decay, from, to - from);
    }
}

void ls__optimizer_step(ls__optimizer *optimizer, float *parameters, const float *gradients,
                        double learning_rate, int64_t update, int64_t first, int64_t count,
                        int64_t state)
{
    share_update u = {optimizer, parameters, gradients, learning_rate, update, state - first};

    ls__threads_over(first, count, step_range, &u);
}
