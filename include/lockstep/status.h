/* Status codes and the error record.
 *
 * Every Lockstep function that can fail returns an ls_status; results go out through pointers. The
 * sentence that says what, where and what to do is kept beside it, one record a thread, and stays
 * valid until the next failure on that thread. Nothing here prints, aborts or allocates. */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

/* X(code, exit code of the command line, what it means). */
#define LS_STATUS_LIST(X)                                                      \
    X(LS_OK, 0, "done")                                                        \
    X(LS_CHECK_FAILED, 1, "a check found wrong values")                        \
    X(LS_BAD_USAGE, 2, "the command line is unusable")                         \
    X(LS_BAD_INPUT, 2, "an input is unusable")                                 \
    X(LS_NO_MEMORY, 2, "more memory is needed than there is")                  \
    X(LS_NO_SPACE, 2, "the disk is full")                                      \
    X(LS_DIVERGED, 3, "the loss or the gradient is no longer a finite number") \
    X(LS_IO, 3, "reading or writing failed")                                   \
    X(LS_COMM, 3, "communication between ranks failed")                        \
    X(LS_TIMEOUT, 3, "another rank did not arrive in time")                    \
    X(LS_STOPPED, 3, "told to stop before the end")

typedef enum ls_status {
#define LS_STATUS_ENUM(code, exit_code, meaning) code,
    LS_STATUS_LIST(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
} ls_status;

enum { LS_ERROR_TEXT = 1024 };

typedef struct ls_error {
    ls_status status;
    int rank;         /* the rank on which it happened; -1: the one that asks */
    int line;         /* of `file`, where it was found */
    const char *file; /* a source file, static storage */
    char text[LS_ERROR_TEXT];
} ls_error;

/* The code's name ("LS_IO"), its meaning, and the exit code a program should end with. */
const char *ls_status_name(ls_status status);
const char *ls_status_meaning(ls_status status);
int ls_status_exit_code(ls_status status);

/* The last failure on this thread; status LS_OK and an empty text where there was none. */
const ls_error *ls_last_error(void);

/* Records a failure on this thread and returns `status`, so that one can write
 * `return ls_fail_at(...)`. Use the macros below, which fill in file and line. */
ls_status ls_fail_at(const char *file, int line, ls_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Records a failure that another rank reported. */
ls_status ls_fail_from(int rank, ls_status status, const char *text);

/* The status once more at the end lets compilers and analysers see that it is not LS_OK. */
#define LS_FAIL(status, ...) \
    (ls_fail_at(__FILE__, __LINE__, (status), __VA_ARGS__), (ls_status)(status))

#define LS_FAIL_IF(condition, status, ...)         \
    do {                                           \
        if (condition)                             \
            return LS_FAIL((status), __VA_ARGS__); \
    } while (0)

#define LS_TRY(expression)                      \
    do {                                        \
        ls_status ls_try_status = (expression); \
        if (ls_try_status != LS_OK)             \
            return ls_try_status;               \
    } while (0)

/* The same where resources are held: sets the local `status` and goes to `label`. */
#define LS_TRY_TO(label, expression) \
    do {                             \
        status = (expression);       \
        if (status != LS_OK)         \
            goto label;              \
    } while (0)

#endif
