/* The process runner, on which the tests of the command line stand. */
#include <signal.h>
#include <string.h>

#include "support/process.h"
#include "support/test.h"

static void run_shell(const char *script, double timeout_s, ls__process *result)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    const char *env[] = {"LOCKSTEP_SPOKEN=hello there", NULL};

    ls__process_run(&(ls__command){.argv = argv, .env = env, .folder = "/", .timeout_s = timeout_s},
                    result);
}

static void test_output_exit_code_and_environment(void **state)
{
    ls__process result;

    (void)state;
    run_shell("echo \"$LOCKSTEP_SPOKEN\"; pwd; echo trouble >&2; exit 3", 0, &result);
    assert_int_equal(result.exit_code, 3);
    assert_string_equal(result.out, "hello there\n/\n");
    assert_one_line(result, "trouble");
    ls__process_free(&result);
}

static void test_output_larger_than_a_pipe(void **state)
{
    ls__process result;

    (void)state;
    run_shell("i=0; while [ $i -lt 30000 ]; do echo 12345678; echo 123 >&2; i=$((i+1)); done", 0,
              &result);
    assert_exit(result, 0);
    assert_int_equal(result.out_length, 30000 * 9);
    assert_int_equal(result.err_length, 30000 * 4);
    ls__process_free(&result);
}

static void test_a_signal(void **state)
{
    ls__process result;

    (void)state;
    run_shell("kill -TERM $$", 0, &result);
    assert_int_equal(result.exit_code, -1);
    assert_int_equal(result.signal, SIGTERM);
    ls__process_free(&result);
}

/* The grandchild holds the pipe open: only killing the whole group ends it. */
static void test_timeout_kills_the_group(void **state)
{
    ls__process result;

    (void)state;
    run_shell("sleep 30 & echo started; sleep 30", 0.3, &result);
    assert_true(result.timed_out);
    assert_int_equal(result.signal, SIGKILL);
    assert_true(result.seconds < 10);
    assert_string_equal(result.out, "started\n");
    ls__process_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_exit_code_and_environment),
        cmocka_unit_test(test_output_larger_than_a_pipe),
        cmocka_unit_test(test_a_signal),
        cmocka_unit_test(test_timeout_kills_the_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
