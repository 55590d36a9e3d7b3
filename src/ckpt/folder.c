/* The folder of a run's checkpoints. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* A list of steps that grows. */
typedef struct step_list {
    int64_t *step;
    int64_t count;
    int64_t capacity;
} step_list;

static ls_status append(step_list *list, int64_t step, const char *folder)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 16;
        int64_t *grown = realloc(list->step, (size_t)list->capacity * sizeof *grown);
        LS_FAIL_IF(!grown, LS_NO_MEMORY, "no memory for the list of checkpoints in %s", folder);
        list->step = grown;
    }
    list->step[list->count++] = step;
    return LS_OK;
}

static ls_status read_entries(DIR *dir, const char *folder, step_list *list)
{
    for (;;) {
        errno = 0; /* the end of the folder and a failure look alike but for this */
        const struct dirent *entry = readdir(dir);
        if (!entry)
            return errno ? ls__fail_errno("read the folder", folder) : LS_OK;
        if (step_of(entry->d_name) >= 0)
            LS_TRY(append(list, step_of(entry->d_name), folder));
    }
}

ls_status ls__checkpoint_steps(const char *folder, int64_t **steps, int64_t *count)
{
    step_list list = {0};
    DIR *dir = opendir(folder);

    *steps = NULL;
    *count = 0;
    /* A file in the way is told by whoever makes the folder. */
    if (!dir && (errno == ENOENT || errno == ENOTDIR))
        return LS_OK;
    if (!dir)
        return ls__fail_errno("open the folder", folder);
    ls_status status = read_entries(dir, folder, &list);
    closedir(dir);
    if (status != LS_OK) {
        free(list.step);
        return status;
    }
    if (list.count > 0)
        qsort(list.step, (size_t)list.count, sizeof *list.step, ascending);
    *steps = list.step;
    *count = list.count;
    return LS_OK;
}

static ls_status remove_one(const char *folder, int64_t step)
{
    char path[LS__PATH_SIZE];

    LS_TRY(ls__checkpoint_path(path, folder, step));
    if (unlink(path) != 0)
        return ls__fail_errno("remove the checkpoint", path);
    return LS_OK;
}

/* Removes the future that a run left behind when it went back to an older checkpoint than the
 * newest, then the oldest of the past. */
static ls_status remove_others(const char *folder, int64_t step, int64_t keep)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    ls_status status = LS_OK;

    LS_TRY(ls__checkpoint_steps(folder, &steps, &count));
    assert(keep >= 1); /* so that the one just written stays */
    for (; status == LS_OK && count > 0 && steps[count - 1] > step; count--)
        status = remove_one(folder, steps[count - 1]);
    for (int64_t i = 0; status == LS_OK && i < count - keep; i++)
        status = remove_one(folder, steps[i]);
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
    return remove_others(folder, step, keep);
}

typedef enum condition { WHOLE, DAMAGED, GONE } condition;

static bool is_gone(const char *path)
{
    struct stat info;

    return lstat(path, &info) != 0 && errno == ENOENT;
}

/* One that cannot be read may be whole: that is a failure, not damage. One that was listed and is
 * gone has made room for newer ones of a run that is training. */
static ls_status examine(const char *path, condition *found)
{
    ls_status status = ls__seal_verify(path);

    *found = status == LS_OK ? WHOLE : is_gone(path) ? GONE : DAMAGED;
    if (*found == DAMAGED && status != LS_BAD_INPUT)
        return status;
    if (*found == DAMAGED)
        ls__log_warning("passing over a damaged checkpoint: %s", ls_last_error()->text);
    return LS_OK;
}

static ls_status find_newest(const char *folder, char *path, condition *found)
{
    int64_t *steps = NULL;
    int64_t count = 0;
    ls_status status = LS_OK;

    *found = DAMAGED;
    LS_TRY(ls__checkpoint_steps(folder, &steps, &count));
    for (int64_t i = count - 1; status == LS_OK && *found == DAMAGED && i >= 0; i--) {
        status = ls__checkpoint_path(path, folder, steps[i]);
        if (status == LS_OK)
            status = examine(path, found);
    }
    free(steps);
    return status;
}

ls_status ls__checkpoint_latest(const char *folder, char *path)
{
    condition found = GONE;

    while (found == GONE)
        LS_TRY(find_newest(folder, path, &found));
    LS_FAIL_IF(found != WHOLE, LS_BAD_INPUT,
               "%s holds no whole checkpoint: put one back, or start again in another folder",
               folder);
    return LS_OK;
}
