/* Ranks that are killed, disks that fill up, gradients that blow up: the run ends within seconds,
 * says so, and goes on from its last whole checkpoint on another number of ranks. */
#include <string.h>

#include "base/file.h"
#include "support/test.h"
#include "support/training.h"

static const double seconds = 20; /* to end in, on a machine that does other things too */

static const char *run_for(const char *fault)
{
    char name[128];

    snprintf(name, sizeof name, "run-%s", fault);
    return ls__test_path(name);
}

/* Goes on undisturbed to step 12, and compares. */
static void finish(const char *run, int ranks)
{
    ls__process p;

    ls__training_run(&(ls__training){.run = run, .ranks = ranks}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_string_equal(ls__training_digest(run), ls__training_undisturbed(12));
}

static void killed(const char *fault, int ranks, int ranks_after, int64_t checkpoint)
{
    const char *run = run_for(fault);
    ls__process p;

    ls__training_run(&(ls__training){.fault = fault, .run = run, .ranks = ranks}, &p);
    assert_exit(p, 3);
    assert_true(p.seconds < seconds);
    assert_non_null(strstr(p.err, "was lost (signal 9): go on with --resume"));
    assert_non_null(strstr(p.err, "this run is made to fail"));
    ls__process_free(&p);
    ls__assert_nothing_runs(run);
    assert_int_equal(ls__training_checkpoint(run), checkpoint);
    finish(run, ranks_after);
}

static void test_killed_at_a_step(void **state)
{
    (void)state;
    killed("kill:rank=1:step=5", 3, 2, 4);
    killed("kill:rank=0:step=1", 2, 3, 0);
}

/* In the sum's first phase, and in its second. */
static void test_killed_inside_a_collective(void **state)
{
    (void)state;
    killed("kill:at=collective:rank=2:step=6", 4, 1, 5);
    killed("kill:at=collective:rank=0:step=6:skip=2", 4, 3, 5);
}

static void test_killed_during_a_save(void **state)
{
    (void)state;
    killed("kill:at=write:step=4", 2, 3, 3);
    killed("kill:at=seal:step=4", 3, 1, 3);
    killed("kill:at=rename:step=4", 1, 2, 3);
}

static void disk_is_full(const char *fault, int ranks)
{
    const char *run = run_for(fault);
    char path[LS__PATH_SIZE];
    ls__process p;

    ls__training_run(&(ls__training){.fault = fault, .run = run, .ranks = ranks}, &p);
    assert_exit(p, 2);
    assert_non_null(strstr(p.err, "No space left on device: free some room"));
    ls__process_free(&p);
    assert_ok(ls__path_join(path, run, "checkpoints/step-00000004.h5.tmp"));
    assert_false(ls__path_exists(path));
    assert_int_equal(ls__training_checkpoint(run), 3);
    finish(run, 2);
}

static void test_full_disk(void **state)
{
    (void)state;
    disk_is_full("full:at=write:step=4", 2);
    disk_is_full("full:at=seal:step=4", 3);
    disk_is_full("full:at=rename:step=4", 1);
}

/* A disk that loses what it said was written, and one that flips a bit of it. */
static void test_damaged_checkpoint_is_passed_over(void **state)
{
    static const char *const faults[] = {"short:step=4", "flip:at=file:step=4:element=9000:bit=5"};
    ls__process p;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *run = run_for(faults[i]);
        ls__training_run(&(ls__training){.fault = faults[i], .run = run, .ranks = 2, .steps = 4},
                         &p);
        assert_exit(p, 0);
        ls__process_free(&p);
        ls__training_run(&(ls__training){.run = run, .ranks = 3}, &p);
        assert_exit(p, 0);
        assert_non_null(strstr(p.err, "passing over a damaged checkpoint"));
        assert_non_null(strstr(p.err, "going on from step 3"));
        ls__process_free(&p);
        assert_string_equal(ls__training_digest(run), ls__training_undisturbed(12));
    }
}

static int count_of(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

/* One rank's addend is not finite: all stop in that step, one tells, and nothing was updated: the
 * run goes on from the step before as if it had not been. */
static void test_gradient_that_is_not_finite(void **state)
{
    static const char *const faults[] = {"inf:rank=2:step=6:element=300",
                                         "nan:rank=1:step=6:element=300"};
    static const char *const flags[][2] = {{NULL}, {"--shard-optimizer", NULL}};
    ls__process p;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "not-finite-%zu", i);
        const char *run = ls__test_path(name);
        ls__training_run(
            &(ls__training){.fault = faults[i % 2], .run = run, .ranks = 3, .flags = flags[i / 2]},
            &p);
        assert_exit(p, 3);
        assert_int_equal(count_of(p.err, "error: "), 1);
        assert_non_null(strstr(p.err, "step 6: the gradient of "));
        assert_non_null(strstr(p.err, " is not finite (element 300 of all), first in micro-batch"));
        assert_non_null(strstr(p.err, i % 2 == 0 ? "on rank 2 (" : "on rank 1 ("));
        ls__process_free(&p);
        assert_int_equal(ls__training_last_step(run), 5);
        assert_int_equal(ls__training_checkpoint(run), 5);
        finish(run, 2);
    }
}

/* What the step before had done is told, though its parameters came during the step that failed. */
static void test_late_parameters_before_a_gradient_that_is_not_finite(void **state)
{
    static const char *const flags[] = {"--shard-optimizer", "--checkpoint-every", "100", NULL};
    const char *run = ls__test_path("late-not-finite");
    ls__process p;

    (void)state;
    ls__training_run(
        &(ls__training){
            .fault = "inf:rank=1:step=6:element=300", .run = run, .ranks = 2, .flags = flags},
        &p);
    assert_exit(p, 3);
    ls__process_free(&p);
    ls__assert_every_step(run, 5);
}

static void refused(const char *fault, const char *part)
{
    ls__process p;

    ls__training_run(&(ls__training){.fault = fault, .run = ls__test_path("refused"), .ranks = 2},
                     &p);
    assert_exit(p, 2);
    assert_one_line(p, part);
    ls__process_free(&p);
    assert_false(ls__path_exists(ls__test_path("refused")));
}

static void test_malformed_faults(void **state)
{
    (void)state;
    refused("melt", "'melt' is no kind of fault");
    refused("kill:step", "'step' is not key=value");
    refused("kill:step=-1", "step=-1 must be a whole number");
    refused("kill:at=gradient", "kill cannot be at 'gradient'");
    refused("flip:bit=32", "bit=32 must be below 32");
    refused("kill:colour=1", "no key 'colour'");
}

/* A fault happens once where it is told to, so that a run that restarts gets past it. */
static void test_once(void **state)
{
    char fault[LS__PATH_SIZE + 64];
    const char *run = ls__test_path("once-run");
    ls__process p;

    (void)state;
    snprintf(fault, sizeof fault, "kill:rank=1:step=3:once=%s", ls__test_path("once"));
    ls__training_run(&(ls__training){.fault = fault, .run = run, .ranks = 2}, &p);
    assert_exit(p, 3);
    ls__process_free(&p);
    ls__training_run(&(ls__training){.fault = fault, .run = run, .ranks = 2}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_string_equal(ls__training_digest(run), ls__training_undisturbed(12));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_parameters_before_a_gradient_that_is_not_finite),
        cmocka_unit_test(test_malformed_faults),
        cmocka_unit_test(test_killed_at_a_step),
        cmocka_unit_test(test_killed_inside_a_collective),
        cmocka_unit_test(test_killed_during_a_save),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_damaged_checkpoint_is_passed_over),
        cmocka_unit_test(test_gradient_that_is_not_finite),
        cmocka_unit_test(test_once),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
