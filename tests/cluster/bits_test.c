/* Several hosts leave the same bits as one process. */
#include <string.h>

#include "support/cluster.h"
#include "support/test.h"
#include "support/training.h"

enum { STEPS = 12 };

/* The digest of a run on 4 ranks. */
static const char *train(const char *const *through, const char *name, const char *const *flags)
{
    const char *run = ls__test_path(name);
    ls__process p;

    ls__training_run(&(ls__training){.through = through, .run = run, .ranks = 4, .flags = flags},
                     &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    return ls__training_digest(run);
}

static void test_same_bits(void **state)
{
    static const char *const four[] = {"scripts/virtual-cluster", "4", "1gbit", NULL};
    static const char *const two[] = {
        "scripts/virtual-cluster", "--slots", "2", "2", "1gbit", NULL};
    static const char *const mpi[] = {"--allreduce", "mpi", NULL};
    static const char *const f32[] = {"--reduce", "f32", NULL};

    (void)state;
    ls__cluster_require();
    assert_string_equal(train(four, "four", NULL), ls__training_undisturbed(STEPS));
    assert_string_equal(train(two, "two", mpi), ls__training_undisturbed(STEPS));
    /* The control, which must differ. */
    assert_string_not_equal(train(four, "f32", f32), ls__training_undisturbed(STEPS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
