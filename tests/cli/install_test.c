/* `make install`, and the program of the README built on what it installed, as the README says. */
#include <string.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

enum { ROOM = 1 << 17 };

/* The README's program, in the test's folder. */
static void write_program(const char *path)
{
    static const char opening[] = "```c\n/* Every rank brings ten numbers";
    static char page[ROOM];

    assert_ok(ls__file_read_text("README.md", page, sizeof page));
    char *program = strstr(page, opening);
    assert_non_null(program);
    program += strlen("```c\n");
    *strstr(program, "```") = '\0';
    assert_ok(ls__file_write_text(path, program));
}

static void shell(const char *script, ls__process *result)
{
    static const char *const env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
                                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    const char *argv[] = {"sh", "-ec", script, NULL};

    ls__process_run(&(ls__command){.argv = argv, .env = env, .timeout_s = 120}, result);
}

/* Of what this very build has made: `make` has nothing to compile. */
static void test_a_program_on_the_installed_library(void **state)
{
    const char *lockstep = ls__lockstep();
    char folder[LS__PATH_SIZE];
    char script[4 * LS__PATH_SIZE];
    ls__process p;

    (void)state;
    snprintf(folder, sizeof folder, "%s", ls__test_path("sum.c"));
    write_program(folder);
    *strrchr(folder, '/') = '\0';
    snprintf(script, sizeof script,
             "build=%s\n"
             "make -s install BUILD=${build%%/lockstep} PREFIX=%s/usr\n"
             "cd %s\n"
             "export PKG_CONFIG_PATH=$PWD/usr/lib/pkgconfig\n"
             "mpicc -Wall -Wextra -Werror sum.c $(pkg-config --cflags --libs lockstep) -o sum\n"
             "gcc sum.c $(pkg-config --static --cflags --libs lockstep) -o other\n"
             "mpirun --oversubscribe -n 3 ./sum\n",
             lockstep, folder, folder);
    shell(script, &p);
    assert_exit(p, 0);
    for (int rank = 0; rank < 3; rank++) {
        char line[64];
        snprintf(line, sizeof line, "rank %d of 3: 3 ... 30\n", rank);
        assert_non_null(strstr(p.out, line));
    }
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_on_the_installed_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
