/* metrics.jsonl: lines written, dropped on resume, read back; damage; a full disk. */
#include "train/metrics.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/test.h"

enum { FILE_MAX = 1 << 14 };

static const char run_line[] =
    "{\"run\": {\"version\": \"0\", \"ranks\": 3, \"hosts\": [\"a\"]}}\n";
static char content[FILE_MAX];

/* A line of a step, as short as it may be; the digest's last digit follows from the step. */
static const char *step_line(int step)
{
    static char lines[8][128];
    static int next;
    char *line = lines[next++ % 8];

    snprintf(line, sizeof lines[0],
             "{\"step\": %d, \"digest\": \"0123456789abcdef0123456789abcde%d\"}\n", step,
             step % 10);
    return line;
}

static void write_bytes(const char *path, const char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Several texts, closed with NULL, one after the other. */
static void write_lines(const char *path, ...)
{
    char all[FILE_MAX] = "";
    va_list arguments;

    va_start(arguments, path);
    for (const char *text; (text = va_arg(arguments, const char *));)
        strncat(all, text, sizeof all - strlen(all) - 1);
    va_end(arguments);
    write_bytes(path, all, strlen(all));
}

static const char *read_all(const char *path)
{
    assert_ok(ls__file_read_text(path, content, sizeof content));
    return content;
}

static ls__step_metrics step_of(int64_t step)
{
    return (ls__step_metrics){.step = step,
                              .steps = 9,
                              .loss = 2.5,
                              .lr = 1e-3,
                              .grad_norm = nan(""),
                              .items = 128,
                              .seconds = 0.5,
                              .digest = {.high = 1, .low = (uint64_t)step}};
}

/* ---- writing ---- */

static void test_what_is_written_is_read(void **state)
{
    const char *path = ls__test_path("written");
    ls__digest *digests = NULL;
    int64_t count = 0;
    ls__metrics metrics;

    (void)state;
    assert_ok(ls__metrics_open(&metrics, path, 0, false));
    assert_ok(ls__metrics_line(&metrics, "{\"run\": {\"ranks\": 2}}"));
    for (int64_t step = 1; step <= 3; step++) {
        ls__step_metrics s = step_of(step);
        ls__eval_metrics e = {.step = step, .loss = HUGE_VAL, .bytes = true};
        assert_ok(ls__metrics_step(&metrics, &s));
        assert_ok(ls__metrics_eval(&metrics, &e));
    }
    assert_ok(ls__metrics_close(&metrics));
    assert_non_null(strstr(read_all(path), "\"grad_norm\": null"));
    assert_non_null(strstr(content, "\"val_loss\": null"));
    assert_ok(ls__metrics_read_digests(path, &digests, &count));
    assert_int_equal(count, 3);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(digests[i].low, i + 1);
    free(digests);
    assert_int_equal(ls__metrics_last_ranks(path), 2);
}

/* Fields of loss scaling stand in lines of runs that have it. */
static void test_loss_scaling(void **state)
{
    const char *path = ls__test_path("scaling");
    ls__step_metrics plain = step_of(1);
    ls__step_metrics scaled = step_of(2);
    ls__metrics metrics;
    double value[2] = {0};
    int count = 0;

    (void)state;
    scaled.loss_scale = 0x1p40;
    scaled.skipped = 3;
    assert_ok(ls__metrics_open(&metrics, path, 0, false));
    assert_ok(ls__metrics_step(&metrics, &plain));
    assert_ok(ls__metrics_step(&metrics, &scaled));
    assert_ok(ls__metrics_close(&metrics));
    assert_ok(ls__metrics_read_numbers(path, NULL, "loss_scale", value, 2, &count));
    assert_int_equal(count, 1);
    assert_true(value[0] == 0x1p40);
    assert_ok(ls__metrics_read_numbers(path, NULL, "skipped", value, 2, &count));
    assert_int_equal(count, 1);
    assert_true(value[0] == 3);
}

static void open_at(const char *path, int64_t step)
{
    char temporary[LS__PATH_SIZE];
    ls__metrics metrics;

    assert_ok(ls__metrics_open(&metrics, path, step, false));
    assert_ok(ls__metrics_close(&metrics));
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    assert_false(ls__path_exists(temporary));
}

static void test_later_lines_are_dropped(void **state)
{
    const char *path = ls__test_path("later");
    char expected[FILE_MAX];

    (void)state;
    write_lines(path, run_line, step_line(1), step_line(2), step_line(3), NULL);
    open_at(path, 3);
    snprintf(expected, sizeof expected, "%s%s%s%s", run_line, step_line(1), step_line(2),
             step_line(3));
    assert_string_equal(read_all(path), expected);
    open_at(path, 1);
    snprintf(expected, sizeof expected, "%s%s", run_line, step_line(1));
    assert_string_equal(read_all(path), expected);
    open_at(path, 0);
    assert_string_equal(read_all(path), run_line);
}

/* Each kind of damage, between good lines: it goes, they stay, each with its end. */
static void test_damaged_lines_are_dropped(void **state)
{
    static const struct {
        const char *bytes;
        size_t count;
    } damage[] = {
        {"{\"step\": 2, \"lo\0ss\": 1}\n", 24},
        {"\0\0\0\0\0\0\n", 7},
        {"\n", 1},
        {"}\n", 2},
        {"\"step\": 2}\n", 12},
        {"{\"step\": 2\n", 11},
        {"{\"step\": 2, \"lo", 15},
        {"\0", 1},
    };
    const char *path = ls__test_path("damaged");
    char expected[FILE_MAX];
    size_t count = sizeof damage / sizeof damage[0];

    (void)state;
    for (size_t i = 0; i < count; i++) {
        bool last = damage[i].bytes[damage[i].count - 1] != '\n';
        char bytes[FILE_MAX];
        size_t used = (size_t)snprintf(bytes, sizeof bytes, "%s%s", run_line, step_line(1));
        memcpy(bytes + used, damage[i].bytes, damage[i].count);
        used += damage[i].count;
        if (!last)
            used += (size_t)snprintf(bytes + used, sizeof bytes - used, "%s", step_line(2));
        write_bytes(path, bytes, used);
        open_at(path, 2);
        snprintf(expected, sizeof expected, "%s%s%s", run_line, step_line(1),
                 last ? "" : step_line(2));
        assert_string_equal(read_all(path), expected);
    }
    ls__figure("metrics: %zu kinds of damaged lines, all dropped on resume", count);
}

static void test_what_cannot_be_opened(void **state)
{
    ls__metrics metrics;

    (void)state;
    assert_fails(ls__metrics_open(&metrics, ls__test_folder(), 0, false), LS_IO, ls__test_folder());
    assert_fails(ls__metrics_open(&metrics, ls__test_path("no/file"), 0, false), LS_IO, "no/file");
}

/* In a child, whose files may not grow beyond `limit`: 0 where every line was written or the first
 * that was not left no trace. */
static int write_under_limit(const char *path, rlim_t limit)
{
    struct rlimit size = {limit, limit};
    ls__metrics metrics;
    int64_t steps = 0;

    signal(SIGXFSZ, SIG_IGN);
    /* The limit would cut off lines of the log as well. */
    if (!freopen("/dev/null", "w", stderr))
        return 4;
    if (ls__metrics_open(&metrics, path, 0, false) != LS_OK || setrlimit(RLIMIT_FSIZE, &size) != 0)
        return 1;
    for (ls_status status = LS_OK; status == LS_OK && steps < 4; steps++) {
        ls__step_metrics s = step_of(steps + 1);
        status = ls__metrics_step(&metrics, &s);
        if (status != LS_OK && (status != LS_NO_SPACE || !strstr(ls_last_error()->text, path)))
            return 2;
    }
    return ls__metrics_close(&metrics) == LS_OK ? 0 : 3;
}

static void test_a_full_disk_leaves_whole_lines(void **state)
{
    const char *path = ls__test_path("full");
    int how = 0;
    int tried = 0;

    (void)state;
    for (rlim_t limit = 0; limit < 900; limit += 37, tried++) {
        unlink(path);
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            _exit(write_under_limit(path, limit));
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
        size_t length = strlen(read_all(path));
        assert_true(length <= limit);
        assert_true(length == 0 || content[length - 1] == '\n');
    }
    ls__figure("metrics: a disk full at %d different moments, only whole lines left", tried);
}

/* ---- reading ---- */

static void assert_digests(const char *path, int64_t expected)
{
    ls__digest *digests = NULL;
    int64_t count = -1;

    assert_ok(ls__metrics_read_digests(path, &digests, &count));
    assert_int_equal(count, expected);
    for (int64_t i = 0; i < count; i++)
        assert_int_equal(digests[i].low & 15, i + 1);
    free(digests);
}

static void assert_refused(const char *path, ls_status status, const char *part)
{
    ls__digest *digests = NULL;
    int64_t count = 0;

    assert_fails(ls__metrics_read_digests(path, &digests, &count), status, part);
    assert_null(digests);
}

static void test_reading(void **state)
{
    const char *path = ls__test_path("read");

    (void)state;
    write_lines(path, run_line, step_line(1), "{\"step\": 1, \"val_loss\": 2.5}\n", step_line(2),
                run_line, step_line(3), NULL);
    assert_digests(path, 3);
    /* A line that is being written does not count. */
    write_lines(path, step_line(1), "{\"step\": 2, \"digest\": \"01", NULL);
    assert_digests(path, 1);
    write_lines(path, NULL);
    assert_digests(path, 0);
}

static void test_damage_is_told(void **state)
{
    static const char with_nul[] = "{\"step\": 1, \"di\0gest\": \"\"}\n";
    const char *path = ls__test_path("told");

    (void)state;
    write_lines(path, step_line(1), step_line(3), NULL);
    assert_refused(path, LS_BAD_INPUT, "step 3 where step 2 is expected");
    write_lines(path, step_line(1), step_line(1), NULL);
    assert_refused(path, LS_BAD_INPUT, "step 1 where step 2 is expected");
    write_lines(path, run_line, "{\"step\": 1, \"digest\": \"0123\"}\n", NULL);
    assert_refused(path, LS_BAD_INPUT, "the digest of step 1 is damaged");
    write_lines(path, run_line, "{\"step\": 1, \"dig\n", step_line(2), NULL);
    assert_refused(path, LS_BAD_INPUT, "line 2 is damaged");
    write_bytes(path, with_nul, sizeof with_nul - 1);
    assert_refused(path, LS_BAD_INPUT, "line 1 is damaged");
    assert_refused(ls__test_path("absent"), LS_BAD_INPUT, "is it the folder of a run?");
    assert_refused(ls__test_folder(), LS_IO, ls__test_folder());
}

static void test_last_ranks(void **state)
{
    const char *path = ls__test_path("ranks");

    (void)state;
    assert_int_equal(ls__metrics_last_ranks(ls__test_path("absent")), 0);
    write_lines(path, step_line(1), NULL);
    assert_int_equal(ls__metrics_last_ranks(path), 0);
    write_lines(path, run_line, step_line(1), "{\"run\": {\"ranks\": 8}}\n", step_line(2), NULL);
    assert_int_equal(ls__metrics_last_ranks(path), 8);
}

static void test_numbers_are_read(void **state)
{
    const char *path = ls__test_path("numbers.jsonl");
    double numbers[3];
    int count = 0;

    (void)state;
    write_lines(path, "{\"run\": {\"lanes\": 3, \"memory\": {\"lanes\": 42, \"data\": 7}}}\n",
                "{\"step\": 1, \"loss\": 2.5}\n", "{\"step\": 2, \"loss\": null}\n",
                "{\"step\": 3, \"loss\": 1.5}\n", "{\"step\": 4, \"loss\": 1}\n", NULL);
    assert_ok(ls__metrics_read_numbers(path, "memory", "lanes", numbers, 3, &count));
    assert_int_equal(count, 1);
    assert_near(numbers[0], 42, 0);
    assert_ok(ls__metrics_read_numbers(path, NULL, "loss", numbers, 3, &count));
    assert_int_equal(count, 3);
    assert_near(numbers[0], 2.5, 0);
    assert_true(isnan(numbers[1]));
    assert_near(numbers[2], 1.5, 0);
    assert_ok(ls__metrics_read_numbers(path, NULL, "val_loss", numbers, 3, &count));
    assert_int_equal(count, 0);
    assert_fails(
        ls__metrics_read_numbers(ls__test_path("absent"), NULL, "loss", numbers, 3, &count),
        LS_BAD_INPUT, "is it the folder of a run?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_loss_scaling),
        cmocka_unit_test(test_later_lines_are_dropped),
        cmocka_unit_test(test_damaged_lines_are_dropped),
        cmocka_unit_test(test_what_cannot_be_opened),
        cmocka_unit_test(test_a_full_disk_leaves_whole_lines),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_damage_is_told),
        cmocka_unit_test(test_last_ranks),
        cmocka_unit_test(test_numbers_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
