/* The folder of a run's checkpoints. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "ckpt/checkpoint.h"
#include "h5/seal.h"

enum { FILE_NAME = 64 };

static void file_name(char *name, int64_t step)
{
    snprintf(name, FILE_NAME, "step-%08lld.h5", (long long)step);
}

ls_status ls__checkpoint_path(char *path, const char *folder, int64_t step)
{
    char name[FILE_NAME];

    file_name(name, step);
    return ls__path_join(path, folder, name);
}

/* The step of a checkpoint's file name, or -1 for any other name. */
static int64_t step_of(const char *name)
{
    char again[FILE_NAME];
    long long step = -1;

    if (sscanf(name, "step-%lld.h5", &step) != 1 || step < 0)
        return -1;
    file_name(again, step);
    return strcmp(name, again) == 0 ? step : -1;
}

static int ascending(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

ls_status ls__checkpoint_steps(const char *folder, int64_t **steps, int64_t *count)
{
    DIR *dir = opendir(folder);
    int64_t capacity = 0;

    *steps = NULL;
    *count = 0;
    if (!dir)
        return LS_OK;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        int64_t step = step_of(entry->d_name);
        if (step < 0)
            continue;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            int64_t *grown = realloc(*steps, (size_t)capacity * sizeof **steps);
            if (!grown) {
                closedir(dir);
                free(*steps);
                return LS_FAIL(LS_NO_MEMORY, "no memory for the list of checkpoints in %s", folder);
            }
            *steps = grown;
        }
        (*steps)[(*count)++] = step;
    }
    closedir(dir);
    if (*count > 0)
        qsort(*steps, (size_t)*count, sizeof **steps, ascending);
    return LS_OK;
}

static ls_status remove_oldest(const char *folder, int64_t keep)
{
    char path[LS__PATH_SIZE];
    int64_t *steps = NULL;
    int64_t count = 0;
    ls_status status = LS_OK;

    LS_TRY(ls__checkpoint_steps(folder, &steps, &count));
    for (int64_t i = 0; i < count - keep; i++) {
        LS_TRY_TO(cleanup, ls__checkpoint_path(path, folder, steps[i]));
        if (unlink(path) != 0) {
            status = ls__fail_errno("remove the old checkpoint", path);
            goto cleanup;
        }
    }
cleanup:
    free(steps);
    return status;
}

ls_status ls__checkpoint_settle(const char *folder, int64_t step, int64_t keep)
{
    char path[LS__PATH_SIZE];
    char name[FILE_NAME];
    char text[FILE_NAME + 1];

    file_name(name, step);
    snprintf(text, sizeof text, "%s\n", name);
    LS_TRY(ls__path_join(path, folder, "latest"));
    LS_TRY(ls__file_write_text(path, text));
    return remove_oldest(folder, keep);
}

ls_status ls__checkpoint_latest(const char *folder, char *path)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    ls_status status = LS_OK;

    LS_TRY(ls__checkpoint_steps(folder, &steps, &count));
    for (int64_t i = count - 1; i >= 0; i--) {
        status = ls__checkpoint_path(path, folder, steps[i]);
        if (status != LS_OK || ls__seal_verify(path) == LS_OK) {
            free(steps);
            return status;
        }
        ls__log_warning("passing over a damaged checkpoint: %s", ls_last_error()->text);
    }
    free(steps);
    return LS_FAIL(LS_BAD_INPUT, "%s holds no whole checkpoint", folder);
}
