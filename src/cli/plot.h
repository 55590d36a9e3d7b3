/* Pictures, drawn by gnuplot in a child process. */
#ifndef LS_CLI_PLOT_H
#define LS_CLI_PLOT_H

#include <stdio.h>

#include "lockstep/status.h"

typedef struct ls__plot {
    const char *path;
    FILE *script; /* write gnuplot's commands and data here */
} ls__plot;

/* Begins a script that draws into an SVG file. If this succeeded you must close. */
ls_status ls__plot_open(ls__plot *plot, const char *path);

/* Runs the script; blocks until gnuplot ends. LS_BAD_USAGE where gnuplot is missing, LS_IO where it
 * cannot draw. */
ls_status ls__plot_close(ls__plot *plot);

#endif
