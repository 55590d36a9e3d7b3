#include "plan/pace.h"

#include "plan/flops.h"
#include "plan/memory.h"

static int64_t micro_batches(const ls__plan_run *run)
{
    int64_t all = run->batch / run->micro_batch;

    return (all + run->ranks - 1) / run->ranks;
}

/* Of one sample, forward and backward: 2 a weight for the output, the input's gradient and the
 * weight's; the pixels have no gradient. */
static double mlp_flops(const ls__plan_run *run)
{
    double products = 0;
    int64_t from = run->inputs;

    for (int i = 0; i < run->hidden_count; i++) {
        products += (i == 0 ? 2.0 : 3.0) * (double)(from * run->hidden[i]);
        from = run->hidden[i];
    }
    return 2 * (products + 3.0 * (double)(from * run->classes));
}

enum { STRIP = LS__PLAN_STRIP };

/* Elements of a head's (T, T) scores that are computed: the rows of each strip, as far as the strip
 * reaches. */
static double computed_scores(const ls__plan_run *run)
{
    int64_t T = run->context;
    int64_t strips = T / STRIP;
    int64_t whole = STRIP * STRIP * (strips * (strips + 1) / 2);

    return (double)(whole + T % STRIP * T);
}

/* Of one sequence and layer: two products forward; backward those of four gradients, and one again
 * that forward has not kept. */
static double attention_flops(const ls__plan_run *run)
{
    return 7 * 2 * computed_scores(run) * (double)run->width;
}

/* Of one sequence: forward again of all layers but the last, without the product after GELU. */
static double recomputed_flops(const ls__plan_run *run)
{
    double squares = 2 * (double)run->context * (double)(run->width * run->width);
    double attention = 2 * 2 * computed_scores(run) * (double)run->width;

    return (double)(run->layers - 1) * ((3 + 1 + 4) * squares + attention);
}

/* Of one sequence: what `plan compute` says of the model, but for attention. */
static double gpt_flops(const ls__plan_run *run)
{
    ls__plan_model model = {.family = LS__PLAN_GPT,
                            .layers = run->layers,
                            .width = run->width,
                            .heads = run->heads,
                            .key_value_heads = run->heads,
                            .ffn = 4 * run->width,
                            .context = run->context,
                            .vocabulary = run->classes,
                            .experts = 1,
                            .active_experts = 1};
    double unmasked = 3 * ls__plan_forward_flops(&model, LS__PLAN_ATTENTION, 1);

    return ls__plan_step_flops(&model, 1, LS__PLAN_RECOMPUTE_NONE) +
           (double)run->layers * (attention_flops(run) - unmasked) +
           (run->recompute ? recomputed_flops(run) : 0);
}

double ls__plan_run_flops(const ls__plan_run *run)
{
    double samples = (double)(micro_batches(run) * run->micro_batch);

    return samples * (run->hidden_count > 0 ? mlp_flops(run) : gpt_flops(run));
}

double ls__plan_run_seconds(const ls__plan_run *run, const ls__plan_pace *pace,
                            const ls__plan_transport *transport, int64_t cores)
{
    double ranks = (double)run->ranks;
    double share = run->ranks > cores ? (double)cores / ranks : 1;
    double own = (double)micro_batches(run) * (pace->products + pace->elementwise + pace->add);
    double state = (pace->norm + pace->update) / (run->sharded ? ranks : 1);
    double bytes = (double)ls__plan_run_parameters(run) * sizeof(float);
    double sums =
        (double)ls__plan_run_buckets(run) * transport->latency + bytes * transport->per_byte;

    return (own + pace->round / ranks + state + pace->digest) / share + (run->ranks > 1 ? sums : 0);
}
