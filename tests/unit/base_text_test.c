/* Units, digests, tables of tensors and the file helpers. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/tensors.h"
#include "base/units.h"
#include "support/test.h"

static void test_parse_bytes(void **state)
{
    int64_t bytes = 0;

    (void)state;
    assert_ok(ls__parse_bytes("4096", &bytes));
    assert_int_equal(bytes, 4096);
    assert_ok(ls__parse_bytes("64K", &bytes));
    assert_int_equal(bytes, 65536);
    assert_ok(ls__parse_bytes("1.5M", &bytes));
    assert_int_equal(bytes, 1572864);
    assert_ok(ls__parse_bytes("3G", &bytes));
    assert_int_equal(bytes, INT64_C(3221225472));
    assert_fails(ls__parse_bytes("", &bytes), LS_BAD_USAGE, "not a number of bytes");
    assert_fails(ls__parse_bytes("5 K", &bytes), LS_BAD_USAGE, "not a number of bytes");
    assert_fails(ls__parse_bytes("1e30", &bytes), LS_BAD_USAGE, "not a number of bytes");
    assert_fails(ls__parse_bytes("nan", &bytes), LS_BAD_USAGE, "not a number of bytes");
}

static void test_parse_seconds(void **state)
{
    static const char *const wrong[] = {"",   "us",   "2",    "2 us", "2usx",
                                        "2m", "-1us", "nans", "infs"};
    double seconds = 0;

    (void)state;
    assert_ok(ls__parse_seconds("2us", &seconds));
    assert_true(seconds == 2e-6);
    assert_ok(ls__parse_seconds("1.5ms", &seconds));
    assert_true(seconds == 1.5e-3);
    assert_ok(ls__parse_seconds("0ns", &seconds));
    assert_true(seconds == 0);
    assert_ok(ls__parse_seconds("3s", &seconds));
    assert_true(seconds == 3);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(ls__parse_seconds(wrong[i], &seconds), LS_BAD_USAGE, "is not a time");
}

static void test_parse_rate(void **state)
{
    static const char *const mistakes[] = {"",         "GB/s",  "0GB/s",    "-1GB/s",   "nanGB/s",
                                           "1e400B/s", "900GB", "900 GB/s", "900GB/s ", "900gB/s"};
    double rate = 0;

    (void)state;
    assert_ok(ls__parse_rate("900GB/s", &rate));
    assert_near(rate, 900e9, 0);
    assert_ok(ls__parse_rate("200Gb/s", &rate));
    assert_near(rate, 25e9, 0);
    assert_ok(ls__parse_rate("1.5Mbit/s", &rate));
    assert_near(rate, 187500, 0);
    assert_ok(ls__parse_rate("8b/s", &rate));
    assert_near(rate, 1, 0);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        assert_fails(ls__parse_rate(mistakes[i], &rate), LS_BAD_USAGE, "is not a rate above 0");
}

static void test_format_bytes(void **state)
{
    char text[32];

    (void)state;
    assert_string_equal(ls__format_bytes(text, sizeof text, 1023), "1023 bytes");
    assert_string_equal(ls__format_bytes(text, sizeof text, 1536), "1.50 KiB");
    assert_string_equal(ls__format_bytes(text, sizeof text, INT64_C(3) << 30), "3.00 GiB");
    assert_string_equal(ls__format_bytes(text, sizeof text, INT64_MAX), "8.00 EiB");
    assert_string_equal(ls__format_seconds(text, sizeof text, 7.4), "0:07");
    assert_string_equal(ls__format_seconds(text, sizeof text, 3723), "1:02:03");
}

/* XXH3's own known answer: the 128-bit hash of nothing, seed 0 (libxxhash's sanity checks). */
static void test_digest(void **state)
{
    static const char bytes[] = "the same bits at any number of ranks";
    ls__digest_stream *stream = NULL;
    ls__digest whole = ls__digest_of(bytes, sizeof bytes);
    ls__digest read = {0};
    char text[LS__DIGEST_TEXT];

    (void)state;
    assert_string_equal(ls__digest_format(ls__digest_of("", 0), text),
                        "99aa06d3014798d86001c324468d497f");
    for (size_t split = 0; split <= sizeof bytes; split++) {
        assert_ok(ls__digest_open(&stream));
        ls__digest_add(stream, bytes, split);
        ls__digest_add(stream, bytes + split, sizeof bytes - split);
        assert_true(ls__digest_equal(ls__digest_finish(stream), whole));
    }
    assert_ok(ls__digest_parse(ls__digest_format(whole, text), &read));
    assert_true(ls__digest_equal(read, whole));
    assert_false(ls__digest_equal(ls__digest_of(bytes, sizeof bytes - 1), whole));
    assert_fails(ls__digest_parse("12", &read), LS_BAD_INPUT, "32 hex digits");
}

static void test_tensors(void **state)
{
    ls__tensors tensors = {0};
    int64_t weight = 0;
    int64_t bias = 0;
    float flat[12];
    float again[12];

    (void)state;
    assert_ok(ls__tensors_add_matrix(&tensors, "weight", 2, 4, 0.5, &weight));
    assert_ok(ls__tensors_add_vector(&tensors, "bias", 4, 1, &bias));
    assert_int_equal(weight, 0);
    assert_int_equal(bias, 8);
    assert_int_equal(tensors.total, 12);
    assert_string_equal(ls__tensors_at(&tensors, 7)->name, "weight");
    assert_string_equal(ls__tensors_at(&tensors, 8)->name, "bias");
    assert_null(ls__tensors_at(&tensors, 12));
    ls__tensors_initialise(&tensors, 1, flat);
    ls__tensors_initialise(&tensors, 1, again);
    assert_memory_equal(flat, again, sizeof flat);
    assert_true(flat[0] != 0 && flat[0] != flat[1]);
    assert_true(flat[8] == 1 && flat[11] == 1);
    ls__tensors_initialise(&tensors, 2, again);
    assert_memory_not_equal(flat, again, sizeof flat);
    assert_fails(
        ls__tensors_add_matrix(&tensors, "huge", INT64_C(1) << 40, INT64_C(1) << 40, 0, &weight),
        LS_BAD_USAGE, "huge");
    ls__tensors_free(&tensors);
}

static void test_files(void **state)
{
    char folder[LS__PATH_SIZE];
    char path[LS__PATH_SIZE];
    char text[16];

    (void)state;
    assert_ok(ls__path_join(folder, ls__test_folder(), "a/b/c"));
    assert_false(ls__path_exists(folder));
    assert_ok(ls__make_folders(folder));
    assert_ok(ls__make_folders(folder));
    assert_ok(ls__path_join(path, folder, "file"));
    assert_ok(ls__file_write_text(path, "one\n"));
    assert_ok(ls__file_write_text(path, "two\n"));
    assert_ok(ls__file_read_text(path, text, sizeof text));
    assert_string_equal(text, "two\n");
    assert_fails(ls__file_read_text(path, text, 4), LS_BAD_INPUT, "longer than");
    assert_fails(ls__make_folders(path), LS_BAD_USAGE, "is a file, not a folder");
    assert_fails(ls__file_write_text("/nonexistent/x", "y"), LS_IO, "/nonexistent/x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_bytes),   cmocka_unit_test(test_parse_rate),
        cmocka_unit_test(test_parse_seconds), cmocka_unit_test(test_format_bytes),
        cmocka_unit_test(test_digest),        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
