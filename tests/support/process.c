#include "support/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"

enum { ARGUMENTS_MAX = 64, NO_EXEC = 127 };
static const double default_timeout_s = 60;

/* What one pipe has delivered. */
typedef struct channel {
    int fd; /* -1 once the other end is closed */
    char *text;
    size_t length;
    size_t room;
} channel;

static void open_capture(channel *capture, int *write_end)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        fail_msg("cannot make a pipe: %s", strerror(errno));
    capture->fd = ends[0];
    capture->room = 4096;
    capture->length = 0;
    capture->text = malloc(capture->room);
    assert_non_null(capture->text);
    *write_end = ends[1];
}

static void close_capture(channel *capture)
{
    if (capture->fd >= 0)
        close(capture->fd);
    capture->fd = -1;
    capture->text[capture->length] = '\0';
}

static void take_what_is_there(channel *capture)
{
    if (capture->length + 1 >= capture->room) {
        capture->room *= 2;
        capture->text = realloc(capture->text, capture->room);
        assert_non_null(capture->text);
    }
    ssize_t got =
        read(capture->fd, capture->text + capture->length, capture->room - capture->length - 1);
    if (got > 0)
        capture->length += (size_t)got;
    else if (got == 0 || errno != EINTR)
        close_capture(capture);
}

static _Noreturn void become(const ls__command *command, int out, int err)
{
    int nothing = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(err, STDERR_FILENO) < 0)
        _exit(NO_EXEC);
    for (const char *const *entry = command->env; entry && *entry; entry++) {
        char name[256];
        size_t length = strcspn(*entry, "=");
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        setenv(name, *entry + length + 1, 1);
    }
    if (command->folder && chdir(command->folder) != 0)
        dprintf(STDERR_FILENO, "cannot enter %s: %s\n", command->folder, strerror(errno));
    else {
        /* execvp promises to leave the words alone; its type is older than const. */
        char *argv[ARGUMENTS_MAX + 1];
        int count = 0;
        for (; command->argv[count] && count < ARGUMENTS_MAX; count++)
            argv[count] = strdup(command->argv[count]);
        argv[count] = NULL;
        execvp(argv[0], argv);
        dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    }
    _exit(NO_EXEC);
}

/* Gathers output until both pipes are closed; false where the deadline comes first. */
static bool gather(channel *out, channel *err, double deadline)
{
    while (out->fd >= 0 || err->fd >= 0) {
        struct pollfd fds[] = {{.fd = out->fd, .events = POLLIN},
                               {.fd = err->fd, .events = POLLIN}};
        double left = deadline - ls__clock_seconds();
        if (left <= 0)
            return false;
        poll(fds, 2, (int)(left * 1000) + 1);
        if (fds[0].revents)
            take_what_is_there(out);
        if (fds[1].revents)
            take_what_is_there(err);
    }
    return true;
}

/* Waits for the child, which may have closed its pipes long before its end. */
static bool reap(pid_t child, int *how, double deadline)
{
    while (waitpid(child, how, WNOHANG) == 0) {
        if (ls__clock_seconds() > deadline)
            return false;
        usleep(2000);
    }
    return true;
}

void ls__process_run(const ls__command *command, ls__process *result)
{
    channel out;
    channel err;
    int out_end = -1;
    int err_end = -1;
    int how = 0;
    double start = ls__clock_seconds();
    double deadline = start + (command->timeout_s > 0 ? command->timeout_s : default_timeout_s);

    open_capture(&out, &out_end);
    open_capture(&err, &err_end);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        fail_msg("cannot fork: %s", strerror(errno));
    if (child == 0)
        become(command, out_end, err_end);
    setpgid(child, child); /* here as well: whoever comes first */
    close(out_end);
    close(err_end);

    bool ended = gather(&out, &err, deadline) && reap(child, &how, deadline);
    if (!ended) {
        kill(-child, SIGKILL);
        waitpid(child, &how, 0);
    }
    close_capture(&out);
    close_capture(&err);
    *result = (ls__process){
        .exit_code = WIFEXITED(how) ? WEXITSTATUS(how) : -1,
        .signal = WIFSIGNALED(how) ? WTERMSIG(how) : 0,
        .timed_out = !ended,
        .seconds = ls__clock_seconds() - start,
        .out = out.text,
        .err = err.text,
        .out_length = out.length,
        .err_length = err.length,
    };
}

void ls__process_free(ls__process *process)
{
    free(process->out);
    free(process->err);
    *process = (ls__process){0};
}

void ls__process_show(const ls__process *process)
{
    print_error("exit code %d, signal %d%s after %.2f s\n", process->exit_code, process->signal,
                process->timed_out ? ", timed out" : "", process->seconds);
    print_error("standard output:\n%s\nstandard error:\n%s\n", process->out, process->err);
}

const char *ls__lockstep(void)
{
    static char path[PATH_MAX];
    const char *given = getenv("LOCKSTEP");

    if (!path[0] && !realpath(given ? given : "build/lockstep", path))
        fail_msg("there is no %s: build it, or say where it is in LOCKSTEP",
                 given ? given : "build/lockstep");
    return path;
}

void ls__run_lockstep(ls__process *result, ...)
{
    const char *argv[ARGUMENTS_MAX + 1] = {ls__lockstep()};
    const char *word = NULL;
    int count = 1;
    va_list words;

    va_start(words, result);
    while ((word = va_arg(words, const char *))) {
        assert_true(count < ARGUMENTS_MAX);
        argv[count++] = word;
    }
    va_end(words);
    ls__process_run(&(ls__command){.argv = argv}, result);
}

void ls__assert_exit(const ls__process *process, int code, const char *file, int line)
{
    if (process->exit_code == code && !process->timed_out)
        return;
    print_error("%s:%d: exit code %d was expected\n", file, line, code);
    ls__process_show(process);
    _fail(file, line);
}

void ls__assert_one_line(const ls__process *process, const char *part, const char *file, int line)
{
    const char *end = strchr(process->err, '\n');

    if (end && end[1] == '\0' && strstr(process->err, part))
        return;
    print_error("%s:%d: one line that says '%s' was expected\n", file, line, part);
    ls__process_show(process);
    _fail(file, line);
}
