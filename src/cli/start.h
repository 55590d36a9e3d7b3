/* How a command starts and ends with MPI: the one place, beside comm, that knows of it. */
#ifndef LS_CLI_START_H
#define LS_CLI_START_H

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "comm/world.h"
#include "lockstep/status.h"

/* What a command that runs on ranks brings. */
typedef struct ls__cli_program {
    const ls__option_table *table;
    void *settings;              /* of the table */
    const int64_t *ranks;        /* the member behind --ranks, within `settings` */
    const double *stall_timeout; /* the member behind --stall-timeout */
} ls__cli_program;

/* Remembers the command line, for ls__cli_start to start mpirun with. First thing in main. */
void ls__cli_begin(int argc, char **argv);

/* Parses the flags, then joins the ranks that mpirun started; where this process was started by
 * hand with --ranks N, becomes mpirun with N ranks and does not return. *world stays NULL where
 * --help was asked for and printed. Collective: a mistake on any rank is returned by all. The world
 * is closed by ls__cli_end. */
ls_status ls__cli_start(const ls__cli_program *program, int argc, char **argv, ls__world **world);

/* Prints the failure, if there is one, and leaves MPI: in good order where all ranks know of it,
 * with MPI_Abort where this rank alone does. Returns the exit code. */
int ls__cli_end(ls_status status);

/* Runs `lockstep arguments...` (argc of them) on that many ranks under mpirun and waits; what it
 * prints goes to the file `log`. *exit_code: its exit code. */
ls_status ls__cli_run(int64_t ranks, int argc, const char *const *arguments, const char *log,
                      int *exit_code);

#endif
