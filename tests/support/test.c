#include "support/test.h"

#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ls__assert_status(ls_status status, ls_status expected, const char *file, int line)
{
    if (status == expected)
        return;
    print_error("%s:%d: %s where %s was expected: %s\n", file, line, ls_status_name(status),
                ls_status_name(expected), status == LS_OK ? "" : ls_last_error()->text);
    _fail(file, line);
}

void ls__assert_error_says(const char *part, const char *file, int line)
{
    if (strstr(ls_last_error()->text, part))
        return;
    print_error("%s:%d: '%s' does not say '%s'\n", file, line, ls_last_error()->text, part);
    _fail(file, line);
}

void ls__assert_near(double value, double expected, double tolerance, const char *file, int line)
{
    if (fabs(value - expected) <= tolerance)
        return;
    print_error("%s:%d: %.9g is not within %g of %.9g\n", file, line, value, tolerance, expected);
    _fail(file, line);
}

uint64_t ls__test_seed(uint64_t preset)
{
    const char *text = getenv("LOCKSTEP_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : preset;

    printf("seed: LOCKSTEP_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

void ls__figure(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("figure: ", stdout);
    vprintf(format, arguments);
    fputc('\n', stdout);
    fflush(stdout);
    va_end(arguments);
}

static char folder[64];
static pid_t owner;

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_folder(void)
{
    /* A child that a test forked may end through exit() as well. */
    if (getpid() == owner)
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *ls__test_folder(void)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/lockstep-test-XXXXXX");
        if (!mkdtemp(folder))
            fail_msg("cannot make a folder under /tmp");
        owner = getpid();
        atexit(remove_folder);
    }
    return folder;
}

typedef struct named_path {
    struct named_path *next;
    char text[];
} named_path;

const char *ls__test_path(const char *name)
{
    static named_path *paths; /* kept reachable: not a leak */
    size_t size = strlen(ls__test_folder()) + strlen(name) + 2;
    named_path *made = malloc(sizeof *made + size);

    assert_non_null(made);
    snprintf(made->text, size, "%s/%s", ls__test_folder(), name);
    made->next = paths;
    paths = made;
    return made->text;
}
