/* The plot of `lockstep bench allreduce`, drawn by gnuplot. */
#ifndef LS_CLI_BENCH_PLOT_H
#define LS_CLI_BENCH_PLOT_H

#include "cli/bench_report.h"

/* Writes an SVG: for each number of ranks above one the bus bandwidth against the size, a line an
 * algorithm; and, where there are several numbers of ranks, the measured factor against N beside
 * the curve 2(N-1)/N. Needs a row of two ranks or more. Errors: cli/plot.h. */
ls_status ls__bench_plot(const ls__bench_rows *rows, const char *path);

#endif
