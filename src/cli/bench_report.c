#include "cli/bench_report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

static const double us = 1e6;

double ls__bench_ideal(bool exact, double ranks)
{
    return (exact ? 3 : 2) * (ranks - 1) / ranks;
}

ls__bench_columns ls__bench_columns_of(const ls__bench_row *row)
{
    ls__bench_columns columns = {.reduce = row->exact ? "exact" : "f32"};

    columns.bytes = (double)row->count * sizeof(float);
    columns.ideal = ls__bench_ideal(row->exact, row->ranks);
    columns.algbw = row->best > 0 ? columns.bytes / row->best * 1e-9 : 0;
    columns.busbw = columns.algbw * columns.ideal;
    columns.factor = row->sent_bytes / columns.bytes;
    return columns;
}

/* ---- rows ---- */

ls_status ls__bench_rows_add(ls__bench_rows *rows, const ls__bench_row *row)
{
    if (rows->count == rows->room) {
        int room = rows->room ? 2 * rows->room : 64;
        ls__bench_row *grown = realloc(rows->row, (size_t)room * sizeof *grown);
        LS_FAIL_IF(!grown, LS_NO_MEMORY, "no memory for %d rows", room);
        rows->row = grown;
        rows->room = room;
    }
    rows->row[rows->count++] = *row;
    return LS_OK;
}

void ls__bench_rows_free(ls__bench_rows *rows)
{
    free(rows->row);
    *rows = (ls__bench_rows){0};
}

/* ---- the table ---- */

void ls__bench_print_header(int ranks, int64_t repeats)
{
    printf("# %d rank%s, sums in place; of %lld runs the best, the median and the 90th percentile "
           "(the slowest rank's)\n",
           ranks, ranks == 1 ? "" : "s", (long long)repeats);
    printf("# factor = sent / size; ideal = 2(N-1)/N for f32, 3(N-1)/N for exact; busbw = algbw "
           "ideal\n");
    printf("#%12s %12s %9s %6s %12s %12s %12s %9s %9s %14s %9s %9s %7s\n", "size", "count",
           "algorithm", "reduce", "time", "median", "p90", "algbw", "busbw", "sent per rank",
           "factor", "ideal", "#wrong");
    printf("#%12s %12s %9s %6s %12s %12s %12s %9s %9s %14s\n", "(bytes)", "(elements)", "", "",
           "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "(bytes)");
    fflush(stdout);
}

void ls__bench_print_row(const ls__bench_row *row)
{
    ls__bench_columns columns = ls__bench_columns_of(row);
    char sent[32] = "-";
    char factor[32] = "-";

    if (row->counted) {
        snprintf(sent, sizeof sent, "%.10g", row->sent_bytes);
        snprintf(factor, sizeof factor, "%.6f", columns.factor);
    }
    printf(" %12.0f %12lld %9s %6s %12.2f %12.2f %12.2f %9.3f %9.3f %14s %9s %9.6f %7lld\n",
           columns.bytes, (long long)row->count, row->algorithm, columns.reduce, row->best * us,
           row->median * us, row->p90 * us, columns.algbw, columns.busbw, sent, factor,
           columns.ideal, (long long)row->wrong);
    fflush(stdout);
}

/* ---- JSON ---- */

static void write_row(FILE *json, const ls__bench_row *row)
{
    ls__bench_columns columns = ls__bench_columns_of(row);
    char sent[32] = "null";
    char factor[32] = "null";

    if (row->counted) {
        snprintf(sent, sizeof sent, "%.15g", row->sent_bytes);
        snprintf(factor, sizeof factor, "%.9g", columns.factor);
    }
    fprintf(json,
            "  {\"algorithm\": \"%s\", \"reduce\": \"%s\", \"ranks\": %d, \"count\": %lld, "
            "\"bytes\": %.0f, \"time_us\": %.3f, \"median_us\": %.3f, \"p90_us\": %.3f, "
            "\"algbw_gbps\": %.6g, \"busbw_gbps\": %.6g, \"sent_bytes\": %s, \"factor\": %s, "
            "\"factor_ideal\": %.9g, \"spills\": %lld, \"wrong\": %lld}",
            row->algorithm, columns.reduce, row->ranks, (long long)row->count, columns.bytes,
            row->best * us, row->median * us, row->p90 * us, columns.algbw, columns.busbw, sent,
            factor, columns.ideal, (long long)row->spills, (long long)row->wrong);
}

ls_status ls__bench_write_json(const ls__bench_rows *rows, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *json = open_memstream(&text, &size);

    LS_FAIL_IF(!json, LS_NO_MEMORY, "no memory for the rows of %s", path);
    fputs("[", json);
    for (int i = 0; i < rows->count; i++) {
        fputs(i ? ",\n" : "\n", json);
        write_row(json, &rows->row[i]);
    }
    fputs("\n]\n", json);
    ls_status status = fclose(json) == 0
                           ? ls__file_write_text(path, text)
                           : LS_FAIL(LS_NO_MEMORY, "no memory for the rows of %s", path);
    free(text);
    return status;
}
