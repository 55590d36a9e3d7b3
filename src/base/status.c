#include "lockstep/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local ls_error last_error = {.rank = -1};

const char *ls_status_name(ls_status status)
{
    switch (status) {
#define CASE(code, exit_code, meaning) \
    case code:                         \
        return #code;
        LS_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

const char *ls_status_meaning(ls_status status)
{
    switch (status) {
#define CASE(code, exit_code, meaning) \
    case code:                         \
        return meaning;
        LS_STATUS_LIST(CASE)
#undef CASE
    }
    return "unknown status";
}

int ls_status_exit_code(ls_status status)
{
    switch (status) {
#define CASE(code, exit_code, meaning) \
    case code:                         \
        return exit_code;
        LS_STATUS_LIST(CASE)
#undef CASE
    }
    return 3;
}

const ls_error *ls_last_error(void)
{
    return &last_error;
}

ls_status ls_fail_at(const char *file, int line, ls_status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(last_error.text, sizeof last_error.text, format, arguments);
    va_end(arguments);
    last_error.status = status;
    last_error.rank = -1;
    last_error.file = file;
    last_error.line = line;
    return status;
}

ls_status ls_fail_from(int rank, ls_status status, const char *text)
{
    ls_fail_at(__FILE__, __LINE__, status, "%s", text);
    last_error.rank = rank;
    return status;
}
