/* lockstep plan optimal */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "cli/plot.h"
#include "plan/scaling.h"

#define AT(member) LS__PLAN_AT(member)
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"flops", "", "FLOPs", "to spend on training", AT(flops), 1e9, 1e40, LS__OPTION_REAL, RUN, 0},
    {"params", "", "COUNT", "parameters of the model", AT(params), 1, 1e20, LS__OPTION_REAL, RUN,
     0},
    {"tokens", "", "COUNT", "to train on", AT(tokens), 1, 1e20, LS__OPTION_REAL, RUN, 0},
    {"format", "bf16", LS__PLAN_FORMAT_NAMES, "of matrix products, for the peak",
     AT(storage.format), 0, 0, LS__OPTION_CHOICE, RUN, 0},
    {"devices", "1024", "devices", "of the cluster", AT(devices), 1, 0x1p24, LS__OPTION_INT, RUN,
     0},
    {"mfu", "0.4", "share", "of the peak that is reached (model FLOPs utilisation)", AT(share),
     1e-6, 1, LS__OPTION_REAL, RUN, 0},
    {"table", "false", "", "also the optimum of each law for the sizes of Hoffmann et al.'s tables",
     AT(table), 0, 0, LS__OPTION_SWITCH, RUN, 0},
    {"plot", "", "FILE.svg", "draw them, with gnuplot", AT(plot), 0, 0, LS__OPTION_TEXT, RUN, 0},
};

static const ls__plan_command command = {
    .command = "lockstep plan optimal",
    .summary = "how large a model, on how many tokens: --flops, --params or --tokens",
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "C = 6 N T FLOPs for N parameters on T tokens. The laws: 20 tokens a parameter; the fits\n"
        "L = E + A/N^a + B/T^b of Hoffmann et al. (2022, as published) and of Besiroglu et al.\n"
        "(2024, the same runs fitted again), whose optimum is near 20 a parameter where the "
        "first's\n"
        "rounded constants are not; and Kaplan et al. (2020), whose models are too large for "
        "their\n"
        "tokens. --params and --tokens together: that training beside the optimum of its FLOPs.\n"
        "\n"
        "Figures that are often repeated, and wrong:\n"
        "- 175e9 parameters on 3.5e12 tokens with 10,000 A100 take 13.6 days at peak and 34 at an\n"
        "  MFU of 40%, not 175: 3.675e24 FLOPs / (10,000 x 312e12 x 86,400).\n"
        "- LLaMA-1 65B saw 1.4e12 tokens, not 3e11: close to its optimum of 1.3e12.\n"
        "- What costs as much as 7e9 parameters on 1.4e11 tokens is 70e9 on 1.4e10: ten times the\n"
        "  model leaves a tenth of the tokens, not as many.\n",
};

/* ---- tables ---- */

static const ls__column columns[] = {
    {"law", "law", "", LS__COLUMN_TEXT, 0, 0},
    {"parameters", "parameters", "", LS__COLUMN_SHORT, 4, 0},
    {"tokens", "tokens", "", LS__COLUMN_SHORT, 4, 0},
    {"tokens_per_parameter", "tokens", "a parameter", LS__COLUMN_SHORT, 4, 0},
    {"flops", "cost", "(FLOPs)", LS__COLUMN_SHORT, 4, 0},
    {"loss_hoffmann", "Hoffmann's", "loss (nats)", LS__COLUMN_FIXED, 4, 0},
    {"loss_besiroglu", "Besiroglu's", "loss (nats)", LS__COLUMN_FIXED, 4, 0},
    {"days_at_peak", "at peak", "(days)", LS__COLUMN_SHORT, 4, 0},
    {"days_at_mfu", "at the MFU", "(days)", LS__COLUMN_SHORT, 4, 0},
};

/* What a row needs to know of the cluster: FLOP/s at peak, and the share that is reached. */
typedef struct cluster {
    double peak;
    double mfu;
} cluster;

static double loss_by(ls__plan_law law, ls__plan_size size)
{
    return ls__plan_fit_loss(ls__plan_law_fit(law), size);
}

static void print_size(ls__report *report, const cluster *c, const char *name, ls__plan_size size)
{
    double flops = ls__plan_training_flops(size);
    double days = flops / c->peak / 86400;

    ls__report_row(report, (ls__cell[]){{.text = name},
                                        {.number = size.parameters},
                                        {.number = size.tokens},
                                        {.number = size.tokens / size.parameters},
                                        {.number = flops},
                                        {.number = loss_by(LS__PLAN_HOFFMANN, size)},
                                        {.number = loss_by(LS__PLAN_BESIROGLU, size)},
                                        {.number = days},
                                        {.number = days / c->mfu}});
}

/* The FLOPs of the question: given, or those of which a law makes what is given its optimum. */
static double flops_asked(const ls__plan_settings *settings, ls__plan_law law)
{
    if (settings->flops > 0)
        return settings->flops;
    if (settings->params > 0 && settings->tokens > 0)
        return ls__plan_training_flops((ls__plan_size){settings->params, settings->tokens});
    return settings->params > 0 ? ls__plan_law_flops_for_parameters(law, settings->params)
                                : ls__plan_law_flops_for_tokens(law, settings->tokens);
}

static void print_laws(ls__report *report, const ls__plan_settings *settings, const cluster *c)
{
    ls__report_table(report, "laws", columns, sizeof columns / sizeof columns[0]);
    if (settings->params > 0 && settings->tokens > 0)
        print_size(report, c, "as given", (ls__plan_size){settings->params, settings->tokens});
    for (ls__plan_law law = 0; law < LS__PLAN_LAW_COUNT; law++)
        print_size(report, c, ls__plan_law_name(law),
                   ls__plan_law_optimum(law, flops_asked(settings, law)));
}

/* The optimum of a fit is also searched for: the closed form has to agree. */
static void print_search(ls__report *report, const ls__plan_settings *settings, ls__plan_law law)
{
    double flops = flops_asked(settings, law);
    ls__plan_size closed = ls__plan_law_optimum(law, flops);
    ls__plan_size found = ls__plan_fit_search(ls__plan_law_fit(law), flops);
    double apart = found.parameters / closed.parameters - 1;

    printf(
        "%s: the closed form's optimum, searched for numerically, is %.4g parameters (%+.4f%%)\n",
        ls__plan_law_name(law), found.parameters, 100 * apart);
    ls__report_fact(report,
                    law == LS__PLAN_HOFFMANN ? "hoffmann_searched_parameters"
                                             : "besiroglu_searched_parameters",
                    found.parameters);
}

static void print_partner(const ls__plan_settings *settings)
{
    if (settings->params > 0 && settings->tokens > 0)
        printf("the same FLOPs train %.3g parameters on %.3g tokens\n", 10 * settings->params,
               settings->tokens / 10);
}

static const ls__column table_columns[] = {
    {"parameters", "parameters", "", LS__COLUMN_SHORT, 4, 0},
    {"rule_of_20_tokens", "20 a param.", "(tokens)", LS__COLUMN_SHORT, 4, 0},
    {"hoffmann_tokens", "Hoffmann", "(tokens)", LS__COLUMN_SHORT, 4, 0},
    {"hoffmann_flops", "Hoffmann", "(FLOPs)", LS__COLUMN_SHORT, 4, 0},
    {"besiroglu_tokens", "Besiroglu", "(tokens)", LS__COLUMN_SHORT, 4, 0},
    {"besiroglu_flops", "Besiroglu", "(FLOPs)", LS__COLUMN_SHORT, 4, 0},
};

static double tokens_for(double flops, double parameters)
{
    return flops / 6 / parameters;
}

static void print_table(ls__report *report)
{
    static const double sizes[] = {400e6, 1e9, 10e9, 67e9, 175e9, 280e9, 520e9, 1e12, 10e12};

    printf("\n");
    ls__report_table(report, "table", table_columns,
                     sizeof table_columns / sizeof table_columns[0]);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double hoffmann = ls__plan_law_flops_for_parameters(LS__PLAN_HOFFMANN, sizes[i]);
        double besiroglu = ls__plan_law_flops_for_parameters(LS__PLAN_BESIROGLU, sizes[i]);
        ls__report_row(report, (ls__cell[]){{.number = sizes[i]},
                                            {.number = LS__PLAN_TOKENS_PER_PARAMETER * sizes[i]},
                                            {.number = tokens_for(hoffmann, sizes[i])},
                                            {.number = hoffmann},
                                            {.number = tokens_for(besiroglu, sizes[i])},
                                            {.number = besiroglu}});
    }
}

static void print_all(ls__report *report, const ls__plan_settings *settings,
                      const ls__plan_machine *machine)
{
    cluster c = {.peak = machine->peak * (double)settings->devices, .mfu = settings->share};

    printf("%lld x %s, %.1f TFLOP/s each, MFU %.0f%%\n\n", (long long)settings->devices,
           machine->name, machine->peak / 1e12, 100 * settings->share);
    print_laws(report, settings, &c);
    printf("\n");
    print_search(report, settings, LS__PLAN_HOFFMANN);
    print_search(report, settings, LS__PLAN_BESIROGLU);
    print_partner(settings);
    if (settings->table)
        print_table(report);
}

/* ---- the picture: loss against the model's size, at fixed FLOPs ---- */

static void write_valley(FILE *script, ls__plan_law law, double flops)
{
    enum { POINTS = 60 };
    const ls__plan_fit *fit = ls__plan_law_fit(law);
    double best = ls__plan_law_optimum(law, flops).parameters;

    fprintf(script, "$valley%d << EOD\n", (int)law);
    for (int i = -POINTS; i <= POINTS; i++) {
        double parameters = best * pow(10, 2.0 * i / POINTS);
        ls__plan_size size = {parameters, tokens_for(flops, parameters)};
        fprintf(script, "%.9g %.9g\n", parameters, ls__plan_fit_loss(fit, size));
    }
    fputs("EOD\n", script);
}

static ls_status draw(const ls__plan_settings *settings)
{
    double flops = flops_asked(settings, LS__PLAN_RULE_OF_20);
    ls__plot plot;

    LS_TRY(ls__plot_open(&plot, settings->plot));
    write_valley(plot.script, LS__PLAN_HOFFMANN, flops);
    write_valley(plot.script, LS__PLAN_BESIROGLU, flops);
    fprintf(plot.script,
            "set logscale x\nset xlabel 'parameters'\nset ylabel 'loss (nats/token)'\n"
            "set title '%.3g FLOPs'\nplot $valley%d with lines lw 2 title 'Hoffmann', $valley%d "
            "with lines lw 2 title 'Besiroglu'\n",
            flops, LS__PLAN_HOFFMANN, LS__PLAN_BESIROGLU);
    return ls__plot_close(&plot);
}

static ls_status check(const ls__plan_settings *settings)
{
    bool size = settings->params > 0 || settings->tokens > 0;

    LS_FAIL_IF(!(settings->flops > 0) && !size, LS_BAD_USAGE,
               "plan optimal needs --flops, --params or --tokens: say what is fixed");
    LS_FAIL_IF(settings->flops > 0 && size, LS_BAD_USAGE,
               "--flops already says how much is spent: leave out --params and --tokens");
    return LS_OK;
}

ls_status ls__cli_plan_optimal(int argc, char **argv)
{
    static ls__plan_settings settings;
    ls__plan_machine machine;
    ls__report report;
    bool help = false;

    LS_TRY(ls__plan_parse(&command, &settings, argc, argv, &help));
    if (help)
        return LS_OK;
    LS_TRY(check(&settings));
    LS_TRY(ls__plan_machine_of(&settings, &machine));
    LS_TRY(ls__report_open(&report, settings.json));
    print_all(&report, &settings, &machine);
    LS_TRY(ls__report_close(&report));
    return *settings.plot ? draw(&settings) : LS_OK;
}
