/* The audit: a bit that flips on one rank is found and its host named; audits change nothing. */
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "support/training.h"

static const char *const every_step[] = {"--audit-every", "1", NULL};
static const char *const sharded[] = {"--audit-every", "1", "--shard-optimizer", NULL};

static const char *next_run(void)
{
    static int index;
    char name[32];

    snprintf(name, sizeof name, "audit-%d", index++);
    return ls__test_path(name);
}

static void caught(const char *fault, int ranks, const char *const *flags, const char *says,
                   int rank)
{
    const char *run = next_run();
    char host[64] = "";
    char names[128];
    ls__process p;

    ls__training_run(&(ls__training){.fault = fault, .run = run, .ranks = ranks, .flags = flags},
                     &p);
    assert_exit(p, 3);
    gethostname(host, sizeof host - 1);
    snprintf(names, sizeof names, "rank %d (%s)", rank, host);
    if (!strstr(p.err, says) || !strstr(p.err, names))
        ls__process_show(&p);
    assert_non_null(strstr(p.err, says));
    assert_non_null(strstr(p.err, names));
    assert_null(strstr(strstr(p.err, "error: ") + 1, "error: "));
    ls__process_free(&p);
    assert_int_equal(ls__training_last_step(run), 4);
}

static void test_flipped_gradient(void **state)
{
    (void)state;
    caught("flip:rank=1:step=5:element=0:bit=0", 2, every_step,
           "step 5: the gradient of wte.weight in micro-batch", 1);
    caught("flip:rank=2:step=5:element=1000:bit=7", 3, sharded, "step 5: the gradient of h.0.", 2);
    caught("flip:rank=0:step=5:element=1000:bit=31", 8, every_step, "step 5: the gradient of h.0.",
           0);
    caught("flip:rank=0:step=5:element=1000:bit=30", 1, every_step, "step 5: the gradient of h.0.",
           0);
}

static void test_flipped_parameter(void **state)
{
    (void)state;
    caught("flip:at=parameter:rank=2:step=5:element=0", 4, every_step,
           "holds other bits of wte.weight than rank 0", 2);
    caught("flip:at=parameter:rank=0:step=5:element=0", 3, sharded,
           "holds other bits of wte.weight than rank 1", 0);
}

/* Without audits the same flips go unseen, and change the run: the test has teeth. */
static void test_unaudited(void **state)
{
    const char *run = next_run();
    ls__process p;

    (void)state;
    ls__training_run(
        &(ls__training){.fault = "flip:rank=1:step=5:element=0:bit=20", .run = run, .ranks = 2},
        &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_string_not_equal(ls__training_digest(run), ls__training_undisturbed(12));
}

static void test_audits_change_nothing(void **state)
{
    static const char *const every[] = {"1", "3"};
    ls__process p;

    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        for (size_t i = 0; i < 2; i++) {
            const char *flags[] = {"--audit-every",
                                   every[i],
                                   "--dropout",
                                   "0",
                                   ranks % 2 ? "--shard-optimizer" : NULL,
                                   NULL};
            const char *run = next_run();
            ls__training_run(&(ls__training){.run = run, .ranks = ranks, .flags = flags}, &p);
            assert_exit(p, 0);
            ls__process_free(&p);
            assert_string_equal(ls__training_digest(run), ls__training_undisturbed(12));
        }
}

/* Parameters may come late between two audits: every step has its line all the same. */
static void test_late_parameters_between_audits(void **state)
{
    static const char *const flags[] = {"--audit-every",      "4",   "--shard-optimizer",
                                        "--checkpoint-every", "100", NULL};
    const char *run = next_run();
    ls__process p;

    (void)state;
    ls__training_run(&(ls__training){.run = run, .ranks = 2, .flags = flags}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    ls__assert_every_step(run, 12);
    assert_string_equal(ls__training_digest(run), ls__training_undisturbed(12));
}

/* Dropout is a function of the sample, not of who computes it. */
static void test_dropout_is_audited(void **state)
{
    static const char *const flags[] = {"--audit-every", "1", "--dropout", "0.2", NULL};
    static const char *const plain[] = {"--dropout", "0.2", NULL};
    const char *runs[] = {next_run(), next_run()};
    char digest[64];
    ls__process p;

    (void)state;
    ls__training_run(&(ls__training){.run = runs[0], .ranks = 1, .flags = plain}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    snprintf(digest, sizeof digest, "%s", ls__training_digest(runs[0]));
    ls__training_run(&(ls__training){.run = runs[1], .ranks = 3, .flags = flags}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_string_equal(ls__training_digest(runs[1]), digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flipped_gradient),
        cmocka_unit_test(test_flipped_parameter),
        cmocka_unit_test(test_unaudited),
        cmocka_unit_test(test_audits_change_nothing),
        cmocka_unit_test(test_dropout_is_audited),
        cmocka_unit_test(test_late_parameters_between_audits),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
