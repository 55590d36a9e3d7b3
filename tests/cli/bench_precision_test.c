/* lockstep bench precision: its JSON is consistent in itself, its losses are those of `lockstep
 * train`, and what it refuses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"
#include "support/training.h"
#include "train/metrics.h"

enum { TEXT = 1 << 16, ROWS_MAX = 64, STEPS = 10 };

#define MODEL                                                                                     \
    "--layers", "1", "--width", "32", "--context", "16", "--batch", "8", "--steps", "10", "--lr", \
        "0.01", "--warmup", "2"

/* ---- JSON: a row a line ---- */

static char json[TEXT];
static const char *row[ROWS_MAX];

/* Finds the rows of a table; returns how many. */
static int find_rows(const char *table)
{
    char name[64];
    int rows = 0;

    snprintf(name, sizeof name, "\n  \"%s\": [", table);
    const char *at = strstr(json, name);
    assert_non_null(at);
    const char *end = strstr(at, "\n  ]");
    assert_non_null(end);
    for (at += strlen(name); (at = strstr(at, "    {")) && at < end; at++) {
        assert_true(rows < ROWS_MAX);
        row[rows++] = at;
    }
    return rows;
}

static double number(const char *from, const char *key)
{
    char name[128];

    snprintf(name, sizeof name, "\"%s\": ", key);
    const char *at = strstr(from, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

static bool says(const char *from, const char *key, const char *value)
{
    char name[128];
    const char *end = strchr(from, '\n');

    snprintf(name, sizeof name, "\"%s\": \"%s\"", key, value);
    const char *at = strstr(from, name);
    return at && at < end;
}

/* Where Python is there, it must read the file as JSON. */
static void check_json(const char *path)
{
    const char *argv[] = {"python3", "-c", "import json, sys; json.load(open(sys.argv[1]))", path,
                          NULL};
    ls__process p;

    ls__process_run(&(ls__command){.argv = argv}, &p);
    if (!strstr(p.err, "cannot run python3"))
        assert_exit(p, 0);
    ls__process_free(&p);
}

/* ---- one run, of which several tests look at the numbers ---- */

static int run_once(void **state)
{
    const char *path = ls__test_path("precision.json");
    const char *plot = ls__test_path("precision.svg");
    ls__process p;

    if (ls__training_set_up(state) != 0)
        return -1;
    ls__run_lockstep(&p, "bench", "precision", "--data", ls__test_path("text.h5"), MODEL, "--json",
                     path, "--plot", plot, NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "stored in 16 bits"));
    assert_non_null(strstr(p.out, "f16: 0 of 10 steps skipped, the loss scale ends at 65536"));
    ls__process_free(&p);
    check_json(path);
    assert_ok(ls__file_read_text(plot, json, sizeof json));
    assert_non_null(strstr(json, "</svg>"));
    assert_ok(ls__file_read_text(path, json, sizeof json));
    return 0;
}

static const char *const magnitude_keys[] = {"weights_first", "weights_middle", "weights_last",
                                             "logits_first",  "logits_middle",  "logits_last"};
enum { COLUMNS = sizeof magnitude_keys / sizeof magnitude_keys[0] };

static void test_magnitudes(void **state)
{
    int rows = find_rows("magnitudes");

    (void)state;
    assert_true(rows >= 2);
    assert_true(says(row[0], "magnitude", "zero"));
    for (int i = 0; i < COLUMNS; i++) {
        double sum = 0;
        for (int j = 0; j < rows; j++)
            sum += number(row[j], magnitude_keys[i]);
        assert_near(sum, 1, 1e-12);
    }
}

/* The row of the gradients' table for the column of the magnitudes', a format and a scale; a scale
 * of -1: the last of that format. */
static const char *gradient_row(int column, const char *format, double scale)
{
    static const int64_t steps[] = {1, STEPS / 2, STEPS};
    const char *found = NULL;
    int rows = find_rows("gradients");

    assert_int_equal(rows, 24);
    for (int i = 0; i < rows; i++)
        if (says(row[i], "gradients", column < 3 ? "weights" : "logits") &&
            says(row[i], "format", format) && number(row[i], "step") == (double)steps[column % 3] &&
            (scale < 0 || number(row[i], "scale_log2") == scale)) {
            found = row[i];
            if (scale >= 0)
                break;
        }
    assert_non_null(found);
    return found;
}

static void test_shares(void **state)
{
    static const char *const keys[] = {"zero", "flushed", "subnormal", "normal", "infinite"};
    int rows = find_rows("gradients");

    (void)state;
    for (int i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
            double part = number(row[i], keys[j]);
            assert_true(part >= 0 && part <= 1);
            sum += part;
        }
        assert_near(sum, 1, 1e-12);
    }
}

/* A scale helps and, the best one, harms nothing; BF16 needs none. */
static void test_formats(void **state)
{
    (void)state;
    for (int i = 0; i < COLUMNS; i++) {
        const char *plain = gradient_row(i, "f16", 0);
        const char *scaled = gradient_row(i, "f16", 16);
        const char *best = gradient_row(i, "f16", -1);
        const char *bf16 = gradient_row(i, "bf16", 0);

        assert_true(number(scaled, "flushed") <= number(plain, "flushed"));
        assert_true(number(scaled, "subnormal") <= number(plain, "subnormal"));
        assert_true(number(plain, "infinite") == 0);
        assert_true(number(best, "infinite") == 0);
        assert_true(number(bf16, "flushed") == 0);
        assert_true(number(bf16, "subnormal") == 0);
        assert_true(number(bf16, "infinite") == 0);
        assert_true(number(bf16, "zero") == number(plain, "zero"));
    }
}

/* The share of a column in bins that end at or below 2^exponent. */
static double share_below(int column, int exponent)
{
    int rows = find_rows("magnitudes");
    double sum = 0;

    for (int i = 1; i < rows; i++) {
        int end = 999;
        if (sscanf(row[i], "    {\"magnitude\": \"2^%*d .. 2^%d\"", &end) != 1 &&
            sscanf(row[i], "    {\"magnitude\": \"below 2^%d\"", &end) != 1)
            continue;
        if (end <= exponent)
            sum += number(row[i], magnitude_keys[column]);
    }
    return sum;
}

/* What FP16 flushes, at most 2^-25, by the histogram: all below 2^-28, and nothing from 2^-24 on;
 * and so with what is stored below 2^-14. */
static void test_against_histogram(void **state)
{
    (void)state;
    for (int i = 0; i < COLUMNS; i++) {
        const char *plain = gradient_row(i, "f16", 0);
        double flushed = number(plain, "flushed");
        double small = flushed + number(plain, "subnormal");

        assert_true(flushed >= share_below(i, -28) - 1e-12);
        assert_true(flushed <= share_below(i, -24) + 1e-12);
        assert_true(small >= share_below(i, -16) - 1e-12);
        assert_true(small <= share_below(i, -12) + 1e-12);
    }
}

static void test_updates(void **state)
{
    int rows = find_rows("updates");

    (void)state;
    assert_int_equal(rows, 6);
    for (int i = 0; i < rows; i++) {
        bool gains = says(row[i], "weights", "norms' gains");
        assert_int_equal(gains, i >= 3);
        assert_true(number(row[i], "updates") <= number(row[i], "count"));
        assert_true(number(row[i], "updates") > 0);
        assert_true(number(row[i], "f16_lost") >= 0);
        assert_true(number(row[i], "f16_lost") <= 1);
        assert_true(number(row[i], "bf16_lost") > 0);
        assert_true(number(row[i], "bf16_lost") <= 1);
    }
    assert_true(number(row[3], "count") == 3 * 32); /* of the layer's two norms and the last */
    assert_true(number(row[5], "bf16_lost") >= number(row[2], "bf16_lost"));
}

/* ---- losses ---- */

static void compare_with_train(const char *precision, const char *run)
{
    char metrics[LS__PATH_SIZE];
    double loss[STEPS + 1];
    int count = 0;
    ls__process p;

    ls__run_lockstep(&p, "train", "--data", ls__test_path("text.h5"), "--run", run, MODEL,
                     "--min-lr", "0.001", "--precision", precision, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", run);
    assert_ok(ls__metrics_read_numbers(metrics, NULL, "loss", loss, STEPS + 1, &count));
    assert_int_equal(count, STEPS);
    assert_int_equal(find_rows("losses"), STEPS); /* a tenth is a step */
    for (int i = 0; i < STEPS; i++)
        assert_near(number(row[i], precision), loss[i], 1e-6);
}

static void test_as_train(void **state)
{
    (void)state;
    compare_with_train("f32", ls__test_path("f32"));
    compare_with_train("bf16", ls__test_path("bf16"));
    compare_with_train("f16", ls__test_path("f16"));
}

static void test_losses(void **state)
{
    static const char *const keys[] = {"bf16", "f16", "bf16_no_master"};
    int rows = find_rows("losses");

    (void)state;
    for (int i = 0; i < rows; i++)
        for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
            char difference[64];
            snprintf(difference, sizeof difference, "%s_difference", keys[j]);
            assert_near(number(row[i], keys[j]) - number(row[i], "f32"), number(row[i], difference),
                        1e-12);
        }
    assert_true(number(row[rows - 1], "f32") < number(row[0], "f32"));
    assert_true(number(row[rows - 1], "bf16_no_master") != number(row[rows - 1], "bf16"));
}

/* A scale that overflows: steps are skipped, the scale falls, and the training goes on. */
static void test_skipped_steps(void **state)
{
    int skipped = 0;
    double scale = 0;
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "bench", "precision", "--data", ls__test_path("text.h5"), MODEL,
                     "--loss-scale", "4194304", NULL);
    assert_exit(p, 0);
    const char *line = strstr(p.out, "\nf16: ");
    assert_non_null(line);
    assert_int_equal(
        sscanf(line, " f16: %d of 10 steps skipped, the loss scale ends at %lf", &skipped, &scale),
        2);
    assert_true(skipped > 0 && skipped < STEPS);
    assert_near(scale, ldexp(4194304, -skipped), 50);
    ls__process_free(&p);
}

/* That one of the formats diverges does not end the others. */
static void test_divergence(void **state)
{
    const char *path = ls__test_path("diverged.json");
    int rows = 0;
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "bench", "precision", "--data", ls__test_path("text.h5"), MODEL,
                     "--loss-scale", "1073741824", "--loss-scale-floor", "1073741824", "--json",
                     path, NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "\nf16: diverged at step 1\n"));
    assert_null(strstr(p.out, "bf16: diverged"));
    ls__process_free(&p);
    check_json(path);
    assert_ok(ls__file_read_text(path, json, sizeof json));
    rows = find_rows("losses");
    assert_int_equal(rows, STEPS);
    for (int i = 0; i < rows; i++) {
        const char *f16 = strstr(row[i], "\"f16\": null, \"f16_difference\": null");
        assert_true(f16 && f16 < strchr(row[i], '\n'));
        assert_true(number(row[i], "bf16_no_master") > 0);
    }
}

/* ---- refusals ---- */

static void put_word(FILE *file, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(word >> shift & 255), file);
}

/* Eight images of one pixel, as training and as test images. */
static void make_images(const char *data)
{
    const char *images = ls__test_path("images.idx");
    const char *labels = ls__test_path("labels.idx");
    const uint32_t header[] = {0x803, 8, 1, 1};
    FILE *pixels = fopen(images, "w");
    FILE *names = fopen(labels, "w");
    ls__process p;

    assert_non_null(pixels);
    assert_non_null(names);
    for (size_t i = 0; i < sizeof header / sizeof header[0]; i++)
        put_word(pixels, header[i]);
    put_word(names, 0x801);
    put_word(names, 8);
    for (int i = 0; i < 8; i++) {
        fputc(100 * (i % 2), pixels);
        fputc(i % 2, names);
    }
    assert_int_equal(fclose(pixels), 0);
    assert_int_equal(fclose(names), 0);
    ls__run_lockstep(&p, "data", "images", "--train-images", images, "--train-labels", labels,
                     "--test-images", images, "--test-labels", labels, "-o", data, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *flags[2], *says;
    } cases[] = {
        {{"--steps=20"}, "--data is missing"},
        {{"--data=absent.h5"}, "absent.h5"},
        {{"--data=images.h5"}, "images.h5 has images: name a text"},
        {{"--data=text.txt"}, "text.txt"},
        {{"--data=text.h5", "--steps=9"}, "from 10 to"},
        {{"--data=text.h5", "--heads=3"}, "--heads 3 does not divide --width 128"},
        {{"--data=text.h5", "--loss-scale=3"}, "is not a power of two"},
        {{"--data=text.h5", "--context=9000"}, "text.h5"},
        {{"--data=text.h5", "--precision=f16"}, "has no flag --precision"},
        {{"--data=text.h5", "--json=/nowhere/p.json"}, "/nowhere/p.json"},
    };
    ls__process p;

    (void)state;
    make_images(ls__test_path("images.h5"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *flag = cases[i].flags;
        ls__process_run(
            &(ls__command){.argv = (const char *[]){ls__lockstep(), "bench", "precision", flag[0],
                                                    flag[1], NULL},
                           .folder = ls__test_folder()},
            &p);
        assert_exit(p, 2);
        assert_one_line(p, cases[i].says);
        assert_null(strstr(p.out, "%"));
        ls__process_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_magnitudes), cmocka_unit_test(test_shares),
        cmocka_unit_test(test_formats),    cmocka_unit_test(test_against_histogram),
        cmocka_unit_test(test_updates),    cmocka_unit_test(test_as_train),
        cmocka_unit_test(test_losses),     cmocka_unit_test(test_skipped_steps),
        cmocka_unit_test(test_divergence), /* has JSON of its own */
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, run_once, NULL);
}
