/* The same run on one rank and on eight leaves the same files, but for what says how long it took
 * and on how many ranks. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "h5/seal.h"
#include "support/test.h"
#include "support/training.h"

enum { LINE = 4096 };

/* Runs in folders of their own, so that `--run run` is one name. */
static void train(char *folder, const char *name, int ranks)
{
    static const char *const flags[] = {"--eval-every", "4", "--keep", "20", NULL};
    ls__process p;

    snprintf(folder, LS__PATH_SIZE, "%s", ls__test_path(name));
    assert_int_equal(mkdir(folder, 0777), 0);
    ls__training_run(
        &(ls__training){.folder = folder, .run = "run", .ranks = ranks, .flags = flags}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
}

static FILE *open_in(const char *folder, const char *name)
{
    char path[LS__PATH_SIZE];

    assert_ok(ls__path_join(path, folder, name));
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is not there", path);
    return file;
}

/* Takes the next `"key": value` of a line; false at its end. Values in brackets are one value. */
static bool next_field(char **at, char **key, char **value)
{
    int depth = 0;

    *key = strchr(*at, '"');
    if (!*key)
        return false;
    *value = strstr(*key, ": ");
    if (!*value)
        return false;
    **value = '\0';
    *value += 2;
    char *end = *value;
    while (*end && (depth > 0 || (*end != ',' && *end != '}' && *end != '\n'))) {
        if (*end == '{' && depth == 0) {
            *at = *value; /* the fields within are the line's */
            return next_field(at, key, value);
        }
        depth += (*end == '[') - (*end == ']');
        end++;
    }
    *at = *end ? end + 1 : end;
    *end = '\0';
    return true;
}

static bool may_differ(const char *key)
{
    static const char *const keys[] = {"\"ranks\"",        "\"hosts\"",     "\"tokens_per_s\"",
                                       "\"step_ms\"",      "\"comm_ms\"",   "\"compute_ms\"",
                                       "\"bytes_sent\"",   "\"hidden_ms\"", "\"allreduce\"",
                                       "\"bucket_bytes\"", "\"flops\"",     "\"communication\"",
                                       "\"resident\""};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static int compare_fields(char *a, char *b)
{
    char *key_a = NULL;
    char *key_b = NULL;
    char *value_a = NULL;
    char *value_b = NULL;
    int fields = 0;

    while (next_field(&a, &key_a, &value_a)) {
        assert_true(next_field(&b, &key_b, &value_b));
        assert_string_equal(key_a, key_b);
        if (!may_differ(key_a)) {
            assert_string_equal(value_a, value_b);
            fields++;
        }
    }
    assert_false(next_field(&b, &key_b, &value_b));
    return fields;
}

static void compare_metrics(const char *one, const char *eight)
{
    char line_a[LINE];
    char line_b[LINE];
    FILE *a = open_in(one, "run/metrics.jsonl");
    FILE *b = open_in(eight, "run/metrics.jsonl");
    int lines = 0;
    int fields = 0;

    while (fgets(line_a, sizeof line_a, a)) {
        assert_non_null(fgets(line_b, sizeof line_b, b));
        fields += compare_fields(line_a, line_b);
        lines++;
    }
    assert_null(fgets(line_b, sizeof line_b, b));
    fclose(a);
    fclose(b);
    assert_int_equal(lines, 1 + 12 + 3);
    assert_true(fields >= 12 * 5 + 3 * 2);
}

/* Line by line, but for `ranks = N`. */
static void compare_configurations(const char *one, const char *eight)
{
    char line_a[LINE];
    char line_b[LINE];
    FILE *a = open_in(one, "run/config.ini");
    FILE *b = open_in(eight, "run/config.ini");

    while (fgets(line_a, sizeof line_a, a)) {
        assert_non_null(fgets(line_b, sizeof line_b, b));
        if (strncmp(line_a, "ranks = ", 8) != 0)
            assert_string_equal(line_a, line_b);
    }
    assert_null(fgets(line_b, sizeof line_b, b));
    fclose(a);
    fclose(b);
}

static char *read_whole(const char *folder, const char *name, size_t *length)
{
    FILE *file = open_in(folder, name);
    char *bytes = malloc(1 << 20);

    assert_non_null(bytes);
    *length = fread(bytes, 1, 1 << 20, file);
    assert_true(*length > LS__SEAL_SIZE && *length < 1 << 20);
    fclose(file);
    return bytes;
}

/* The seal holds a checksum of the rest. Of that, one byte may differ: the number of ranks in the
 * text of the configuration. */
static void compare_checkpoint(const char *one, const char *eight, int step)
{
    static const char text[] = "ranks = ";
    char name[64];
    size_t length_a = 0;
    size_t length_b = 0;

    snprintf(name, sizeof name, "run/checkpoints/step-%08d.h5", step);
    char *a = read_whole(one, name, &length_a);
    char *b = read_whole(eight, name, &length_b);
    assert_int_equal(length_a, length_b);
    for (size_t i = LS__SEAL_SIZE; i < length_a; i++) {
        if (a[i] == b[i])
            continue;
        if (a[i] != '1' || b[i] != '8' || memcmp(a + i - strlen(text), text, strlen(text)) != 0)
            fail_msg("%s: byte %zu is %d and %d", name, i, a[i], b[i]);
    }
    free(a);
    free(b);
}

static void test_one_and_eight(void **state)
{
    char one[LS__PATH_SIZE];
    char eight[LS__PATH_SIZE];
    char latest_a[64];
    char latest_b[64];
    char path[LS__PATH_SIZE];

    (void)state;
    train(one, "one", 1);
    train(eight, "eight", 8);
    compare_metrics(one, eight);
    compare_configurations(one, eight);
    for (int step = 1; step <= 12; step++)
        compare_checkpoint(one, eight, step);
    assert_ok(ls__path_join(path, one, "run/checkpoints/latest"));
    assert_ok(ls__file_read_text(path, latest_a, sizeof latest_a));
    assert_ok(ls__path_join(path, eight, "run/checkpoints/latest"));
    assert_ok(ls__file_read_text(path, latest_b, sizeof latest_b));
    assert_string_equal(latest_a, latest_b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_and_eight),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
