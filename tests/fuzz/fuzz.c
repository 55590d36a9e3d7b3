#include "fuzz/fuzz.h"

#include <assert.h>
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <sys/stat.h>

#include "support/test.h"

enum { PATH_SIZE = 4096 };

/* Freed memory is kept from reuse for a while. Less of it than the default 256 MB, most of which
 * would be our 1 MB buffers, doubles the speed. */
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64";
}

static void write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    assert(file && fwrite(bytes, 1, count, file) == count);
    assert(fclose(file) == 0);
}

void ls__fuzz_seed(const int *argc, char **const *argv, const char *name, const void *bytes,
                   size_t count)
{
    char path[PATH_SIZE];
    const char *corpus = (*argv)[*argc - 1];
    struct stat info;

    if (stat(corpus, &info) != 0 || !S_ISDIR(info.st_mode))
        return;
    snprintf(path, sizeof path, "%s/%s", corpus, name);
    write_file(path, bytes, count);
}

const char *ls__fuzz_path(const char *name)
{
    static char path[PATH_SIZE];

    snprintf(path, sizeof path, "%s/%s", ls__test_folder(), name);
    return path;
}

const char *ls__fuzz_file(const char *name, const void *bytes, size_t count)
{
    const char *path = ls__fuzz_path(name);

    write_file(path, bytes, count);
    return path;
}
