#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ls_status ls__path_join(char *path, const char *folder, const char *name)
{
    int length = snprintf(path, LS__PATH_SIZE, "%s/%s", folder, name);

    LS_FAIL_IF(length < 0 || length >= LS__PATH_SIZE, LS_BAD_USAGE,
               "the path %.64s.../%s is longer than %d characters", folder, name,
               LS__PATH_SIZE - 1);
    return LS_OK;
}

bool ls__path_exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

ls_status ls__fail_errno(const char *verb, const char *path)
{
    int reason = errno;

    if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG)
        return LS_FAIL(LS_NO_SPACE, "cannot %s %s: %s: free some room or choose another disk", verb,
                       path, strerror(reason));
    return LS_FAIL(LS_IO, "cannot %s %s: %s", verb, path, strerror(reason));
}

static ls_status make_folder(const char *path)
{
    struct stat info;

    if (mkdir(path, 0777) == 0)
        return LS_OK;
    if (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return LS_OK;
    LS_FAIL_IF(errno == EEXIST, LS_BAD_USAGE, "%s is a file, not a folder: choose another path",
               path);
    return ls__fail_errno("make the folder", path);
}

ls_status ls__make_folders(const char *path)
{
    char part[LS__PATH_SIZE];
    size_t length = strlen(path);

    LS_FAIL_IF(length == 0 || length >= sizeof part, LS_BAD_USAGE,
               "'%.64s' cannot be the path of a folder", path);
    memcpy(part, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (part[i] != '/')
            continue;
        part[i] = '\0';
        LS_TRY(make_folder(part));
        part[i] = '/';
    }
    return make_folder(part);
}

static ls_status sync_path(const char *path, int flags)
{
    ls_status status = LS_OK;
    int file = open(path, flags);

    if (file < 0)
        return ls__fail_errno("open", path);
    if (fsync(file) != 0)
        status = ls__fail_errno("make durable", path);
    close(file);
    return status;
}

static ls_status sync_folder_of(const char *path)
{
    char folder[LS__PATH_SIZE];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;

    if (!slash)
        return sync_path(".", O_RDONLY);
    if (length == 0)
        return sync_path("/", O_RDONLY);
    memcpy(folder, path, length);
    folder[length] = '\0';
    return sync_path(folder, O_RDONLY);
}

ls_status ls__file_publish(const char *temporary, const char *path)
{
    LS_TRY(sync_path(temporary, O_RDWR));
    if (rename(temporary, path) != 0)
        return ls__fail_errno("put in place", path);
    return sync_folder_of(path);
}

ls_status ls__file_temporary(char *temporary, const char *path)
{
    int length = snprintf(temporary, LS__PATH_SIZE, "%s.tmp", path);

    LS_FAIL_IF(length < 0 || length >= LS__PATH_SIZE, LS_BAD_USAGE,
               "the path %.64s... is longer than %d characters", path, LS__PATH_SIZE - 1);
    return LS_OK;
}

ls_status ls__file_check_writable(const char *path)
{
    char temporary[LS__PATH_SIZE];
    struct stat info;

    LS_TRY(ls__file_temporary(temporary, path));
    LS_FAIL_IF(stat(path, &info) == 0 && S_ISDIR(info.st_mode), LS_BAD_USAGE,
               "%s is a folder, not a file: choose another path", path);
    int file = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    LS_FAIL_IF(file < 0, LS_BAD_USAGE, "cannot create %s: %s: choose another path", temporary,
               strerror(errno));
    close(file);
    unlink(temporary);
    return LS_OK;
}

ls_status ls__file_write_text(const char *path, const char *text)
{
    char temporary[LS__PATH_SIZE];

    LS_TRY(ls__file_temporary(temporary, path));
    FILE *file = fopen(temporary, "w");
    if (!file)
        return ls__fail_errno("create", temporary);
    bool written = fputs(text, file) >= 0;
    if (fclose(file) != 0 || !written) {
        ls_status status = ls__fail_errno("write", temporary);
        unlink(temporary);
        return status;
    }
    return ls__file_publish(temporary, path);
}

ls_status ls__file_read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");

    if (!file)
        return ls__fail_errno("open", path);
    size_t length = fread(text, 1, size, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return ls__fail_errno("read", path);
    LS_FAIL_IF(length >= size, LS_BAD_INPUT, "%s is longer than the %zu bytes expected of it", path,
               size - 1);
    text[length] = '\0';
    return LS_OK;
}
