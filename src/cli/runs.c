#include "cli/runs.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/launch.h"

enum { WORDS_MAX = 64, LOG_TAIL = 2048 };

/* ---- the folder ---- */

ls_status ls__runs_folder_make(char *folder, const char *pattern)
{
    const char *parent = getenv("TMPDIR");

    LS_TRY(ls__path_join(folder, parent && *parent ? parent : "/tmp", pattern));
    if (!mkdtemp(folder))
        return ls__fail_errno("make the folder", folder);
    return LS_OK;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

void ls__runs_folder_remove(const char *folder)
{
    if (nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        ls__log_warning("cannot remove %s", folder);
}

/* ---- a run ---- */

const char *const ls__runs_left_out[] = {"resume", "restarts", "min-ranks", NULL};

bool ls__runs_leave_out(const char *name)
{
    for (const char *const *other = ls__runs_left_out; *other; other++)
        if (strcmp(*other, name) == 0)
            return true;
    return false;
}

/* The end of what a failed run printed is what says why. */
static ls_status tell_failure(const char *command, const char *log, int64_t ranks, ls_status status)
{
    static char text[1 << 20];
    char *from = text;

    if (status == LS_STOPPED)
        return LS_FAIL(status, "%s was told to stop: the training on %lld rank%s is not done",
                       command, (long long)ranks, ranks == 1 ? "" : "s");

    if (ls__file_read_text(log, text, sizeof text) != LS_OK)
        text[0] = '\0';
    size_t length = strlen(text);
    if (length > LOG_TAIL)
        from += length - LOG_TAIL;
    fputs(from, stderr);
    if (ls_last_error()->rank < 0)
        ls__log_error();
    return LS_FAIL(status, "the training on %lld rank%s failed: its last words are above",
                   (long long)ranks, ranks == 1 ? "" : "s");
}

ls_status ls__runs_train(const char *command, const ls__train_settings *settings, int64_t ranks)
{
    static char words[WORDS_MAX][LS__TEXT_MAX + 64];
    static char value[LS__TEXT_MAX];
    char log[LS__PATH_SIZE + 8];
    const char *arguments[WORDS_MAX + 1] = {"train"};
    ls__launch launch = {.ranks = ranks,
                         .threads = settings->threads,
                         .arguments = arguments,
                         .log = log,
                         .min_ranks = 1};
    int count = 1;

    for (int i = 0; i < ls__train_options.count; i++) {
        const char *name = ls__train_options.option[i].name;
        if (strcmp(name, "ranks") == 0 || ls__runs_leave_out(name))
            continue;
        ls__options_format(&ls__train_options, settings, i, value, sizeof value);
        snprintf(words[count], sizeof words[count], "--%s=%s", name, value);
        arguments[count] = words[count];
        count++;
    }
    launch.argc = count;
    snprintf(log, sizeof log, "%s.log", settings->run);
    ls_status status = ls__launch_run(&launch);
    return status == LS_OK ? LS_OK : tell_failure(command, log, ranks, status);
}
