/* Starting ranks with mpirun, watching over them, and starting them again where some were lost. */
#ifndef LS_CLI_LAUNCH_H
#define LS_CLI_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

/* A rank that our launcher started ends with LS__LAUNCH_CODE + its status where that is not LS_OK,
 * so that the launcher can tell it from what mpirun itself ends with. */
enum { LS__LAUNCH_CODE = 64 };

/* `lockstep arguments...` on ranks. */
typedef struct ls__launch {
    int64_t ranks;
    int64_t threads; /* in each of them; 0 is as 1 */
    int argc;
    const char *const *arguments; /* (argc) */
    const char *log;              /* a file for what it prints; NULL: our own output */
    bool saves;                   /* told to stop, the ranks save and end by themselves */
    int64_t restarts;             /* how often to start again with --resume where ranks were lost */
    int64_t min_ranks;            /* on no fewer than these, though fewer are left */
} ls__launch;

/* Whether this process is a rank that our launcher started. */
bool ls__launched(void);

/* From here on SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are handed on to the ranks, at once or
 * when they are started, instead of ending this process. */
void ls__launch_catch_signals(void);

/* Runs to the end and returns how it went, with the same status that the ranks ended with, or else:
 * LS_COMM where a rank was lost or mpirun failed, LS_STOPPED where a signal ended it. What a rank
 * has said already is not recorded again. The ranks end when this process does. */
ls_status ls__launch_run(const ls__launch *launch);

#endif
