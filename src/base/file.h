/* Small helpers on the file system. Errors: LS_NO_SPACE where the disk (or the quota, or the limit
 * on file sizes) is full, else LS_IO, with the path and the system's reason. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LS__PATH_SIZE = 4096 };

/* "folder/name" into `path` of LS__PATH_SIZE characters; LS_BAD_USAGE where it does not fit. */
ls_status ls__path_join(char *path, const char *folder, const char *name);

bool ls__path_exists(const char *path);

/* Makes a folder and those above it; one that is there already is fine. LS_BAD_USAGE where one of
 * them is a file. */
ls_status ls__make_folders(const char *path);

/* Records errno as LS_NO_SPACE or LS_IO: "cannot <verb> <path>: <reason>". */
ls_status ls__fail_errno(const char *verb, const char *path);

/* Makes a finished file durable and puts it in place: fsync, rename from `temporary` to `path` (an
 * older file there is replaced at once, never half), fsync of the folder. */
ls_status ls__file_publish(const char *temporary, const char *path);

/* Where a file is written until it is complete: "PATH.tmp", into `temporary` of LS__PATH_SIZE
 * characters; LS_BAD_USAGE where it does not fit. */
ls_status ls__file_temporary(char *temporary, const char *path);

/* Writes a small text so that `path` holds either what it held before or all of `text`. */
ls_status ls__file_write_text(const char *path, const char *text);

/* Whether ls__file_write_text could: LS_BAD_USAGE where not. Leaves nothing behind. */
ls_status ls__file_check_writable(const char *path);

/* Reads a small text of at most size - 1 bytes, closed with a zero. */
ls_status ls__file_read_text(const char *path, char *text, size_t size);

#endif
