/* lockstep plan: what training costs, before it is run. No MPI. */
#include "cli/plan.h"

#include <assert.h>
#include <string.h>

#include "base/units.h"
#include "cli/commands.h"

/* ---- flags that several commands have ---- */

#define AT(member) LS__PLAN_AT(member)
#define RUN        LS__SCOPE_RUN

/* Presets are gpt2's. A model file has these names too. */
static const ls__option shape_options[] = {
    {"family", "gpt", LS__PLAN_FAMILY_NAMES,
     "gpt: biases, GELU, learned positions, the embedding as head; llama: none of these, but a "
     "gated MLP and a head of its own",
     AT(model.family), 0, 0, LS__OPTION_CHOICE, RUN, 0},
    {"layers", "12", "layers", "depth", AT(model.layers), 1, 4096, LS__OPTION_INT, RUN, 0},
    {"width", "768", "channels", "width of the residual stream", AT(model.width), 1, 0x1p20,
     LS__OPTION_INT, RUN, 0},
    {"heads", "12", "heads", "attention heads; they divide the width", AT(model.heads), 1, 4096,
     LS__OPTION_INT, RUN, 0},
    {"kv-heads", "0", "heads", "heads of keys and values; 0: all", AT(model.key_value_heads), 0,
     4096, LS__OPTION_INT, RUN, 0},
    {"ffn", "0", "channels", "inner width of the MLP; 0: 4 times the width", AT(model.ffn), 0,
     0x1p22, LS__OPTION_INT, RUN, 0},
    {"context", "1024", "tokens", "length of a sequence", AT(model.context), 1, 0x1p24,
     LS__OPTION_INT, RUN, 0},
    {"vocabulary", "50257", "tokens", "0: the layers alone, without embedding and head",
     AT(model.vocabulary), 0, 0x1p24, LS__OPTION_INT, RUN, 0},
    {"experts", "1", "experts", "MLPs of a layer", AT(model.experts), 1, 4096, LS__OPTION_INT, RUN,
     0},
    {"active-experts", "1", "experts", "of those, that work on a token", AT(model.active_experts),
     1, 4096, LS__OPTION_INT, RUN, 0},
    {"dropout", "true", "", "keep dropout masks; --dropout=false: there is none", AT(model.dropout),
     0, 0, LS__OPTION_SWITCH, RUN, 0},
};

static const ls__option model_options[] = {
    {"model", "gpt2", "NAME|FILE.ini",
     "gpt2, gpt3-175b, llama-7b, llama-65b, mixtral-8x7b, or a file with lines `flag = value` of "
     "the shape; the flags below change it",
     AT(model_name), 0, 0, LS__OPTION_TEXT, RUN, 0},
};

static const ls__option format_options[] = {
    {"format", "bf16", LS__PLAN_FORMAT_NAMES, "of parameters and gradients", AT(storage.format), 0,
     0, LS__OPTION_CHOICE, RUN, 0},
    {"activations", "same", "same|" LS__PLAN_FORMAT_NAMES,
     "format of activations and matrix products", AT(activations), 0, 0, LS__OPTION_CHOICE, RUN, 0},
};

static const ls__option state_options[] = {
    {"optimizer", "adamw", LS__PLAN_OPTIMIZER_NAMES, "FP32 moments: two a parameter, or one",
     AT(storage.optimizer), 0, 0, LS__OPTION_CHOICE, RUN, 0},
    {"master", "f32", "none|f32", "a copy of parameters that are not FP32 themselves", AT(master),
     0, 0, LS__OPTION_CHOICE, RUN, 0},
};

static const ls__option memory_options[] = {
    {"memory", "", "GB", "another memory than the device's, in 1e9 bytes", AT(memory), 1e-6, 1e9,
     LS__OPTION_REAL, RUN, 0},
};

static const ls__option link_options[] = {
    {"inter", "200Gb/s", "RATE", "the link to other nodes, in one direction: 25GB/s, 200Gb/s",
     AT(inter), 0, 0, LS__OPTION_TEXT, RUN, 0},
    {"inter-latency", "5", "us", "of a message between nodes", AT(inter_latency), 0, 1e9,
     LS__OPTION_REAL, RUN, 0},
    {"intra", "", "RATE",
     "a device's link within its node, in one direction; the device's where it is not given",
     AT(intra), 0, 0, LS__OPTION_TEXT, RUN, 0},
    {"intra-latency", "2", "us", "of a message within a node", AT(intra_latency), 0, 1e9,
     LS__OPTION_REAL, RUN, 0},
    {"per-node", "8", "devices", "of a node", AT(per_node), 1, 4096, LS__OPTION_INT, RUN, 0},
};

static const ls__option common_options[] = {
    {"device", "a100-80g", "NAME",
     "v100-32g, a100-40g, a100-80g, h100-80g, h200-141g or mi300x-192g", AT(device), 0, 0,
     LS__OPTION_TEXT, RUN, 0},
    {"peak", "", "TFLOP/s", "another peak than the device's", AT(peak), 1e-6, 1e9, LS__OPTION_REAL,
     RUN, 0},
    {"json", "", "FILE", "write the numbers there too", AT(json), 0, 0, LS__OPTION_TEXT, RUN, 0},
};

typedef struct flag_group {
    const ls__option *option;
    int count;
    unsigned flag; /* 0: of every command */
} flag_group;

#define ALL_OF(options) options, sizeof(options) / sizeof(options)[0]

static const flag_group groups[] = {
    {ALL_OF(model_options), LS__PLAN_FLAGS_MODEL},
    {ALL_OF(shape_options), LS__PLAN_FLAGS_MODEL},
    {ALL_OF(format_options), LS__PLAN_FLAGS_FORMATS},
    {ALL_OF(state_options), LS__PLAN_FLAGS_STATES},
    {ALL_OF(link_options), LS__PLAN_FLAGS_LINKS},
    {ALL_OF(common_options), 0},
    {ALL_OF(memory_options), LS__PLAN_FLAGS_MEMORY},
};

enum { OPTIONS_MAX = 64 };

static void append(ls__option *rows, int *count, const ls__option *more, int more_count)
{
    assert(*count + more_count <= OPTIONS_MAX);
    memcpy(rows + *count, more, (size_t)more_count * sizeof *more);
    *count += more_count;
}

/* The command's own flags, then those of its groups. The rows live until the next call. */
static ls__option_table table_of(const ls__plan_command *command)
{
    static ls__option rows[OPTIONS_MAX];
    int count = 0;

    append(rows, &count, command->option, command->count);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (groups[i].flag == 0 || command->flags & groups[i].flag)
            append(rows, &count, groups[i].option, groups[i].count);
    return (ls__option_table){.command = command->command,
                              .summary = command->summary,
                              .operands = "",
                              .option = rows,
                              .count = count,
                              .notes = command->notes};
}

/* ---- the model ---- */

/* For files: the shape alone. */
static const ls__option_table shape_table = {
    .command = "a model file",
    .option = shape_options,
    .count = sizeof shape_options / sizeof shape_options[0],
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static ls_status fill_in_model(ls__plan_settings *settings)
{
    if (ends_with(settings->model_name, ".ini"))
        return ls__options_read(&shape_table, settings, settings->model_name);
    return ls__plan_model_find(settings->model_name, &settings->model);
}

/* The flags once more, over the model that they name. */
static ls_status parse_over_model(const ls__option_table *table, ls__plan_settings *settings,
                                  int argc, char **argv)
{
    static ls__plan_settings named;
    ls__parsed parsed;

    LS_TRY(fill_in_model(settings));
    named = *settings;
    LS_TRY(ls__options_parse_over(table, settings, argc, argv, &parsed));
    settings->changed = ls__options_differ(&shape_table, &named, settings, LS__SCOPE_RUN) >= 0;
    return ls__plan_model_resolve(&settings->model);
}

ls_status ls__plan_parse(const ls__plan_command *command, ls__plan_settings *settings, int argc,
                         char **argv, bool *help)
{
    ls__option_table table = table_of(command);
    ls__plan_storage *storage = &settings->storage;
    ls__parsed parsed;

    LS_TRY(ls__options_parse(&table, settings, argc, argv, &parsed));
    *help = parsed.help;
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    if (command->flags & LS__PLAN_FLAGS_MODEL)
        LS_TRY(parse_over_model(&table, settings, argc, argv));
    storage->master = settings->master != 0;
    storage->activation_format =
        settings->activations == 0 ? storage->format : settings->activations - 1;
    return LS_OK;
}

void ls__plan_print_model(const ls__plan_settings *settings)
{
    const ls__plan_model *model = &settings->model;
    double all = ls__plan_parameters(model);
    double active = ls__plan_active_parameters(model);

    printf("%s: %lld layers, width %lld, %lld heads, context %lld, %.4g G parameters",
           settings->changed ? "a model by flags" : settings->model_name, (long long)model->layers,
           (long long)model->width, (long long)model->heads, (long long)model->context, all / 1e9);
    if (active < all)
        printf(", of which %.4g G work on a token", active / 1e9);
    printf("\n");
}

/* ---- the machine ---- */

ls_status ls__plan_machine_of(const ls__plan_settings *settings, ls__plan_machine *machine)
{
    ls__plan_device device = {0};
    int format = settings->storage.activation_format;

    LS_TRY(ls__plan_device_find(settings->device, &device));
    *machine = (ls__plan_machine){
        .name = device.name,
        .memory = settings->memory > 0 ? settings->memory * 1e9 : device.memory,
        .peak = settings->peak > 0 ? settings->peak * 1e12 : device.peak[format],
        .link = device.link,
    };
    LS_FAIL_IF(machine->peak <= 0, LS_BAD_USAGE,
               "%s does not compute in %s: choose another format, or give its --peak", device.name,
               ls__plan_number_of((ls__plan_format)format).name);
    return LS_OK;
}

static ls_status parse_rate(const char *flag, const char *text, double *rate)
{
    if (ls__parse_rate(text, rate) == LS_OK)
        return LS_OK;
    return LS_FAIL(LS_BAD_USAGE,
                   "--%s '%.200s': it takes a rate above 0, for example 900GB/s or "
                   "200Gb/s",
                   flag, text);
}

ls_status ls__plan_links_of(const ls__plan_settings *settings, const ls__plan_machine *machine,
                            ls__link *within, ls__link *across)
{
    double intra = machine->link;
    double inter = 0;

    if (*settings->intra)
        LS_TRY(parse_rate("intra", settings->intra, &intra));
    LS_TRY(parse_rate("inter", settings->inter, &inter));
    *within = (ls__link){settings->intra_latency * 1e-6, 1 / intra};
    *across = (ls__link){settings->inter_latency * 1e-6, 1 / inter};
    return LS_OK;
}

/* ---- the commands ---- */

static const ls__cli_entry commands[] = {
    {"memory", "what a device holds, and whether it fits", ls__cli_plan_memory, false},
    {"compute", "operations by part, and their time", ls__cli_plan_compute, false},
    {"network", "what collectives cost as ranks grow", ls__cli_plan_network, false},
    {"layout", "the fastest tensor x pipeline x data", ls__cli_plan_layout, false},
    {"optimal", "how large a model, on how many tokens", ls__cli_plan_optimal, false},
    {"--check", "all of that against runs on this machine", ls__cli_plan_check, false},
};

ls_status ls__cli_plan(int argc, char **argv)
{
    return ls__cli_dispatch("lockstep plan", commands, sizeof commands / sizeof commands[0], argc,
                            argv);
}
