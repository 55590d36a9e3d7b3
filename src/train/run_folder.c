#include "train/run_folder.h"

#include <stdlib.h>
#include <string.h>

ls_status ls__run_folder_name(ls__run_folder *folder, const char *run)
{
    LS_TRY(ls__path_join(folder->config, run, "config.ini"));
    LS_TRY(ls__path_join(folder->metrics, run, "metrics.jsonl"));
    return ls__path_join(folder->checkpoints, run, "checkpoints");
}

bool ls__run_folder_in_use(const ls__run_folder *folder)
{
    return ls__path_exists(folder->config);
}

/* The text will be read in another folder, perhaps, than the one that paths are relative to now. */
static void make_absolute(char *path)
{
    char *whole = *path ? realpath(path, NULL) : NULL;

    if (whole && strlen(whole) < LS__TEXT_MAX)
        snprintf(path, LS__TEXT_MAX, "%s", whole);
    free(whole);
}

ls_status ls__run_configuration(const ls__train_settings *settings, char **text)
{
    static ls__train_settings stored; /* large, and only rank 0 comes here */

    stored = *settings;
    make_absolute(stored.data);
    return ls__train_settings_text(&stored, text);
}

static ls_status write_config(const ls__run_folder *folder, const ls__train_settings *settings)
{
    char *text = NULL;

    LS_TRY(ls__run_configuration(settings, &text));
    ls_status status = ls__file_write_text(folder->config, text);
    free(text);
    return status;
}

/* A flag that the run's configuration does not know has the preset there: it is of an older
 * version, which did what the preset says. */
static ls_status compare_with_run(const ls__run_folder *folder, const ls__train_settings *settings)
{
    static ls__train_settings before; /* large, and only rank 0 comes here */
    char was[LS__TEXT_MAX];
    char is[LS__TEXT_MAX];

    ls__options_preset(&ls__train_options, &before);
    LS_TRY(ls__options_read(&ls__train_options, &before, folder->config));
    LS_TRY(ls__train_settings_resolve(&before));
    int index = ls__options_differ(&ls__train_options, &before, settings, LS__SCOPE_BITS);
    if (index < 0)
        return LS_OK;
    const char *name = ls__train_options.option[index].name;
    ls__options_format(&ls__train_options, &before, index, was, sizeof was);
    ls__options_format(&ls__train_options, settings, index, is, sizeof is);
    return LS_FAIL(LS_BAD_USAGE,
                   "%.600s holds a run with --%s %.64s, not %.64s: leave the flag out, or choose "
                   "another --run",
                   settings->run, name, was, is);
}

ls_status ls__run_folder_prepare(const ls__run_folder *folder, const ls__train_settings *settings)
{
    bool in_use = ls__run_folder_in_use(folder);

    LS_FAIL_IF(in_use && !settings->resume, LS_BAD_USAGE,
               "%s holds a run already: go on with --resume, or choose another --run",
               settings->run);
    if (in_use)
        LS_TRY(compare_with_run(folder, settings));
    LS_TRY(ls__make_folders(folder->checkpoints));
    return in_use ? LS_OK : write_config(folder, settings);
}

ls_status ls__run_folder_settings(const char *run, ls__train_settings *settings)
{
    ls__run_folder folder;
    char here[LS__TEXT_MAX]; /* `run` may be settings->run itself */

    snprintf(here, sizeof here, "%s", run);
    LS_TRY(ls__run_folder_name(&folder, run));
    LS_FAIL_IF(!ls__run_folder_in_use(&folder), LS_BAD_INPUT,
               "%s is not the folder of a run: it holds no config.ini", run);
    LS_TRY(ls__options_read(&ls__train_options, settings, folder.config));
    /* Where the folder is now, not where it was when the run began. */
    snprintf(settings->run, sizeof settings->run, "%s", here);
    return LS_OK;
}
