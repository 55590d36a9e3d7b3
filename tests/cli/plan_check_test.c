/* lockstep plan --check: its runs, without times, which a busy machine makes what it likes. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

enum { CONFIGURATIONS = 7 };

static int count(const char *text, const char *part)
{
    int found = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

/* Ten rows of memory and three of steps for each of seven configurations. */
static void test_memory_operations_and_bytes(void **state)
{
    static char json[1 << 18];
    const char *path = ls__test_path("check.json");
    ls__process p;

    (void)state;
    ls__process_run(
        &(ls__command){.argv = (const char *[]){ls__lockstep(), "plan", "--check", "--timing=false",
                                                "--steps", "1", "--json", path, NULL},
                       .timeout_s = 120},
        &p);
    assert_exit(p, 0);
    assert_int_equal(count(p.out, " ok\n"), 13 * CONFIGURATIONS);
    assert_non_null(strstr(p.out, "every row is within its bar"));
    assert_ok(ls__file_read_text(path, json, sizeof json));
    assert_int_equal(count(json, "\"verdict\": \"ok\""), 13 * CONFIGURATIONS);
    assert_int_equal(count(json, "\"predicted_step_seconds\": null"), 3 * CONFIGURATIONS);
    assert_non_null(strstr(json, "\"outside\": 0"));
    ls__process_free(&p);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *flag, *says;
    } cases[] = {
        {"--steps=0", "--steps"},
        {"--tries=0", "--tries"},
        {"--stesp=3", "--steps"},
        {"--json=/nowhere/check.json", "/nowhere/check.json"},
    };
    ls__process p;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls__run_lockstep(&p, "plan", "--check", cases[i].flag, NULL);
        assert_exit(p, 2);
        assert_one_line(p, cases[i].says);
        ls__process_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_operations_and_bytes),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
