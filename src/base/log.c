#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int this_rank = 0;
static int all_ranks = 1;

void ls__log_set_rank(int rank, int ranks)
{
    this_rank = rank;
    all_ranks = ranks;
}

__attribute__((format(printf, 2, 0))) static void write_line(const char *kind, const char *format,
                                                             va_list arguments)
{
    char line[LS_ERROR_TEXT + 128];
    int used = all_ranks > 1 && *kind
                   ? snprintf(line, sizeof line, "lockstep: rank %d: %s", this_rank, kind)
                   : snprintf(line, sizeof line, "lockstep: %s", kind);
    size_t room = sizeof line - (size_t)used - 1;
    int text = vsnprintf(line + used, room, format, arguments);
    size_t length = (size_t)used + (text < 0 ? 0 : (size_t)text < room ? (size_t)text : room - 1);

    line[length++] = '\n';
    /* Nothing can be done where standard error itself is closed. */
    ssize_t written = write(STDERR_FILENO, line, length);
    (void)written;
}

void ls__log_info(const char *format, ...)
{
    va_list arguments;

    if (this_rank != 0)
        return;
    va_start(arguments, format);
    write_line("", format, arguments);
    va_end(arguments);
}

void ls__log_warning(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_line("warning: ", format, arguments);
    va_end(arguments);
}

__attribute__((format(printf, 1, 2))) static void write_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    write_line("error: ", format, arguments);
    va_end(arguments);
}

void ls__log_error(void)
{
    const ls_error *error = ls_last_error();

    if (error->rank < 0 || error->rank == this_rank)
        write_error("%s", error->text);
}
