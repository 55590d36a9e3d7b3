/* What `lockstep bench allreduce` has measured: rows, printed as a table, written as JSON, and
 * handed from the ranks to the process that started them. bench_plot.h draws them. */
#ifndef LS_CLI_BENCH_REPORT_H
#define LS_CLI_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef struct ls__bench_row {
    char algorithm[9];
    bool exact; /* else f32 */
    int ranks;
    int64_t count; /* of FP32 elements */
    double best;   /* seconds of the slowest rank, over the repeats */
    double median;
    double p90;
    bool counted; /* whether the transport sent, and so counted, the bytes; else nobody knows */
    double sent_bytes; /* the mean per rank */
    int64_t spills;    /* records delivered in the run that needs them; exact only */
    int64_t wrong;     /* elements, of all ranks and runs */
} ls__bench_row;

/* What follows from a row. */
typedef struct ls__bench_columns {
    const char *reduce; /* "f32" or "exact" */
    double bytes;       /* of the FP32 elements */
    double algbw;       /* GB/s: bytes / best */
    double busbw;       /* GB/s: algbw * ideal, what each rank's link carries */
    double factor;      /* sent / bytes */
    double ideal;       /* the least possible: ls__bench_ideal */
} ls__bench_columns;

typedef struct ls__bench_rows {
    ls__bench_row *row; /* (count) */
    int count;
    int room;
} ls__bench_rows;

/* Bytes that each of N ranks must send, for a byte of FP32: 2(N-1)/N; for exact sums, which carry 8
 * bytes an element one way and 4 the other, 3(N-1)/N. */
double ls__bench_ideal(bool exact, double ranks);
ls__bench_columns ls__bench_columns_of(const ls__bench_row *row);

/* ---- rows; all zero is none ---- */

ls_status ls__bench_rows_add(ls__bench_rows *rows, const ls__bench_row *row);
void ls__bench_rows_free(ls__bench_rows *rows);

/* ---- output ---- */

void ls__bench_print_header(int ranks, int64_t repeats);
void ls__bench_print_row(const ls__bench_row *row);

/* An array of objects, a line each: either not there or complete. */
ls_status ls__bench_write_json(const ls__bench_rows *rows, const char *path);

#endif
