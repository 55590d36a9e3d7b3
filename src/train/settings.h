/* Everything that a training run is told: one struct, one table of flags. */
#ifndef LS_TRAIN_SETTINGS_H
#define LS_TRAIN_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "lockstep/status.h"

enum ls__model_kind { LS__MODEL_GPT, LS__MODEL_MLP };

enum ls__reduce_kind { LS__REDUCE_EXACT, LS__REDUCE_F32 };

enum { LS__ALLREDUCE_AUTO = 0 };

/* "auto", or the algorithm's name. */
const char *ls__train_allreduce_name(int allreduce);

typedef struct ls__train_settings {
    char data[LS__TEXT_MAX];
    char run[LS__TEXT_MAX];
    bool resume;
    int64_t ranks;
    int64_t restarts, min_ranks;

    int model; /* ls__model_kind */
    int64_t layers, heads, width, context;
    double dropout;
    ls__list hidden;
    int activation; /* ls__activation */
    int precision;  /* ls__format: of what is stored and multiplied */

    int64_t batch, micro_batch, steps;
    int optimizer; /* ls__optimizer_kind */
    double lr, min_lr;
    int64_t warmup, decay_steps;
    double weight_decay, beta1, beta2, momentum, clip;
    double loss_scale; /* 0: none; NAN, until resolved: what suits the precision */
    int64_t loss_scale_growth;
    double loss_scale_floor;
    int64_t seed;

    int64_t eval_every, eval_batches, checkpoint_every, keep;

    int reduce;    /* ls__reduce_kind */
    int allreduce; /* LS__ALLREDUCE_AUTO, or 1 + an index into LS_ALGORITHM_NAMES */
    int64_t bucket;
    bool shard_optimizer;
    int64_t threads; /* that compute inside each rank */
    bool recompute;
    double stall_timeout;
    int64_t audit_every;
} ls__train_settings;

extern const ls__option_table ls__train_options;

/* The row of that table for a flag, which must be there: for commands that take some of train's. */
const ls__option *ls__train_option(const char *name);

/* Fills in the defaults that depend on other flags (--micro-batch, --decay-steps, --loss-scale),
 * then checks what the flags say about each other. LS_BAD_USAGE. */
ls_status ls__train_settings_resolve(ls__train_settings *settings);

/* The same of what a step alone needs: no dataset, no run. */
ls_status ls__train_settings_resolve_step(ls__train_settings *settings);

/* V, the micro-batches of a step. */
int64_t ls__micro_batches(const ls__train_settings *settings);

/* Whether so many ranks can share the micro-batches of a step. LS_BAD_USAGE. */
ls_status ls__train_settings_check_ranks(const ls__train_settings *settings, int64_t ranks);

/* The settings as an INI text, in memory that the caller frees. LS_NO_MEMORY. */
ls_status ls__train_settings_text(const ls__train_settings *settings, char **text);

#endif
