/* lockstep scaling: trains a grid of small models, several sizes for each of several budgets of
 * FLOPs, and fits a scaling law to their losses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/cores.h"
#include "base/file.h"
#include "base/options.h"
#include "cli/commands.h"
#include "cli/plot.h"
#include "cli/report.h"
#include "cli/runs.h"
#include "cli/start.h"
#include "data/dataset.h"
#include "plan/law.h"
#include "train/metrics.h"
#include "train/predict.h"
#include "train/run_folder.h"

enum { HEAD_WIDTH = 8, MICRO_BATCHES = 4, BUCKET = 64 << 20, SIZES_MAX = 12 };

typedef struct scaling_settings {
    char data[LS__TEXT_MAX];
    char run[LS__TEXT_MAX];
    int64_t budgets, sizes;
    double least_flops, most_flops;
    double tokens_per_parameter;
    double spread;
    int64_t layers, context, batch;
    double lr;
    int64_t eval_batches;
    int64_t seed;
    int64_t samples;
    int64_t ranks;
    char json[LS__TEXT_MAX], plot[LS__TEXT_MAX];
} scaling_settings;

#define AT(member) offsetof(scaling_settings, member)
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"data", "", "FILE", "a dataset of text", AT(data), 0, 0, LS__OPTION_TEXT, RUN, 0},
    {"run", "", "DIR", "keep the runs in this folder; none: a temporary one", AT(run), 0, 0,
     LS__OPTION_TEXT, RUN, 0},
    {"budgets", "4", "count", "budgets of FLOPs", AT(budgets), 2, LS__LAW_BUDGETS, LS__OPTION_INT,
     RUN, 0},
    {"sizes", "5", "count", "models of each", AT(sizes), 3, SIZES_MAX, LS__OPTION_INT, RUN, 0},
    {"least-flops", "2e11", "FLOPs", "of the smallest budget", AT(least_flops), 1, 1e24,
     LS__OPTION_REAL, RUN, 0},
    {"most-flops", "2e12", "FLOPs", "of the largest; those between are evenly spaced in log",
     AT(most_flops), 1, 1e24, LS__OPTION_REAL, RUN, 0},
    {"tokens-per-parameter", "60", "tokens", "of the middle model of a budget",
     AT(tokens_per_parameter), 1e-3, 1e6, LS__OPTION_REAL, RUN, 0},
    {"spread", "3", "times", "how much larger, and smaller, the others are", AT(spread), 1.01, 1000,
     LS__OPTION_REAL, RUN, 0},
    {"layers", "2", "layers", "depth of all models: they differ in width", AT(layers), 1, 4096,
     LS__OPTION_INT, RUN, 0},
    {"context", "32", "tokens", "length of a sequence", AT(context), 1, 65536, LS__OPTION_INT, RUN,
     0},
    {"batch", "16", "sequences", "per step", AT(batch), 1, 65536, LS__OPTION_INT, RUN, 0},
    {"lr", "1e-2", "rate", "highest learning rate of all models", AT(lr), 1e-9, 1e3,
     LS__OPTION_REAL, RUN, 0},
    {"eval-batches", "64", "batches", "of held-out text for a loss; 0: all", AT(eval_batches), 0,
     1e6, LS__OPTION_INT, RUN, 0},
    {"seed", "1337", "number", "of the trainings and of the bootstrap", AT(seed), 0, 9e15,
     LS__OPTION_INT, RUN, 0},
    {"bootstrap", "1000", "samples", "for the intervals", AT(samples), 20, 100000, LS__OPTION_INT,
     RUN, 0},
    {"ranks", "0", "N", "ranks of each training, which change no bit; 0: the cores, at most 4",
     AT(ranks), 0, 65536, LS__OPTION_INT, RUN, 0},
    {"json", "", "FILE", "write the numbers there too", AT(json), 0, 0, LS__OPTION_TEXT, RUN, 0},
    {"plot", "", "FILE.svg", "draw the valleys of equal FLOPs, with gnuplot", AT(plot), 0, 0,
     LS__OPTION_TEXT, RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep scaling",
    .summary = "train a grid of small models and fit a scaling law to them",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "A GPT of P parameters on T tokens costs 6 P T FLOPs. For each budget several sizes are\n"
        "trained on what it pays for, each with its own schedule to the end. Fitted to the\n"
        "held-out losses are L = E + A / P^alpha + B / T^beta, and a parabola through each\n"
        "budget's (src/plan/law.h). The exponent q says how the best size grows, P = k C^q.\n"
        "\n"
        "The defaults take about ten minutes on two cores; time goes with the sum of the\n"
        "budgets times --sizes. Tokens count each time they are seen. Models as small as these "
        "are\n"
        "no guide to large ones.\n",
};

/* ---- the grid ---- */

typedef struct model {
    ls__train_settings train;
    ls__law_run result; /* without a loss until it has run */
} model;

typedef struct grid {
    const scaling_settings *settings;
    ls__dataset_info data;
    int64_t ranks;
    model model[LS__LAW_BUDGETS * SIZES_MAX];
    int count;
} grid;

/* Step `index` of `count` from `low` to `high`, evenly spaced in log. */
static double log_step(double low, double high, int64_t index, int64_t count)
{
    return low * pow(high / low, (double)index / (double)(count - 1));
}

static double parameters_of(const grid *g, const ls__train_settings *train)
{
    ls__plan_run run = ls__predict_run(train, &g->data, 0, 1);

    return (double)ls__plan_run_parameters(&run);
}

/* The width, in whole heads and above `least`, whose model comes nearest to so many parameters. */
static void choose_width(const grid *g, ls__train_settings *train, double parameters, int64_t least)
{
    double before = 0;

    for (train->width = least; train->width < INT64_C(1) << 16; train->width += HEAD_WIDTH) {
        double found = parameters_of(g, train);
        if (found >= parameters) {
            if (train->width > least && parameters / before < found / parameters)
                train->width -= HEAD_WIDTH;
            break;
        }
        before = found;
    }
    train->heads = train->width / HEAD_WIDTH;
}

static int64_t divisor_up_to(int64_t of, int64_t most)
{
    while (of % most != 0)
        most--;
    return most;
}

static void settle(const grid *g, ls__train_settings *train)
{
    const scaling_settings *s = g->settings;

    ls__options_preset(&ls__train_options, train);
    snprintf(train->data, sizeof train->data, "%s", s->data);
    train->layers = s->layers;
    train->context = s->context;
    train->batch = s->batch;
    train->micro_batch = s->batch / divisor_up_to(s->batch, MICRO_BATCHES);
    train->lr = s->lr;
    train->min_lr = s->lr / 10;
    train->seed = s->seed;
    train->bucket = BUCKET;
    train->eval_batches = s->eval_batches;
    train->keep = 1;
}

static void set_length(ls__train_settings *train, double tokens)
{
    double a_step = (double)(train->batch * train->context);

    train->steps = (int64_t)fmax(1, round(tokens / a_step));
    train->warmup = train->steps / 10;
    train->eval_every = train->steps;
    train->checkpoint_every = train->steps;
}

static ls_status add_model(grid *g, int budget, double flops, double parameters, int64_t least)
{
    model *m = &g->model[g->count];
    char name[64];

    settle(g, &m->train);
    choose_width(g, &m->train, parameters, least);
    parameters = parameters_of(g, &m->train);
    set_length(&m->train, flops / 6 / parameters);
    snprintf(name, sizeof name, "budget-%d-width-%lld", budget, (long long)m->train.width);
    LS_TRY(ls__path_join(m->train.run, g->settings->run, name));
    LS_TRY(ls__train_settings_resolve(&m->train));
    LS_TRY(ls__train_settings_check_ranks(&m->train, g->ranks));
    m->result = (ls__law_run){.budget = budget,
                              .size = {parameters, (double)m->train.steps * (double)m->train.batch *
                                                       (double)m->train.context}};
    g->count++;
    return LS_OK;
}

static ls_status add_budget(grid *g, int budget)
{
    const scaling_settings *s = g->settings;
    double flops = log_step(s->least_flops, s->most_flops, budget, s->budgets);
    double middle = sqrt(flops / 6 / s->tokens_per_parameter);
    int64_t least = HEAD_WIDTH;

    for (int64_t i = 0; i < s->sizes; i++) {
        double parameters = log_step(middle / s->spread, middle * s->spread, i, s->sizes);
        LS_TRY(add_model(g, budget, flops, parameters, least));
        least = g->model[g->count - 1].train.width + HEAD_WIDTH;
    }
    return LS_OK;
}

static ls_status read_data(grid *g)
{
    ls__dataset *dataset = NULL;

    LS_FAIL_IF(!*g->settings->data, LS_BAD_USAGE,
               "--data is missing: name a dataset made by lockstep data text");
    LS_TRY(ls__dataset_open(&dataset, g->settings->data));
    g->data = *ls__dataset_about(dataset);
    ls__dataset_close(dataset);
    LS_FAIL_IF(g->data.kind != LS__DATASET_TEXT, LS_BAD_INPUT, "%.600s has images: name a text",
               g->settings->data);
    LS_FAIL_IF(g->data.count[LS__SPLIT_HELD_OUT] <= g->settings->context, LS_BAD_INPUT,
               "%.600s has no held-out text: make it with --val 0.1", g->settings->data);
    return LS_OK;
}

static ls_status make_grid(grid *g)
{
    const scaling_settings *s = g->settings;
    ls__cores cores = ls__cores_usable();
    int64_t usable = ls__cores_count(&cores);

    LS_FAIL_IF(s->least_flops >= s->most_flops, LS_BAD_USAGE,
               "--least-flops %g is not below --most-flops %g", s->least_flops, s->most_flops);
    LS_TRY(read_data(g));
    int64_t parts = divisor_up_to(s->batch, MICRO_BATCHES);
    g->ranks = s->ranks > 0 ? s->ranks : usable < parts ? usable : parts;
    for (int budget = 0; budget < s->budgets; budget++)
        LS_TRY(add_budget(g, budget));
    return LS_OK;
}

/* ---- running it ---- */

static const ls__column run_columns[] = {
    {"flops", "budget", "(FLOPs)", LS__COLUMN_SHORT, 3, 0},
    {"width", "width", "", LS__COLUMN_FIXED, 0, 0},
    {"parameters", "parameters", "", LS__COLUMN_FIXED, 0, 0},
    {"tokens", "tokens", "", LS__COLUMN_FIXED, 0, 0},
    {"tokens_per_parameter", "tokens", "a parameter", LS__COLUMN_FIXED, 1, 0},
    {"loss", "loss", "(nats)", LS__COLUMN_FIXED, 4, 0},
};

static ls_status run_model(const grid *g, model *m, ls__report *report)
{
    const ls__plan_size *size = &m->result.size;
    ls__run_folder folder;
    int count = 0;

    LS_TRY(ls__runs_train("scaling", &m->train, g->ranks));
    LS_TRY(ls__run_folder_name(&folder, m->train.run));
    LS_TRY(ls__metrics_read_numbers(folder.metrics, NULL, "val_loss", &m->result.loss, 1, &count));
    LS_FAIL_IF(count == 0, LS_BAD_INPUT, "%s has no held-out loss", folder.metrics);
    ls__report_row(report, (ls__cell[]){{.number = ls__plan_training_flops(*size)},
                                        {.number = (double)m->train.width},
                                        {.number = size->parameters},
                                        {.number = size->tokens},
                                        {.number = size->tokens / size->parameters},
                                        {.number = m->result.loss}});
    fflush(stdout);
    return LS_OK;
}

static ls_status run_grid(grid *g, ls__report *report)
{
    printf("%d models of %lld layers, trained on %lld rank%s each\n\n", g->count,
           (long long)g->settings->layers, (long long)g->ranks, g->ranks == 1 ? "" : "s");
    ls__report_table(report, "runs", run_columns, sizeof run_columns / sizeof run_columns[0]);
    for (int i = 0; i < g->count; i++)
        LS_TRY(run_model(g, &g->model[i], report));
    return LS_OK;
}

/* ---- the law ---- */

static const ls__column valley_columns[] = {
    {"flops", "budget", "(FLOPs)", LS__COLUMN_SHORT, 3, 0},
    {"parameters", "best size", "(parameters)", LS__COLUMN_FIXED, 0, 0},
    {"tokens", "tokens", "", LS__COLUMN_FIXED, 0, 0},
    {"tokens_per_parameter", "tokens", "a parameter", LS__COLUMN_FIXED, 1, 0},
    {"loss", "loss", "(nats)", LS__COLUMN_FIXED, 4, 0},
    {"law_parameters", "by the law", "(parameters)", LS__COLUMN_FIXED, 0, 0},
};

static void print_valleys(ls__report *report, const ls__law *law)
{
    ls__report_table(report, "valleys", valley_columns,
                     sizeof valley_columns / sizeof valley_columns[0]);
    for (int i = 0; i < law->budgets; i++) {
        const ls__law_valley *valley = &law->valley[i];
        ls__report_row(
            report,
            (ls__cell[]){{.number = valley->flops},
                         {.number = valley->best.parameters},
                         {.number = valley->best.tokens},
                         {.number = valley->best.tokens / valley->best.parameters},
                         {.number = valley->loss},
                         {.number = ls__plan_fit_search(&law->fit, valley->flops).parameters}});
    }
}

static const ls__column law_columns[] = {
    {"constant", "constant", "", LS__COLUMN_TEXT, 0, 0},
    {"value", "value", "", LS__COLUMN_SHORT, 4, 0},
    {"low", "from", "(95%)", LS__COLUMN_SHORT, 4, 0},
    {"high", "to", "(95%)", LS__COLUMN_SHORT, 4, 0},
};

static void print_law(ls__report *report, const ls__law *law)
{
    ls__report_table(report, "law", law_columns, sizeof law_columns / sizeof law_columns[0]);
    for (ls__law_constant i = 0; i < LS__LAW_ESTIMATES; i++)
        ls__report_row(report, (ls__cell[]){{.text = ls__law_constant_name(i)},
                                            {.number = law->estimate[i].value},
                                            {.number = law->estimate[i].low},
                                            {.number = law->estimate[i].high}});
    printf(
        "\nL = E + A / P^alpha + B / T^beta, off by %.2f%% (root mean square); the best size is P "
        "= k C^exponent\n",
        100 * law->residual);
    ls__report_fact(report, "residual", law->residual);
}

/* ---- the picture ---- */

static void write_points(FILE *script, const grid *g, int budget)
{
    fprintf(script, "$runs%d << EOD\n", budget);
    for (int i = 0; i < g->count; i++)
        if (g->model[i].result.budget == budget)
            fprintf(script, "%.9g %.9g\n", g->model[i].result.size.parameters,
                    g->model[i].result.loss);
    fprintf(script, "EOD\n");
}

static void write_curve(FILE *script, const grid *g, const ls__law_valley *valley, int budget)
{
    enum { POINTS = 40 };
    double reach = 1.2 * g->settings->spread;

    fprintf(script, "$valley%d << EOD\n", budget);
    for (int i = 0; i < POINTS; i++) {
        double parameters = valley->centre * log_step(1 / reach, reach, i, POINTS);
        fprintf(script, "%.9g %.9g\n", parameters, exp(ls__law_valley_at(valley, parameters)));
    }
    fprintf(script, "EOD\n");
}

static ls_status draw(const grid *g, const ls__law *law, const char *path)
{
    ls__plot plot;

    LS_TRY(ls__plot_open(&plot, path));
    fputs("set logscale x\nset xlabel 'parameters'\nset ylabel 'held-out loss (nats)'\n",
          plot.script);
    for (int i = 0; i < law->budgets; i++) {
        write_points(plot.script, g, i);
        write_curve(plot.script, g, &law->valley[i], i);
    }
    for (int i = 0; i < law->budgets; i++)
        fprintf(plot.script,
                "%s $valley%d with lines linecolor %d title '%.2g FLOPs', $runs%d with points "
                "pointtype 7 linecolor %d notitle",
                i == 0 ? "plot" : ",", i, i + 1, law->valley[i].flops, i, i + 1);
    fputs("\n", plot.script);
    return ls__plot_close(&plot);
}

/* ---- all of it ---- */

static ls_status fit_grid(const grid *g, ls__report *report)
{
    const scaling_settings *s = g->settings;
    ls__law_run runs[LS__LAW_BUDGETS * SIZES_MAX];
    ls__law law;

    for (int i = 0; i < g->count; i++)
        runs[i] = g->model[i].result;
    LS_TRY(ls__law_of_runs(runs, g->count, (uint64_t)s->seed, (int)s->samples, &law));
    printf("\n");
    print_valleys(report, &law);
    printf("\n");
    print_law(report, &law);
    return *s->plot ? draw(g, &law, s->plot) : LS_OK;
}

static ls_status scale(const scaling_settings *settings)
{
    static grid g;
    ls__report report;

    g.settings = settings;
    LS_TRY(make_grid(&g));
    LS_TRY(ls__make_folders(settings->run));
    LS_TRY(ls__report_open(&report, settings->json));
    ls_status status = run_grid(&g, &report);
    if (status == LS_OK)
        status = fit_grid(&g, &report);
    ls_status written = ls__report_close(&report);
    return status == LS_OK ? written : status;
}

static ls_status scale_in_temporary(scaling_settings *settings)
{
    LS_TRY(ls__runs_folder_make(settings->run, "lockstep-scaling-XXXXXX"));
    ls_status status = scale(settings);
    ls__runs_folder_remove(settings->run);
    return status;
}

ls_status ls__cli_scaling(int argc, char **argv)
{
    static scaling_settings settings;
    ls__parsed parsed;

    LS_TRY(ls__cli_refuse_mpi("scaling", "starts mpirun itself"));
    LS_TRY(ls__options_parse(&table, &settings, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    if (*settings.json)
        LS_TRY(ls__file_check_writable(settings.json));
    if (*settings.plot)
        LS_TRY(ls__plot_check(settings.plot));
    ls__launch_catch_signals();
    return *settings.run ? scale(&settings) : scale_in_temporary(&settings);
}
