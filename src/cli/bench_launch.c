#include "cli/bench_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* The file's name, for the ranks. The file holds rows as they stand in memory: one program writes
 * and reads it. */
static const char rows_variable[] = "LOCKSTEP_BENCH_ROWS";

ls_status ls__bench_hand_in(const ls__bench_rows *rows)
{
    const char *path = getenv(rows_variable);
    size_t count = (size_t)rows->count;

    if (!path)
        return LS_OK;
    FILE *file = fopen(path, "r+"); /* never made anew for a process that has given up */
    if (!file)
        return ls__fail_errno("open", path);
    bool written = fwrite(rows->row, sizeof *rows->row, count, file) == count;
    if (fclose(file) != 0 || !written)
        return ls__fail_errno("write", path);
    return LS_OK;
}

static ls_status take_rows(ls__bench_rows *rows, const char *path)
{
    FILE *file = fopen(path, "r");
    ls_status status = LS_OK;
    ls__bench_row row;

    if (!file)
        return ls__fail_errno("open", path);
    while (status == LS_OK && fread(&row, sizeof row, 1, file) == 1)
        status = ls__bench_rows_add(rows, &row);
    if (status == LS_OK && ferror(file))
        status = ls__fail_errno("read", path);
    fclose(file);
    return status;
}

/* A later flag counts more than an earlier one, so what we add replaces what the user gave. */
static ls_status launch_on(const ls__launch *once, int64_t ranks)
{
    char count[32];
    const char *const more[] = {count, "--json=", "--plot="};
    enum { MORE = sizeof more / sizeof more[0] };
    const char **words = calloc((size_t)once->argc + MORE, sizeof *words);
    ls__launch launch = *once;

    LS_FAIL_IF(!words, LS_NO_MEMORY, "no memory to start mpirun");
    snprintf(count, sizeof count, "--ranks=%lld", (long long)ranks);
    memcpy(words, once->arguments, (size_t)once->argc * sizeof *words);
    memcpy(words + once->argc, more, sizeof more);
    launch.ranks = ranks;
    launch.argc = once->argc + MORE;
    launch.arguments = words;
    ls_status status = ls__launch_run(&launch);
    free(words);
    return status;
}

/* Wrong sums on one number of ranks do not keep the others from being measured. */
static ls_status launch_each(const ls__launch *once, const ls__list *ranks, ls__bench_rows *rows,
                             const char *path)
{
    ls_status verdict = LS_OK;

    for (int i = 0; i < ranks->count; i++) {
        ls_status status = launch_on(once, ranks->value[i]);
        if (status == LS_CHECK_FAILED)
            verdict = status;
        else
            LS_TRY(status);
        LS_TRY(take_rows(rows, path));
        if (truncate(path, 0) != 0)
            return ls__fail_errno("empty", path);
    }
    return verdict;
}

ls_status ls__bench_launch(const ls__launch *once, const ls__list *ranks, ls__bench_rows *rows)
{
    const char *folder = getenv("TMPDIR");
    char path[LS__PATH_SIZE];

    LS_TRY(ls__path_join(path, folder && *folder ? folder : "/tmp", "lockstep-bench-XXXXXX"));
    int file = mkstemp(path);
    if (file < 0)
        return ls__fail_errno("create", path);
    close(file);
    setenv(rows_variable, path, 1);
    ls_status status = launch_each(once, ranks, rows, path);
    unlink(path);
    return status;
}
