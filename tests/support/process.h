/* Commands run from a test: what they print, how they end, and no longer than allowed. */
#ifndef LS_TESTS_SUPPORT_PROCESS_H
#define LS_TESTS_SUPPORT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ls__command {
    const char *const *argv; /* argv[0] is looked up in PATH; closed with NULL */
    const char *const *env;  /* "NAME=value" over this process's environment, closed with NULL; or
                                NULL for nothing */
    const char *folder;      /* to run in; NULL: this process's own */
    double timeout_s;        /* then the command's whole process group is killed; 0: 60 s */
} ls__command;

typedef struct ls__process {
    int exit_code; /* -1 where a signal ended it */
    int signal;    /* that signal, or 0 */
    bool timed_out;
    double seconds;
    char *out; /* what it wrote, closed with a zero */
    char *err;
    size_t out_length;
    size_t err_length;
} ls__process;

/* Runs to the end; standard input is empty. Fails the test where the command cannot be started.
 * Free the result. */
void ls__process_run(const ls__command *command, ls__process *result);
void ls__process_free(ls__process *process);

/* Prints the command's output and exit, for a test that is about to fail. */
void ls__process_show(const ls__process *process);

/* The program under test, as an absolute path: LOCKSTEP of the environment, or build/lockstep. */
const char *ls__lockstep(void);

/* Runs `lockstep ARGUMENTS...`, closed with NULL, with the default timeout. */
void ls__run_lockstep(ls__process *result, ...) __attribute__((sentinel));

/* Asserts the exit code; shows the output where it is another. */
#define assert_exit(process, code) ls__assert_exit(&(process), (code), __FILE__, __LINE__)
/* Asserts that standard error is one line, and says `part`. */
#define assert_one_line(process, part) ls__assert_one_line(&(process), (part), __FILE__, __LINE__)

void ls__assert_exit(const ls__process *process, int code, const char *file, int line);
void ls__assert_one_line(const ls__process *process, const char *part, const char *file, int line);

#endif
