/* The plot of `lockstep bench allreduce`, drawn by gnuplot. */
#ifndef LS_CLI_BENCH_PLOT_H
#define LS_CLI_BENCH_PLOT_H

#include "cli/bench_report.h"

/* Whether gnuplot can be started. LS_BAD_USAGE. */
ls_status ls__bench_plot_check(void);

/* Writes an SVG: for each number of ranks above one the bus bandwidth against the size, a line an
 * algorithm; and, where there are several numbers of ranks, the measured factor against N beside
 * the curve 2(N-1)/N. The file is either not there or complete. LS_IO, LS_NO_SPACE. */
ls_status ls__bench_plot(const ls__bench_rows *rows, const char *path);

#endif
