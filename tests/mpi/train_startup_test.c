/* The comparison of ranks at the start: each kind of difference, on each rank, is told to all. */
#include "train/startup.h"

#include <fenv.h>
#include <string.h>

#include "support/mpi_main.h"

static ls__world *world;

static int open_world(void **state)
{
    (void)state;
    return ls__world_open(&world, 30) != LS_OK;
}

static int close_world(void **state)
{
    (void)state;
    ls__world_close(world);
    return 0;
}

static ls__canary canary_of_all(void)
{
    return (ls__canary){.weights = {1, 2}, .forward = {3, 4}, .backward = {5, 6}};
}

static void test_equal_ranks(void **state)
{
    ls__canary canary = canary_of_all();

    (void)state;
    assert_ok(ls__startup_compare(world, &canary, LS__F32, true));
    assert_ok(ls__startup_compare(world, &canary, LS__F32, false));
}

/* One bit of one digest of one rank. */
static void compare_with_a_difference(int odd, int which, const char *what)
{
    ls__canary canary = canary_of_all();
    ls__digest *digests[] = {&canary.weights, &canary.forward, &canary.backward};
    char says[64];

    if (ls__world_rank(world) == odd)
        digests[which]->low ^= 1;
    /* Whoever differs, rank 0 is what the others are held against. */
    snprintf(says, sizeof says, "on rank %d (", odd ? odd : 1);
    assert_fails(ls__startup_compare(world, &canary, LS__F32, true), LS_BAD_INPUT, says);
    assert_non_null(strstr(ls_last_error()->text, what));
    assert_int_equal(ls_last_error()->rank, 0);
    assert_ok(ls__startup_compare(world, &canary, LS__F32, false));
}

static void test_each_difference_is_told(void **state)
{
    static const char *const what[] = {"initial weights", "forward", "backward"};

    (void)state;
    for (int odd = 0; odd < ls__world_ranks(world) && ls__world_ranks(world) > 1; odd++)
        for (int which = 0; which < 3; which++)
            compare_with_a_difference(odd, which, what[which]);
}

/* All but rank 0 differ: the first few are named, the rest counted. */
static void test_many_ranks_are_named(void **state)
{
    ls__canary canary = canary_of_all();
    int ranks = ls__world_ranks(world);

    (void)state;
    if (ls__world_rank(world) > 0)
        canary.forward.high ^= 1;
    if (ranks == 1)
        return;
    assert_fails(ls__startup_compare(world, &canary, LS__F32, true), LS_BAD_INPUT, "rank 1 (");
    assert_true((ranks > 2) == (strstr(ls_last_error()->text, ", rank 2 (") != NULL));
    assert_true((ranks > 5) == (strstr(ls_last_error()->text, " more") != NULL));
}

/* One rank rounds upwards: what every library promises not to do, and a plug-in may. */
static void test_another_rounding_is_told(void **state)
{
    ls__canary canary = canary_of_all();
    int odd = ls__world_ranks(world) - 1;
    char says[64];

    (void)state;
    snprintf(says, sizeof says, "rank %d (", odd);
    if (ls__world_rank(world) == odd)
        fesetround(FE_UPWARD);
    ls_status status = ls__startup_compare(world, &canary, LS__F32, true);
    ls_status without = ls__startup_compare(world, &canary, LS__F32, false);
    fesetround(FE_TONEAREST);
    assert_fails(status, LS_BAD_INPUT, says);
    assert_non_null(strstr(ls_last_error()->text, "does not round to nearest"));
    assert_ok(without);
}

static void test_shares_of_memory(void **state)
{
    int64_t bytes = 0;

    (void)state;
    assert_ok(ls__startup_memory(world, &bytes));
    assert_true(bytes > 0);
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_ranks),
        cmocka_unit_test(test_each_difference_is_told),
        cmocka_unit_test(test_many_ranks_are_named),
        cmocka_unit_test(test_another_rounding_is_told),
        cmocka_unit_test(test_shares_of_memory),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}

LS__MPI_MAIN(run_cases())
