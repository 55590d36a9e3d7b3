/* lockstep bench step: a row for each part, which add up to the step, and what it refuses. */
#include <stdio.h>
#include <string.h>

#include "support/process.h"
#include "support/test.h"

#define STEP "bench", "step", "--layers", "1", "--width", "32", "--context", "16", "--repeats", "3"

static void refuse(const char *part, const char *flag, const char *value)
{
    ls__process p;

    ls__run_lockstep(&p, STEP, flag, value, NULL);
    assert_exit(p, 2);
    assert_one_line(p, part);
    assert_int_equal(p.out_length, 0);
    ls__process_free(&p);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("--heads 3 does not divide --width 32", "--heads", "3");
    refuse("is not a multiple of --micro-batch 5", "--micro-batch", "5");
    refuse("has no flag --run", "--run", "somewhere");
    refuse("from 1 to", "--repeats", "0");
}

/* The milliseconds of a row, forward and backward together. */
static double read_row(const char *out, const char *part)
{
    double milliseconds = -1;
    char line[32];

    snprintf(line, sizeof line, "\n%s ", part);
    const char *row = strstr(out, line);
    assert_non_null(row);
    row += strlen(line);
    if (sscanf(row, "%*f %*f %lf", &milliseconds) != 1)
        assert_int_equal(sscanf(row, " - - %lf", &milliseconds), 1);
    return milliseconds;
}

static void test_parts_add_up(void **state)
{
    static const char *const parts[] = {"embedding",  "layer norms", "QKV",   "attention",
                                        "projection", "MLP",         "head",  "cross-entropy",
                                        "exact sum",  "optimizer",   "digest"};
    double sum = 0;
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, STEP, "--dropout", "0.1", NULL);
    assert_exit(p, 0);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sum += read_row(p.out, parts[i]);
    assert_near(sum, read_row(p.out, "step"), 0.1); /* each is rounded to 0.01 */
    assert_non_null(strstr(p.out, " tokens/s, "));
    assert_non_null(strstr(p.out, "% of the time in GEMM"));
    assert_non_null(strstr(p.out, "MFU "));
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_parts_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
