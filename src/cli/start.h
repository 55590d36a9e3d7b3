/* How a command starts and ends with MPI: the one place, beside comm, that knows of it. */
#ifndef LS_CLI_START_H
#define LS_CLI_START_H

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "cli/launch.h"
#include "comm/world.h"
#include "lockstep/status.h"

/* What a command that runs on ranks brings. */
typedef struct ls__cli_program {
    const ls__option_table *table;
    void *settings;              /* of the table */
    size_t size;                 /* of the settings */
    const int64_t *ranks;        /* the member behind --ranks, within `settings` */
    const int64_t *threads;      /* the member behind --threads, or NULL: one */
    const double *stall_timeout; /* the member behind --stall-timeout */
    /* Before mpirun is started with --ranks N: whether the settings, and N, can be run with. NULL:
     * nothing to check. */
    ls_status (*check)(const void *settings, int argc, char **argv);
    /* Runs mpirun instead of us, as often as it takes; NULL: once. `once` is what that would be. */
    ls_status (*launch)(const void *settings, const ls__launch *once);
    bool saves;               /* told to stop, ranks save and end by themselves: ls__stop_catch */
    const int64_t *restarts;  /* the member behind --restarts, or NULL */
    const int64_t *min_ranks; /* the member behind --min-ranks, or NULL */
} ls__cli_program;

/* Remembers the command line, for ls__cli_start to start mpirun with. First thing in main. */
void ls__cli_begin(int argc, char **argv);

/* Parses the flags, then joins the ranks that mpirun started, all of which must have the same
 * flags; where this process was started by hand with --ranks N, runs mpirun with N ranks instead.
 * *world stays NULL where that was done, or --help asked for and printed. Collective: a mistake on
 * any rank is returned by all. The world is closed by ls__cli_end. */
ls_status ls__cli_start(const ls__cli_program *program, int argc, char **argv, ls__world **world);

/* For a command that runs by itself: LS_BAD_USAGE, told once, where mpirun started several. */
ls_status ls__cli_alone(const char *command);

/* For a command that cannot be started by mpirun at all, and why. */
ls_status ls__cli_refuse_mpi(const char *command, const char *why);

/* Prints the failure, if there is one, and leaves MPI: in good order where all ranks know of it or
 * there is one only, with MPI_Abort where this rank alone does. What standard output could not take
 * is a failure. Returns the exit code. */
int ls__cli_end(ls_status status);

#endif
