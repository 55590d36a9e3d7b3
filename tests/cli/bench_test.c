/* `lockstep bench allreduce`: what its rows say, the JSON and the plot that it writes, and what it
 * refuses, before it measures anything. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

enum { TEXT = 1 << 18 };

#define QUICK "--repeats", "2", "--warmup", "0"

static char text[TEXT];

static const char *read_text(const char *path)
{
    assert_ok(ls__file_read_text(path, text, sizeof text));
    return text;
}

/* ---- rows of JSON: one a line ---- */

/* The value of a field, as far as the next comma or brace. */
static void field_of(const char *line, const char *name, char *value, size_t size)
{
    char key[64];

    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(line, key);
    if (!at)
        fail_msg("no field %s in: %.300s", name, line);
    at += strlen(key);
    snprintf(value, size, "%.*s", (int)strcspn(at, ",}"), at);
}

static double number_of(const char *line, const char *name)
{
    char value[64];
    char *end = NULL;

    field_of(line, name, value, sizeof value);
    double number = strtod(value, &end);
    assert_true(end != value && *end == '\0');
    return number;
}

static void expect_field(const char *line, const char *name, const char *expected)
{
    char value[64];

    field_of(line, name, value, sizeof value);
    assert_string_equal(value, expected);
}

static bool is_exact(const char *line)
{
    char value[64];

    field_of(line, "reduce", value, sizeof value);
    return strcmp(value, "\"exact\"") == 0;
}

static bool is_mpi(const char *line)
{
    return strstr(line, "\"algorithm\": \"mpi\"") != NULL;
}

static bool is_near(double value, double expected)
{
    return fabs(value - expected) <= 1e-5 * fabs(expected);
}

/* What must hold of every row. */
static void check_row(const char *line)
{
    double ranks = number_of(line, "ranks");
    double bytes = number_of(line, "bytes");
    double ideal = (is_exact(line) ? 3 : 2) * (ranks - 1) / ranks;

    expect_field(line, "wrong", "0");
    assert_true(number_of(line, "count") * 4 == bytes);
    assert_true(is_near(number_of(line, "factor_ideal"), ideal));
    assert_true(number_of(line, "time_us") <= number_of(line, "median_us"));
    assert_true(number_of(line, "median_us") <= number_of(line, "p90_us"));
    assert_true(is_near(number_of(line, "busbw_gbps"), number_of(line, "algbw_gbps") * ideal));
    if (is_mpi(line)) {
        expect_field(line, "sent_bytes", "null");
        expect_field(line, "factor", "null");
    } else {
        assert_true(is_near(number_of(line, "factor"), ideal));
        assert_true(is_near(number_of(line, "sent_bytes"), ideal * bytes));
    }
    assert_true((number_of(line, "spills") > 0) == (is_exact(line) && ranks > 1));
}

/* Checks every row; returns how many there are. */
static int check_rows(const char *path)
{
    int rows = 0;
    char *rest = NULL;

    read_text(path);
    assert_true(text[0] == '[' && strcmp(text + strlen(text) - 3, "\n]\n") == 0);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != ' ')
            continue;
        check_row(line);
        rows++;
    }
    return rows;
}

/* Where Python is there, it must read the file as JSON. */
static void check_json(const char *path)
{
    const char *argv[] = {"python3", "-c", "import json, sys; json.load(open(sys.argv[1]))", path,
                          NULL};
    ls__process p;

    ls__process_run(&(ls__command){.argv = argv}, &p);
    if (!strstr(p.err, "cannot run python3"))
        assert_exit(p, 0);
    ls__process_free(&p);
}

/* ---- what it measures ---- */

static void test_rows_of_all_algorithms(void **state)
{
    static const char *const ranks[] = {"1", "3"};
    const char *path = ls__test_path("all.json");
    ls__process p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        ls__run_lockstep(&p, "bench", "allreduce", "--ranks", ranks[i], "-b", "1K", "-e", "1M",
                         "-f", "1024", QUICK, "--algorithm",
                         "ring,ring-seg,direct,halving,hier,tree,naive,mpi", "--reduce",
                         "f32,exact", "--json", path, NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        assert_int_equal(check_rows(path), 2 * 2 * 8);
        check_json(path);
    }
}

/* Started by mpirun, rank 0 writes the same file. */
static void test_under_mpirun(void **state)
{
    const char *path = ls__test_path("mpirun.json");
    const char *argv[] = {"mpirun",       "-q",     "-n",        "2",  "--oversubscribe",
                          ls__lockstep(), "bench",  "allreduce", "-e", "2K",
                          QUICK,          "--json", path,        NULL};
    const char *env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = argv, .env = env}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_int_equal(check_rows(path), 2 * 3);
}

/* ---- several rank counts, and the plot ---- */

static bool has_gnuplot(void)
{
    const char *argv[] = {"gnuplot", "--version", NULL};
    ls__process p;

    ls__process_run(&(ls__command){.argv = argv}, &p);
    bool there = p.exit_code == 0;
    ls__process_free(&p);
    if (!there)
        ls__figure("skipped: the plots of the benchmark: there is no gnuplot");
    return there;
}

/* Well formed where xmllint can say so, and with all that was asked for. */
static void check_svg(const char *path, const char *const *parts)
{
    const char *argv[] = {"xmllint", "--noout", "--nonet", path, NULL};
    ls__process p;

    ls__process_run(&(ls__command){.argv = argv}, &p);
    if (!strstr(p.err, "cannot run xmllint"))
        assert_exit(p, 0);
    ls__process_free(&p);
    read_text(path);
    assert_non_null(strstr(text, "<svg"));
    assert_non_null(strstr(text, "</svg>"));
    for (; *parts; parts++)
        if (!strstr(text, *parts))
            fail_msg("%s does not show '%s'", path, *parts);
}

static void test_plot_over_ranks(void **state)
{
    static const char *const parts[] = {"Bus bandwidth, 2 ranks",
                                        "Bus bandwidth, 3 ranks",
                                        "2(N-1)/N",
                                        "3(N-1)/N",
                                        "ring exact",
                                        ">mpi<",
                                        ">4K<",
                                        NULL};
    const char *json = ls__test_path("ranks.json");
    const char *plot = ls__test_path("it's a \"plot\" $(x).svg");
    ls__process p;

    (void)state;
    if (!has_gnuplot())
        return;
    ls__run_lockstep(&p, "bench", "allreduce", "--ranks", "1,2,3", "-e", "4K", QUICK, "--algorithm",
                     "ring,mpi", "--reduce", "f32,exact", "--json", json, "--plot", plot, NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "# 1 rank,"));
    assert_non_null(strstr(p.out, "# 3 ranks,"));
    ls__process_free(&p);
    assert_int_equal(check_rows(json), 3 * 3 * 4);
    check_svg(plot, parts);
}

/* ---- wrong sums ---- */

/* A bit of one rank's sums flips in a run: the row says so, the others are measured all the same,
 * and so is the other number of ranks. */
static void test_wrong_sums(void **state)
{
    const char *path = ls__test_path("wrong.json");
    const char *argv[] = {ls__lockstep(), "bench", "allreduce", "--ranks",     "2,3",
                          "-e",           "1K",    QUICK,       "--algorithm", "ring,direct",
                          "--json",       path,    NULL};
    const char *env[] = {"LOCKSTEP_FAULT=flip:at=parameter:rank=1:step=2:element=200", NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = argv, .env = env}, &p);
    assert_exit(p, 1);
    assert_non_null(strstr(p.err, "1 elements came out wrong, see the column #wrong"));
    ls__process_free(&p);
    const char *row = read_text(path);
    for (int i = 0; i < 4; i++) {
        row = strstr(row, "\n  {") + 1;
        expect_field(row, "wrong", i % 2 == 0 ? "0" : "1");
    }
}

/* ---- what it refuses ---- */

static void refused(const char *flag, const char *value, const char *part)
{
    ls__process p;

    ls__run_lockstep(&p, "bench", "allreduce", "--ranks", "2", "-e", "4K", flag, value, NULL);
    assert_exit(p, 2);
    assert_one_line(p, part);
    assert_string_equal(p.out, "");
    ls__process_free(&p);
}

static void test_refusals(void **state)
{
    (void)state;
    refused("--algorithm", "ring,rang", "none called 'rang': choose from ring|");
    refused("--algorithm", "ring,", "none called ''");
    refused("--reduce", "f32,f16", "none called 'f16': choose f32, exact");
    refused("--reduce", "f32,exact,f32", "at most 2 names");
    refused("--ranks", "2,0", "1 rank at least");
    refused("-b", "8K", "--min-bytes 8192 is above --max-bytes 4096");
    refused("--json", "/nowhere/at/all.json", "cannot create /nowhere/at/all.json.tmp");
    refused("--json", ls__test_folder(), "is a folder");
    refused("--plot", "/nowhere/at/all.svg", "cannot create /nowhere/at/all.svg.tmp");
}

static void test_plot_of_one_rank(void **state)
{
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "bench", "allreduce", "--plot", ls__test_path("one.svg"), NULL);
    assert_exit(p, 2);
    assert_one_line(p, "a rank alone");
    ls__process_free(&p);
}

static void test_missing_gnuplot(void **state)
{
    const char *path = ls__test_path("none.svg");
    const char *argv[] = {ls__lockstep(), "bench", "allreduce", "--ranks", "2",
                          "--plot",       path,    NULL};
    const char *env[] = {"PATH=/nowhere", NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = argv, .env = env}, &p);
    assert_exit(p, 2);
    assert_one_line(p, "--plot needs gnuplot");
    assert_false(ls__path_exists(path));
    ls__process_free(&p);
}

static void test_several_counts_under_mpirun(void **state)
{
    const char *argv[] = {"mpirun", "-q",        "-n",      "1",   ls__lockstep(),
                          "bench",  "allreduce", "--ranks", "1,2", NULL};
    const char *env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = argv, .env = env}, &p);
    assert_exit(p, 2);
    assert_one_line(p, "starts mpirun itself");
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_all_algorithms),
        cmocka_unit_test(test_under_mpirun),
        cmocka_unit_test(test_plot_over_ranks),
        cmocka_unit_test(test_wrong_sums),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_plot_of_one_rank),
        cmocka_unit_test(test_missing_gnuplot),
        cmocka_unit_test(test_several_counts_under_mpirun),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
