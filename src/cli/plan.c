/* lockstep plan: what training costs, before it is run. No MPI. */
#include "cli/plan.h"

#include <string.h>

#include "base/units.h"
#include "cli/commands.h"

/* ---- the model ---- */

static const ls__option shape_options[] = {LS__PLAN_SHAPE_ROWS};

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

static bool has_model(const ls__option_table *table)
{
    for (int i = 0; i < table->count; i++)
        if (strcmp(table->option[i].name, "model") == 0)
            return true;
    return false;
}

ls_status ls__plan_parse(const ls__option_table *table, ls__plan_settings *settings, int argc,
                         char **argv, bool *help)
{
    static ls__plan_settings named;
    ls__parsed parsed;

    LS_TRY(ls__options_parse(table, settings, argc, argv, &parsed));
    *help = parsed.help;
    if (parsed.help) {
        ls__options_help(table, stdout);
        return LS_OK;
    }
    if (!has_model(table))
        return LS_OK;
    LS_TRY(fill_in_model(settings));
    named = *settings;
    LS_TRY(ls__options_parse_over(table, settings, argc, argv, &parsed));
    settings->changed = ls__options_differ(&shape_table, &named, settings, LS__SCOPE_RUN) >= 0;
    return LS_OK;
}

ls_status ls__plan_settle_model(ls__plan_settings *settings)
{
    ls__plan_storage *storage = &settings->storage;

    storage->master = settings->master != 0;
    storage->activation_format =
        settings->activations == 0 ? storage->format : settings->activations - 1;
    return ls__plan_model_resolve(&settings->model);
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
};

ls_status ls__cli_plan(int argc, char **argv)
{
    return ls__cli_dispatch("lockstep plan", commands, sizeof commands / sizeof commands[0], argc,
                            argv);
}
