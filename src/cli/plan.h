/* What the commands of `lockstep plan` share: one struct of settings, and groups of flags from
 * which each command picks. */
#ifndef LS_CLI_PLAN_H
#define LS_CLI_PLAN_H

#include "base/options.h"
#include "cli/report.h"
#include "plan/device.h"
#include "plan/memory.h"
#include "plan/step.h"

typedef struct ls__plan_settings {
    char model_name[LS__TEXT_MAX];
    bool changed; /* by flags: the model is not what its name says */
    ls__plan_model model;
    double params, tokens, flops; /* NAN: not given */

    ls__plan_storage storage; /* two of its members are told as choices: */
    int master;               /* 0: none */
    int activations;          /* 0: as the parameters; else ls__plan_format + 1 */

    ls__plan_layout layout;
    int64_t batch; /* sequences */

    char device[LS__TEXT_MAX];
    double memory; /* 1e9 bytes, of a device; NAN: the device's */
    double peak;   /* TFLOP/s; NAN: the device's */
    double share;  /* of the peak: MFU, or the kernels' efficiency */
    int64_t devices;

    int64_t per_node;
    char intra[LS__TEXT_MAX], inter[LS__TEXT_MAX];
    double intra_latency, inter_latency; /* microseconds */
    int overlap;                         /* 0: off, 1: on */

    int64_t ranks, rows;
    int algorithm;
    int scaling; /* 0: weak, 1: strong */
    double bytes;
    bool table;

    char json[LS__TEXT_MAX], plot[LS__TEXT_MAX];
} ls__plan_settings;

#define LS__PLAN_AT(member) offsetof(ls__plan_settings, member)

/* Flags that several commands have. */
typedef enum ls__plan_flags {
    LS__PLAN_FLAGS_MODEL = 1 << 0,   /* --model, and the shape */
    LS__PLAN_FLAGS_FORMATS = 1 << 1, /* --format --activations */
    LS__PLAN_FLAGS_STATES = 1 << 2,  /* --optimizer --master */
    LS__PLAN_FLAGS_MEMORY = 1 << 3,  /* --memory */
    LS__PLAN_FLAGS_LINKS = 1 << 4,   /* --inter --intra and their latencies, --per-node */
} ls__plan_flags;

/* All commands have --device, --peak and --json too. */
typedef struct ls__plan_command {
    const char *command; /* as in ls__option_table, and so are summary and notes */
    const char *summary;
    const char *notes;
    unsigned flags;           /* ls__plan_flags */
    const ls__option *option; /* the command's own flags, of ls__plan_settings */
    int count;
} ls__plan_command;

/* Parses the flags over the model that --model names, and settles what they leave open: the model
 * is resolved, the formats are filled in. *help: it was asked for, and printed. LS_BAD_USAGE. */
ls_status ls__plan_parse(const ls__plan_command *command, ls__plan_settings *settings, int argc,
                         char **argv, bool *help);

/* The device, with what flags say of it; its peak is of the activations' format. */
typedef struct ls__plan_machine {
    const char *name;
    double memory; /* bytes */
    double peak;   /* FLOP/s */
    double link;   /* bytes a second */
} ls__plan_machine;

/* LS_BAD_USAGE where the device has no such format. */
ls_status ls__plan_machine_of(const ls__plan_settings *settings, ls__plan_machine *machine);

/* The links of LS__PLAN_FLAGS_LINKS. */
ls_status ls__plan_links_of(const ls__plan_settings *settings, const ls__plan_machine *machine,
                            ls__link *within, ls__link *across);

/* One line: what is planned for. */
void ls__plan_print_model(const ls__plan_settings *settings);

ls_status ls__cli_plan_memory(int argc, char **argv);
ls_status ls__cli_plan_compute(int argc, char **argv);
ls_status ls__cli_plan_network(int argc, char **argv);
ls_status ls__cli_plan_layout(int argc, char **argv);
ls_status ls__cli_plan_optimal(int argc, char **argv);
ls_status ls__cli_plan_check(int argc, char **argv);

#endif
