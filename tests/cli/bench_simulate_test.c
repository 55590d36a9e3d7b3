/* lockstep bench allreduce --simulate: its table, and what it refuses. */
#include <string.h>

#include "support/process.h"
#include "support/test.h"

#define SIMULATE "bench", "allreduce", "--simulate"

static void refuse(const char *part, const char *flag, const char *value)
{
    ls__process p;

    ls__run_lockstep(&p, SIMULATE, "--ranks", "64", flag, value, NULL);
    assert_exit(p, 2);
    assert_one_line(p, part);
    assert_int_equal(p.out_length, 0);
    ls__process_free(&p);
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("none called 'butterfly': choose from ring|", "--algorithm", "butterfly");
    refuse("none called ''", "--algorithm", "ring,");
    refuse("mpi is the library's own", "--algorithm", "mpi");
    refuse("--ranks-per-node 7 does not divide --ranks 64", "--ranks-per-node", "7");
    refuse("from 1 to", "--ranks-per-node", "0");
    refuse("from 2 to", "--ranks", "1");
    refuse("takes a rate above 0", "--bandwidth", "0GB/s");
    refuse("takes a rate above 0", "--bandwidth", "-1GB/s");
    refuse("for example 12.5GB/s", "--bandwidth", "12.5GB");
    refuse("for example 12.5GB/s", "--node-bandwidth", "fast");
    refuse("takes a time, for example 2us", "--latency", "2");
    refuse("takes a time, for example 2us", "--latency", "2 parsecs");
    refuse("takes a time, for example 2us", "--node-latency", "-1us");
    refuse("takes bytes", "--bytes", "1X");
    refuse("--slow-ranks 64: the ranks are 0 to 63", "--slow-ranks", "3,64");
    refuse("from 1 to", "--slow-factor", "0.5");
    refuse("did you mean --latency?", "--latencyy", "1us");
}

/* Without --simulate these flags mean nothing. */
static void test_flags_of_the_simulation_alone(void **state)
{
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "bench", "allreduce", "--ranks-per-node", "8", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "has no flag --ranks-per-node");
    ls__process_free(&p);
}

/* The row of one algorithm, in an output. */
static void read_row(const char *out, const char *algorithm, double *seconds, double *formula,
                     double *sent)
{
    char name[16];
    const char *row = NULL;

    snprintf(name, sizeof name, " %s ", algorithm);
    row = strstr(out, name);
    assert_non_null(row);
    assert_int_equal(sscanf(row, "%*s %*d %*d %lf %lf %*f %lf", seconds, formula, sent), 3);
}

/* 2 (64-1) (2 us + 2^20/64 bytes / 12.5 GB/s) = 417.150 us; 2 63/64 2^20 bytes a rank. */
static void test_ring(void **state)
{
    double seconds = 0;
    double formula = 0;
    double sent = 0;
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, SIMULATE, "--ranks", "64", "--bytes", "1M", "--algorithm", "tree,ring",
                     "--bandwidth", "100Gb/s", NULL);
    assert_exit(p, 0);
    read_row(p.out, "ring", &seconds, &formula, &sent);
    assert_near(seconds, 417.15, 0.01);
    assert_near(formula, 417.15, 0.01);
    assert_near(sent, 2064384, 0.5);
    assert_non_null(strstr(p.out, "by the formulas"));
    ls__process_free(&p);
}

static void test_slow_rank(void **state)
{
    double seconds = 0;
    double formula = 0;
    double sent = 0;
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, SIMULATE, "--ranks", "64", "--bytes", "1M", "--algorithm", "ring",
                     "--slow-ranks", "5", "--slow-factor", "3", NULL);
    assert_exit(p, 0);
    read_row(p.out, "ring", &seconds, &formula, &sent);
    assert_near(seconds, 3 * 417.15, 0.01);
    assert_near(formula, 417.15, 0.01);
    ls__process_free(&p);
}

/* 12 bytes an element instead of 8. */
static void test_exact_sums(void **state)
{
    double seconds = 0;
    double formula = 0;
    double sent = 0;
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, SIMULATE, "--ranks", "64", "--bytes", "1M", "--algorithm", "ring",
                     "--reduce", "exact", NULL);
    assert_exit(p, 0);
    read_row(p.out, "ring", &seconds, &formula, &sent);
    assert_near(seconds, formula, 0.01);
    assert_near(sent, 2064384 * 1.5, 0.5);
    ls__process_free(&p);
}

static void test_help(void **state)
{
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, SIMULATE, "--help", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "--ranks-per-node"));
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_flags_of_the_simulation_alone),
        cmocka_unit_test(test_ring),       cmocka_unit_test(test_slow_rank),
        cmocka_unit_test(test_exact_sums), cmocka_unit_test(test_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
