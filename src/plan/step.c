#include "plan/step.h"

#include "plan/flops.h"

/* Of forward and backward, the share of backward. */
static const double backward_share = 2.0 / 3;

static double above_zero(double value)
{
    return value > 0 ? value : 0;
}

/* ---- the groups of a layout, as networks ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static ls__network tensor_group(const ls__plan_layout *layout, const ls__plan_cluster *cluster)
{
    return (ls__network){.ranks = layout->tensor,
                         .per_node = least(layout->tensor, cluster->per_node),
                         .across = cluster->across,
                         .within = cluster->within};
}

static ls__network data_group(const ls__plan_layout *layout, const ls__plan_cluster *cluster)
{
    int64_t in_node = cluster->per_node / least(layout->tensor, cluster->per_node);

    return (ls__network){.ranks = layout->data,
                         .per_node = least(layout->data, in_node),
                         .across = cluster->across,
                         .within = cluster->within};
}

/* Two neighbours in a pipeline: tensor x data devices apart. */
static ls__network pipeline_pair(const ls__plan_layout *layout, const ls__plan_cluster *cluster)
{
    bool same_node = layout->tensor * layout->data < cluster->per_node;

    return (ls__network){.ranks = 2,
                         .per_node = same_node ? 2 : 1,
                         .across = cluster->across,
                         .within = cluster->within};
}

/* ---- one micro-batch on one stage ---- */

static double stream_bytes(const ls__plan_model *model, const ls__plan_storage *storage,
                           const ls__plan_layout *layout)
{
    return (double)layout->micro_batch * (double)model->context * (double)model->width *
           ls__plan_number_of((ls__plan_format)storage->activation_format).bytes;
}

static double slot_compute(const ls__plan_model *model, const ls__plan_layout *layout,
                           const ls__plan_cluster *cluster)
{
    double flops = ls__plan_step_flops(model, (double)layout->micro_batch, layout->recompute);

    return flops / (double)(layout->tensor * layout->pipeline) /
           (cluster->peak * cluster->efficiency);
}

static double slot_tensor(const ls__plan_model *model, const ls__plan_layout *layout,
                          const ls__plan_cluster *cluster, double bytes)
{
    ls__network group = tensor_group(layout, cluster);
    double times = layout->recompute == LS__PLAN_RECOMPUTE_FULL ? 6 : 4;
    double layers = (double)model->layers / (double)layout->pipeline;

    return times * layers * ls__all_reduce_seconds("ring", &group, bytes);
}

static double slot_pipeline(const ls__plan_layout *layout, const ls__plan_cluster *cluster,
                            double bytes)
{
    ls__network pair = pipeline_pair(layout, cluster);

    return layout->pipeline > 1 ? 2 * ls__point_to_point_seconds(&pair, bytes) : 0;
}

/* ---- data parallelism ---- */

/* Seconds of communication once a step, and for every micro-batch. */
typedef struct data_seconds {
    double once;
    double always;
} data_seconds;

static data_seconds data_communication(const ls__plan_model *model, const ls__plan_storage *storage,
                                       const ls__plan_layout *layout,
                                       const ls__plan_cluster *cluster)
{
    ls__network group = data_group(layout, cluster);
    double bytes = ls__plan_number_of((ls__plan_format)storage->format).bytes *
                   ls__plan_device_parameters(model, layout);
    double scatter = ls__reduce_scatter_seconds(&group, bytes);
    double gather = ls__all_gather_seconds(&group, bytes);

    if (layout->sharding < 2)
        return (data_seconds){.once = scatter + gather};
    if (layout->sharding == 2)
        return (data_seconds){.once = gather, .always = scatter};
    return (data_seconds){.always = scatter + 2 * gather};
}

static double exposed(data_seconds data, double micro_batches, double compute, bool overlap)
{
    if (!overlap)
        return data.once + micro_batches * data.always;
    return (micro_batches - 1) * above_zero(data.always - compute) +
           above_zero(data.always + data.once - backward_share * compute);
}

/* ---- the step ---- */

double ls__plan_bubble(int64_t pipeline, int64_t micro_batches)
{
    return (double)(pipeline - 1) / (double)(micro_batches + pipeline - 1);
}

ls__plan_step ls__plan_step_of(const ls__plan_model *model, const ls__plan_storage *storage,
                               const ls__plan_layout *layout, const ls__plan_cluster *cluster)
{
    double m = (double)layout->micro_batches;
    double bytes = stream_bytes(model, storage, layout);
    double compute = slot_compute(model, layout, cluster);
    double tensor = slot_tensor(model, layout, cluster, bytes);
    double pipeline = slot_pipeline(layout, cluster, bytes);
    data_seconds data = data_communication(model, storage, layout, cluster);
    ls__plan_step step = {
        .compute = m * compute,
        .bubble = (double)(layout->pipeline - 1) * (compute + tensor + pipeline),
        .tensor = m * tensor,
        .pipeline = m * pipeline,
        .data = exposed(data, m, compute, cluster->overlap),
    };

    step.total = step.compute + step.bubble + step.tensor + step.pipeline + step.data;
    return step;
}

/* ---- data parallelism alone ---- */

ls__plan_replicas_time ls__plan_replicas_step(const ls__plan_replicas *replicas, int64_t ranks)
{
    ls__network network = replicas->network;
    ls__plan_replicas_time time = {.compute = replicas->compute};

    network.ranks = ranks;
    if (replicas->strong)
        time.compute /= (double)ranks;
    time.communication = ls__all_reduce_seconds(replicas->algorithm, &network, replicas->bytes);
    time.apart = time.compute + time.communication;
    time.together = time.compute + above_zero(time.communication - backward_share * time.compute);
    return time;
}

int64_t ls__plan_overtaken(const ls__plan_replicas *replicas, bool overlap, int64_t most)
{
    double share = overlap ? backward_share : 1;

    for (int64_t ranks = 2; ranks <= most; ranks++) {
        ls__plan_replicas_time time = ls__plan_replicas_step(replicas, ranks);
        if (time.communication > share * time.compute)
            return ranks;
    }
    return 0;
}
