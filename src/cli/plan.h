/* What the commands of `lockstep plan` share: one struct of settings, and rows of flags from which
 * each command's table picks. */
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

    ls__plan_storage storage; /* its `master` is below, as a choice; activations: "same" is 0 */
    int master;
    int activations;

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

#define LS__PLAN_INT(name, preset, unit, help, member, min, max)                                  \
    {                                                                                             \
        name, preset, unit, help, LS__PLAN_AT(member), min, max, LS__OPTION_INT, LS__SCOPE_RUN, 0 \
    }
#define LS__PLAN_REAL(name, preset, unit, help, member, min, max)                                  \
    {                                                                                              \
        name, preset, unit, help, LS__PLAN_AT(member), min, max, LS__OPTION_REAL, LS__SCOPE_RUN, 0 \
    }
#define LS__PLAN_TEXT(name, preset, unit, help, member)                                        \
    {                                                                                          \
        name, preset, unit, help, LS__PLAN_AT(member), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0 \
    }
#define LS__PLAN_CHOICE(name, preset, choices, help, member)                                      \
    {                                                                                             \
        name, preset, choices, help, LS__PLAN_AT(member), 0, 0, LS__OPTION_CHOICE, LS__SCOPE_RUN, \
            0                                                                                     \
    }

/* The shape; presets are gpt2's. A model file has these names too. */
#define LS__PLAN_SHAPE_ROWS                                                                        \
    LS__PLAN_CHOICE("family", "gpt", LS__PLAN_FAMILY_NAMES,                                        \
                    "gpt: biases, GELU, learned positions, the embedding as head; llama: none of " \
                    "these, but a gated MLP and a head of its own",                                \
                    model.family),                                                                 \
        LS__PLAN_INT("layers", "12", "layers", "depth", model.layers, 1, 4096),                    \
        LS__PLAN_INT("width", "768", "channels", "width of the residual stream", model.width, 1,   \
                     0x1p20),                                                                      \
        LS__PLAN_INT("heads", "12", "heads", "attention heads; they divide the width",             \
                     model.heads, 1, 4096),                                                        \
        LS__PLAN_INT("kv-heads", "0", "heads", "heads of keys and values; 0: all",                 \
                     model.key_value_heads, 0, 4096),                                              \
        LS__PLAN_INT("ffn", "0", "channels", "inner width of the MLP; 0: 4 times the width",       \
                     model.ffn, 0, 0x1p22),                                                        \
        LS__PLAN_INT("context", "1024", "tokens", "length of a sequence", model.context, 1,        \
                     0x1p24),                                                                      \
        LS__PLAN_INT("vocabulary", "50257", "tokens",                                              \
                     "0: the layers alone, without embedding and head", model.vocabulary, 0,       \
                     0x1p24),                                                                      \
        LS__PLAN_INT("experts", "1", "experts", "MLPs of a layer", model.experts, 1, 4096),        \
        LS__PLAN_INT("active-experts", "1", "experts", "of those, that work on a token",           \
                     model.active_experts, 1, 4096),                                               \
    {                                                                                              \
        "dropout", "true", "", "keep dropout masks; --dropout=false: there is none",               \
            LS__PLAN_AT(model.dropout), 0, 0, LS__OPTION_SWITCH, LS__SCOPE_RUN, 0                  \
    }

#define LS__PLAN_MODEL_ROWS                                                               \
    LS__PLAN_TEXT(                                                                        \
        "model", "gpt2", "NAME|FILE.ini",                                                 \
        "gpt2, gpt3-175b, llama-7b, llama-65b, mixtral-8x7b, or a file with lines `flag " \
        "= value` of the shape; the flags below change it",                               \
        model_name),                                                                      \
        LS__PLAN_SHAPE_ROWS

#define LS__PLAN_FORMAT_ROWS                                                                \
    LS__PLAN_CHOICE("format", "bf16", LS__PLAN_FORMAT_NAMES, "of parameters and gradients", \
                    storage.format),                                                        \
        LS__PLAN_CHOICE("activations", "same", "same|" LS__PLAN_FORMAT_NAMES,               \
                        "format of activations and matrix products", activations)

#define LS__PLAN_STATE_ROWS                                                      \
    LS__PLAN_CHOICE("optimizer", "adamw", LS__PLAN_OPTIMIZER_NAMES,              \
                    "FP32 moments: two a parameter, or one", storage.optimizer), \
        LS__PLAN_CHOICE("master", "f32", "none|f32",                             \
                        "a copy of parameters that are not FP32 themselves", master)

#define LS__PLAN_DEVICE_ROWS                                                                   \
    LS__PLAN_TEXT("device", "a100-80g", "NAME",                                                \
                  "v100-32g, a100-40g, a100-80g, h100-80g, h200-141g or mi300x-192g", device), \
        LS__PLAN_REAL("peak", "", "TFLOP/s", "another peak than the device's", peak, 1e-6, 1e9)

#define LS__PLAN_MEMORY_ROW                                                                     \
    LS__PLAN_REAL("memory", "", "GB", "another memory than the device's, in 1e9 bytes", memory, \
                  1e-6, 1e9)

/* `whose`: what has the link to other nodes. */
#define LS__PLAN_LINK_ROWS(whose)                                                                 \
    LS__PLAN_TEXT("inter", "200Gb/s", "RATE",                                                     \
                  whose " link to other nodes, in one direction: 25GB/s, 200Gb/s", inter),        \
        LS__PLAN_REAL("inter-latency", "5", "us", "of a message between nodes", inter_latency, 0, \
                      1e9),                                                                       \
        LS__PLAN_TEXT("intra", "", "RATE",                                                        \
                      "a device's link within its node, in one direction; the device's where it " \
                      "is not given",                                                             \
                      intra),                                                                     \
        LS__PLAN_REAL("intra-latency", "2", "us", "of a message within a node", intra_latency, 0, \
                      1e9),                                                                       \
        LS__PLAN_INT("per-node", "8", "devices", "of a node", per_node, 1, 4096)

#define LS__PLAN_JSON_ROW LS__PLAN_TEXT("json", "", "FILE", "write the numbers there too", json)
#define LS__PLAN_PLOT_ROW LS__PLAN_TEXT("plot", "", "FILE.svg", "draw them, with gnuplot", plot)

/* Parses the flags: a table with LS__PLAN_MODEL_ROWS fills in the model that --model names under
 * what other flags say of it. *help: it was asked for, and printed. */
ls_status ls__plan_parse(const ls__option_table *table, ls__plan_settings *settings, int argc,
                         char **argv, bool *help);

/* The model resolved and the layout checked: for tables with the rows of a model. */
ls_status ls__plan_settle_model(ls__plan_settings *settings);

/* The device, with what flags say of it; its peak is of the activations' format. */
typedef struct ls__plan_machine {
    const char *name;
    double memory; /* bytes */
    double peak;   /* FLOP/s */
    double link;   /* bytes a second */
} ls__plan_machine;

/* LS_BAD_USAGE where the device has no such format. */
ls_status ls__plan_machine_of(const ls__plan_settings *settings, ls__plan_machine *machine);

/* The links of LS__PLAN_LINK_ROWS. */
ls_status ls__plan_links_of(const ls__plan_settings *settings, const ls__plan_machine *machine,
                            ls__link *within, ls__link *across);

/* One line: what is planned for. */
void ls__plan_print_model(const ls__plan_settings *settings);

ls_status ls__cli_plan_memory(int argc, char **argv);
ls_status ls__cli_plan_compute(int argc, char **argv);
ls_status ls__cli_plan_network(int argc, char **argv);
ls_status ls__cli_plan_layout(int argc, char **argv);
ls_status ls__cli_plan_optimal(int argc, char **argv);

#endif
