/* The folder of a run: made, taken up again, refused; paths that hold elsewhere. */
#include "train/run_folder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"

static ls__train_settings settings; /* large */
static ls__train_settings again;

static void preset(const char *run)
{
    ls__options_preset(&ls__train_options, &settings);
    snprintf(settings.run, sizeof settings.run, "%s", run);
    snprintf(settings.data, sizeof settings.data, "%s", "/absent/text.h5");
    assert_ok(ls__train_settings_resolve(&settings));
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void test_a_new_run(void **state)
{
    const char *run = ls__test_path("new/run");
    ls__run_folder folder;

    (void)state;
    preset(run);
    settings.lr = 0.1;
    assert_ok(ls__run_folder_name(&folder, run));
    assert_false(ls__run_folder_in_use(&folder));
    assert_fails(ls__run_folder_settings(run, &again), LS_BAD_INPUT, "not the folder of a run");
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    assert_true(ls__run_folder_in_use(&folder));
    assert_true(ls__path_exists(folder.checkpoints));
    ls__options_preset(&ls__train_options, &again);
    assert_ok(ls__run_folder_settings(run, &again));
    assert_int_equal(ls__options_differ(&ls__train_options, &settings, &again, LS__SCOPE_BITS), -1);
    assert_int_equal(ls__options_differ(&ls__train_options, &settings, &again, LS__SCOPE_RUN), -1);
}

static void test_a_used_folder(void **state)
{
    const char *run = ls__test_path("used");
    ls__run_folder folder;

    (void)state;
    preset(run);
    assert_ok(ls__run_folder_name(&folder, run));
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    assert_fails(ls__run_folder_prepare(&folder, &settings), LS_BAD_USAGE, "go on with --resume");
    settings.resume = true;
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    settings.keep++;
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    settings.width *= 2;
    assert_fails(ls__run_folder_prepare(&folder, &settings), LS_BAD_USAGE,
                 "holds a run with --width 128, not 256");
}

/* A flag that the configuration does not know has the value that followed from the others then. */
static void test_a_run_of_an_older_version(void **state)
{
    const char *run = ls__test_path("older");
    ls__run_folder folder;

    (void)state;
    preset(run);
    assert_ok(ls__run_folder_name(&folder, run));
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    assert_ok(ls__file_write_text(folder.config, "data = /absent/text.h5\nrun = older\n"
                                                 "micro-batch = 2\ndecay-steps = 2000\n"));
    settings.resume = true;
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    settings.loss_scale = 1024;
    assert_fails(ls__run_folder_prepare(&folder, &settings), LS_BAD_USAGE,
                 "holds a run with --loss-scale 0, not 1024");
    settings.loss_scale = 0;
    settings.precision = 2;
    assert_fails(ls__run_folder_prepare(&folder, &settings), LS_BAD_USAGE,
                 "holds a run with --precision f32, not f16");
}

/* The first save must not be where it is noticed. */
static void test_missing_checkpoints_are_made_again(void **state)
{
    const char *run = ls__test_path("missing");
    ls__run_folder folder;

    (void)state;
    preset(run);
    assert_ok(ls__run_folder_name(&folder, run));
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    assert_int_equal(rmdir(folder.checkpoints), 0);
    settings.resume = true;
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    assert_true(ls__path_exists(folder.checkpoints));
    assert_int_equal(rmdir(folder.checkpoints), 0);
    write_file(folder.checkpoints);
    assert_fails(ls__run_folder_prepare(&folder, &settings), LS_BAD_USAGE, "missing/checkpoints");
}

/* Relative to the folder that the run was started in; read from another, after a move. */
static void test_paths_hold_elsewhere(void **state)
{
    char before[LS__PATH_SIZE];
    char expected[LS__PATH_SIZE];
    const char *moved = ls__test_path("moved");
    ls__run_folder folder;

    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    write_file(ls__test_path("data.h5"));
    assert_non_null(realpath(ls__test_path("data.h5"), expected));
    assert_int_equal(chdir(ls__test_folder()), 0);
    preset("relative");
    snprintf(settings.data, sizeof settings.data, "%s", "./data.h5");
    assert_ok(ls__run_folder_name(&folder, settings.run));
    assert_ok(ls__run_folder_prepare(&folder, &settings));
    assert_string_equal(settings.data, "./data.h5");
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rename(ls__test_path("relative"), moved), 0);
    assert_ok(ls__run_folder_settings(moved, &again));
    assert_string_equal(again.data, expected);
    assert_string_equal(again.run, moved);
    /* The path may be the very member that is read over. */
    snprintf(again.run, sizeof again.run, "%s", moved);
    assert_ok(ls__run_folder_settings(again.run, &again));
    assert_string_equal(again.run, moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_run),
        cmocka_unit_test(test_a_used_folder),
        cmocka_unit_test(test_a_run_of_an_older_version),
        cmocka_unit_test(test_missing_checkpoints_are_made_again),
        cmocka_unit_test(test_paths_hold_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
