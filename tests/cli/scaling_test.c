/* lockstep scaling: a grid that trains in no time, and what is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"
#include "support/training.h"

enum { TEXT = 1 << 16, RUNS = 6 };

static const char *read_text(const char *path, char *text)
{
    assert_ok(ls__file_read_text(path, text, TEXT));
    return text;
}

static int count(const char *text, const char *part)
{
    int found = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

static void run_grid(const char *ranks, const char *json, const char *plot, ls__process *p)
{
    ls__process_run(&(ls__command){.argv = (const char *[]){ls__lockstep(),
                                                            "scaling",
                                                            "--data",
                                                            ls__test_path("text.h5"),
                                                            "--budgets",
                                                            "2",
                                                            "--sizes",
                                                            "3",
                                                            "--least-flops",
                                                            "1e8",
                                                            "--most-flops",
                                                            "1e9",
                                                            "--layers",
                                                            "1",
                                                            "--context",
                                                            "16",
                                                            "--batch",
                                                            "8",
                                                            "--bootstrap",
                                                            "50",
                                                            "--ranks",
                                                            ranks,
                                                            "--json",
                                                            json,
                                                            "--plot",
                                                            plot,
                                                            NULL},
                                   .timeout_s = 60},
                    p);
    assert_exit(*p, 0);
}

/* The losses, and all that is fitted to them, are the same on two ranks as on one. */
static void test_grid(void **state)
{
    static char one[TEXT];
    static char two[TEXT];
    char json[2][LS__PATH_SIZE];
    char plot[LS__PATH_SIZE];
    ls__process p;

    (void)state;
    snprintf(json[0], sizeof json[0], "%s", ls__test_path("one.json"));
    snprintf(json[1], sizeof json[1], "%s", ls__test_path("two.json"));
    snprintf(plot, sizeof plot, "%s", ls__test_path("valleys.svg"));
    run_grid("1", json[0], plot, &p);
    assert_non_null(strstr(p.out, "6 models of 1 layers, trained on 1 rank each"));
    assert_non_null(strstr(p.out, "by valleys"));
    ls__process_free(&p);
    run_grid("2", json[1], plot, &p);
    ls__process_free(&p);
    assert_string_equal(read_text(json[0], one), read_text(json[1], two));
    assert_int_equal(count(one, "\"width\": "), RUNS);
    assert_int_equal(count(one, "\"constant\": "), 7);
    assert_int_equal(count(one, "\"residual\": "), 1);
    assert_non_null(strstr(read_text(plot, one), "</svg>"));
}

static void test_refusals(void **state)
{
    static const struct {
        const char *flags[3], *says;
    } cases[] = {
        {{"--budgets=3"}, "--data is missing"},
        {{"--data=text.h5", "--least-flops=1e9", "--most-flops=1e8"}, "is not below"},
        {{"--data=text.h5", "--most-flops=nan"}, "--most-flops"},
        {{"--data=text.h5", "--sizes=2"}, "--sizes"},
        {{"--data=text.h5", "--ranks=9"}, "9 ranks cannot share"},
        {{"--data=text.h5", "--context=700"}, "no held-out text"},
        {{"--data=text.h5", "--json=/nowhere/s.json"}, "/nowhere/s.json"},
        {{"--data=absent.h5"}, "absent.h5"},
    };
    ls__process p;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *flag = cases[i].flags;
        ls__process_run(
            &(ls__command){.argv = (const char *[]){ls__lockstep(), "scaling", flag[0], flag[1],
                                                    flag[1] ? flag[2] : NULL, NULL},
                           .folder = ls__test_folder()},
            &p);
        assert_exit(p, 2);
        assert_one_line(p, cases[i].says);
        ls__process_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
