/* The subcommands, one file each. argv[0] is the command's own last word ("train", "allreduce").
 * A command prints its result on standard output and returns how it went; main prints the failure
 * and ends the process. */
#ifndef LS_CLI_COMMANDS_H
#define LS_CLI_COMMANDS_H

#include <stdbool.h>

#include "lockstep/status.h"

typedef ls_status ls__cli_command(int argc, char **argv);

typedef struct ls__cli_entry {
    const char *name;
    const char *summary;
    ls__cli_command *run;
    bool alone; /* not for several ranks */
} ls__cli_entry;

ls_status ls__cli_data(int argc, char **argv);
ls_status ls__cli_train(int argc, char **argv);
ls_status ls__cli_eval(int argc, char **argv);
ls_status ls__cli_sample(int argc, char **argv);
ls_status ls__cli_verify(int argc, char **argv);
ls_status ls__cli_diff(int argc, char **argv);
ls_status ls__cli_bench(int argc, char **argv);
ls_status ls__cli_bench_allreduce(int argc, char **argv);
ls_status ls__cli_bench_simulate(int argc, char **argv);
ls_status ls__cli_bench_step(int argc, char **argv);
ls_status ls__cli_bench_precision(int argc, char **argv);
ls_status ls__cli_plan(int argc, char **argv);
ls_status ls__cli_scaling(int argc, char **argv);

/* Runs the entry that argv[1] names; where it is `alone` and mpirun started several, refuses.
 * `command` is what the list belongs to, "lockstep". LS_BAD_USAGE with the nearest name where there
 * is none; --help lists them. */
ls_status ls__cli_dispatch(const char *command, const ls__cli_entry *entries, int count, int argc,
                           char **argv);

#endif
