#include "train/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "lockstep/schedule.h"
#include "math/format.h"
#include "train/scaler.h"

/* Sizes beyond this are typing errors; products of three of them still fit an int64_t. */
static const double size_max = 1 << 20;
static const double count_max = 1e15;

enum { DEFAULT_MICRO_BATCHES = 8 };

#define AT(member) offsetof(ls__train_settings, member)
#define BITS       LS__SCOPE_BITS
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"data", "", "FILE", "the dataset", AT(data), 0, 0, LS__OPTION_TEXT, RUN, 0},
    {"run", "", "DIR", "the folder of the run: configuration, metrics, checkpoints", AT(run), 0, 0,
     LS__OPTION_TEXT, RUN, 0},
    {"resume", "false", "", "go on from the run's last checkpoint, with the run's own flags",
     AT(resume), 0, 0, LS__OPTION_SWITCH, RUN, 0},
    {"ranks", "0", "N", "start N ranks with mpirun; 0: as many as mpirun started", AT(ranks), 0,
     65536, LS__OPTION_INT, RUN, 0},
    {"restarts", "0", "times",
     "with --ranks: how often to start again from the last checkpoint when ranks are lost",
     AT(restarts), 0, 1e6, LS__OPTION_INT, RUN, 0},
    {"min-ranks", "1", "N", "with --restarts: start again on no fewer ranks than these",
     AT(min_ranks), 1, 65536, LS__OPTION_INT, RUN, 0},

    {"model", "gpt", "gpt|mlp", "gpt for text, mlp for images", AT(model), 0, 0, LS__OPTION_CHOICE,
     BITS, 0},
    {"layers", "4", "layers", "gpt: depth", AT(layers), 1, 4096, LS__OPTION_INT, BITS, 0},
    {"heads", "4", "heads", "gpt: attention heads; they divide the width", AT(heads), 1, 4096,
     LS__OPTION_INT, BITS, 0},
    {"width", "128", "channels", "gpt: width of the residual stream", AT(width), 1, size_max,
     LS__OPTION_INT, BITS, 0},
    {"context", "64", "tokens", "gpt: length of a sequence", AT(context), 1, size_max,
     LS__OPTION_INT, BITS, 0},
    {"dropout", "0", "rate", "gpt: dropout", AT(dropout), 0, 0.999, LS__OPTION_REAL, BITS, 0},
    {"hidden", "256,128", "widths", "mlp: hidden layers", AT(hidden), 1, size_max, LS__OPTION_LIST,
     BITS, 0},
    {"activation", "relu", "relu|gelu", "mlp: between layers", AT(activation), 0, 0,
     LS__OPTION_CHOICE, BITS, 0},
    {"precision", "f32", LS__FORMAT_NAMES,
     "what layers store and multiply; sums, the weights that are updated and the optimizer are f32",
     AT(precision), 0, 0, LS__OPTION_CHOICE, BITS, 0},

    {"batch", "12", "samples", "sequences or images per step, all ranks together", AT(batch), 1,
     size_max, LS__OPTION_INT, BITS, 0},
    {"micro-batch", "0", "samples",
     "samples computed together; part of the arithmetic, never depends on the ranks; 0: so that "
     "their number is the largest divisor of the batch not above 8",
     AT(micro_batch), 0, size_max, LS__OPTION_INT, BITS, 0},
    {"steps", "2000", "steps", "updates to do in all", AT(steps), 1, count_max, LS__OPTION_INT, RUN,
     0},
    {"optimizer", "adamw", "adamw|sgd", "update rule", AT(optimizer), 0, 0, LS__OPTION_CHOICE, BITS,
     0},
    {"lr", "1e-3", "rate", "highest learning rate", AT(lr), 0, 1e6, LS__OPTION_REAL, BITS, 0},
    {"min-lr", "1e-4", "rate", "learning rate at the end of the cosine", AT(min_lr), 0, 1e6,
     LS__OPTION_REAL, BITS, 0},
    {"warmup", "100", "steps", "steps of linear warm-up", AT(warmup), 0, count_max, LS__OPTION_INT,
     BITS, 0},
    {"decay-steps", "0", "steps", "where the cosine ends; 0: at --steps", AT(decay_steps), 0,
     count_max, LS__OPTION_INT, BITS, 0},
    {"weight-decay", "0.1", "rate", "decoupled, on matrices only", AT(weight_decay), 0, 1e6,
     LS__OPTION_REAL, BITS, 0},
    {"beta1", "0.9", "factor", "adamw: decay of the first moment", AT(beta1), 0, 0.999999,
     LS__OPTION_REAL, BITS, 0},
    {"beta2", "0.99", "factor", "adamw: decay of the second moment", AT(beta2), 0, 0.999999,
     LS__OPTION_REAL, BITS, 0},
    {"momentum", "0.9", "factor", "sgd: momentum", AT(momentum), 0, 0.999999, LS__OPTION_REAL, BITS,
     0},
    {"clip", "1.0", "norm", "largest norm of the gradient; 0: no clipping", AT(clip), 0, 1e30,
     LS__OPTION_REAL, BITS, 0},
    {"loss-scale", "", "factor",
     "power of two by which gradients are multiplied on their way through backward, then adapted; "
     "0: none; default: 65536 with --precision f16, else none",
     AT(loss_scale), 0, LS__SCALE_MAX, LS__OPTION_REAL, BITS, 0},
    {"loss-scale-growth", "2000", "steps",
     "after so many steps without an overflow the loss scale is doubled", AT(loss_scale_growth), 1,
     count_max, LS__OPTION_INT, BITS, 0},
    {"loss-scale-floor", "1", "factor",
     "below this the loss scale is not halved: an overflow ends the run", AT(loss_scale_floor),
     LS__SCALE_MIN, LS__SCALE_MAX, LS__OPTION_REAL, BITS, 0},
    {"seed", "1337", "number", "of weights, order of samples, dropout", AT(seed), 0, 9e15,
     LS__OPTION_INT, BITS, 0},

    {"eval-every", "250", "steps", "evaluate after every so many steps and at the end; 0: never",
     AT(eval_every), 0, count_max, LS__OPTION_INT, RUN, 0},
    {"eval-batches", "64", "batches",
     "batches of held-out samples to evaluate on, spread evenly; 0: all samples", AT(eval_batches),
     0, size_max, LS__OPTION_INT, RUN, 0},
    {"checkpoint-every", "500", "steps", "save after every so many steps; always at the end",
     AT(checkpoint_every), 1, count_max, LS__OPTION_INT, RUN, 0},
    {"keep", "3", "checkpoints", "how many of the newest checkpoints to keep", AT(keep), 1,
     size_max, LS__OPTION_INT, RUN, 0},

    {"reduce", "exact", "exact|f32",
     "how gradients are summed: exact, the same bits at any number of ranks, or FP32 in the order "
     "of "
     "the algorithm",
     AT(reduce), 0, 0, LS__OPTION_CHOICE, BITS, 0},
    {"allreduce", "auto", "auto|" LS_ALGORITHM_NAMES,
     "algorithm; auto: what suits the size, the ranks and how they stand on nodes", AT(allreduce),
     0, 0, LS__OPTION_CHOICE, RUN, 0},
    {"bucket", "0", "bytes", "gradient bytes that are reduced together; 0: measured at start",
     AT(bucket), 0, 0x1p50, LS__OPTION_BYTES, RUN, 0},
    {"shard-optimizer", "false", "",
     "each rank keeps and updates a share of the optimizer's state (ZeRO-1)", AT(shard_optimizer),
     0, 0, LS__OPTION_SWITCH, RUN, 0},
    {"threads", "1", "threads", "threads that compute inside each rank; the bits stay the same",
     AT(threads), 1, LS__THREADS_MAX, LS__OPTION_INT, RUN, 0},
    {"recompute", "false", "",
     "gpt: compute a layer's activations again in backward instead of keeping them: less memory, "
     "the "
     "same bits",
     AT(recompute), 0, 0, LS__OPTION_SWITCH, RUN, 0},
    {"stall-timeout", "120", "seconds", "how long a rank waits for another before the run ends",
     AT(stall_timeout), 1, 1e6, LS__OPTION_REAL, RUN, 0},
    {"audit-every", "0", "steps",
     "in every so many steps recompute a micro-batch of another rank and compare the bits, and "
     "those of all replicas; 0: never",
     AT(audit_every), 0, count_max, LS__OPTION_INT, RUN, 0},
};

const ls__option *ls__train_option(const char *name)
{
    const ls__option *option = ls__train_options.option;

    while (strcmp(option->name, name) != 0)
        option++;
    return option;
}

const char *ls__train_allreduce_name(int allreduce)
{
    return allreduce == LS__ALLREDUCE_AUTO ? "auto" : ls_algorithm_at(allreduce - 1)->name;
}

const ls__option_table ls__train_options = {
    .command = "lockstep train",
    .summary = "train a model on all ranks together",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
};

int64_t ls__micro_batches(const ls__train_settings *settings)
{
    return settings->batch / settings->micro_batch;
}

static int64_t default_micro_batch(int64_t batch)
{
    int64_t parts = DEFAULT_MICRO_BATCHES;

    while (batch % parts != 0)
        parts--;
    return batch / parts;
}

static ls_status check_model(const ls__train_settings *settings)
{
    if (settings->model == LS__MODEL_MLP)
        return LS_OK;
    LS_FAIL_IF(settings->width % settings->heads != 0, LS_BAD_USAGE,
               "--heads %lld does not divide --width %lld: choose a width that is a multiple of "
               "the heads",
               (long long)settings->heads, (long long)settings->width);
    return LS_OK;
}

static ls_status check_power(const char *flag, double value)
{
    double below = exp2(floor(log2(value)));

    LS_FAIL_IF(!ls__scaler_allows(value), LS_BAD_USAGE,
               "--%s %.10g is not a power of two: use %.10g or %.10g", flag, value, below,
               2 * below);
    return LS_OK;
}

static ls_status resolve_loss_scale(ls__train_settings *settings)
{
    if (isnan(settings->loss_scale))
        settings->loss_scale = settings->precision == LS__F16 ? LS__SCALE_F16 : 0;
    LS_TRY(check_power("loss-scale-floor", settings->loss_scale_floor));
    if (settings->loss_scale == 0)
        return LS_OK;
    LS_FAIL_IF(settings->loss_scale < settings->loss_scale_floor, LS_BAD_USAGE,
               "--loss-scale %.10g is below --loss-scale-floor %.10g: raise it, or lower the floor",
               settings->loss_scale, settings->loss_scale_floor);
    return check_power("loss-scale", settings->loss_scale);
}

ls_status ls__train_settings_resolve_step(ls__train_settings *settings)
{
    if (settings->micro_batch == 0)
        settings->micro_batch = default_micro_batch(settings->batch);
    LS_FAIL_IF(settings->batch % settings->micro_batch != 0, LS_BAD_USAGE,
               "--batch %lld is not a multiple of --micro-batch %lld: change one of them",
               (long long)settings->batch, (long long)settings->micro_batch);
    LS_TRY(resolve_loss_scale(settings));
    return check_model(settings);
}

ls_status ls__train_settings_resolve(ls__train_settings *settings)
{
    if (settings->decay_steps == 0)
        settings->decay_steps = settings->steps;
    LS_FAIL_IF(!*settings->data, LS_BAD_USAGE,
               "--data is missing: name a dataset made by lockstep data");
    LS_FAIL_IF(!*settings->run, LS_BAD_USAGE, "--run is missing: name a folder for the run");
    LS_FAIL_IF(settings->min_lr > settings->lr, LS_BAD_USAGE,
               "--min-lr %g is above --lr %g: lower it", settings->min_lr, settings->lr);
    return ls__train_settings_resolve_step(settings);
}

ls_status ls__train_settings_check_ranks(const ls__train_settings *settings, int64_t ranks)
{
    int64_t parts = ls__micro_batches(settings);

    LS_FAIL_IF(ranks > parts, LS_BAD_USAGE,
               "%lld ranks cannot share the %lld micro-batches of a step: start at most %lld "
               "ranks, or lower --micro-batch %lld or raise --batch %lld",
               (long long)ranks, (long long)parts, (long long)parts,
               (long long)settings->micro_batch, (long long)settings->batch);
    return LS_OK;
}

ls_status ls__train_settings_text(const ls__train_settings *settings, char **text)
{
    size_t size = 0;
    FILE *stream = open_memstream(text, &size);

    LS_FAIL_IF(!stream, LS_NO_MEMORY, "no memory for the configuration's text");
    ls__options_write(&ls__train_options, settings, stream);
    LS_FAIL_IF(fclose(stream) != 0, LS_NO_MEMORY, "no memory for the configuration's text");
    return LS_OK;
}
