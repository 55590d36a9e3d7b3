#include "cli/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

enum { PIECE = 4096, RULE_MIN = 60 };

/* ---- life cycle ---- */

static ls_status open_pipe(int *read_end, int *write_end)
{
    int ends[2];

    LS_FAIL_IF(pipe2(ends, O_CLOEXEC) != 0, LS_IO, "cannot make a pipe: %s", strerror(errno));
    *read_end = ends[0];
    *write_end = ends[1];
    return LS_OK;
}

static ls_status open_log(ls__relay *relay, const char *log)
{
    if (!log)
        return LS_OK;
    relay->log = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (relay->log < 0)
        return ls__fail_errno("create", log);
    relay->to_out = relay->log;
    relay->to_err = relay->log;
    return LS_OK;
}

ls_status ls__relay_open(ls__relay *relay, const char *log, int *out, int *err)
{
    *relay = (ls__relay){
        .out = -1, .err = -1, .log = -1, .to_out = STDOUT_FILENO, .to_err = STDERR_FILENO};
    ls_status status = open_log(relay, log);
    if (status == LS_OK)
        status = open_pipe(&relay->out, out);
    if (status == LS_OK) {
        status = open_pipe(&relay->err, err);
        if (status != LS_OK)
            close(*out);
    }
    if (status != LS_OK)
        ls__relay_close(relay);
    return status;
}

static void close_file(int *file)
{
    if (*file >= 0)
        close(*file);
    *file = -1;
}

void ls__relay_close(ls__relay *relay)
{
    close_file(&relay->out);
    close_file(&relay->err);
    close_file(&relay->log);
    free(relay->line);
    relay->line = NULL;
}

/* ---- handing on ---- */

static ls_status write_all(int file, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return ls__fail_errno("write", "standard output");
        text += written;
        length -= (size_t)written;
    }
    return LS_OK;
}

/* Where standard error is closed nothing can be said at all. */
static void say(const ls__relay *relay, const char *text, size_t length)
{
    ls_status status = write_all(relay->to_err, text, length);
    (void)status;
}

/* ---- mpirun's own words ---- */

static bool is_rule(const char *line)
{
    return strspn(line, "-") >= RULE_MIN;
}

/* Open MPI's complaints about copies from a process that is no more, about a daemon's start that
 * was quicker than itself, and its counts of messages that it has kept back. */
static bool is_noise(const char *line)
{
    static const char *const noise[] = {
        "] Read -1, expected",       "] Write -1, expected",     "has sent help message",
        "have sent help message",    "orte_base_help_aggregate", "mpirun: killing job",
        "mpirun: Forwarding signal", "mpirun: abort is already", "plm:rsh: Warning: setpgid("};

    for (size_t i = 0; i < sizeof noise / sizeof noise[0]; i++)
        if (strstr(line, noise[i]))
            return true;
    return false;
}

/* Notices about the end of ranks, of which those who ended have told, or we shall. */
static bool is_notice(const char *block)
{
    static const char *const notices[] = {
        "Primary job", "MPI_ABORT was invoked", "mpirun has exited due to process rank",
        "mpirun detected that one or more processes", "mpirun noticed that"};

    for (size_t i = 0; i < sizeof notices / sizeof notices[0]; i++)
        if (strstr(block, notices[i]))
            return true;
    return false;
}

static void note_lost(ls__relay *relay, const char *block)
{
    const char *at = strstr(block, "process rank ");
    char host[sizeof relay->lost_host] = "";
    int rank = 0;
    int signal_number = 0;

    if (relay->lost || !at ||
        sscanf(at, "process rank %d with PID %*s on node %255s", &rank, host) != 2)
        return;
    relay->lost = true;
    relay->lost_rank = rank;
    memcpy(relay->lost_host, host, sizeof host);
    at = strstr(at, "exited on signal ");
    if (at && sscanf(at, "exited on signal %d", &signal_number) == 1)
        relay->lost_signal = signal_number;
}

static void note_aborted(ls__relay *relay, const char *block)
{
    static const char key[] = "with errorcode ";
    const char *at = strstr(block, "MPI_ABORT was invoked");

    if (at && !relay->aborted && (at = strstr(at, key)))
        relay->aborted = atoi(at + sizeof key - 1);
}

static void end_block(ls__relay *relay)
{
    relay->in_block = false;
    note_lost(relay, relay->block);
    note_aborted(relay, relay->block);
    if (!is_notice(relay->block))
        say(relay, relay->block, relay->block_length);
    relay->block_length = 0;
    relay->block[0] = '\0';
}

static void add_to_block(ls__relay *relay, const char *line)
{
    size_t room = sizeof relay->block - relay->block_length;
    int added = snprintf(relay->block + relay->block_length, room, "%s", line);

    if (added > 0)
        relay->block_length += (size_t)added < room ? (size_t)added : room - 1;
}

static void take_line(ls__relay *relay, const char *line)
{
    if (strncmp(line, "lockstep: ", 10) == 0)
        say(relay, line, strlen(line));
    else if (is_rule(line) && relay->in_block)
        end_block(relay);
    else if (is_rule(line))
        relay->in_block = true;
    else if (relay->in_block)
        add_to_block(relay, line);
    else if (!is_noise(line))
        say(relay, line, strlen(line));
}

/* ---- reading ---- */

static ls_status make_room(ls__relay *relay)
{
    if (relay->room - relay->length > PIECE)
        return LS_OK;
    char *grown = realloc(relay->line, relay->room + 2 * PIECE);
    LS_FAIL_IF(!grown, LS_NO_MEMORY, "no memory to relay what the ranks print");
    relay->line = grown;
    relay->room += 2 * PIECE;
    return LS_OK;
}

static void take_lines(ls__relay *relay)
{
    char *from = relay->line;
    char *end = NULL;

    relay->line[relay->length] = '\0';
    while ((end = memchr(from, '\n', relay->length - (size_t)(from - relay->line)))) {
        char after = end[1];
        end[1] = '\0';
        take_line(relay, from);
        end[1] = after;
        from = end + 1;
    }
    relay->length -= (size_t)(from - relay->line);
    memmove(relay->line, from, relay->length);
}

static void end_of_errors(ls__relay *relay)
{
    close_file(&relay->err);
    if (relay->in_block)
        end_block(relay);
    say(relay, relay->line, relay->length);
    relay->length = 0;
}

static ls_status take_errors(ls__relay *relay)
{
    LS_TRY(make_room(relay));
    ssize_t got = read(relay->err, relay->line + relay->length, PIECE);
    if (got > 0) {
        relay->length += (size_t)got;
        take_lines(relay);
    } else if (got == 0 || errno != EINTR) {
        end_of_errors(relay);
    }
    return LS_OK;
}

static ls_status take_output(ls__relay *relay)
{
    char piece[PIECE];
    ssize_t got = read(relay->out, piece, sizeof piece);

    if (got > 0)
        return write_all(relay->to_out, piece, (size_t)got);
    if (got == 0 || errno != EINTR)
        close_file(&relay->out);
    return LS_OK;
}

ls_status ls__relay_take(ls__relay *relay, bool out_ready, bool err_ready)
{
    if (err_ready)
        LS_TRY(take_errors(relay));
    return out_ready ? take_output(relay) : LS_OK;
}
