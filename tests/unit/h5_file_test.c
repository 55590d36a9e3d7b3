/* Named arrays and attributes: round trips, what is refused, and that a path holds a whole file or
 * none. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "h5/h5.h"
#include "support/test.h"

static ls__h5_shape shape_of(int rank, int64_t a, int64_t b, int64_t c)
{
    return (ls__h5_shape){.rank = rank, .extent = {a, b, c}};
}

static void test_arrays_of_every_type(void **state)
{
    static const ls__h5_type types[] = {LS__H5_U8,  LS__H5_U16, LS__H5_I32,
                                        LS__H5_I64, LS__H5_F32, LS__H5_F64};
    const char *path = ls__test_path("types.h5");
    ls__h5_shape shape = shape_of(3, 2, 3, 4);
    unsigned char bytes[24 * 8];
    unsigned char back[24 * 8];
    ls__h5 *file = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1); /* no NaN among the floats */
    assert_ok(ls__h5_create(&file, path));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_ok(ls__h5_write(file, ls__h5_type_name(types[i]), types[i], &shape, bytes));
    assert_ok(ls__h5_publish(file));

    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t size = 24 * (size_t)ls__h5_type_size(types[i]);
        ls__h5_type type = LS__H5_U8;
        ls__h5_shape held;
        assert_ok(ls__h5_describe(file, ls__h5_type_name(types[i]), &type, &held));
        assert_int_equal(type, types[i]);
        assert_int_equal(held.rank, 3);
        assert_memory_equal(held.extent, shape.extent, 3 * sizeof held.extent[0]);
        memset(back, 0, sizeof back);
        assert_ok(ls__h5_read(file, ls__h5_type_name(types[i]), types[i], &shape, back));
        assert_memory_equal(back, bytes, size);
    }
    ls__h5_close(file);
}

/* Several chunks in two dimensions, an edge that does not fill its chunk, and nothing at all. */
static void test_arrays_of_many_sizes(void **state)
{
    static const int64_t sizes[][2] = {{1, 1}, {3, 400001}, {1031, 517}, {0, 5}, {5, 0}};
    static float values[1300000];
    static float back[1300000];
    const char *path = ls__test_path("sizes.h5");
    char name[64];
    ls__h5 *file = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        values[i] = (float)i;
    assert_ok(ls__h5_create(&file, path));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ls__h5_shape shape = shape_of(2, sizes[i][0], sizes[i][1], 0);
        snprintf(name, sizeof name, "group/inner/array%zu", i);
        assert_ok(ls__h5_write(file, name, LS__H5_F32, &shape, values));
    }
    assert_ok(ls__h5_publish(file));

    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ls__h5_shape shape = shape_of(2, sizes[i][0], sizes[i][1], 0);
        size_t bytes = (size_t)(sizes[i][0] * sizes[i][1]) * sizeof values[0];
        snprintf(name, sizeof name, "group/inner/array%zu", i);
        memset(back, 0, sizeof back);
        assert_ok(ls__h5_read(file, name, LS__H5_F32, &shape, back));
        if (bytes)
            assert_memory_equal(back, values, bytes);
    }
    ls__h5_close(file);
}

static void test_streams(void **state)
{
    static uint16_t tokens[300000];
    static uint16_t back[300000];
    const char *path = ls__test_path("stream.h5");
    ls__h5_shape entry = {0};
    ls__h5_shape images = shape_of(2, 5, 3, 0);
    ls__h5_shape all = shape_of(1, 300000, 0, 0);
    ls__h5_stream *stream = NULL;
    ls__h5 *file = NULL;
    int64_t at = 0;

    (void)state;
    for (size_t i = 0; i < 300000; i++)
        tokens[i] = (uint16_t)(i * i);
    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_stream_open(file, "train/tokens", LS__H5_U16, &entry, &stream));
    for (int64_t piece = 0; at < 300000; piece = piece * 3 + 1) {
        int64_t count = piece < 300000 - at ? piece : 300000 - at;
        assert_ok(ls__h5_stream_append(stream, count, tokens + at));
        at += count;
    }
    assert_ok(ls__h5_stream_close(stream));
    assert_ok(ls__h5_stream_open(file, "train/images", LS__H5_U8, &images, &stream));
    assert_ok(ls__h5_stream_append(stream, 7, tokens));
    assert_ok(ls__h5_stream_close(stream));
    assert_ok(ls__h5_publish(file));

    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    assert_ok(ls__h5_read(file, "train/tokens", LS__H5_U16, &all, back));
    assert_memory_equal(back, tokens, sizeof tokens);
    images = shape_of(3, 7, 5, 3);
    assert_ok(ls__h5_read(file, "train/images", LS__H5_U8, &images, back));
    assert_memory_equal(back, tokens, (size_t)7 * 5 * 3);
    ls__h5_close(file);
}

static void test_attributes(void **state)
{
    const char *path = ls__test_path("attributes.h5");
    const uint8_t bytes[] = {0, 10, 255, 0};
    ls__h5_shape shape = shape_of(1, 4, 0, 0);
    uint8_t bytes_back[8];
    char text[32];
    int64_t whole = 0;
    int64_t count = 0;
    double real = 0;
    ls__h5 *file = NULL;

    (void)state;
    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_write(file, "a/b", LS__H5_U8, &shape, bytes));
    assert_ok(ls__h5_set_int(file, "/", "whole", INT64_MIN));
    assert_ok(ls__h5_set_real(file, "a/b", "real", 0.1));
    assert_ok(ls__h5_set_text(file, "/", "text", "h\303\251llo"));
    assert_ok(ls__h5_set_text(file, "/", "nothing", ""));
    assert_ok(ls__h5_set_bytes(file, "a", "bytes", bytes, sizeof bytes));
    assert_ok(ls__h5_publish(file));

    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    assert_ok(ls__h5_get_int(file, "/", "whole", &whole));
    assert_true(whole == INT64_MIN);
    assert_ok(ls__h5_get_real(file, "a/b", "real", &real));
    assert_true(real == 0.1);
    assert_ok(ls__h5_get_text(file, "/", "text", text, sizeof text));
    assert_string_equal(text, "h\303\251llo");
    assert_ok(ls__h5_get_text(file, "/", "nothing", text, sizeof text));
    assert_string_equal(text, "");
    assert_ok(ls__h5_get_bytes(file, "a", "bytes", bytes_back, sizeof bytes_back, &count));
    assert_int_equal(count, sizeof bytes);
    assert_memory_equal(bytes_back, bytes, sizeof bytes);
    assert_true(ls__h5_has_attribute(file, "/", "text"));
    assert_false(ls__h5_has_attribute(file, "/", "bytes"));
    assert_false(ls__h5_has_attribute(file, "nowhere", "bytes"));

    assert_fails(ls__h5_get_int(file, "/", "nowhere", &whole), LS_BAD_INPUT,
                 "no attribute nowhere");
    assert_fails(ls__h5_get_int(file, "/", "text", &whole), LS_BAD_INPUT, "not a whole number");
    assert_fails(ls__h5_get_int(file, "a/b", "real", &whole), LS_BAD_INPUT, "not a whole number");
    assert_fails(ls__h5_get_real(file, "/", "text", &real), LS_BAD_INPUT, "not a number");
    assert_fails(ls__h5_get_text(file, "/", "whole", text, sizeof text), LS_BAD_INPUT,
                 "not a text");
    assert_fails(ls__h5_get_text(file, "/", "text", text, 6), LS_BAD_INPUT, "longer than 5 bytes");
    assert_fails(ls__h5_get_bytes(file, "a", "bytes", bytes_back, 3, &count), LS_BAD_INPUT,
                 "at most 3 uint8");
    assert_fails(ls__h5_get_bytes(file, "/", "text", bytes_back, 8, &count), LS_BAD_INPUT,
                 "at most 8 uint8");
    ls__h5_close(file);
}

static void test_names(void **state)
{
    const char *path = ls__test_path("names.h5");
    ls__h5_shape shape = shape_of(1, 1, 0, 0);
    char name[LS__H5_NAME_SIZE];
    int64_t count = 0;
    uint8_t one = 1;
    ls__h5 *file = NULL;

    (void)state;
    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_write(file, "group/b", LS__H5_U8, &shape, &one));
    assert_ok(ls__h5_write(file, "group/a.weight", LS__H5_U8, &shape, &one));
    assert_ok(ls__h5_write(file, "alone", LS__H5_U8, &shape, &one));
    assert_ok(ls__h5_publish(file));

    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    assert_ok(ls__h5_count(file, "group", &count));
    assert_int_equal(count, 2);
    assert_ok(ls__h5_name_at(file, "group", 0, name));
    assert_string_equal(name, "a.weight");
    assert_ok(ls__h5_name_at(file, "group", 1, name));
    assert_string_equal(name, "b");
    assert_ok(ls__h5_count(file, "/", &count));
    assert_int_equal(count, 2);
    assert_fails(ls__h5_count(file, "nowhere", &count), LS_BAD_INPUT, "nowhere");
    assert_true(ls__h5_has(file, "group/b"));
    assert_true(ls__h5_has(file, "group"));
    assert_false(ls__h5_has(file, "group/c"));
    assert_false(ls__h5_has(file, "nowhere/b"));
    assert_false(ls__h5_has(file, ""));
    ls__h5_close(file);
}

static void test_mismatches_are_named(void **state)
{
    const char *path = ls__test_path("mismatch.h5");
    ls__h5_shape shape = shape_of(2, 2, 3, 0);
    ls__h5_shape other = shape_of(2, 3, 2, 0);
    float values[6] = {0};
    ls__h5 *file = NULL;

    (void)state;
    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_write(file, "weights", LS__H5_F32, &shape, values));
    assert_ok(ls__h5_publish(file));
    assert_ok(ls__h5_open(&file, path, LS__H5_SEALED));
    assert_fails(ls__h5_read(file, "weights", LS__H5_F32, &other, values), LS_BAD_INPUT,
                 "is float32 (2, 3) where float32 (3, 2) is expected");
    assert_fails(ls__h5_read(file, "weights", LS__H5_I32, &shape, values), LS_BAD_INPUT,
                 "is float32 (2, 3) where int32 (2, 3) is expected");
    assert_fails(ls__h5_read(file, "weight", LS__H5_F32, &shape, values), LS_BAD_INPUT,
                 "holds no array weight");
    ls__h5_close(file);
}

static void test_the_same_content_gives_the_same_bytes(void **state)
{
    static char bytes[2][1 << 16];
    ls__h5_shape shape = shape_of(1, 4, 0, 0);
    size_t length[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *path = ls__test_path(i ? "same1.h5" : "same0.h5");
        ls__h5 *file = NULL;
        assert_ok(ls__h5_create(&file, path));
        assert_ok(ls__h5_write(file, "a/b", LS__H5_U8, &shape, "abcd"));
        assert_ok(ls__h5_set_text(file, "/", "text", "words"));
        assert_ok(ls__h5_publish(file));
        FILE *raw = fopen(path, "rb");
        length[i] = fread(bytes[i], 1, sizeof bytes[i], raw);
        fclose(raw);
        if (i == 0)
            sleep(1); /* HDF5 counts time in seconds */
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(bytes[0], bytes[1], length[0]);
}

/* ---- a whole file or none ---- */

static void test_nothing_stands_there_before_publish(void **state)
{
    const char *path = ls__test_path("whole.h5");
    const char *temporary = ls__test_path("whole.h5.tmp");
    ls__h5_shape shape = shape_of(1, 1, 0, 0);
    uint8_t one = 1;
    ls__h5 *file = NULL;

    (void)state;
    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_write(file, "a", LS__H5_U8, &shape, &one));
    assert_false(ls__path_exists(path));
    ls__h5_discard(file);
    assert_false(ls__path_exists(path));
    assert_false(ls__path_exists(temporary));

    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_write(file, "a", LS__H5_U8, &shape, &one));
    assert_ok(ls__h5_publish(file));
    assert_true(ls__path_exists(path));
    assert_false(ls__path_exists(temporary));
}

static void test_a_failed_write_cannot_be_published(void **state)
{
    const char *path = ls__test_path("failed.h5");
    ls__h5_shape shape = shape_of(1, 1, 0, 0);
    uint8_t one = 1;
    ls__h5 *file = NULL;

    (void)state;
    assert_ok(ls__h5_create(&file, path));
    assert_ok(ls__h5_write(file, "a", LS__H5_U8, &shape, &one));
    assert_fails(ls__h5_write(file, "a", LS__H5_U8, &shape, &one), LS_IO, "cannot make a in");
    assert_fails(ls__h5_publish(file), LS_IO, "an earlier write to it failed");
    assert_false(ls__path_exists(path));
    assert_false(ls__path_exists(ls__test_path("failed.h5.tmp")));
}

static void test_places_where_no_file_can_be(void **state)
{
    char path[LS__PATH_SIZE + 8];
    ls__h5 *file = NULL;

    (void)state;
    assert_fails(ls__h5_create(&file, ls__test_folder()), LS_BAD_USAGE,
                 "something that is no file");
    assert_fails(ls__h5_create(&file, ls__test_path("absent/a.h5")), LS_BAD_USAGE,
                 "make the folder first");
    assert_fails(ls__h5_create(&file, ""), LS_BAD_USAGE, "cannot be the path");
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_fails(ls__h5_create(&file, path), LS_BAD_USAGE, "cannot be the path");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_of_every_type),
        cmocka_unit_test(test_arrays_of_many_sizes),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_mismatches_are_named),
        cmocka_unit_test(test_the_same_content_gives_the_same_bytes),
        cmocka_unit_test(test_nothing_stands_there_before_publish),
        cmocka_unit_test(test_a_failed_write_cannot_be_published),
        cmocka_unit_test(test_places_where_no_file_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
