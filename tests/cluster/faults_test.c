/* A rank that dies and a host that is cut off end a run on several hosts: with the exit code of a
 * lost rank, naming it, within the timeout. */
#include <string.h>

#include "base/file.h"
#include "support/cluster.h"
#include "support/test.h"
#include "support/training.h"

/* Start-up, the stall timeout of 2 s, the roll, and 5 s for mpirun, which cannot reach the host. */
static const double bar = 25;

static void train(ls__training training, const char *says)
{
    static const char *const flags[] = {"--stall-timeout", "2", NULL};
    ls__process p;

    training.ranks = 3;
    training.steps = 100000;
    training.flags = flags;
    ls__training_run(&training, &p);
    assert_exit(p, 3);
    if (!strstr(p.err, says) || p.seconds > bar)
        ls__process_show(&p);
    assert_non_null(strstr(p.err, says));
    assert_true(p.seconds < bar);
    ls__figure("3 hosts, %s: ended after %.1f s, start-up included", says, p.seconds);
    ls__process_free(&p);
    ls__assert_nothing_runs(training.run);
}

static void test_rank_killed(void **state)
{
    static const char *const through[] = {"scripts/virtual-cluster", "3", "1gbit", NULL};

    (void)state;
    ls__cluster_require();
    train((ls__training){.through = through,
                         .run = ls__test_path("killed"),
                         .fault = "kill:at=collective:rank=1:step=5"},
          "rank 1 on host2 was lost");
}

/* Once training is under way. */
static void test_host_cut_off(void **state)
{
    char metrics[LS__PATH_SIZE];
    const char *run = ls__test_path("cut");
    const char *const through[] = {
        "scripts/virtual-cluster",
        "3",
        "1gbit",
        "sh",
        "-c",
        "{ until grep -q step.:.2 \"$0\"; do sleep 0.1; done; ip link set host2 down; } "
        "2>/dev/null & exec \"$@\"",
        metrics,
        NULL};

    (void)state;
    ls__cluster_require();
    assert_ok(ls__path_join(metrics, run, "metrics.jsonl"));
    train((ls__training){.through = through, .run = run},
          "rank 1 (host2) did not arrive within 2 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_killed),
        cmocka_unit_test(test_host_cut_off),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
