/* Damaged files and full disks: always a sentence, never a crash, nothing half-written. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "h5/h5.h"
#include "h5/seal.h"
#include "support/test.h"

enum { FILE_MAX = 1 << 16 };

static char path[LS__PATH_SIZE];
static char good[FILE_MAX]; /* a small whole file */
static size_t good_length;

static void write_raw(const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void put_byte(size_t at, char byte)
{
    int fd = open(path, O_WRONLY);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

static int make_good_file(void **state)
{
    ls__h5_shape shape = {.rank = 2, .extent = {5, 7}};
    float values[35] = {1, 2, 3};
    ls__h5 *file = NULL;

    (void)state;
    if (ls__path_join(path, ls__test_folder(), "file.h5") != LS_OK ||
        ls__h5_create(&file, path) != LS_OK ||
        ls__h5_write(file, "parameters/weight", LS__H5_F32, &shape, values) != LS_OK ||
        ls__h5_set_text(file, "/", "format", "test") != LS_OK || ls__h5_publish(file) != LS_OK)
        return -1;
    FILE *raw = fopen(path, "rb");
    good_length = raw ? fread(good, 1, sizeof good, raw) : 0;
    return raw ? fclose(raw) : -1;
}

static void test_what_is_no_hdf5_file(void **state)
{
    ls__h5 *file = NULL;
    char absent[LS__PATH_SIZE];

    (void)state;
    assert_ok(ls__path_join(absent, ls__test_folder(), "absent.h5"));
    for (ls__h5_trust trust = LS__H5_SEALED; trust <= LS__H5_FOREIGN; trust++) {
        assert_fails(ls__h5_open(&file, absent, trust), LS_BAD_INPUT, "No such file");
        assert_fails(ls__h5_open(&file, ls__test_folder(), trust), LS_BAD_INPUT, "is a folder");
        assert_fails(ls__h5_open(&file, "/dev/null", trust), LS_BAD_INPUT, "not a regular file");
        write_raw("", 0);
        assert_fails(ls__h5_open(&file, path, trust), LS_BAD_INPUT, "is empty");
    }
    write_raw("In the beginning God created the heaven and the earth.", 54);
    assert_fails(ls__h5_open(&file, path, LS__H5_FOREIGN), LS_BAD_INPUT, "is not an HDF5 file");
    assert_fails(ls__h5_open(&file, path, LS__H5_SEALED), LS_BAD_INPUT, "not written by lockstep");
}

static void test_every_truncation_is_refused(void **state)
{
    ls__h5 *file = NULL;

    (void)state;
    write_raw(good, good_length);
    for (size_t length = good_length - 1; length > 0; length--) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_fails(ls__h5_open(&file, path, LS__H5_SEALED), LS_BAD_INPUT, "truncated");
        if (length % 97 == 1)
            assert_fails(ls__h5_open(&file, path, LS__H5_FOREIGN), LS_BAD_INPUT, path);
    }
    ls__figure("h5: %zu truncations of a sealed file, all refused", good_length - 1);
}

static void test_every_flipped_byte_is_refused(void **state)
{
    uint64_t seed = ls__test_seed(20240607);
    ls__h5 *file = NULL;

    (void)state;
    write_raw(good, good_length);
    for (size_t i = 0; i < good_length; i++) {
        put_byte(i, (char)(good[i] ^ 1 << (seed + i) % 8));
        assert_fails(ls__h5_open(&file, path, LS__H5_SEALED), LS_BAD_INPUT, path);
        put_byte(i, good[i]);
    }
    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    ls__h5_close(file);
    ls__figure("h5: %zu flipped bytes of a sealed file, all refused", good_length);
}

static void test_trailing_bytes_and_newer_seals_are_refused(void **state)
{
    ls__h5 *file = NULL;

    (void)state;
    write_raw(good, good_length + 1);
    assert_fails(ls__h5_open(&file, path, LS__H5_SEALED), LS_BAD_INPUT, "where its seal says");
    char *version = strstr(good, "version 1") + 8;
    *version = '2';
    write_raw(good, good_length);
    assert_fails(ls__h5_open(&file, path, LS__H5_SEALED), LS_BAD_INPUT, "a newer lockstep");
    *version = '1';
}

/* Reads all that the file should hold; whatever comes of it, it must come back. */
static void read_what_is_there(void)
{
    ls__h5_shape shape = {.rank = 2, .extent = {5, 7}};
    float values[35];
    char text[64];
    ls__h5 *file = NULL;

    if (ls__h5_open(&file, path, LS__H5_FOREIGN) != LS_OK)
        return;
    ls__h5_get_text(file, "/", "format", text, sizeof text);
    ls__h5_read(file, "parameters/weight", LS__H5_F32, &shape, values);
    ls__h5_close(file);
}

/* Without its seal our file is like any other program's: HDF5's parser meets the damage. */
static void test_damaged_foreign_files_do_not_crash_us(void **state)
{
    static char foreign[FILE_MAX];
    uint64_t seed = ls__test_seed(20240608);
    size_t tried = 0;

    (void)state;
    memcpy(foreign, good, good_length);
    memset(foreign, 0, LS__SEAL_SIZE);
    write_raw(foreign, good_length);
    for (size_t i = LS__SEAL_SIZE + seed % 7; i < good_length; i += 7, tried++) {
        put_byte(i, (char)(i % 2 ? ~foreign[i] : foreign[i] + 1));
        read_what_is_there();
        put_byte(i, foreign[i]);
    }
    ls__h5 *file = NULL;
    assert_ok(ls__h5_open(&file, path, LS__H5_FOREIGN));
    ls__h5_close(file);
    assert_fails(ls__h5_open(&file, path, LS__H5_SEALED), LS_BAD_INPUT, "not written by lockstep");
    ls__figure("h5: %zu flipped bytes of a file without a seal, no crash", tried);
}

/* ---- full disks ---- */

static ls_status write_some(void)
{
    static float values[100000];
    ls__h5_shape shape = {.rank = 1, .extent = {100000}};
    ls__h5_shape entry = {0};
    ls__h5_stream *stream = NULL;
    ls__h5 *file = NULL;
    ls_status status = ls__h5_create(&file, path);

    for (size_t i = 0; i < 100000; i++)
        values[i] = (float)(i * i % 7919); /* so that it does not compress to nothing */
    if (status != LS_OK)
        return status;
    LS_TRY_TO(discard, ls__h5_set_text(file, "/", "format", "test"));
    LS_TRY_TO(discard, ls__h5_write(file, "a/b", LS__H5_F32, &shape, values));
    LS_TRY_TO(discard, ls__h5_stream_open(file, "a/stream", LS__H5_F32, &entry, &stream));
    for (int i = 0; status == LS_OK && i < 5; i++)
        status = ls__h5_stream_append(stream, 50000, values);
    ls_status closed = ls__h5_stream_close(stream);
    if (status != LS_OK || closed != LS_OK)
        goto discard;
    return ls__h5_publish(file);
discard:
    ls__h5_discard(file);
    return status != LS_OK ? status : closed;
}

/* In a child, so that the limit ends with it and HDF5's own work at exit is seen as well. */
static int write_under_limit(rlim_t bytes)
{
    int how = 0;
    pid_t child = 0;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        struct rlimit limit = {bytes, bytes};
        int quiet = open("/dev/null", O_WRONLY);
        dup2(quiet, STDOUT_FILENO);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        ls_status status = write_some();
        bool named = strstr(ls_last_error()->text, path) != NULL;
        exit(status == LS_OK || named ? (int)status : 99); /* not _exit: HDF5 has work to do then */
    }
    waitpid(child, &how, 0);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

static void test_a_full_disk_at_any_moment(void **state)
{
    char temporary[LS__PATH_SIZE + 4];
    int tried = 0;

    (void)state;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    unlink(path);
    assert_int_equal(write_under_limit(RLIM_INFINITY), LS_OK);
    FILE *whole = fopen(path, "rb");
    assert_non_null(whole);
    fseek(whole, 0, SEEK_END);
    long size = ftell(whole);
    fclose(whole);
    unlink(path);
    for (long limit = 0; limit < size; limit += limit < 8192 ? 256 : size / 61, tried++) {
        int exit_code = write_under_limit((rlim_t)limit);
        if (exit_code != LS_NO_SPACE)
            print_error("limit %ld of %ld: %d\n", limit, size, exit_code);
        assert_int_equal(exit_code, LS_NO_SPACE);
        assert_false(ls__path_exists(path));
        assert_false(ls__path_exists(temporary));
    }
    assert_int_equal(write_under_limit((rlim_t)size - 1), LS_NO_SPACE);
    assert_int_equal(write_under_limit((rlim_t)size), LS_OK);
    ls__figure("h5: a disk full at %d different moments, each time LS_NO_SPACE", tried + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_hdf5_file),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_flipped_byte_is_refused),
        cmocka_unit_test(test_trailing_bytes_and_newer_seals_are_refused),
        cmocka_unit_test(test_damaged_foreign_files_do_not_crash_us),
        cmocka_unit_test(test_a_full_disk_at_any_moment),
    };

    return cmocka_run_group_tests(tests, make_good_file, NULL);
}
