/* Pictures, drawn by gnuplot in a child process. */
#ifndef LS_CLI_PLOT_H
#define LS_CLI_PLOT_H

#include <stdio.h>

#include "lockstep/status.h"

typedef struct ls__plot {
    const char *path;
    FILE *script; /* write gnuplot's commands and data here */
} ls__plot;

/* For a start of work whose result is to be drawn: whether gnuplot is there and the file can be
 * written. LS_BAD_USAGE. */
ls_status ls__plot_check(const char *path);

/* Begins a script that draws into an SVG file. If this succeeded you must close. */
ls_status ls__plot_open(ls__plot *plot, const char *path);

/* Runs the script; blocks until gnuplot ends. The file is then complete, or what it was before.
 * LS_BAD_USAGE where gnuplot is missing, LS_IO or LS_NO_SPACE where it cannot draw. */
ls_status ls__plot_close(ls__plot *plot);

#endif
