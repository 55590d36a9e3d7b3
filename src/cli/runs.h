/* Training runs that a command starts for itself, each by an mpirun of its own. */
#ifndef LS_CLI_RUNS_H
#define LS_CLI_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "train/settings.h"

/* ---- the folder that holds them ---- */

/* Makes a folder in TMPDIR, or /tmp, and names it in `folder` of LS__PATH_SIZE characters; the
 * pattern ends with "XXXXXX". If this succeeded you must remove it. */
ls_status ls__runs_folder_make(char *folder, const char *pattern);
void ls__runs_folder_remove(const char *folder); /* with all that is in it */

/* ---- a run ---- */

/* Flags of train that such a run has no use for, though a config.ini holds them; closed with NULL.
 */
extern const char *const ls__runs_left_out[];
bool ls__runs_leave_out(const char *name);

/* `lockstep train` with these settings, all spelled out, on so many ranks, into settings->run. What
 * it prints goes into the file "RUN.log", whose end is shown where it fails. `command` is ours, for
 * that message. LS_STOPPED where a signal ended it: call ls__launch_catch_signals first. */
ls_status ls__runs_train(const char *command, const ls__train_settings *settings, int64_t ranks);

#endif
