/* The arena: its ledger, its limit, and arithmetic that must not wrap. */
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "support/test.h"

static void test_ledger(void **state)
{
    ls__arena *arena = NULL;
    float *parameters = NULL;
    double *lanes = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__arena_take(arena, LS__PARAMETERS, 1000, sizeof *parameters, &parameters));
    assert_ok(ls__arena_take(arena, LS__LANES, 10, sizeof *lanes, &lanes));
    assert_int_equal(ls__arena_booked(arena, LS__PARAMETERS), 4000);
    assert_int_equal(ls__arena_booked(arena, LS__LANES), 80);
    assert_int_equal(ls__arena_booked(arena, LS__DATA), 0);
    assert_int_equal(ls__arena_total(arena), 4080);
    assert_int_equal((uintptr_t)parameters % LS__ARENA_ALIGNMENT, 0);
    assert_int_equal((uintptr_t)lanes % LS__ARENA_ALIGNMENT, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(parameters[i] == 0);
    ls__arena_close(arena);
}

static void test_limit_counts_what_is_taken(void **state)
{
    ls__arena *arena = NULL;
    char *piece = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 1000));
    assert_ok(ls__arena_take(arena, LS__DATA, 600, 1, &piece));
    assert_fails(ls__arena_take(arena, LS__ACTIVATIONS, 401, 1, &piece), LS_NO_MEMORY,
                 "activations need 401 bytes");
    assert_ok(ls__arena_take(arena, LS__DATA, 400, 1, &piece));
    ls__arena_close(arena);
}

static void test_products_do_not_wrap(void **state)
{
    ls__arena *arena = NULL;
    char *piece = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 0));
    assert_fails(ls__arena_take(arena, LS__ACTIVATIONS, INT64_MAX / 2, 4, &piece), LS_NO_MEMORY,
                 "more than any machine has");
    assert_fails(ls__arena_take(arena, LS__ACTIVATIONS, INT64_MAX, 1, &piece), LS_NO_MEMORY,
                 "more than any machine has");
    assert_int_equal(ls__arena_total(arena), 0);
    ls__arena_close(arena);
}

/* Above 2^31 bytes, refused with the number, before anything is taken. */
static void test_above_an_int(void **state)
{
    ls__arena *arena = NULL;
    char *piece = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 1 << 20));
    assert_fails(ls__arena_take(arena, LS__ACTIVATIONS, INT64_C(3000000000), 4, &piece),
                 LS_NO_MEMORY, "12000000000 bytes");
    ls__arena_close(arena);
}

static void test_nothing_is_not_null(void **state)
{
    ls__arena *arena = NULL;
    char *piece = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__arena_take(arena, LS__DATA, 0, 8, &piece));
    assert_non_null(piece);
    ls__arena_close(arena);
    ls__arena_close(NULL);
}

static void test_memory_is_told(void **state)
{
    (void)state;
    assert_true(ls__memory_available() > 0);
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(ls__test_path(name), "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Groups as files: the least that one of them leaves, cached files counted as free. */
static void test_control_groups_are_respected(void **state)
{
    const char *root = ls__test_folder();
    const char *self = ls__test_path("self");

    (void)state;
    put("self", "4:memory:/old\n0::/outer/inner\n");
    assert_true(ls__cgroup_available(ls__test_path("absent"), root) == INT64_MAX);
    assert_true(ls__cgroup_available(self, root) == INT64_MAX);
    assert_int_equal(mkdir(ls__test_path("outer"), 0777), 0);
    assert_int_equal(mkdir(ls__test_path("outer/inner"), 0777), 0);
    put("outer/inner/memory.max", "max\n");
    put("outer/inner/memory.current", "700\n");
    assert_true(ls__cgroup_available(self, root) == INT64_MAX);
    put("outer/memory.max", "1000\n");
    put("outer/memory.current", "900\n");
    assert_int_equal(ls__cgroup_available(self, root), 100);
    put("outer/memory.stat", "anon 400\ninactive_file 200\nactive_file 50\n");
    assert_int_equal(ls__cgroup_available(self, root), 350);
    put("outer/inner/memory.max", "500\n");
    assert_int_equal(ls__cgroup_available(self, root), 0); /* above its limit already */
    put("self", "0::/\n");
    assert_true(ls__cgroup_available(self, root) == INT64_MAX);
    put("memory.max", "5000\n");
    put("memory.current", "1000\n");
    assert_int_equal(ls__cgroup_available(self, root), 4000);
}

/* What an arena has given out is resident, and is no longer when it is closed. */
static void test_growth_is_told(void **state)
{
    const int64_t bytes = INT64_C(1) << 26;
    ls__arena *arena = NULL;
    void *piece = NULL;

    (void)state;
    int64_t before = ls__memory_resident();
    if (before == 0)
        skip(); /* this system does not tell */
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__arena_take(arena, LS__DATA, bytes, 1, &piece));
    assert_near((double)(ls__memory_resident() - before), (double)bytes, 0x1p24);
    ls__arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ledger),
        cmocka_unit_test(test_limit_counts_what_is_taken),
        cmocka_unit_test(test_products_do_not_wrap),
        cmocka_unit_test(test_above_an_int),
        cmocka_unit_test(test_nothing_is_not_null),
        cmocka_unit_test(test_memory_is_told),
        cmocka_unit_test(test_growth_is_told),
        cmocka_unit_test(test_control_groups_are_respected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
