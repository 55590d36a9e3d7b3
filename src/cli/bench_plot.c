/* The script, with the rows inside, goes to gnuplot's standard input and the picture comes from its
 * standard output, both through files: no path is ever quoted, for a shell or for gnuplot. */
#include "cli/bench_plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

extern char **environ;

enum { PANEL_WIDTH = 620, PANEL_HEIGHT = 440, ACROSS = 2, SERIES_MAX = 64, PANELS_MAX = 64 };

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
    int panels;
    bool exact; /* whether any row is */
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

static void plan(figure *f, const ls__bench_rows *rows)
{
    *f = (figure){.rows = rows};
    for (int i = 0; i < rows->count; i++) {
        note_series(f, &rows->row[i]);
        note_ranks(f, rows->row[i].ranks);
        f->exact = f->exact || rows->row[i].exact;
    }
    for (int i = 0; i < f->rank_counts; i++)
        f->panels += has_bandwidth(f->ranks[i]);
    f->panels += has_factor(f);
}

/* ---- the script ---- */

/* Okabe and Ito's colours, which colour-blind people can tell apart. */
static const char *const colour[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                     "#E69F00", "#56B4E9", "#7F7F7F", "#000000"};
enum { COLOURS = sizeof colour / sizeof colour[0] };

/* An exact line has the colour of the same algorithm's f32 line, dashed. */
static int colour_of(const figure *f, int line)
{
    int first = 0;

    while (strcmp(f->line[first].algorithm, f->line[line].algorithm) != 0)
        first++;
    return first % COLOURS;
}

static void write_styles(FILE *script, const figure *f)
{
    static const int shape[] = {7, 5, 9, 11, 13, 15, 3, 2}; /* filled ones first */

    for (int i = 0; i < f->lines; i++) {
        int own = colour_of(f, i);
        fprintf(script, "set style line %d lc rgb '%s' lw 2 pt %d ps 0.7 dt %d\n", i + 1,
                colour[own], shape[own] - (f->line[i].exact && shape[own] > 3),
                f->line[i].exact ? 2 : 1);
    }
}

static void write_title(FILE *script, const figure *f, int line)
{
    fprintf(script, " title '%s%s'", f->line[line].algorithm, f->line[line].exact ? " exact" : "");
}

/* A data block of two columns for a line of a panel, empty where nothing was measured. */
static void begin_block(FILE *script, int panel, int line)
{
    fprintf(script, "$panel%d_%d << end\n", panel, line);
}

static void write_bandwidth_data(FILE *script, const figure *f, int panel, int ranks)
{
    for (int line = 0; line < f->lines; line++) {
        begin_block(script, panel, line);
        for (int i = 0; i < f->rows->count; i++) {
            const ls__bench_row *row = &f->rows->row[i];
            ls__bench_columns columns = ls__bench_columns_of(row);
            if (row->ranks == ranks && is_of(row, &f->line[line]))
                fprintf(script, "%.0f %.6g\n", columns.bytes, columns.busbw);
        }
        fputs("end\n", script);
    }
}

static void write_bandwidth(FILE *script, const figure *f, int panel, int ranks)
{
    write_bandwidth_data(script, f, panel, ranks);
    fprintf(script,
            "set title 'Bus bandwidth, %d ranks'\n"
            "set xlabel 'size'\n"
            "set ylabel 'GB/s'\n"
            "set logscale x 2\n"
            "set logscale y 10\n"
            "set xrange [*:*]\n"
            "set yrange [*:*]\n"
            "set format x '%%.0b %%BB'\n"
            "set format y '%%g'\n"
            "set xtics autofreq rotate by -40\n"
            "set key outside right top\n"
            "plot",
            ranks);
    for (int line = 0; line < f->lines; line++) {
        fprintf(script, "%s $panel%d_%d with linespoints ls %d", line ? "," : "", panel, line,
                line + 1);
        write_title(script, f, line);
    }
    fputs("\n", script);
}

/* The factor of the largest size of a line at each number of ranks. */
static void write_factor_data(FILE *script, const figure *f, int panel)
{
    for (int line = 0; line < f->lines; line++) {
        begin_block(script, panel, line);
        for (int k = 0; k < f->rank_counts; k++) {
            const ls__bench_row *largest = NULL;
            for (int i = 0; i < f->rows->count; i++) {
                const ls__bench_row *row = &f->rows->row[i];
                if (row->counted && row->ranks == f->ranks[k] && is_of(row, &f->line[line]))
                    largest = row;
            }
            if (largest)
                fprintf(script, "%d %.9g\n", largest->ranks, ls__bench_columns_of(largest).factor);
        }
        fputs("end\n", script);
    }
}

static bool is_counted(const figure *f, int line)
{
    for (int i = 0; i < f->rows->count; i++)
        if (f->rows->row[i].counted && is_of(&f->rows->row[i], &f->line[line]))
            return true;
    return false;
}

static void write_factor(FILE *script, const figure *f, int panel)
{
    write_factor_data(script, f, panel);
    fprintf(script,
            "set title 'Bytes sent per rank / size'\n"
            "set xlabel 'ranks N'\n"
            "set ylabel 'factor'\n"
            "unset logscale\n"
            "set xrange [0.7:*]\n"
            "set yrange [0:*]\n"
            "set format x '%%.0f'\n"
            "set xtics 1 norotate\n"
            "set key outside right top\n"
            "plot x < 1 ? 1/0 : 2*(x-1)/x with lines lc rgb '#444444' lw 1.5 title '2(N-1)/N'");
    if (f->exact)
        fprintf(script, ", x < 1 ? 1/0 : 3*(x-1)/x with lines lc rgb '#444444' lw 1.5 dt 2 title "
                        "'3(N-1)/N'");
    for (int line = 0; line < f->lines; line++) {
        if (!is_counted(f, line))
            continue;
        fprintf(script, ", $panel%d_%d with points ls %d", panel, line, line + 1);
        write_title(script, f, line);
    }
    fputs("\n", script);
}

static void write_script(FILE *script, const figure *f)
{
    int across = f->panels < ACROSS ? f->panels : ACROSS;
    int down = (f->panels + ACROSS - 1) / ACROSS;
    int panel = 0;

    fprintf(script,
            "set terminal svg size %d,%d font 'Helvetica,14' background rgb 'white' dynamic\n"
            "set encoding utf8\n"
            "set grid lc rgb '#dddddd' lw 1\n"
            "set border 3 lc rgb '#444444'\n"
            "set tics nomirror\n"
            "set samples 400\n",
            across * PANEL_WIDTH, down * PANEL_HEIGHT);
    write_styles(script, f);
    fprintf(script, "set multiplot layout %d,%d\n", down, across);
    for (int i = 0; i < f->rank_counts; i++)
        if (has_bandwidth(f->ranks[i]))
            write_bandwidth(script, f, panel++, f->ranks[i]);
    if (has_factor(f))
        write_factor(script, f, panel);
    fputs("unset multiplot\n", script);
}

/* ---- gnuplot ---- */

/* Runs it from one open file to another. *exit_code: 0 where it went well. */
static ls_status run_gnuplot(const char *flag, int in, int out, int *exit_code)
{
    char name[] = "gnuplot";
    char argument[16];
    char *argv[] = {name, argument, NULL};
    posix_spawn_file_actions_t files;
    pid_t child = 0;
    int how = 0;

    snprintf(argument, sizeof argument, "%s", flag);
    LS_FAIL_IF(posix_spawn_file_actions_init(&files) != 0, LS_NO_MEMORY, "no memory for a process");
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    int reason = posix_spawnp(&child, name, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    LS_FAIL_IF(reason != 0, LS_BAD_USAGE,
               "--plot needs gnuplot, which cannot be started: %s: install it (gnuplot-nox), or "
               "leave --plot out",
               strerror(reason));
    while (waitpid(child, &how, 0) < 0)
        LS_FAIL_IF(errno != EINTR, LS_IO, "lost sight of gnuplot: %s", strerror(errno));
    *exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    return LS_OK;
}

ls_status ls__bench_plot_check(void)
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int exit_code = 0;

    if (nothing < 0)
        return ls__fail_errno("open", "/dev/null");
    ls_status status = run_gnuplot("--version", nothing, nothing, &exit_code);
    close(nothing);
    LS_TRY(status);
    LS_FAIL_IF(exit_code != 0, LS_BAD_USAGE,
               "--plot needs gnuplot, and `gnuplot --version` ends with %d: install it again "
               "(gnuplot-nox), or leave --plot out",
               exit_code);
    return LS_OK;
}

static ls_status draw(FILE *script, const char *picture)
{
    FILE *file = fopen(picture, "w");
    int exit_code = 0;

    if (!file)
        return ls__fail_errno("create", picture);
    ls_status status = run_gnuplot("-", fileno(script), fileno(file), &exit_code);
    fclose(file);
    LS_TRY(status);
    LS_FAIL_IF(exit_code != 0, LS_IO, "gnuplot could not draw %s: it ended with %d", picture,
               exit_code);
    return LS_OK;
}

static ls_status draw_figure(const figure *f, const char *picture)
{
    FILE *script = tmpfile();

    if (!script)
        return ls__fail_errno("create", "a temporary file");
    write_script(script, f);
    rewind(script);
    ls_status status =
        ferror(script) ? LS_FAIL(LS_IO, "cannot write a temporary file") : draw(script, picture);
    fclose(script);
    return status;
}

ls_status ls__bench_plot(const ls__bench_rows *rows, const char *path)
{
    static figure f;
    char temporary[LS__PATH_SIZE];

    LS_TRY(ls__file_temporary(temporary, path));
    plan(&f, rows);
    ls_status status = draw_figure(&f, temporary);
    if (status == LS_OK)
        status = ls__file_publish(temporary, path);
    if (status != LS_OK)
        unlink(temporary);
    return status;
}
