/* Checkpoints: what is written is read back; whatever happens to the file, never wrong data. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "support/test.h"

enum { FILE_MAX = 1 << 17, STATES = 2 };

static ls__tensors tensors;
static float *parameters;
static float *state[STATES];
static float *back[STATES + 1];
static ls__checkpoint_info info; /* large */
static ls__checkpoint_info info_back;
static char good[FILE_MAX]; /* the checkpoint of step 20, as it was written */
static size_t good_length;

static ls__checkpoint_arrays arrays_of(float *flat, float *first, float *second)
{
    return (ls__checkpoint_arrays){.tensors = &tensors,
                                   .parameters = flat,
                                   .state = {first, second},
                                   .state_name = {"exp_avg", "exp_avg_sq"}};
}

static float *take(void)
{
    float *flat = calloc((size_t)tensors.total, sizeof *flat);

    assert_non_null(flat);
    return flat;
}

static int set_up(void **unused)
{
    int64_t at = 0;

    (void)unused;
    assert_ok(ls__tensors_add_matrix(&tensors, "layers.0.weight", 5, 3, 0.1, &at));
    assert_ok(ls__tensors_add_vector(&tensors, "layers.0.bias", 5, 0, &at));
    parameters = take();
    for (int i = 0; i < STATES; i++)
        state[i] = take();
    for (int i = 0; i < STATES + 1; i++)
        back[i] = take();
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    free(parameters);
    for (int i = 0; i < STATES; i++)
        free(state[i]);
    for (int i = 0; i < STATES + 1; i++)
        free(back[i]);
    ls__tensors_free(&tensors);
    return 0;
}

/* Values of each step are its own, so that one checkpoint cannot pass for another. */
static void fill(int64_t step)
{
    for (int64_t i = 0; i < tensors.total; i++) {
        parameters[i] = (float)(step + i) * 0.37f;
        state[0][i] = -(float)i;
        state[1][i] = (float)(step * i);
    }
    parameters[0] = -0.0f;
    info = (ls__checkpoint_info){
        .step = step,
        .loss = 2.5,
        .seed = 1337,
        .digest = ls__digest_of(parameters, (size_t)tensors.total * sizeof *parameters),
        .vocabulary_bytes = 3,
        .vocabulary = {'a', '\0', 255},
        .model = "mlp",
        .blas_core = "Abacus",
        .configuration = "model = mlp\nhidden = 5\n"};
}

static const char *folder_named(const char *name)
{
    const char *folder = ls__test_path(name);

    assert_ok(ls__make_folders(folder));
    return folder;
}

/* A fresh path of a checkpoint, in memory of the caller. */
static void save(const char *folder, int64_t step, char *path)
{
    ls__checkpoint_arrays arrays = arrays_of(parameters, state[0], state[1]);

    fill(step);
    assert_ok(ls__checkpoint_path(path, folder, step));
    assert_ok(ls__checkpoint_write(path, &info, &arrays));
}

static ls_status load(const char *path)
{
    ls__checkpoint_arrays arrays = arrays_of(back[0], back[1], back[2]);

    for (int i = 0; i < STATES + 1; i++)
        memset(back[i], 0x55, (size_t)tensors.total * sizeof *back[i]);
    return ls__checkpoint_read(path, &info_back, &arrays);
}

/* That what was loaded is, bit for bit, what is saved for `step`. */
static void assert_is_of(int64_t step)
{
    size_t bytes = (size_t)tensors.total * sizeof *parameters;

    fill(step);
    assert_int_equal(info_back.step, step);
    assert_true(info_back.loss == info.loss);
    assert_int_equal(info_back.seed, info.seed);
    assert_true(ls__digest_equal(info_back.digest, info.digest));
    assert_int_equal(info_back.vocabulary_bytes, info.vocabulary_bytes);
    assert_memory_equal(info_back.vocabulary, info.vocabulary, 3);
    assert_string_equal(info_back.model, info.model);
    assert_string_equal(info_back.blas_core, info.blas_core);
    assert_string_equal(info_back.configuration, info.configuration);
    assert_memory_equal(back[0], parameters, bytes);
    assert_memory_equal(back[1], state[0], bytes);
    assert_memory_equal(back[2], state[1], bytes);
}

static void write_raw(const char *path, const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* ---- one file ---- */

static ls_status save_scaling(double scale, int64_t good_steps, int64_t skipped_steps)
{
    const char *path = ls__test_path("scaling.h5");
    ls__checkpoint_arrays arrays = arrays_of(parameters, state[0], state[1]);

    fill(20);
    info.loss_scale = scale;
    info.good_steps = good_steps;
    info.skipped_steps = skipped_steps;
    assert_ok(ls__checkpoint_write(path, &info, &arrays));
    return load(path);
}

static void test_loss_scaling(void **unused)
{
    (void)unused;
    assert_ok(save_scaling(0x1p-3, 12, 8));
    assert_is_of(20);
    assert_true(info_back.loss_scale == 0x1p-3);
    assert_int_equal(info_back.good_steps, 12);
    assert_int_equal(info_back.skipped_steps, 8);
    /* Without scaling, and before there was any, none of it stands in the file. */
    assert_ok(save_scaling(0, 7, 7));
    assert_is_of(20);
    assert_true(info_back.loss_scale == 0);
    assert_int_equal(info_back.good_steps, 0);
    assert_int_equal(info_back.skipped_steps, 0);
    assert_fails(save_scaling(3, 0, 0), LS_BAD_INPUT, "a loss scale of 3");
    assert_fails(save_scaling(-2, 0, 0), LS_BAD_INPUT, "a loss scale of -2");
    assert_fails(save_scaling(0x1p65, 0, 0), LS_BAD_INPUT, "no power of two from");
    assert_fails(save_scaling(2, -1, 0), LS_BAD_INPUT, "counts -1 good");
    assert_fails(save_scaling(2, 0, 21), LS_BAD_INPUT, "21 skipped steps of 20");
    assert_fails(save_scaling(2, 13, 8), LS_BAD_INPUT, "13 good and 8 skipped");
    assert_fails(save_scaling(2, 0, -1), LS_BAD_INPUT, "-1 skipped");
}

static void test_round_trip(void **unused)
{
    char path[LS__PATH_SIZE];
    int64_t rows = 0;
    int64_t columns = 0;

    (void)unused;
    save(folder_named("round"), 20, path);
    assert_ok(load(path));
    assert_is_of(20);
    assert_ok(ls__checkpoint_read_info(path, &info_back));
    assert_int_equal(info_back.step, 20);
    assert_ok(ls__checkpoint_tensor_size(path, "layers.0.weight", &rows, &columns));
    assert_int_equal(rows, 5);
    assert_int_equal(columns, 3);
    assert_ok(ls__checkpoint_tensor_size(path, "layers.0.bias", &rows, &columns));
    assert_int_equal(rows, 5);
    assert_int_equal(columns, 1);
    assert_fails(ls__checkpoint_tensor_size(path, "layers.7.bias", &rows, &columns), LS_BAD_INPUT,
                 "layers.7.bias");
}

static void test_another_model_is_refused(void **unused)
{
    ls__tensors other = {0};
    char path[LS__PATH_SIZE];
    int64_t at = 0;

    (void)unused;
    save(folder_named("other"), 20, path);
    assert_ok(ls__tensors_add_matrix(&other, "layers.0.weight", 3, 5, 0.1, &at));
    ls__checkpoint_arrays arrays = {.tensors = &other, .parameters = back[0]};
    assert_fails(ls__checkpoint_read(path, &info_back, &arrays), LS_BAD_INPUT, "layers.0.weight");
    ls__tensors_free(&other);
}

/* The seal is right, and yet the parameters are not those that the run had. */
static void test_a_wrong_digest_is_refused(void **unused)
{
    ls__checkpoint_arrays arrays = arrays_of(parameters, NULL, NULL);
    const char *path = ls__test_path("digest.h5");

    (void)unused;
    fill(20);
    info.digest.low ^= 1;
    assert_ok(ls__checkpoint_write(path, &info, &arrays));
    arrays = arrays_of(back[0], NULL, NULL);
    assert_fails(ls__checkpoint_read(path, &info_back, &arrays), LS_BAD_INPUT, "another digest");
}

/* ---- damage ---- */

/* A folder with steps 10 and 20; the file of 20 is about to be damaged. */
static void save_two(const char *folder, char *newest)
{
    char older[LS__PATH_SIZE];

    save(folder, 10, older);
    save(folder, 20, newest);
    FILE *file = fopen(newest, "rb");
    assert_non_null(file);
    good_length = fread(good, 1, sizeof good, file);
    fclose(file);
    assert_true(good_length < sizeof good);
}

/* The damaged file is refused, and the one before it comes in its place. That one is untouched, so
 * it is read in full only now and then. */
static void assert_falls_back(const char *folder, const char *damaged, size_t number)
{
    char path[LS__PATH_SIZE];
    char older[LS__PATH_SIZE];

    assert_ok(ls__checkpoint_path(older, folder, 10));
    assert_fails(load(damaged), LS_BAD_INPUT, damaged);
    assert_ok(ls__checkpoint_latest(folder, path));
    assert_string_equal(path, older);
    if (number % 64 != 0)
        return;
    assert_ok(load(path));
    assert_is_of(10);
}

/* A warning for each of thousands of damaged files would bury the test's own lines. */
static int silence(void)
{
    int kept = dup(STDERR_FILENO);
    int nothing = open("/dev/null", O_WRONLY);

    assert_true(kept >= 0 && nothing >= 0);
    assert_true(dup2(nothing, STDERR_FILENO) >= 0);
    close(nothing);
    return kept;
}

static void speak_again(int kept)
{
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
}

static void test_every_truncation(void **unused)
{
    const char *folder = folder_named("truncated");
    char path[LS__PATH_SIZE];

    (void)unused;
    save_two(folder, path);
    int kept = silence();
    for (size_t length = good_length; length-- > 0;) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_falls_back(folder, path, length);
    }
    speak_again(kept);
    ls__figure("ckpt: every truncation of a checkpoint (%zu lengths): refused, the previous one "
               "loaded",
               good_length);
}

static void test_every_flipped_byte(void **unused)
{
    const char *folder = folder_named("flipped");
    uint64_t seed = ls__test_seed(20261129);
    char path[LS__PATH_SIZE];

    (void)unused;
    save_two(folder, path);
    int file = open(path, O_WRONLY);
    assert_true(file >= 0);
    int kept = silence();
    for (size_t i = 0; i < good_length; i++) {
        char flipped = (char)(good[i] ^ 1 << (seed + i) % 8);
        assert_int_equal(pwrite(file, &flipped, 1, (off_t)i), 1);
        assert_falls_back(folder, path, i);
        assert_int_equal(pwrite(file, &good[i], 1, (off_t)i), 1);
    }
    speak_again(kept);
    close(file);
    assert_ok(load(path));
    assert_is_of(20);
    ls__figure(
        "ckpt: every byte of a checkpoint flipped in turn (%zu): refused, the previous one loaded",
        good_length);
}

static void test_no_whole_checkpoint(void **unused)
{
    const char *folder = folder_named("none");
    char path[LS__PATH_SIZE];

    (void)unused;
    assert_fails(ls__checkpoint_latest(folder, path), LS_BAD_INPUT, "holds no whole checkpoint");
    save(folder, 10, path);
    assert_int_equal(truncate(path, 1000), 0);
    assert_fails(ls__checkpoint_latest(folder, path), LS_BAD_INPUT, "holds no whole checkpoint");
}

/* What cannot be read may be whole: to go on from an older one would throw work away. */
static void test_unreadable_is_not_damaged(void **unused)
{
    const char *folder = folder_named("unreadable");
    char path[LS__PATH_SIZE];
    int64_t *steps = NULL;
    int64_t count = 0;

    (void)unused;
    save(folder, 10, path);
    assert_ok(ls__checkpoint_path(path, folder, 20));
    assert_int_equal(symlink(path, path), 0); /* a loop, which not even root can open */
    assert_fails(ls__checkpoint_latest(folder, path), LS_IO, "step-00000020.h5");
    const char *no_folder = ls__test_path("loop");
    assert_int_equal(symlink(no_folder, no_folder), 0);
    assert_fails(ls__checkpoint_steps(no_folder, &steps, &count), LS_IO, no_folder);
    assert_fails(ls__checkpoint_latest(no_folder, path), LS_IO, no_folder);
    assert_ok(ls__checkpoint_steps(ls__test_path("absent"), &steps, &count));
    assert_null(steps);
    assert_int_equal(count, 0);
}

/* ---- retention ---- */

static void assert_steps(const char *folder, const int64_t *expected, int64_t expected_count)
{
    int64_t *steps = NULL;
    int64_t count = 0;

    assert_ok(ls__checkpoint_steps(folder, &steps, &count));
    assert_int_equal(count, expected_count);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(steps[i], expected[i]);
    free(steps);
}

static void test_retention(void **unused)
{
    const char *folder = folder_named("kept");
    char path[LS__PATH_SIZE];
    char latest[64];

    (void)unused;
    write_raw(ls__test_path("kept/step-5.h5"), "x", 1); /* not a name of ours: left alone */
    write_raw(ls__test_path("kept/step-00000007.h5.tmp"), "x", 1); /* of a writer that was killed */
    write_raw(ls__test_path("kept/notes.tmp"), "x", 1);
    for (int64_t step = 10; step <= 50; step += 10) {
        save(folder, step, path);
        assert_ok(ls__checkpoint_settle(folder, step, 3));
    }
    assert_steps(folder, (int64_t[]){30, 40, 50}, 3);
    assert_ok(ls__file_read_text(ls__test_path("kept/latest"), latest, sizeof latest));
    assert_string_equal(latest, "step-00000050.h5\n");
    assert_true(ls__path_exists(ls__test_path("kept/step-5.h5")));
    assert_true(ls__path_exists(ls__test_path("kept/notes.tmp")));
    assert_false(ls__path_exists(ls__test_path("kept/step-00000007.h5.tmp")));
}

/* The newest was damaged, so the run went on from step 30 and saved 35. */
static void test_a_discarded_future_goes_first(void **unused)
{
    const char *folder = folder_named("back");
    char path[LS__PATH_SIZE];

    (void)unused;
    for (int64_t step = 20; step <= 50; step += 10)
        save(folder, step, path);
    assert_int_equal(truncate(path, 1000), 0);
    save(folder, 35, path);
    assert_ok(ls__checkpoint_settle(folder, 35, 2));
    assert_steps(folder, (int64_t[]){30, 35}, 2);
    assert_ok(ls__checkpoint_latest(folder, path));
    assert_ok(load(path));
    assert_is_of(35);
    save(folder, 7, path);
    assert_ok(ls__checkpoint_settle(folder, 7, 1));
    assert_steps(folder, (int64_t[]){7}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_loss_scaling),
        cmocka_unit_test(test_another_model_is_refused),
        cmocka_unit_test(test_a_wrong_digest_is_refused),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_every_flipped_byte),
        cmocka_unit_test(test_no_whole_checkpoint),
        cmocka_unit_test(test_unreadable_is_not_damaged),
        cmocka_unit_test(test_retention),
        cmocka_unit_test(test_a_discarded_future_goes_first),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
