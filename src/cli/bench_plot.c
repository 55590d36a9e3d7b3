#include "cli/bench_plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "cli/plot.h"
#include "lockstep/schedule.h"

enum { PANEL_WIDTH = 560, PANEL_HEIGHT = 400, ACROSS = 2, TICS_MAX = 7 };
enum { SERIES_MAX = 2 * LS_ALGORITHM_COUNT, PANELS_MAX = LS__LIST_MAX };

/* ---- which lines, which panels ---- */

/* One algorithm, one kind of sum: a colour and a shape, the same in all panels. */
typedef struct series {
    const char *algorithm;
    bool exact;
} series;

typedef struct figure {
    const ls__bench_rows *rows;
    series line[SERIES_MAX];
    int lines;
    int ranks[PANELS_MAX]; /* each number of ranks once, in the order of the rows */
    int rank_counts;
    int most_ranks;
    int panels;
    bool exact;               /* whether any row is */
    double smallest, largest; /* bytes */
    double slowest, fastest;  /* bus bandwidth, GB/s */
} figure;

static bool is_of(const ls__bench_row *row, const series *line)
{
    return row->exact == line->exact && strcmp(row->algorithm, line->algorithm) == 0;
}

static void note_series(figure *f, const ls__bench_row *row)
{
    for (int i = 0; i < f->lines; i++)
        if (is_of(row, &f->line[i]))
            return;
    if (f->lines < SERIES_MAX)
        f->line[f->lines++] = (series){row->algorithm, row->exact};
}

static void note_ranks(figure *f, int ranks)
{
    for (int i = 0; i < f->rank_counts; i++)
        if (f->ranks[i] == ranks)
            return;
    if (f->rank_counts < PANELS_MAX)
        f->ranks[f->rank_counts++] = ranks;
}

/* A rank alone has no bus. */
static bool has_bandwidth(int ranks)
{
    return ranks > 1;
}

static bool has_factor(const figure *f)
{
    return f->rank_counts > 1;
}

/* One scale for all panels, so that they compare. */
static void note_range(figure *f, const ls__bench_row *row)
{
    ls__bench_columns columns = ls__bench_columns_of(row);

    f->most_ranks = row->ranks > f->most_ranks ? row->ranks : f->most_ranks;
    f->smallest = fmin(f->smallest, columns.bytes);
    f->largest = fmax(f->largest, columns.bytes);
    if (columns.busbw > 0) {
        f->slowest = fmin(f->slowest, columns.busbw);
        f->fastest = fmax(f->fastest, columns.busbw);
    }
}

static void plan(figure *f, const ls__bench_rows *rows)
{
    *f = (figure){.rows = rows, .smallest = HUGE_VAL, .slowest = HUGE_VAL};
    for (int i = 0; i < rows->count; i++) {
        note_series(f, &rows->row[i]);
        note_ranks(f, rows->row[i].ranks);
        note_range(f, &rows->row[i]);
        f->exact = f->exact || rows->row[i].exact;
    }
    for (int i = 0; i < f->rank_counts; i++)
        f->panels += has_bandwidth(f->ranks[i]);
    f->panels += has_factor(f);
}

/* ---- the script ---- */

/* Okabe and Ito's colours, which colour-blind people can tell apart, and gnuplot's shapes, of which
 * the one before is the same, open. */
static const struct look {
    const char *colour;
    int shape;
} looks[] = {
    {"#0072B2", 7},  {"#D55E00", 5},  {"#009E73", 9}, {"#CC79A7", 11},
    {"#E69F00", 13}, {"#56B4E9", 15}, {"#7F7F7F", 7}, {"#000000", 5},
};
enum { LOOKS = sizeof looks / sizeof looks[0] };

/* The first line of the same algorithm. */
static int first_like(const figure *f, int line)
{
    int first = 0;

    while (strcmp(f->line[first].algorithm, f->line[line].algorithm) != 0)
        first++;
    return first;
}

/* An exact line looks like the same algorithm's f32 line, but dashed and open. */
static const struct look *look_of(const figure *f, int line)
{
    return &looks[first_like(f, line) % LOOKS];
}

static void write_styles(FILE *script, const figure *f)
{
    for (int i = 0; i < f->lines; i++) {
        const struct look *look = look_of(f, i);
        bool exact = f->line[i].exact;
        fprintf(script, "set style line %d lc rgb '%s' lw 2 pt %d ps 0.7 dt %d\n", i + 1,
                look->colour, look->shape - exact, 1 + exact);
    }
}

static void write_title(FILE *script, const series *line)
{
    fprintf(script, " title '%s%s'", line->algorithm, line->exact ? " exact" : "");
}

/* "64K" for 65536, as the flags take it. */
static void write_size(FILE *script, int64_t bytes)
{
    static const char unit[] = "KMGT";
    int power = -1;

    while (bytes >= 1024 && unit[power + 1]) {
        bytes /= 1024;
        power++;
    }
    fprintf(script, "'%lld%.*s' ", (long long)bytes, power >= 0, power >= 0 ? &unit[power] : "");
}

/* Powers of two, as many as can be read side by side. */
static void write_size_axis(FILE *script, const figure *f)
{
    int first = (int)floor(log2(f->smallest));
    int last = (int)ceil(log2(f->largest));
    int step = (last - first) / TICS_MAX + 1;

    fprintf(script, "set xrange [%g:%g]\nset xtics norotate (", ldexp(0.8, first),
            ldexp(1.25, last));
    for (int power = first; power <= last; power += step) {
        fputs(power > first ? "," : "", script);
        write_size(script, (int64_t)1 << power);
        fprintf(script, "%.0f", ldexp(1, power));
    }
    fputs(")\n", script);
}

/* What is measured of a row, in a panel. */
static void write_point(FILE *script, const ls__bench_row *row, bool factor)
{
    ls__bench_columns columns = ls__bench_columns_of(row);

    if (factor)
        fprintf(script, "%d %.9g\n", row->ranks, columns.factor);
    else
        fprintf(script, "%.0f %.6g\n", columns.bytes, columns.busbw);
}

/* A data block of a panel: the rows of one line on a number of ranks. */
static void write_bandwidths(FILE *script, const figure *f, int ranks)
{
    for (int line = 0; line < f->lines; line++) {
        fprintf(script, "$on_%d_%d << end\n", ranks, line);
        for (int i = 0; i < f->rows->count; i++) {
            const ls__bench_row *row = &f->rows->row[i];
            if (row->ranks == ranks && is_of(row, &f->line[line]))
                write_point(script, row, false);
        }
        fputs("end\n", script);
    }
}

static void write_bandwidth_panel(FILE *script, const figure *f, int ranks)
{
    write_bandwidths(script, f, ranks);
    fprintf(script,
            "set title 'Bus bandwidth, %d ranks'\n"
            "set xlabel 'size (bytes)'\n"
            "set ylabel 'GB/s'\n"
            "set logscale x 2\n"
            "set logscale y 10\n"
            "set yrange [%g:%g]\n",
            ranks, pow(10, floor(log10(f->slowest))), pow(10, floor(log10(f->fastest)) + 1));
    write_size_axis(script, f);
    fputs("plot", script);
    for (int line = 0; line < f->lines; line++) {
        fprintf(script, "%s $on_%d_%d with linespoints ls %d", line ? "," : "", ranks, line,
                line + 1);
        write_title(script, &f->line[line]);
    }
    fputs("\n", script);
}

/* Of a line on a number of ranks; NULL where its bytes are not known. */
static const ls__bench_row *largest_counted(const figure *f, const series *line, int ranks)
{
    const ls__bench_row *largest = NULL;

    for (int i = 0; i < f->rows->count; i++) {
        const ls__bench_row *row = &f->rows->row[i];
        if (row->counted && row->ranks == ranks && is_of(row, line))
            largest = row;
    }
    return largest;
}

static void write_factors(FILE *script, const figure *f)
{
    for (int line = 0; line < f->lines; line++) {
        fprintf(script, "$factor_%d << end\n", line);
        for (int k = 0; k < f->rank_counts; k++) {
            const ls__bench_row *row = largest_counted(f, &f->line[line], f->ranks[k]);
            if (row)
                write_point(script, row, true);
        }
        fputs("end\n", script);
    }
}

/* Points that lie on each other are drawn around each other; the curves tell f32 from exact. */
static void write_factor_points(FILE *script, const figure *f, int line)
{
    const struct look *look = look_of(f, line);

    fprintf(script, ", $factor_%d with points ls %d pt %d ps %.2f", line, line + 1, look->shape - 1,
            0.6 + 0.2 * (double)(look - looks));
    if (first_like(f, line) == line)
        fprintf(script, " title '%s'", f->line[line].algorithm);
    else
        fputs(" notitle", script);
}

static void write_factor_panel(FILE *script, const figure *f)
{
    write_factors(script, f);
    fprintf(script,
            "set title 'Bytes sent per rank, as a multiple of the data'\n"
            "set xlabel 'ranks N'\n"
            "set ylabel 'factor'\n"
            "unset logscale\n"
            "set xrange [0.7:%d.3]\n"
            "set yrange [0:*]\n"
            "set xtics autofreq 1\n"
            "plot x < 1 ? 1/0 : 2*(x-1)/x with lines lc rgb '#444444' lw 1.5 title '2(N-1)/N'",
            f->most_ranks);
    if (f->exact)
        fputs(", x < 1 ? 1/0 : 3*(x-1)/x with lines lc rgb '#444444' lw 1.5 dt 2 title '3(N-1)/N'",
              script);
    for (int line = 0; line < f->lines; line++)
        if (largest_counted(f, &f->line[line], f->ranks[0]))
            write_factor_points(script, f, line);
    fputs("\n", script);
}

static void write_script(FILE *script, const figure *f)
{
    int across = f->panels < ACROSS ? f->panels : ACROSS;
    int down = (f->panels + ACROSS - 1) / ACROSS;

    fprintf(script,
            "set terminal svg size %d,%d font 'Helvetica,14' background rgb 'white' dynamic\n"
            "set encoding utf8\n"
            "set grid lc rgb '#dddddd' lw 1\n"
            "set border 3 lc rgb '#444444'\n"
            "set tics nomirror\n"
            "set samples 400\n"
            "set key outside right top Left reverse samplen 2.5\n",
            across * PANEL_WIDTH, down * PANEL_HEIGHT);
    write_styles(script, f);
    fprintf(script, "set multiplot layout %d,%d\n", down, across);
    for (int i = 0; i < f->rank_counts; i++)
        if (has_bandwidth(f->ranks[i]))
            write_bandwidth_panel(script, f, f->ranks[i]);
    if (has_factor(f))
        write_factor_panel(script, f);
    fputs("unset multiplot\n", script);
}

ls_status ls__bench_plot(const ls__bench_rows *rows, const char *path)
{
    static figure f;
    ls__plot plot;

    plan(&f, rows);
    LS_TRY(ls__plot_open(&plot, path));
    write_script(plot.script, &f);
    return ls__plot_close(&plot);
}
