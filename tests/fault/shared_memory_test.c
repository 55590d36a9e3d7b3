/* Where the system gives ranks too little memory to share, they copy through MPI instead: a line in
 * the log, and the same bits. */
#include <string.h>

#include "support/test.h"
#include "support/training.h"

/* Runs with a /dev/shm of its own, of which Open MPI takes up to 8.4 MB for two ranks. */
static void run_with(const char *size, const char *name, const char *const *flags, ls__process *p)
{
    char mount[128];
    const char *through[] = {"unshare", "-m", "sh", "-c", mount, "sh", NULL};
    const char *probe[] = {"unshare", "-m", "true", NULL};

    ls__process_run(&(ls__command){.argv = probe}, p);
    bool permitted = p->exit_code == 0;
    if (!permitted)
        printf("skipped: no mount namespaces here: %s", p->err);
    ls__process_free(p);
    if (!permitted)
        skip();
    snprintf(mount, sizeof mount, "mount -t tmpfs -o size=%s tmpfs /dev/shm && exec \"$@\"", size);
    ls__training_run(
        &(ls__training){
            .through = through, .run = ls__test_path(name), .ranks = 2, .steps = 3, .flags = flags},
        p);
    assert_exit(*p, 0);
}

static void test_no_room_at_all(void **state)
{
    ls__process p;

    (void)state;
    run_with("500k", "none", NULL, &p);
    assert_non_null(strstr(p.err, "ranks on one node copy through MPI instead"));
    assert_string_equal(ls__training_digest(ls__test_path("none")), ls__training_undisturbed(3));
    ls__process_free(&p);
}

/* Enough for letters, too little for the gradients of 1.6 M parameters. */
static void test_no_room_for_gradients(void **state)
{
    static const char *const flags[] = {"--layers", "2", "--width", "256", NULL};
    const char *whole = ls__test_path("whole");
    char digest[64];
    ls__process p;

    (void)state;
    ls__training_run(&(ls__training){.run = whole, .ranks = 1, .steps = 3, .flags = flags}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    snprintf(digest, sizeof digest, "%s", ls__training_digest(whole));
    run_with("16m", "some", flags, &p);
    assert_non_null(strstr(p.err, "these ranks copy through MPI instead"));
    assert_null(strstr(p.err, "Bus error"));
    assert_string_equal(ls__training_digest(ls__test_path("some")), digest);
    ls__process_free(&p);
}

/* The control: with room there is nothing to say. */
static void test_room(void **state)
{
    ls__process p;

    (void)state;
    run_with("64m", "room", NULL, &p);
    assert_null(strstr(p.err, "through MPI instead"));
    assert_string_equal(ls__training_digest(ls__test_path("room")), ls__training_undisturbed(3));
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_room_at_all),
        cmocka_unit_test(test_no_room_for_gradients),
        cmocka_unit_test(test_room),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
