/* The folder of a run: config.ini, metrics.jsonl, checkpoints/. Only rank 0 touches it. */
#ifndef LS_TRAIN_RUN_FOLDER_H
#define LS_TRAIN_RUN_FOLDER_H

#include <stdbool.h>

#include "base/file.h"
#include "lockstep/status.h"
#include "train/settings.h"

typedef struct ls__run_folder {
    char config[LS__PATH_SIZE];
    char metrics[LS__PATH_SIZE];
    char checkpoints[LS__PATH_SIZE];
} ls__run_folder;

/* The paths inside a run folder. LS_BAD_USAGE where they are too long. */
ls_status ls__run_folder_name(ls__run_folder *folder, const char *run);

/* Whether a run has been started there. */
bool ls__run_folder_in_use(const ls__run_folder *folder);

/* Prepares the folder for a run with these settings. A new run makes it and writes config.ini;
 * LS_BAD_USAGE where it holds a run already and this one does not resume. A resumed run must have
 * the flags that decide bits in common with it: LS_BAD_USAGE, naming the first that differs. */
ls_status ls__run_folder_prepare(const ls__run_folder *folder, const ls__train_settings *settings);

/* The settings as they are kept with a run: an INI text, in memory that the caller frees. The
 * dataset's path is made absolute, so that it holds wherever a later command starts. */
ls_status ls__run_configuration(const ls__train_settings *settings, char **text);

/* Reads the settings of the run in this folder over `settings`; settings->run is then `run`.
 * LS_BAD_INPUT where there is none. */
ls_status ls__run_folder_settings(const char *run, ls__train_settings *settings);

#endif
