/* The script, with the data inside, goes to gnuplot's standard input and the picture comes from its
 * standard output, both through files: no path is ever quoted, for a shell or for gnuplot. */
#include "cli/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

/* ---- gnuplot ---- */

/* What it says of mistakes is ours, not a user's: the exit code tells. */
static int start_gnuplot(char *const *argv, int in, int out, pid_t *child)
{
    posix_spawn_file_actions_t files;

    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    failed = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!failed)
        failed = posix_spawnp(child, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

/* Runs it from one open file to another. */
static ls_status run_gnuplot(char *const *argv, int in, int out, bool *succeeded)
{
    pid_t child = 0;
    int ended = 0;

    int failed = start_gnuplot(argv, in, out, &child);
    LS_FAIL_IF(failed == ENOENT, LS_BAD_USAGE,
               "--plot needs gnuplot, which is not installed (Debian: gnuplot-nox)");
    LS_FAIL_IF(failed, LS_IO, "cannot start gnuplot: %s", strerror(failed));
    while (waitpid(child, &ended, 0) < 0)
        LS_FAIL_IF(errno != EINTR, LS_IO, "cannot wait for gnuplot: %s", strerror(errno));
    *succeeded = WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
    return LS_OK;
}

ls_status ls__plot_check(const char *path)
{
    char name[] = "gnuplot";
    char version[] = "--version";
    char *const argv[] = {name, version, NULL};
    bool works = false;

    LS_TRY(ls__file_check_writable(path));
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return ls__fail_errno("open", "/dev/null");
    ls_status status = run_gnuplot(argv, nothing, nothing, &works);
    close(nothing);
    LS_TRY(status);
    LS_FAIL_IF(!works, LS_BAD_USAGE,
               "--plot needs gnuplot, and `gnuplot --version` fails: install "
               "it again (Debian: gnuplot-nox)");
    return LS_OK;
}

/* ---- a plot ---- */

ls_status ls__plot_open(ls__plot *plot, const char *path)
{
    *plot = (ls__plot){.path = path, .script = tmpfile()};
    if (!plot->script)
        return ls__fail_errno("make a temporary file for", path);
    fputs("set terminal svg size 800,500 background 'white'\nset grid\n", plot->script);
    return LS_OK;
}

static ls_status draw(const ls__plot *plot, const char *picture)
{
    char name[] = "gnuplot";
    char *const argv[] = {name, NULL};
    bool drawn = false;

    if (fflush(plot->script) != 0 || lseek(fileno(plot->script), 0, SEEK_SET) != 0)
        return ls__fail_errno("write the script for", plot->path);
    int out = open(picture, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0)
        return ls__fail_errno("create", picture);
    ls_status status = run_gnuplot(argv, fileno(plot->script), out, &drawn);
    close(out);
    LS_TRY(status);
    LS_FAIL_IF(!drawn, LS_IO, "gnuplot could not draw %.600s: is there room on the disk?",
               plot->path);
    return LS_OK;
}

static ls_status draw_and_publish(const ls__plot *plot)
{
    char temporary[LS__PATH_SIZE];

    LS_TRY(ls__file_temporary(temporary, plot->path));
    ls_status status = draw(plot, temporary);
    if (status == LS_OK)
        status = ls__file_publish(temporary, plot->path);
    if (status != LS_OK)
        unlink(temporary);
    return status;
}

ls_status ls__plot_close(ls__plot *plot)
{
    ls_status status = draw_and_publish(plot);

    fclose(plot->script);
    return status;
}
