#include "cli/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

/* Between single quotes gnuplot takes everything literally, and two of them as one. */
static void write_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++)
        fputs(*text == '\'' ? "''" : (const char[]){*text, '\0'}, script);
    fputc('\'', script);
}

ls_status ls__plot_open(ls__plot *plot, const char *path)
{
    *plot = (ls__plot){.path = path, .script = tmpfile()};
    if (!plot->script)
        return ls__fail_errno("make a temporary file for", path);
    fputs("set terminal svg size 800,500 background 'white'\nset grid\nset output ", plot->script);
    write_quoted(plot->script, path);
    fputs("\n", plot->script);
    return LS_OK;
}

/* gnuplot reads the script as its standard input. What it says of mistakes is ours, not a user's:
 * the exit code tells. */
static int start_gnuplot(int script, pid_t *child)
{
    char name[] = "gnuplot";
    char *const argv[] = {name, NULL};
    posix_spawn_file_actions_t files;

    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    failed = posix_spawn_file_actions_adddup2(&files, script, STDIN_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!failed)
        failed = posix_spawnp(child, name, &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

static ls_status run_gnuplot(const ls__plot *plot)
{
    pid_t child = 0;
    int ended = 0;

    if (fflush(plot->script) != 0 || lseek(fileno(plot->script), 0, SEEK_SET) != 0)
        return ls__fail_errno("write the script for", plot->path);
    int failed = start_gnuplot(fileno(plot->script), &child);
    LS_FAIL_IF(failed == ENOENT, LS_BAD_USAGE,
               "--plot needs gnuplot, which is not installed (Debian: gnuplot-nox)");
    LS_FAIL_IF(failed, LS_IO, "cannot start gnuplot: %s", strerror(failed));
    while (waitpid(child, &ended, 0) < 0)
        if (errno != EINTR)
            return ls__fail_errno("wait for gnuplot to draw", plot->path);
    LS_FAIL_IF(!WIFEXITED(ended) || WEXITSTATUS(ended) != 0, LS_IO,
               "gnuplot could not draw %.600s: is its folder there, and writable?", plot->path);
    return LS_OK;
}

ls_status ls__plot_close(ls__plot *plot)
{
    ls_status status = run_gnuplot(plot);

    fclose(plot->script);
    return status;
}
