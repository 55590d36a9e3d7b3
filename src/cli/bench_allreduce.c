/* lockstep bench allreduce: times the all-reduce algorithms, checking every result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "lockstep/collective.h"

/* Element i of rank r is (7 i + 13 r) mod PERIOD: a whole number so small that float sums of it are
 * exact in any order up to 60,000 ranks. PERIOD is a prime, so a block in a wrong place shows. */
enum { PERIOD = 251, ELEMENT = sizeof(float) };

typedef struct bench_settings {
    int64_t min_bytes;
    int64_t max_bytes;
    int64_t factor;
    int64_t repeats;
    int64_t warmup;
    int64_t ranks;
    double stall_timeout;
    char algorithm[LS__TEXT_MAX];
    char json[LS__TEXT_MAX];
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
    {"repeats", "10", "RUNS", "timed runs of each row", offsetof(bench_settings, repeats), 1, 1000,
     LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"warmup", "2", "RUNS", "runs before those", offsetof(bench_settings, warmup), 0, 1000,
     LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"json", "", "FILE", "write the rows there too", offsetof(bench_settings, json), 0, 0,
     LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"ranks", "0", "N", "start N ranks with mpirun; 0: as many as mpirun started",
     offsetof(bench_settings, ranks), 0, 65536, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"stall-timeout", "120", "seconds", "how long a rank waits for another",
     offsetof(bench_settings, stall_timeout), 1, 1e6, LS__OPTION_REAL, LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep bench allreduce",
    .summary = "time all-reduce algorithms, checking every result",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
};

typedef struct bench_state {
    ls__world *world;
    bench_settings settings;
    const ls_algorithm *algorithm[LS_ALGORITHM_COUNT];
    int algorithms;
    int ranks;
    float expected[PERIOD]; /* the sum over ranks of an element i with i mod PERIOD = index */
    float *data;            /* (max count) */
    float *reference;       /* (max count) what MPI_Allreduce makes of the same input */
    void *scratch;
    double *seconds;     /* (repeats) of this rank */
    double *all_seconds; /* (ranks, repeats) */
    double *slowest;     /* (repeats) of the slowest rank */
    double *all_counts;  /* (ranks, 2): bytes sent a run, wrong elements */
    int64_t wrong;       /* of all rows */
    FILE *json;          /* in memory; rank 0 only, NULL where nobody asked */
    int rows;
} bench_state;

typedef struct bench_row {
    const ls_algorithm *algorithm;
    int64_t count;
    double best;       /* seconds, of the slowest rank */
    double median;     /* seconds, of the slowest rank */
    double sent_bytes; /* mean per rank; below 0: not visible */
    int64_t wrong;     /* elements of all ranks and runs */
} bench_row;

/* ---- set-up ---- */

static ls_status add_algorithm(bench_state *bench, const char *name)
{
    const ls_algorithm *found = ls_algorithm_find(name);

    LS_FAIL_IF(!found, LS_BAD_USAGE, "--algorithm: there is none called '%s': choose from %s", name,
               LS_ALGORITHM_NAMES);
    LS_FAIL_IF(bench->algorithms == LS_ALGORITHM_COUNT, LS_BAD_USAGE,
               "--algorithm takes at most %d names", LS_ALGORITHM_COUNT);
    bench->algorithm[bench->algorithms++] = found;
    return LS_OK;
}

static ls_status choose_algorithms(bench_state *bench)
{
    char names[LS__TEXT_MAX];
    char *rest = names;
    char *name = NULL;

    memcpy(names, bench->settings.algorithm, sizeof names);
    while ((name = strsep(&rest, ",")))
        LS_TRY(add_algorithm(bench, name));
    return LS_OK;
}

static ls_status check_settings(bench_state *bench)
{
    const bench_settings *set = &bench->settings;

    LS_FAIL_IF(set->min_bytes > set->max_bytes, LS_BAD_USAGE,
               "--min-bytes %lld is above --max-bytes %lld", (long long)set->min_bytes,
               (long long)set->max_bytes);
    return choose_algorithms(bench);
}

static int64_t most_scratch(const bench_state *bench, int64_t count)
{
    int64_t most = 0;

    for (int i = 0; i < bench->algorithms; i++) {
        int64_t bytes = ls_allreduce_scratch(bench->algorithm[i],
                                             ls_transport_layout(ls__world_transport(bench->world)),
                                             count, &ls_sum_f32);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Data, reference and scratch, before any of it is taken. */
static ls_status check_memory(const bench_state *bench)
{
    int64_t most = bench->settings.max_bytes;
    int64_t needed = 2 * most + most_scratch(bench, most / ELEMENT);
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
    int64_t repeats = bench->settings.repeats;

    LS_TRY(check_memory(bench));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, count, ELEMENT, &bench->data));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, count, ELEMENT, &bench->reference));
    LS_TRY(
        ls__arena_take(arena, LS__COMMUNICATION, most_scratch(bench, count), 1, &bench->scratch));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, repeats, sizeof(double), &bench->seconds));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, repeats, sizeof(double), &bench->slowest));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, 2 * (int64_t)bench->ranks, sizeof(double),
                          &bench->all_counts));
    return ls__arena_take(arena, LS__COMMUNICATION, repeats * bench->ranks, sizeof(double),
                          &bench->all_seconds);
}

/* ---- inputs and their sums ---- */

static int64_t addend(int64_t index, int rank)
{
    return (7 * index + 13 * (int64_t)rank) % PERIOD;
}

static void expect_sums(bench_state *bench)
{
    for (int64_t i = 0; i < PERIOD; i++) {
        int64_t sum = 0;
        for (int rank = 0; rank < bench->ranks; rank++)
            sum += addend(i, rank);
        bench->expected[i] = (float)sum;
    }
}

static void fill(const bench_state *bench, float *data, int64_t count)
{
    int rank = ls__world_rank(bench->world);

    for (int64_t i = 0; i < count; i++)
        data[i] = (float)addend(i, rank);
}

/* Elements that differ from the closed formula or, in any bit, from MPI_Allreduce. */
static int64_t count_wrong(const bench_state *bench, int64_t count)
{
    int64_t wrong = 0;

    for (int64_t i = 0; i < count; i++)
        wrong += bench->data[i] != bench->expected[i % PERIOD] ||
                 memcmp(&bench->data[i], &bench->reference[i], ELEMENT) != 0;
    return wrong;
}

/* ---- one row ---- */

static ls_status run_once(const bench_state *bench, ls_allreduce *sum, double *seconds)
{
    LS_TRY(ls__world_barrier(bench->world));
    double start = ls__clock_seconds();
    LS_TRY(ls_allreduce_start(sum));
    LS_TRY(ls_allreduce_wait(sum, ls__world_timeout(bench->world)));
    *seconds = ls__clock_seconds() - start;
    return LS_OK;
}

static ls_status run_all(bench_state *bench, ls_allreduce *sum, bench_row *row)
{
    int64_t runs = bench->settings.warmup + bench->settings.repeats;
    const ls_transport *transport = ls__world_transport(bench->world);
    double seconds = 0;

    LS_TRY(ls_allreduce_check(sum, ls__world_timeout(bench->world)));
    int64_t before = transport->traffic.sent_bytes;
    for (int64_t i = 0; i < runs; i++) {
        fill(bench, bench->data, row->count);
        LS_TRY(run_once(bench, sum, &seconds));
        row->wrong += count_wrong(bench, row->count);
        if (i >= bench->settings.warmup)
            bench->seconds[i - bench->settings.warmup] = seconds;
    }
    row->sent_bytes = (double)(transport->traffic.sent_bytes - before) / (double)runs;
    return LS_OK;
}

static ls_status open_sum(bench_state *bench, const ls_algorithm *algorithm, float *data,
                          int64_t count, ls_allreduce **sum)
{
    ls_payload payload = {
        .data = data,
        .count = count,
        .type = &ls_sum_f32,
        .scratch = bench->scratch,
    };

    return ls_allreduce_open(sum, ls__world_transport(bench->world), algorithm, &payload);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

/* A run takes as long as it takes the slowest rank. */
static ls_status gather_times(bench_state *bench, bench_row *row)
{
    int64_t repeats = bench->settings.repeats;

    LS_TRY(ls__world_all_gather(bench->world, bench->seconds, bench->all_seconds,
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
    return LS_OK;
}

/* Sums over ranks what was wrong, and takes the mean of what was sent. */
static ls_status gather_counts(bench_state *bench, bench_row *row)
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

static ls_status measure(bench_state *bench, bench_row *row)
{
    ls_allreduce *sum = NULL;

    LS_TRY(open_sum(bench, row->algorithm, bench->data, row->count, &sum));
    ls_status status = run_all(bench, sum, row);
    ls_allreduce_close(sum);
    LS_TRY(status);
    LS_TRY(gather_times(bench, row));
    return gather_counts(bench, row);
}

/* What MPI_Allreduce makes of the input. */
static ls_status refer(bench_state *bench, int64_t count)
{
    ls_allreduce *sum = NULL;

    fill(bench, bench->reference, count);
    LS_TRY(open_sum(bench, &ls_algorithm_mpi, bench->reference, count, &sum));
    ls_status status = ls_allreduce_start(sum);
    if (status == LS_OK)
        status = ls_allreduce_wait(sum, ls__world_timeout(bench->world));
    ls_allreduce_close(sum);
    return status;
}

/* ---- output, on rank 0 ---- */

static void print_header(const bench_state *bench)
{
    printf("# %d ranks, float sum in place, best and median of %lld runs (the slowest rank's)\n",
           bench->ranks, (long long)bench->settings.repeats);
    printf("# busbw = algbw 2(N-1)/N; factor = sent / size, 2(N-1)/N = %.6f\n",
           2.0 * (bench->ranks - 1) / bench->ranks);
    printf("#%12s %12s %5s %9s %12s %12s %9s %9s %14s %9s %9s %7s\n", "size", "count", "type",
           "algorithm", "time", "median", "algbw", "busbw", "sent per rank", "factor", "ideal",
           "#wrong");
    printf("#%12s %12s %5s %9s %12s %12s %9s %9s %14s\n", "(bytes)", "(elements)", "", "", "(us)",
           "(us)", "(GB/s)", "(GB/s)", "(bytes)");
}

/* The derived columns; what a rank alone "sends" has no factor but 0. */
typedef struct bench_columns {
    double bytes;
    double algbw; /* GB/s */
    double busbw; /* GB/s */
    double factor;
    double ideal;
    bool visible; /* whether the bytes were sent by us, and so counted */
} bench_columns;

static bench_columns columns_of(const bench_state *bench, const bench_row *row)
{
    bench_columns columns = {.bytes = (double)(row->count * ELEMENT)};

    columns.ideal = 2.0 * (bench->ranks - 1) / bench->ranks;
    columns.algbw = row->best > 0 ? columns.bytes / row->best * 1e-9 : 0;
    columns.busbw = columns.algbw * columns.ideal;
    columns.factor = row->sent_bytes / columns.bytes;
    columns.visible = row->algorithm->reduce != NULL;
    return columns;
}

static void print_row(const bench_row *row, const bench_columns *columns)
{
    char sent[32] = "-";
    char factor[32] = "-";

    if (columns->visible) {
        snprintf(sent, sizeof sent, "%.10g", row->sent_bytes);
        snprintf(factor, sizeof factor, "%.6f", columns->factor);
    }
    printf(" %12.0f %12lld %5s %9s %12.2f %12.2f %9.3f %9.3f %14s %9s %9.6f %7lld\n",
           columns->bytes, (long long)row->count, ls_sum_f32.name, row->algorithm->name,
           row->best * 1e6, row->median * 1e6, columns->algbw, columns->busbw, sent, factor,
           columns->ideal, (long long)row->wrong);
    fflush(stdout);
}

static void write_json_row(bench_state *bench, const bench_row *row, const bench_columns *columns)
{
    char sent[32] = "null";
    char factor[32] = "null";

    if (columns->visible) {
        snprintf(sent, sizeof sent, "%.15g", row->sent_bytes);
        snprintf(factor, sizeof factor, "%.9g", columns->factor);
    }
    fprintf(bench->json,
            "%s\n  {\"algorithm\": \"%s\", \"reduce\": \"f32\", \"ranks\": %d, \"count\": %lld, "
            "\"bytes\": %.0f, \"time_us\": %.3f, \"median_us\": %.3f, \"algbw_gbps\": %.6g, "
            "\"busbw_gbps\": %.6g, \"sent_bytes\": %s, \"factor\": %s, \"factor_ideal\": %.9g, "
            "\"wrong\": %lld}",
            bench->rows++ ? "," : "", row->algorithm->name, bench->ranks, (long long)row->count,
            columns->bytes, row->best * 1e6, row->median * 1e6, columns->algbw, columns->busbw,
            sent, factor, columns->ideal, (long long)row->wrong);
}

static void show(bench_state *bench, const bench_row *row)
{
    bench_columns columns = columns_of(bench, row);

    if (ls__world_rank(bench->world) != 0)
        return;
    print_row(row, &columns);
    if (bench->json)
        write_json_row(bench, row, &columns);
}

/* ---- the whole table ---- */

static ls_status run_size(bench_state *bench, int64_t count)
{
    LS_TRY(refer(bench, count));
    for (int i = 0; i < bench->algorithms; i++) {
        bench_row row = {.algorithm = bench->algorithm[i], .count = count};
        LS_TRY(measure(bench, &row));
        show(bench, &row);
    }
    return LS_OK;
}

static ls_status run_sizes(bench_state *bench)
{
    const bench_settings *set = &bench->settings;

    if (ls__world_rank(bench->world) == 0)
        print_header(bench);
    for (int64_t bytes = set->min_bytes; bytes <= set->max_bytes; bytes *= set->factor)
        LS_TRY(run_size(bench, bytes / ELEMENT));
    LS_FAIL_IF(bench->wrong, LS_CHECK_FAILED,
               "bench allreduce: %lld elements came out wrong, see the column #wrong",
               (long long)bench->wrong);
    return LS_OK;
}

/* The rows gather in memory, so that the file is either not there or complete. */
static ls_status run_with_json(bench_state *bench)
{
    char *text = NULL;
    size_t size = 0;

    bench->json = open_memstream(&text, &size);
    LS_FAIL_IF(!bench->json, LS_NO_MEMORY, "no memory for the rows of %s", bench->settings.json);
    fputs("[", bench->json);
    ls_status status = run_sizes(bench);
    fputs("\n]\n", bench->json);
    bool kept = fclose(bench->json) == 0;
    if (status == LS_OK || status == LS_CHECK_FAILED) {
        ls_status written =
            kept ? ls__file_write_text(bench->settings.json, text)
                 : LS_FAIL(LS_NO_MEMORY, "no memory for the rows of %s", bench->settings.json);
        status = written == LS_OK ? status : written;
    }
    free(text);
    return status;
}

static ls_status run(bench_state *bench)
{
    ls__arena *arena = NULL;

    LS_TRY(ls__arena_open(&arena, 0));
    ls_status status = ls__world_agree(bench->world, allocate(bench, arena));
    if (status == LS_OK) {
        expect_sums(bench);
        bool writes = ls__world_rank(bench->world) == 0 && bench->settings.json[0];
        status = writes ? run_with_json(bench) : run_sizes(bench);
        status = ls__world_agree(bench->world, status);
    }
    ls__arena_close(arena);
    return status;
}

ls_status ls__cli_bench_allreduce(int argc, char **argv)
{
    static bench_state bench;
    ls__cli_program program = {.table = &table,
                               .settings = &bench.settings,
                               .size = sizeof bench.settings,
                               .ranks = &bench.settings.ranks,
                               .stall_timeout = &bench.settings.stall_timeout};

    LS_TRY(ls__cli_start(&program, argc, argv, &bench.world));
    if (!bench.world)
        return LS_OK;
    bench.ranks = ls__world_ranks(bench.world);
    LS_TRY(ls__world_agree(bench.world, check_settings(&bench)));
    return run(&bench);
}
