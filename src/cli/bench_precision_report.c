/* What `bench precision` prints, writes and draws. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench_precision.h"
#include "cli/plot.h"

enum { NAME = 24, PLOT_POINTS = 50 };

#define COLUMNS(table) (int)(sizeof(table) / sizeof(table)[0])

static double share(int64_t part, int64_t all)
{
    return (double)part / (double)all;
}

/* ---- magnitudes ---- */

static const ls__column magnitude_columns[] = {
    {"magnitude", "magnitude", "", LS__COLUMN_TEXT, 0, 0},
    {"weights_first", "weights", "", LS__COLUMN_FIXED, 3, 0.01},
    {"weights_middle", "weights", "", LS__COLUMN_FIXED, 3, 0.01},
    {"weights_last", "weights", "", LS__COLUMN_FIXED, 3, 0.01},
    {"logits_first", "logits", "", LS__COLUMN_FIXED, 3, 0.01},
    {"logits_middle", "logits", "", LS__COLUMN_FIXED, 3, 0.01},
    {"logits_last", "logits", "", LS__COLUMN_FIXED, 3, 0.01},
};

/* The magnitudes that column `column` is of. */
static const ls__magnitudes *magnitudes_at(const ls__precision_result *result, int column)
{
    int place = (column - 1) / LS__PRECISION_SNAPSHOTS;

    return &result->snapshot[(column - 1) % LS__PRECISION_SNAPSHOTS].magnitudes[place];
}

/* Bin -1 is of zeros. */
static int64_t in_bin(const ls__magnitudes *magnitudes, int bin)
{
    return bin < 0 ? magnitudes->zero : magnitudes->bin[bin];
}

static void name_bin(char *name, int bin)
{
    int from = ls__magnitudes_from(bin);
    int to = from + LS__CENSUS_BINADES;

    if (bin < 0)
        snprintf(name, NAME, "zero");
    else if (bin == 0)
        snprintf(name, NAME, "below 2^%d", to);
    else if (bin == LS__CENSUS_BINS - 1)
        snprintf(name, NAME, "2^%d and more", from);
    else
        snprintf(name, NAME, "2^%d .. 2^%d", from, to);
}

static void print_bin(ls__report *report, const ls__precision_result *result, int bin)
{
    ls__cell cell[COLUMNS(magnitude_columns)];
    char name[NAME];

    name_bin(name, bin);
    cell[0] = (ls__cell){.text = name};
    for (int i = 1; i < COLUMNS(magnitude_columns); i++) {
        const ls__magnitudes *magnitudes = magnitudes_at(result, i);
        cell[i] = (ls__cell){.number = share(in_bin(magnitudes, bin), magnitudes->count)};
    }
    ls__report_row(report, cell);
}

static bool is_empty(const ls__precision_result *result, int bin)
{
    for (int i = 1; i < COLUMNS(magnitude_columns); i++)
        if (in_bin(magnitudes_at(result, i), bin) > 0)
            return false;
    return true;
}

/* From the first to the last bin that is not empty. */
static void print_bins(ls__report *report, const ls__precision_result *result)
{
    int first = 0;
    int last = LS__CENSUS_BINS - 1;

    while (first < last && is_empty(result, first))
        first++;
    while (last > first && is_empty(result, last))
        last--;
    print_bin(report, result, -1);
    for (int bin = first; bin <= last; bin++)
        print_bin(report, result, bin);
}

static void print_magnitudes(ls__report *report, const ls__precision_result *result)
{
    ls__column columns[COLUMNS(magnitude_columns)];
    char unit[LS__PRECISION_SNAPSHOTS][NAME];

    memcpy(columns, magnitude_columns, sizeof columns);
    for (int i = 0; i < LS__PRECISION_SNAPSHOTS; i++)
        snprintf(unit[i], NAME, "step %lld (%%)", (long long)result->snapshot[i].step);
    for (int i = 1; i < COLUMNS(columns); i++)
        columns[i].unit = unit[(i - 1) % LS__PRECISION_SNAPSHOTS];
    printf("magnitudes of the gradients of the f32 training, by the weights (the batch's mean) and "
           "by the logits\n(each micro-batch's)\n\n");
    ls__report_table(report, "magnitudes", columns, COLUMNS(columns));
    print_bins(report, result);
}

/* ---- gradients in a format ---- */

static const ls__column gradient_columns[] = {
    {"gradients", "gradients by", "", LS__COLUMN_TEXT, 0, 0},
    {"format", "stored as", "", LS__COLUMN_TEXT, 0, 0},
    {"step", "step", "", LS__COLUMN_FIXED, 0, 0},
    {"scale_log2", "scale", "(2^)", LS__COLUMN_FIXED, 0, 0},
    {"zero", "zero", "in f32 (%)", LS__COLUMN_FIXED, 3, 0.01},
    {"flushed", "flushed", "to zero (%)", LS__COLUMN_FIXED, 3, 0.01},
    {"subnormal", "subnormal", "(%)", LS__COLUMN_FIXED, 3, 0.01},
    {"normal", "normal", "(%)", LS__COLUMN_FIXED, 3, 0.01},
    {"infinite", "infinite", "(%)", LS__COLUMN_FIXED, 3, 0.01},
};

static const char *const place_names[] = {"weights", "logits"};

static double scale_of(const ls__precision_result *result, int snapshot,
                       ls__precision_storage storage)
{
    if (storage == LS__STORED_F16_SCALED)
        return result->scale;
    return storage == LS__STORED_F16_BEST ? result->snapshot[snapshot].best_scale : 1;
}

static void print_gradient(ls__report *report, const ls__precision_result *result, int place,
                           ls__precision_storage storage, int snapshot)
{
    const ls__precision_snapshot *at = &result->snapshot[snapshot];
    const ls__census *census = &at->census[place][storage];
    ls__format format = storage == LS__STORED_BF16 ? LS__BF16 : LS__F16;

    ls__report_row(report, (ls__cell[]){{.text = place_names[place]},
                                        {.text = ls__format_name(format)},
                                        {.number = (double)at->step},
                                        {.number = log2(scale_of(result, snapshot, storage))},
                                        {.number = share(census->zero, census->count)},
                                        {.number = share(census->flushed, census->count)},
                                        {.number = share(census->subnormal, census->count)},
                                        {.number = share(census->normal, census->count)},
                                        {.number = share(census->infinite, census->count)}});
}

static void print_gradients(ls__report *report, const ls__precision_result *result)
{
    printf("\nthe same gradients stored in 16 bits: times nothing, times the scale that train "
           "begins with, and times the\nlargest that overflows nothing of these\n\n");
    ls__report_table(report, "gradients", gradient_columns, COLUMNS(gradient_columns));
    for (int place = 0; place < LS__PRECISION_PLACES; place++)
        for (int storage = 0; storage < LS__PRECISION_STORAGES; storage++)
            for (int i = 0; i < LS__PRECISION_SNAPSHOTS; i++)
                print_gradient(report, result, place, (ls__precision_storage)storage, i);
    printf("\nf16 flushes what is not above 2^-25, and is subnormal below 2^-14; bf16 has the "
           "exponents of f32\n");
}

/* ---- updates ---- */

static const ls__column update_columns[] = {
    {"weights", "weights", "", LS__COLUMN_TEXT, 0, 0},
    {"step", "step", "", LS__COLUMN_FIXED, 0, 0},
    {"count", "weights", "", LS__COLUMN_FIXED, 0, 0},
    {"updates", "updates", "not zero", LS__COLUMN_FIXED, 0, 0},
    {"bf16_lost", "lost in", "bf16 (%)", LS__COLUMN_FIXED, 2, 0.01},
    {"f16_lost", "lost in", "f16 (%)", LS__COLUMN_FIXED, 2, 0.01},
};

static const char *const group_names[] = {"all", "norms' gains"};

static void print_group(ls__report *report, const ls__precision_snapshot *at, int group)
{
    int64_t updates = at->bf16[group].count;

    ls__report_row(report, (ls__cell[]){{.text = group_names[group]},
                                        {.number = (double)at->step},
                                        {.number = (double)at->weights[group]},
                                        {.number = (double)updates},
                                        {.number = share(at->bf16[group].lost, updates)},
                                        {.number = share(at->f16[group].lost, updates)}});
}

static void print_updates(ls__report *report, const ls__precision_result *result)
{
    printf("\nupdates of the f32 training that a weight in 16 bits, without an f32 master, would "
           "not notice\n\n");
    ls__report_table(report, "updates", update_columns, COLUMNS(update_columns));
    for (int group = 0; group < LS__PRECISION_GROUPS; group++)
        for (int i = 0; i < LS__PRECISION_SNAPSHOTS; i++)
            print_group(report, &result->snapshot[i], group);
    printf("\nfrom 1 to 2 bf16 is spaced 2^-7 and f16 2^-10: half of that, or less, is lost\n");
}

void ls__precision_print_snapshots(ls__report *report, const ls__precision_result *result)
{
    print_magnitudes(report, result);
    print_gradients(report, result);
    print_updates(report, result);
}

/* ---- losses ---- */

static const char *const run_names[] = {"f32", "bf16", "f16", "bf16, no master"};

static const ls__column loss_columns[] = {
    {"step", "up to", "step", LS__COLUMN_FIXED, 0, 0},
    {"f32", "f32", "(nats)", LS__COLUMN_FIXED, 4, 0},
    {"bf16", "bf16", "(nats)", LS__COLUMN_FIXED, 4, 0},
    {"bf16_difference", "- f32", "(nats)", LS__COLUMN_SHORT, 2, 0},
    {"f16", "f16", "(nats)", LS__COLUMN_FIXED, 4, 0},
    {"f16_difference", "- f32", "(nats)", LS__COLUMN_SHORT, 2, 0},
    {"bf16_no_master", "bf16 with", "no master", LS__COLUMN_FIXED, 4, 0},
    {"bf16_no_master_difference", "- f32", "(nats)", LS__COLUMN_SHORT, 2, 0},
};

static double mean(const double *loss, int64_t first, int64_t end)
{
    double sum = 0;

    for (int64_t i = first; i < end; i++)
        sum += loss[i];
    return sum / (double)(end - first);
}

static void print_tenth(ls__report *report, const ls__precision_result *result, int tenth)
{
    int64_t first = result->steps * tenth / LS__PRECISION_TENTHS;
    int64_t end = result->steps * (tenth + 1) / LS__PRECISION_TENTHS;
    ls__cell cell[COLUMNS(loss_columns)];
    double f32 = mean(result->curve[LS__RUN_F32].loss, first, end);

    cell[0] = (ls__cell){.number = (double)end};
    cell[1] = (ls__cell){.number = f32};
    for (int run = LS__RUN_F32 + 1; run < LS__PRECISION_RUNS; run++) {
        double loss = mean(result->curve[run].loss, first, end);
        cell[2 * run] = (ls__cell){.number = loss};
        cell[2 * run + 1] = (ls__cell){.number = loss - f32};
    }
    ls__report_row(report, cell);
}

static void tell_ends(const ls__precision_result *result)
{
    const ls__precision_curve *f16 = &result->curve[LS__RUN_F16];

    printf("\nf16: %lld of %lld steps skipped, the loss scale ends at %g\n",
           (long long)f16->skipped, (long long)result->steps, f16->scale);
    for (int run = 0; run < LS__PRECISION_RUNS; run++)
        if (result->curve[run].diverged)
            printf("%s: diverged at step %lld\n", run_names[run],
                   (long long)result->curve[run].diverged);
}

void ls__precision_print_curves(ls__report *report, const ls__precision_result *result)
{
    printf("\nlosses, each the mean of a tenth of the steps, over the same samples; bf16 and f16 "
           "update f32 master\nweights, but for the last\n\n");
    ls__report_table(report, "losses", loss_columns, COLUMNS(loss_columns));
    for (int tenth = 0; tenth < LS__PRECISION_TENTHS; tenth++)
        print_tenth(report, result, tenth);
    tell_ends(result);
    ls__report_fact(report, "steps", (double)result->steps);
    ls__report_fact(report, "f16_skipped_steps", (double)result->curve[LS__RUN_F16].skipped);
    ls__report_fact(report, "f16_loss_scale", result->curve[LS__RUN_F16].scale);
}

/* ---- the picture ---- */

/* Means of a few steps each, up to where the run diverged. */
static void write_curve(FILE *script, const ls__precision_result *result, int run)
{
    int64_t every = (result->steps + PLOT_POINTS - 1) / PLOT_POINTS;

    fprintf(script, "$run%d << EOD\n", run);
    for (int64_t end = every; end <= result->steps; end += every) {
        double loss = mean(result->curve[run].loss, end - every, end);
        if (isfinite(loss))
            fprintf(script, "%lld %.9g\n", (long long)end, loss);
    }
    fprintf(script, "EOD\n");
}

ls_status ls__precision_plot(const char *path, const ls__precision_result *result)
{
    ls__plot plot;

    LS_TRY(ls__plot_open(&plot, path));
    fputs("set xlabel 'step'\nset ylabel 'loss (nats)'\n", plot.script);
    for (int run = 0; run < LS__PRECISION_RUNS; run++)
        write_curve(plot.script, result, run);
    for (int run = 0; run < LS__PRECISION_RUNS; run++)
        fprintf(plot.script, "%s $run%d with lines linewidth 2 dashtype %d title '%s'",
                run == 0 ? "plot" : ",", run, run + 1, run_names[run]);
    fputs("\n", plot.script);
    return ls__plot_close(&plot);
}
