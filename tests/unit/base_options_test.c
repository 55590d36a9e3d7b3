/* The option table: every way in which values arrive, and every way in which they are refused. */
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "support/test.h"

typedef struct settings {
    bool fast;
    int64_t steps;
    int64_t size;
    double rate;
    double delay;
    double bandwidth;
    int kind;
    ls__list widths;
    char name[LS__TEXT_MAX];
    double limit;
} settings;

#define AT(member) offsetof(settings, member)

static const ls__option rows[] = {
    {"fast", "false", "", "a switch", AT(fast), 0, 0, LS__OPTION_SWITCH, LS__SCOPE_RUN, 0},
    {"steps", "10", "steps", "a count", AT(steps), 1, 1e15, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"size", "1K", "bytes", "a size", AT(size), 1, 1e18, LS__OPTION_BYTES, LS__SCOPE_RUN, 'b'},
    {"rate", "1e-3", "rate", "a real", AT(rate), 0, HUGE_VAL, LS__OPTION_REAL, LS__SCOPE_BITS, 0},
    {"kind", "one", "one|two|three", "a choice", AT(kind), 0, 0, LS__OPTION_CHOICE, LS__SCOPE_BITS,
     0},
    {"widths", "", "widths", "a list", AT(widths), 1, 1000, LS__OPTION_LIST, LS__SCOPE_BITS, 0},
    {"delay", "2us", "TIME", "a time", AT(delay), 0, 0, LS__OPTION_SECONDS, LS__SCOPE_RUN, 0},
    {"bandwidth", "12.5GB/s", "RATE", "a bandwidth", AT(bandwidth), 0, 0, LS__OPTION_RATE,
     LS__SCOPE_RUN, 0},
    {"name", "", "TEXT", "a text", AT(name), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 'o'},
    {"limit", "", "rate", "a real that may be unset", AT(limit), 1, 2, LS__OPTION_REAL,
     LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {.command = "lockstep test",
                                       .summary = "a table for tests",
                                       .operands = "[FILE]",
                                       .option = rows,
                                       .count = sizeof rows / sizeof rows[0],
                                       .operands_max = 1};

static settings parsed_into;

/* Parses words closed with NULL. */
static ls_status parse(ls__parsed *parsed, ...)
{
    static char words[16][LS__TEXT_MAX + 16];
    static char *argv[17];
    va_list list;
    int argc = 0;

    va_start(list, parsed);
    snprintf(words[argc], sizeof words[0], "test");
    argv[argc] = words[argc];
    argc++;
    for (const char *word = va_arg(list, const char *); word; word = va_arg(list, const char *)) {
        snprintf(words[argc], sizeof words[0], "%s", word);
        argv[argc] = words[argc];
        argc++;
    }
    va_end(list);
    return ls__options_parse(&table, &parsed_into, argc, argv, parsed);
}

static void test_presets(void **state)
{
    ls__parsed parsed;

    (void)state;
    assert_ok(parse(&parsed, NULL));
    assert_false(parsed_into.fast);
    assert_int_equal(parsed_into.steps, 10);
    assert_int_equal(parsed_into.size, 1024);
    assert_true(parsed_into.rate == 1e-3);
    assert_true(parsed_into.delay == 2e-6);
    assert_true(parsed_into.bandwidth == 12.5e9);
    assert_int_equal(parsed_into.kind, 0);
    assert_int_equal(parsed_into.widths.count, 0);
    assert_string_equal(parsed_into.name, "");
    assert_true(isnan(parsed_into.limit));
}

static void test_unset_reals(void **state)
{
    char text[32];
    ls__parsed parsed;

    (void)state;
    assert_ok(parse(&parsed, "--limit", "1.5", NULL));
    assert_true(parsed_into.limit == 1.5);
    assert_ok(parse(&parsed, "--limit=", NULL));
    assert_true(isnan(parsed_into.limit));
    ls__options_format(&table, &parsed_into, table.count - 1, text, sizeof text);
    assert_string_equal(text, "");
    assert_fails(parse(&parsed, "--limit", "nan", NULL), LS_BAD_USAGE, "takes a number");
    assert_fails(parse(&parsed, "--limit", "0", NULL), LS_BAD_USAGE, "from 1 to 2");
    assert_fails(parse(&parsed, "--rate=", NULL), LS_BAD_USAGE, "takes a number");
}

static void test_all_forms(void **state)
{
    ls__parsed parsed;

    (void)state;
    assert_ok(parse(&parsed, "--steps", "7", "file", "--fast", "--size=1.5M", "--rate", "-0",
                    "--kind=three", "--widths", "3,2,1", "-o", "out", NULL));
    assert_true(parsed_into.fast);
    assert_int_equal(parsed_into.steps, 7);
    assert_int_equal(parsed_into.size, 3 << 19);
    assert_int_equal(parsed_into.kind, 2);
    assert_int_equal(parsed_into.widths.count, 3);
    assert_int_equal(parsed_into.widths.value[0], 3);
    assert_int_equal(parsed_into.widths.value[2], 1);
    assert_string_equal(parsed_into.name, "out");
    assert_int_equal(parsed.operand_count, 1);
    assert_string_equal(parsed.operand[0], "file");
}

static void test_refusals(void **state)
{
    ls__parsed p;

    (void)state;
    assert_fails(parse(&p, "--step", "7", NULL), LS_BAD_USAGE, "did you mean --steps?");
    assert_fails(parse(&p, "--unheard-of", "7", NULL), LS_BAD_USAGE, "--help lists them");
    assert_fails(parse(&p, "-x", NULL), LS_BAD_USAGE, "has no flag -x: lockstep test --help");
    assert_fails(parse(&p, "--steps", NULL), LS_BAD_USAGE, "--steps takes a value");
    assert_fails(parse(&p, "--name", "--fast", NULL), LS_BAD_USAGE, "write --name=--fast if you");
    assert_fails(parse(&p, "--name", "--", NULL), LS_BAD_USAGE, "looks like a flag");
    assert_fails(parse(&p, "--config", "--fast", NULL), LS_BAD_USAGE, "looks like a flag");
    assert_fails(parse(&p, "--name", "two\nlines", NULL), LS_BAD_USAGE, "takes one line");
    assert_fails(parse(&p, "--steps", "", NULL), LS_BAD_USAGE, "whole number");
    assert_fails(parse(&p, "--steps", "7x", NULL), LS_BAD_USAGE, "whole number");
    assert_fails(parse(&p, "--steps", "0", NULL), LS_BAD_USAGE, "from 1 to");
    assert_fails(parse(&p, "--steps", "99999999999999999999", NULL), LS_BAD_USAGE, "whole number");
    assert_fails(parse(&p, "--size", "-1", NULL), LS_BAD_USAGE, "takes bytes");
    assert_fails(parse(&p, "--size", "1X", NULL), LS_BAD_USAGE, "takes bytes");
    assert_fails(parse(&p, "--rate", "nan", NULL), LS_BAD_USAGE, "takes a number");
    assert_fails(parse(&p, "--rate", "-1", NULL), LS_BAD_USAGE, "at least 0");
    assert_fails(parse(&p, "--delay", "2", NULL), LS_BAD_USAGE, "takes a time");
    assert_fails(parse(&p, "--bandwidth", "0GB/s", NULL), LS_BAD_USAGE, "a rate above 0");
    assert_fails(parse(&p, "--kind", "on", NULL), LS_BAD_USAGE, "one of one|two|three");
    assert_fails(parse(&p, "--kind", "one|two", NULL), LS_BAD_USAGE, "one of one|two|three");
    assert_fails(parse(&p, "--widths", "1,,2", NULL), LS_BAD_USAGE, "written like 1,2,3");
    assert_fails(parse(&p, "--widths", "1,0", NULL), LS_BAD_USAGE, "from 1 to 1000");
    assert_fails(parse(&p, "--fast=maybe", NULL), LS_BAD_USAGE, "true or false");
    assert_fails(parse(&p, "one", "two", NULL), LS_BAD_USAGE, "'two'");
    assert_fails(parse(&p, "--config", NULL), LS_BAD_USAGE, "--config takes");
    assert_fails(parse(&p, "--config", "/nonexistent.ini", NULL), LS_BAD_USAGE, "/nonexistent.ini");
}

/* A flag's value is not looked at for --help or --config. */
static void test_values_are_no_flags(void **state)
{
    ls__parsed p;

    (void)state;
    assert_ok(parse(&p, "--name", "-h", NULL));
    assert_false(p.help);
    assert_string_equal(parsed_into.name, "-h");
    assert_ok(parse(&p, "--name=--config", NULL));
    assert_string_equal(parsed_into.name, "--config");
    assert_ok(parse(&p, "-o", "-h", "--", "--help", NULL));
    assert_false(p.help);
    assert_string_equal(p.operand[0], "--help");
    assert_ok(parse(&p, "--fast", "-h", NULL));
    assert_true(p.help);
    assert_ok(parse(&p, "--name", "--help", NULL));
    assert_true(p.help);
    assert_ok(parse(&p, "--unheard-of", "-h", NULL));
    assert_true(p.help);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_config_is_read_before_flags(void **state)
{
    char path[LS__PATH_SIZE];
    ls__parsed p;

    (void)state;
    assert_ok(ls__path_join(path, ls__test_folder(), "a.ini"));
    write_file(path, "; a comment\nsteps = 5\nrate = 0.25\n");
    assert_ok(parse(&p, "--steps", "6", "--config", path, NULL));
    assert_int_equal(parsed_into.steps, 6);
    assert_true(parsed_into.rate == 0.25);
    write_file(path, "steps = 5\nstepz = 5\n");
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "line 2");
    write_file(path, "stepz = 5\nsteps = 5\n");
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "line 1");
    write_file(path, "[section]\nsteps = 5\n");
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "sections");
    write_file(path, "nonsense\n");
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "line 1");
    assert_fails(parse(&p, "--config", ls__test_folder(), NULL), LS_BAD_USAGE, "directory");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite("steps = 5\nna\0me", 1, 16, file), 16);
    assert_int_equal(fclose(file), 0);
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "line 2: it holds a zero byte");
}

/* As people write them: spaces where they like, comments on lines of their own, no last newline. */
static void test_config_by_hand(void **state)
{
    char path[LS__PATH_SIZE];
    ls__parsed p;

    (void)state;
    assert_ok(ls__path_join(path, ls__test_folder(), "hand.ini"));
    write_file(path, "# one\r\n\r\n  ; two\n\tsteps=5\r\nkind  =   two  \nname =");
    assert_ok(parse(&p, "--config", path, NULL));
    assert_int_equal(parsed_into.steps, 5);
    assert_int_equal(parsed_into.kind, 1);
    assert_string_equal(parsed_into.name, "");
    write_file(path, "name = a ; b # c = d\n");
    assert_ok(parse(&p, "--config", path, NULL));
    assert_string_equal(parsed_into.name, "a ; b # c = d");
    write_file(path, "steps = 5 ; a comment behind a value is none\n");
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "whole number");
    write_file(path, "resume = true\nsteps = 5\n");
    assert_fails(parse(&p, "--config", path, NULL), LS_BAD_USAGE, "no flag --resume");
    static const char *const others[] = {"resume", NULL};
    ls__option_table lenient = table;
    lenient.passed_over = others;
    assert_ok(ls__options_read(&lenient, &parsed_into, path));
}

/* Writes settings, reads them back over presets. */
static void round_trip(const settings *before, settings *after)
{
    char path[LS__PATH_SIZE];

    assert_ok(ls__path_join(path, ls__test_folder(), "b.ini"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    ls__options_write(&table, before, file);
    assert_int_equal(fclose(file), 0);
    ls__options_preset(&table, after);
    assert_ok(ls__options_read(&table, after, path));
}

/* What is written reads back as the same settings, every bit of the reals. */
static void test_round_trip(void **state)
{
    static settings before;
    static settings after;
    ls__parsed p;

    (void)state;
    assert_ok(parse(&p, "--rate", "0.1234567890123456789", "--widths", "1,2,3", "--name", "a b=c",
                    "--fast", "--kind", "two", "--delay", "0.7us", "--bandwidth", "7Gb/s", NULL));
    before = parsed_into;
    ls__options_preset(&table, &after);
    assert_int_equal(ls__options_differ(&table, &before, &after, LS__SCOPE_BITS), 3);
    round_trip(&before, &after);
    assert_int_equal(ls__options_differ(&table, &before, &after, LS__SCOPE_BITS), -1);
    assert_int_equal(ls__options_differ(&table, &before, &after, LS__SCOPE_RUN), -1);
    assert_true(after.rate == before.rate);
    assert_true(after.delay == before.delay);
    assert_true(after.bandwidth == before.bandwidth);
}

static void test_any_text_comes_back(void **state)
{
    static const char *const texts[] = {
        "",        " ",   " a",     "a ",   "\ta\r",    "a ; b", ";a",    "#a",
        "a #b",    "a=b", "=",      "[a]",  "\"",       "\"\"",  "\"a\"", "\" a \"",
        "\"a\" b", "a\"", "\"\"\"", "\\\"", "\xc3\xa4", "a = b", "--a",   "a\\nb",
    };
    static settings before;
    static settings after;

    (void)state;
    ls__options_preset(&table, &before);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(before.name, sizeof before.name, "%s", texts[i]);
        round_trip(&before, &after);
        assert_string_equal(after.name, before.name);
    }
    for (size_t length = 150; length < LS__TEXT_MAX; length += length < 250 ? 1 : 3845) {
        memset(before.name, 'x', length);
        before.name[length] = '\0';
        round_trip(&before, &after);
        assert_string_equal(after.name, before.name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_unset_reals),
        cmocka_unit_test(test_all_forms),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_values_are_no_flags),
        cmocka_unit_test(test_config_is_read_before_flags),
        cmocka_unit_test(test_config_by_hand),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_any_text_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
