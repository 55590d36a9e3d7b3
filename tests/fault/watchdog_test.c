/* A rank that stops is named, with the step and the tensors that were waited for, within the
 * timeout and two seconds; the run ends, and nothing of it is left. */
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "support/test.h"
#include "support/training.h"

static const double timeout = 2;

/* How long an undisturbed run of as many ranks takes: what the watchdog is not to blame for. */
static double usual_seconds(int ranks)
{
    static double known[9];
    char name[32];
    ls__process p;

    if (known[ranks] > 0)
        return known[ranks];
    snprintf(name, sizeof name, "usual-%d", ranks);
    ls__training_run(&(ls__training){.run = ls__test_path(name), .ranks = ranks}, &p);
    assert_exit(p, 0);
    known[ranks] = p.seconds;
    ls__process_free(&p);
    return known[ranks];
}

static void stopped(const char *fault, int ranks, int rank, const char *says, const char *flag,
                    const char *value)
{
    static int index;
    const char *flags[] = {"--stall-timeout", "2", flag, value, NULL};
    char name[32];
    char names[128];
    char host[64] = "";
    ls__process p;

    snprintf(name, sizeof name, "stopped-%d", index++);
    const char *run = ls__test_path(name);
    double usual = usual_seconds(ranks);
    ls__training_run(
        &(ls__training){
            .fault = fault, .run = run, .ranks = ranks, .steps = 100000, .flags = flags},
        &p);
    assert_exit(p, 3);
    gethostname(host, sizeof host - 1);
    snprintf(names, sizeof names, "rank %d (%s) did not arrive within 2 s", rank, host);
    if (!strstr(p.err, names) || !strstr(p.err, says) || p.seconds > usual + timeout + 2)
        ls__process_show(&p);
    assert_non_null(strstr(p.err, names));
    assert_non_null(strstr(p.err, says));
    if (strstr(strstr(p.err, "error: ") + 1, "error: "))
        ls__process_show(&p);
    assert_null(strstr(strstr(p.err, "error: ") + 1, "error: "));
    assert_true(p.seconds < usual + timeout + 2);
    ls__figure("stopped rank, %s: the run ended %.1f s after the timeout of %g s (start-up "
               "included)",
               fault, p.seconds - timeout, timeout);
    ls__process_free(&p);
    ls__assert_nothing_runs(run);
}

static void test_stopped_at_a_step(void **state)
{
    (void)state;
    stopped("stop:rank=1:step=5", 2, 1, "step 5, ", NULL, NULL);
    stopped("stop:rank=0:step=3", 3, 0, "(elements ", NULL, NULL);
}

/* In buckets of 256 elements: the ring waits for one that waits for the stopped one. */
static void test_stopped_inside_a_collective(void **state)
{
    (void)state;
    stopped("stop:at=collective:rank=2:step=5:skip=1", 4, 2, "step 5, ", "--bucket", "1K");
}

/* The last of the step's collectives, which goes on while the next step's forward begins. */
static void test_stopped_while_parameters_are_late(void **state)
{
    (void)state;
    stopped("stop:at=collective:rank=1:step=4:skip=1", 3, 1, "step ", "--shard-optimizer",
            "--checkpoint-every=1000");
}

/* MPI does not tell whom it waits for; nor does it matter who waits for whom. */
static void test_other_algorithms(void **state)
{
    (void)state;
    stopped("stop:at=collective:rank=0:step=4", 3, 0, "step 4", "--allreduce", "mpi");
    stopped("stop:rank=2:step=4", 3, 2, "step 4, ", "--allreduce", "naive");
}

/* Rank 0 alone saves; the others wait in an operation of the world's. */
static void test_stopped_during_a_save(void **state)
{
    (void)state;
    stopped("stop:at=rename:rank=0:step=4", 3, 0, "saving after step 4", NULL, NULL);
}

/* At any moment of a run, whatever it is doing. */
static void test_stopped_at_random_moments(void **state)
{
    static const char *const flags[][2] = {{"--audit-every", "1"},
                                           {"--allreduce", "mpi"},
                                           {"--shard-optimizer", "--keep=2"},
                                           {"--bucket", "1K"}};
    uint64_t seed = ls__test_seed(7);

    (void)state;
    for (uint64_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        ls__random4 drawn = ls__random(seed, LS__STREAM_SAMPLE, 0, i);
        const uint32_t *draw = drawn.word;
        int ranks = 2 + (int)(draw[0] % 3);
        int rank = (int)(draw[1] % (uint32_t)ranks);
        char fault[64];
        snprintf(fault, sizeof fault, "stop:at=time:rank=%d:after=0.%03d", rank,
                 (int)(draw[2] % 400));
        stopped(fault, ranks, rank, "", flags[i][0], flags[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_at_a_step),
        cmocka_unit_test(test_stopped_inside_a_collective),
        cmocka_unit_test(test_stopped_while_parameters_are_late),
        cmocka_unit_test(test_other_algorithms),
        cmocka_unit_test(test_stopped_during_a_save),
        cmocka_unit_test(test_stopped_at_random_moments),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
