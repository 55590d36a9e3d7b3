/* `lockstep bench allreduce --ranks N,N,...`: mpirun once for each N, and the rows brought back to
 * the process that started it, through a file. */
#ifndef LS_CLI_BENCH_LAUNCH_H
#define LS_CLI_BENCH_LAUNCH_H

#include "base/options.h"
#include "cli/bench_report.h"
#include "cli/launch.h"

/* Runs `once`, its command line, on each number of ranks in turn, without --json and --plot, and
 * adds the rows that each leaves: none where rank 0 is on another host. LS_CHECK_FAILED, at the
 * end, where there were wrong sums; any other failure ends it. */
ls_status ls__bench_launch(const ls__launch *once, const ls__list *ranks, ls__bench_rows *rows);

/* On rank 0, when all is measured: leaves the rows where ls__bench_launch expects them. */
ls_status ls__bench_hand_in(const ls__bench_rows *rows);

#endif
