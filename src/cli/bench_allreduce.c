/* lockstep bench allreduce: times the all-reduce algorithms, checking every result.
 *
 * Ranks measure, and rank 0 prints each row. With --ranks a first process starts mpirun for each of
 * the counts in turn, and the rows come back to it, so that one JSON file and one plot hold them
 * all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/options.h"
#include "base/units.h"
#include "cli/algorithms.h"
#include "cli/bench_launch.h"
#include "cli/bench_plot.h"
#include "cli/bench_report.h"
#include "cli/bench_sum.h"
#include "cli/commands.h"
#include "cli/plot.h"
#include "cli/start.h"

enum { ELEMENT = sizeof(float) };
enum { F32, EXACT, REDUCES };

static const char *const reduce_name[REDUCES] = {[F32] = "f32", [EXACT] = "exact"};

typedef struct bench_settings {
    int64_t min_bytes;
    int64_t max_bytes;
    int64_t factor;
    int64_t repeats;
    int64_t warmup;
    ls__list ranks;
    double stall_timeout;
    char algorithm[LS__TEXT_MAX];
    char reduce[LS__TEXT_MAX];
    char json[LS__TEXT_MAX];
    char plot[LS__TEXT_MAX];
} bench_settings;

static const ls__option options[] = {
    {"min-bytes", "1K", "BYTES", "the smallest size", offsetof(bench_settings, min_bytes), ELEMENT,
     0x1p50, LS__OPTION_BYTES, LS__SCOPE_RUN, 'b'},
    {"max-bytes", "64M", "BYTES", "the largest size", offsetof(bench_settings, max_bytes), ELEMENT,
     0x1p50, LS__OPTION_BYTES, LS__SCOPE_RUN, 'e'},
    {"factor", "2", "TIMES", "from one size to the next", offsetof(bench_settings, factor), 2, 1024,
     LS__OPTION_INT, LS__SCOPE_RUN, 'f'},
    {"algorithm", "ring,naive,mpi", "NAMES", "which algorithms to time",
     offsetof(bench_settings, algorithm), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"reduce", "f32", "NAMES", "which sums to time: f32, exact or both, f32,exact",
     offsetof(bench_settings, reduce), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"repeats", "10", "RUNS", "timed runs of each row", offsetof(bench_settings, repeats), 1, 1000,
     LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"warmup", "2", "RUNS", "runs before those", offsetof(bench_settings, warmup), 0, 1000,
     LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"json", "", "FILE", "write the rows there too", offsetof(bench_settings, json), 0, 0,
     LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"plot", "", "FILE", "draw them there, as SVG, with gnuplot", offsetof(bench_settings, plot), 0,
     0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"ranks", "0", "N,N,...", "start mpirun with N ranks, for each N; 0: as mpirun started us",
     offsetof(bench_settings, ranks), 0, 65536, LS__OPTION_LIST, LS__SCOPE_RUN, 0},
    {"stall-timeout", "120", "seconds", "how long a rank waits for another",
     offsetof(bench_settings, stall_timeout), 1, 1e6, LS__OPTION_REAL, LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep bench allreduce",
    .summary = "time all-reduce algorithms, checking every result",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes = "With --simulate, on a network that need not exist: see --simulate --help.\n",
};

/* What is measured, as the flags name it. */
typedef struct bench_choice {
    ls__algorithms algorithms;
    bool exact[REDUCES];
    int reduces;
} bench_choice;

/* An algorithm on one size: the row is this rank's until all are put together. */
typedef struct entrant {
    ls__bench_sum *sum;
    ls__bench_row row;
} entrant;

typedef struct bench_state {
    ls__world *world;
    bench_settings settings;
    bench_choice choice;
    int ranks;
    ls__bench_memory memory;
    entrant entrant[LS_ALGORITHM_COUNT];
    double *seconds;     /* (algorithms, repeats) of this rank */
    double *all_seconds; /* (ranks, repeats) */
    double *slowest;     /* (repeats) of the slowest rank */
    double *all_counts;  /* (ranks, 2): bytes sent a run, wrong elements */
    ls__bench_rows rows; /* on rank 0 */
    int64_t runs;        /* so far, of all rows */
    int64_t wrong;       /* of all rows */
} bench_state;

/* ---- settings ---- */

static ls_status add_reduce(bench_choice *choice, const char *name)
{
    int found = 0;

    while (found < REDUCES && strcmp(reduce_name[found], name) != 0)
        found++;
    LS_FAIL_IF(found == REDUCES, LS_BAD_USAGE,
               "--reduce: there is none called '%s': choose f32, exact or f32,exact", name);
    LS_FAIL_IF(choice->reduces == REDUCES, LS_BAD_USAGE, "--reduce takes at most %d names",
               REDUCES);
    choice->exact[choice->reduces++] = found == EXACT;
    return LS_OK;
}

static ls_status choose_reduces(bench_choice *choice, const char *list)
{
    char names[LS__TEXT_MAX];
    char *rest = names;
    char *name = NULL;

    snprintf(names, sizeof names, "%s", list);
    while ((name = strsep(&rest, ",")))
        LS_TRY(add_reduce(choice, name));
    return LS_OK;
}

static ls_status choose(bench_choice *choice, const bench_settings *set)
{
    *choice = (bench_choice){0};
    LS_FAIL_IF(set->min_bytes > set->max_bytes, LS_BAD_USAGE,
               "--min-bytes %lld is above --max-bytes %lld", (long long)set->min_bytes,
               (long long)set->max_bytes);
    LS_TRY(ls__algorithms_read(&choice->algorithms, set->algorithm));
    return choose_reduces(choice, set->reduce);
}

/* Before anything is measured, on at most that many ranks. */
static ls_status check_outputs(const bench_settings *set, int64_t most_ranks)
{
    if (set->json[0])
        LS_TRY(ls__file_check_writable(set->json));
    if (!set->plot[0])
        return LS_OK;
    LS_FAIL_IF(most_ranks < 2, LS_BAD_USAGE,
               "--plot: a rank alone sends nothing that could be drawn: give --ranks 2 or more");
    return ls__plot_check(set->plot);
}

static ls_status write_outputs(const bench_settings *set, const ls__bench_rows *rows)
{
    if (set->json[0])
        LS_TRY(ls__bench_write_json(rows, set->json));
    return set->plot[0] ? ls__bench_plot(rows, set->plot) : LS_OK;
}

/* ---- memory ---- */

static bool wants_exact(const bench_choice *choice)
{
    return choice->exact[0] || choice->exact[choice->reduces - 1];
}

static int64_t most_scratch(const bench_state *bench, int64_t count)
{
    ls_layout layout = ls_transport_layout(ls__world_transport(bench->world));
    const bench_choice *choice = &bench->choice;
    int64_t most = 0;

    for (int r = 0; r < choice->reduces; r++)
        for (int a = 0; a < choice->algorithms.count; a++) {
            int64_t bytes =
                ls__bench_scratch(choice->algorithms.algorithm[a], choice->exact[r], layout, count);
            most = bytes > most ? bytes : most;
        }
    return most;
}

/* Data, lanes and scratch, before any of it is taken; what few spills there are is not much. */
static ls_status check_memory(const bench_state *bench)
{
    int64_t count = bench->settings.max_bytes / ELEMENT;
    int64_t element = ELEMENT + (wants_exact(&bench->choice) ? (int64_t)sizeof(double) : 0);
    int64_t needed = count * element + most_scratch(bench, count);
    int64_t left = ls__memory_available() / ls__world_host_ranks(bench->world);
    char text[2][32];

    LS_FAIL_IF(left > 0 && needed > left, LS_NO_MEMORY,
               "bench allreduce needs %s on each rank, there are %s: use a smaller --max-bytes or "
               "fewer ranks on this machine",
               ls__format_bytes(text[0], sizeof text[0], needed),
               ls__format_bytes(text[1], sizeof text[1], left));
    return LS_OK;
}

static ls_status allocate(bench_state *bench, ls__arena *arena)
{
    int64_t count = bench->settings.max_bytes / ELEMENT;
    int64_t lanes = wants_exact(&bench->choice) ? count : 0;
    int64_t repeats = bench->settings.repeats;
    ls__bench_memory *memory = &bench->memory;

    LS_TRY(ls__world_agree(bench->world, check_memory(bench)));
    LS_TRY(ls__world_memory(bench->world, arena, LS__COMMUNICATION, count, ELEMENT, &memory->data));
    LS_TRY(ls__world_memory(bench->world, arena, LS__COMMUNICATION, lanes, sizeof(double),
                            &memory->lanes));
    LS_TRY(
        ls__arena_take(arena, LS__COMMUNICATION, most_scratch(bench, count), 1, &memory->scratch));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, repeats * bench->choice.algorithms.count,
                          sizeof(double), &bench->seconds));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, repeats, sizeof(double), &bench->slowest));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, 2 * (int64_t)bench->ranks, sizeof(double),
                          &bench->all_counts));
    return ls__arena_take(arena, LS__COMMUNICATION, repeats * bench->ranks, sizeof(double),
                          &bench->all_seconds);
}

/* ---- one row ---- */

static ls_status run_once(bench_state *bench, ls__bench_sum *sum, bool spills, ls__bench_row *row,
                          double *seconds)
{
    ls__fault_enter_step(++bench->runs);
    ls__bench_sum_fill(sum, spills);
    LS_TRY(ls__world_barrier(bench->world));
    double start = ls__clock_seconds();
    LS_TRY(ls__bench_sum_run(sum));
    *seconds = ls__clock_seconds() - start;
    ls__fault_parameters(bench->memory.data, row->count);
    row->wrong += ls__bench_sum_wrong(sum);
    return LS_OK;
}

/* Exact sums are tried with spills first, which are too rare in training to be timed. */
static ls_status try_spills(bench_state *bench, entrant *e)
{
    double seconds = 0;

    if (!e->row.exact)
        return LS_OK;
    LS_TRY(run_once(bench, e->sum, true, &e->row, &seconds));
    e->row.spills = ls__bench_sum_spills(e->sum);
    return LS_OK;
}

static ls_status run_entrant(bench_state *bench, entrant *e, double *seconds)
{
    const ls_transport *transport = ls__world_transport(bench->world);
    int64_t before = transport->traffic.sent_bytes;

    LS_TRY(run_once(bench, e->sum, false, &e->row, seconds));
    e->row.sent_bytes += (double)(transport->traffic.sent_bytes - before);
    return LS_OK;
}

/* In turns, so that what changes on a machine while this runs, such as which rank stands on which
 * core, does not fall to one algorithm. */
static ls_status run_all(bench_state *bench, int count)
{
    int64_t warmup = bench->settings.warmup;
    int64_t repeats = bench->settings.repeats;
    double seconds = 0;

    for (int a = 0; a < count; a++)
        LS_TRY(try_spills(bench, &bench->entrant[a]));
    for (int64_t i = 0; i < warmup + repeats; i++)
        for (int a = 0; a < count; a++) {
            LS_TRY(run_entrant(bench, &bench->entrant[a], &seconds));
            if (i >= warmup)
                bench->seconds[a * repeats + i - warmup] = seconds;
        }
    for (int a = 0; a < count; a++)
        bench->entrant[a].row.sent_bytes /= (double)(warmup + repeats);
    return LS_OK;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

/* A run takes as long as it takes the slowest rank. */
static ls_status gather_times(bench_state *bench, ls__bench_row *row, const double *own)
{
    int64_t repeats = bench->settings.repeats;

    LS_TRY(ls__world_all_gather(bench->world, own, bench->all_seconds,
                                repeats * (int64_t)sizeof(double)));
    for (int64_t i = 0; i < repeats; i++) {
        bench->slowest[i] = 0;
        for (int rank = 0; rank < bench->ranks; rank++) {
            double seconds = bench->all_seconds[rank * repeats + i];
            bench->slowest[i] = seconds > bench->slowest[i] ? seconds : bench->slowest[i];
        }
    }
    qsort(bench->slowest, (size_t)repeats, sizeof bench->slowest[0], by_value);
    row->best = bench->slowest[0];
    row->median = (bench->slowest[(repeats - 1) / 2] + bench->slowest[repeats / 2]) / 2;
    row->p90 = bench->slowest[(9 * repeats - 1) / 10];
    return LS_OK;
}

/* Sums over ranks what was wrong, and takes the mean of what was sent. */
static ls_status gather_counts(bench_state *bench, ls__bench_row *row)
{
    double mine[2] = {row->sent_bytes, (double)row->wrong};

    LS_TRY(ls__world_all_gather(bench->world, mine, bench->all_counts, sizeof mine));
    row->sent_bytes = 0;
    row->wrong = 0;
    for (int rank = 0; rank < bench->ranks; rank++) {
        row->sent_bytes += bench->all_counts[2 * rank] / bench->ranks;
        row->wrong += (int64_t)bench->all_counts[2 * rank + 1];
    }
    bench->wrong += row->wrong;
    return LS_OK;
}

/* ---- the whole table ---- */

static ls_status open_entrant(bench_state *bench, const ls_algorithm *algorithm, bool exact,
                              int64_t count, entrant *e)
{
    *e = (entrant){.row = {.exact = exact,
                           .ranks = bench->ranks,
                           .count = count,
                           .counted = algorithm->reduce != NULL}};
    snprintf(e->row.algorithm, sizeof e->row.algorithm, "%s", algorithm->name);
    return ls__bench_sum_open(&e->sum, bench->world, algorithm, exact, count, &bench->memory);
}

static ls_status hand_over(bench_state *bench, int index)
{
    ls__bench_row *row = &bench->entrant[index].row;

    LS_TRY(gather_times(bench, row, bench->seconds + index * bench->settings.repeats));
    LS_TRY(gather_counts(bench, row));
    if (ls__world_rank(bench->world) != 0)
        return LS_OK;
    ls__bench_print_row(row);
    return ls__bench_rows_add(&bench->rows, row);
}

/* All algorithms on one size, on the same memory. */
static ls_status run_size(bench_state *bench, bool exact, int64_t count)
{
    const ls__algorithms *algorithms = &bench->choice.algorithms;
    ls_status status = LS_OK;
    int opened = 0;

    for (; status == LS_OK && opened < algorithms->count; opened++)
        status = open_entrant(bench, algorithms->algorithm[opened], exact, count,
                              &bench->entrant[opened]);
    if (status == LS_OK)
        status = run_all(bench, opened);
    for (int a = 0; a < opened; a++)
        ls__bench_sum_close(bench->entrant[a].sum);
    for (int a = 0; status == LS_OK && a < opened; a++)
        status = hand_over(bench, a);
    return status;
}

static ls_status run_sizes(bench_state *bench)
{
    const bench_settings *set = &bench->settings;

    if (ls__world_rank(bench->world) == 0)
        ls__bench_print_header(bench->ranks, set->repeats);
    for (int64_t bytes = set->min_bytes; bytes <= set->max_bytes; bytes *= set->factor)
        for (int r = 0; r < bench->choice.reduces; r++)
            LS_TRY(run_size(bench, bench->choice.exact[r], bytes / ELEMENT));
    return LS_OK;
}

/* On rank 0. */
static ls_status hand_in_rows(const bench_state *bench)
{
    LS_TRY(ls__bench_hand_in(&bench->rows));
    return write_outputs(&bench->settings, &bench->rows);
}

static ls_status judge(const bench_state *bench)
{
    LS_FAIL_IF(bench->wrong, LS_CHECK_FAILED,
               "bench allreduce: %lld elements came out wrong, see the column #wrong",
               (long long)bench->wrong);
    return LS_OK;
}

static ls_status run(bench_state *bench)
{
    ls__arena *arena = NULL;

    LS_TRY(ls__arena_open(&arena, 0));
    ls_status status = ls__world_agree(bench->world, allocate(bench, arena));
    if (status == LS_OK)
        status = run_sizes(bench);
    if (status == LS_OK && ls__world_rank(bench->world) == 0)
        status = hand_in_rows(bench);
    ls__bench_rows_free(&bench->rows);
    ls__arena_close(arena);
    return ls__world_agree(bench->world, status == LS_OK ? judge(bench) : status);
}

/* ---- in the process that starts mpirun ---- */

static ls_status check(const void *settings, int argc, char **argv)
{
    const bench_settings *set = settings;
    bench_choice choice;
    int64_t most = 0;

    (void)argc;
    (void)argv;
    for (int i = 0; i < set->ranks.count; i++) {
        int64_t ranks = set->ranks.value[i];
        LS_FAIL_IF(ranks < 1, LS_BAD_USAGE, "--ranks: a run takes 1 rank at least");
        most = ranks > most ? ranks : most;
    }
    LS_TRY(choose(&choice, set));
    return check_outputs(set, most);
}

static ls_status write_all(const bench_settings *set, const ls__bench_rows *rows)
{
    LS_FAIL_IF(rows->count == 0 && (set->json[0] || set->plot[0]), LS_IO,
               "no rows came back for --json and --plot, as rank 0 is on another host: leave "
               "--ranks out and start mpirun yourself");
    return write_outputs(set, rows);
}

static ls_status launch(const void *settings, const ls__launch *once)
{
    const bench_settings *set = settings;
    ls__bench_rows rows = {0};
    ls_status status = ls__bench_launch(once, &set->ranks, &rows);

    if (status == LS_OK || status == LS_CHECK_FAILED) {
        ls_status written = write_all(set, &rows);
        status = written == LS_OK ? status : written;
    }
    ls__bench_rows_free(&rows);
    return status;
}

/* ---- the command ---- */

/* On the ranks; rank 0 writes the files. */
static ls_status prepare(bench_state *bench)
{
    const bench_settings *set = &bench->settings;

    bench->ranks = ls__world_ranks(bench->world);
    LS_FAIL_IF(set->ranks.count > 1, LS_BAD_USAGE,
               "--ranks: several counts, each 1 at least, are for a lockstep that starts mpirun "
               "itself");
    LS_TRY(choose(&bench->choice, set));
    LS_TRY(ls__fault_arm(ls__world_rank(bench->world)));
    return ls__world_rank(bench->world) == 0 ? check_outputs(set, bench->ranks) : LS_OK;
}

ls_status ls__cli_bench_allreduce(int argc, char **argv)
{
    static bench_state bench;
    ls__cli_program program = {.table = &table,
                               .settings = &bench.settings,
                               .size = sizeof bench.settings,
                               .ranks = &bench.settings.ranks.value[0],
                               .stall_timeout = &bench.settings.stall_timeout,
                               .check = check,
                               .launch = launch};

    LS_TRY(ls__cli_start(&program, argc, argv, &bench.world));
    if (!bench.world)
        return LS_OK;
    LS_TRY(ls__world_agree(bench.world, prepare(&bench)));
    return run(&bench);
}
