#include "data/header.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/dataset.h"

/* "a.txt, b.txt and 3 more" */
static void list_sources(char *text, size_t size, const char *const *sources, int count)
{
    static const size_t ending = 32; /* room for "and N more" */
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (used + strlen(sources[i]) + ending >= size) {
            snprintf(text + used, size - used, "%s%d more", used ? " and " : "", count - i);
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", sources[i]);
    }
}

ls_status ls__header_write(ls__h5 *file, const char *kind, const char *const *sources, int count,
                           int64_t source_bytes)
{
    char source[LS__DATASET_SOURCE];

    list_sources(source, sizeof source, sources, count);
    LS_TRY(ls__h5_set_text(file, "/", "format", LS__DATASET_FORMAT));
    LS_TRY(ls__h5_set_int(file, "/", "format_version", LS__DATASET_VERSION));
    LS_TRY(ls__h5_set_text(file, "/", "kind", kind));
    LS_TRY(ls__h5_set_text(file, "/", "source", source));
    return ls__h5_set_int(file, "/", "source_bytes", source_bytes);
}

ls_status ls__check_output(const char *out_path, const char *const *sources, int count)
{
    struct stat out;
    struct stat source;

    if (stat(out_path, &out) != 0)
        return LS_OK;
    for (int i = 0; i < count; i++)
        LS_FAIL_IF(stat(sources[i], &source) == 0 && source.st_dev == out.st_dev &&
                       source.st_ino == out.st_ino,
                   LS_BAD_USAGE, "%s is to be read and written at once: choose another output",
                   out_path);
    return LS_OK;
}

ls_status ls__check_source(const char *path, int64_t *bytes)
{
    struct stat info;

    LS_FAIL_IF(stat(path, &info) != 0, LS_BAD_INPUT, "cannot open %s: %s", path, strerror(errno));
    LS_FAIL_IF(S_ISDIR(info.st_mode), LS_BAD_INPUT, "%s is a folder: name the files in it", path);
    LS_FAIL_IF(!S_ISREG(info.st_mode), LS_BAD_INPUT,
               "%s is not a regular file: save what it gives to a file first", path);
    LS_FAIL_IF(access(path, R_OK) != 0, LS_BAD_INPUT, "cannot open %s: %s", path, strerror(errno));
    LS_FAIL_IF(info.st_size == 0, LS_BAD_INPUT, "%s is empty", path);
    *bytes = info.st_size;
    return LS_OK;
}
