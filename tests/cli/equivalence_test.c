/* Data-parallel equivalence, GPT and MLP: 64 samples as 4 x 16 against one rank, 100 steps, with
 * FP32 sums to rounding; with exact sums one chain of digests over ranks, algorithms, bucket sizes
 * and sharding. Threads and recomputation: one chain a precision. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "support/process.h"
#include "support/test.h"
#include "train/metrics.h"

static const double bar = 1e-5;

enum { TEXT_BYTES = 20000, IMAGES = 400, SIDE = 14, CLASSES = 10 };

static const char *path_of(const char *name)
{
    static char paths[8][LS__PATH_SIZE];
    static int next;
    char *path = paths[next++ % 8];

    assert_ok(ls__path_join(path, ls__test_folder(), name));
    return path;
}

static uint32_t draw(uint64_t i)
{
    return ls__random(99, LS__STREAM_SAMPLE, 0, i).word[0];
}

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    return file;
}

static void import(const char *const *words)
{
    ls__process p;

    ls__process_run(&(ls__command){.argv = words}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
}

static void make_text(const char *data)
{
    const char *text = path_of("text.txt");
    const char *words[] = {ls__lockstep(), "data", "text", text, "-o", data, NULL};
    FILE *file = create(text);

    for (uint64_t i = 0; i < TEXT_BYTES; i++)
        fputc("the quick brown fox jumps over a lazy dog\n"[(i + draw(i) % 3) % 42], file);
    assert_int_equal(fclose(file), 0);
    import(words);
}

static void put_word(FILE *file, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(word >> shift & 255), file);
}

/* An IDX pair: each class lights up its own columns, under noise. */
static void make_images(const char *data)
{
    const char *images = path_of("images.idx");
    const char *labels = path_of("labels.idx");
    const char *words[] = {ls__lockstep(), "data",
                           "images",       "--train-images",
                           images,         "--train-labels",
                           labels,         "--test-images",
                           images,         "--test-labels",
                           labels,         "-o",
                           data,           NULL};
    FILE *pixels = create(images);
    FILE *names = create(labels);

    put_word(pixels, 0x803);
    put_word(pixels, IMAGES);
    put_word(pixels, SIDE);
    put_word(pixels, SIDE);
    put_word(names, 0x801);
    put_word(names, IMAGES);
    for (uint64_t i = 0; i < IMAGES; i++) {
        fputc((int)(i % CLASSES), names);
        for (uint64_t j = 0; j < SIDE * SIDE; j++)
            fputc((int)((j % SIDE == i % CLASSES ? 128 : 0) + draw(i * 1000 + j) % 128), pixels);
    }
    assert_int_equal(fclose(pixels), 0);
    assert_int_equal(fclose(names), 0);
    import(words);
}

/* The last column but one of the table's row for 4 ranks: the largest difference. */
static double difference_of(const char *table)
{
    double difference = -1;
    const char *row = strstr(table, "\n    4  ");

    assert_non_null(row);
    assert_int_equal(sscanf(row, " 4 %*s %*s %*s %*s %*s %*s %*s %*s %lf", &difference), 1);
    return difference;
}

/* `lockstep verify` with two lists of flags, each closed with NULL. */
static void verify(ls__process *p, const char *const *flags, const char *const *more)
{
    const char *words[48] = {ls__lockstep(), "verify"};
    int count = 2;

    for (; *flags; flags++)
        words[count++] = *flags;
    for (; *more; more++)
        words[count++] = *more;
    ls__process_run(&(ls__command){.argv = words, .timeout_s = 280}, p);
    assert_exit(*p, 0);
}

static void verify_both(const char *what, const char *const *flags, const char *const *exact)
{
    static const char *const f32[] = {"--ranks",  "1,4", "--batch",     "64",  "--steps",  "100",
                                      "--lr",     "0.1", "--optimizer", "sgd", "--warmup", "10",
                                      "--reduce", "f32", "--bucket",    "64M", NULL};
    ls__process p;

    verify(&p, flags, f32);
    ls__figure("%s, 64 samples as 4 x 16 against one rank, 100 steps, FP32 sums: weights within "
               "%.1e",
               what, difference_of(p.out));
    assert_true(difference_of(p.out) < bar);
    ls__process_free(&p);
    verify(&p, flags, exact);
    assert_null(strstr(p.out, "could not tell"));
    ls__figure("%s, exact sums: one chain of digests with %s %s %s", what, exact[0], exact[1],
               exact[2]);
    ls__process_free(&p);
}

static void test_gpt(void **state)
{
    const char *data = ls__test_path("text.h5");
    const char *flags[] = {"--data",  data, "--layers",  "2",  "--heads", "2",
                           "--width", "32", "--context", "16", NULL};

    (void)state;
    static const char *const exact[] = {"--ranks", "1,3,8",   "--full", "--batch",
                                        "16",      "--steps", "10",     NULL};
    verify_both("GPT", flags, exact);
}

static void test_mlp(void **state)
{
    const char *data = ls__test_path("images.h5");
    const char *flags[] = {"--data", data, "--model", "mlp", "--hidden", "48,32", NULL};

    (void)state;
    static const char *const exact[] = {"--ranks", "1,2,5,8", "--batch=16", "--steps", "10", NULL};
    verify_both("MLP", flags, exact);
}

/* ---- threads, recomputation, precision ---- */

enum { STEPS = 4, FLAGS_MAX = 48 };

/* The digests of a run of so many steps with these flags, lists closed with NULL. */
static ls__digest *train(const char *run, const char *steps, const char *const *flags,
                         const char *const *more)
{
    const char *folder = ls__test_path(run);
    const char *words[FLAGS_MAX] = {
        ls__lockstep(), "train", "--run",    folder, "--steps",       steps,
        "--lr",         "0.01",  "--warmup", "1",    "--batch",       "8",
        "--eval-every", "0",     "--clip",   "0.5",  "--decay-steps", "4"};
    ls__digest *digests = NULL;
    char metrics[LS__PATH_SIZE];
    int64_t count = 0;
    int n = 18;
    ls__process p;

    for (; *flags; flags++)
        words[n++] = *flags;
    for (; *more; more++)
        words[n++] = *more;
    assert_true(n < FLAGS_MAX);
    ls__process_run(&(ls__command){.argv = words}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_ok(ls__path_join(metrics, folder, "metrics.jsonl"));
    assert_ok(ls__metrics_read_digests(metrics, &digests, &count));
    assert_int_equal(count, atoi(steps));
    return digests;
}

static int equal_steps(const ls__digest *a, const ls__digest *b)
{
    int same = 0;

    while (same < STEPS && ls__digest_equal(a[same], b[same]))
        same++;
    return same;
}

/* Ways to train that must not show in the bits. */
static const char *const ways[][8] = {
    {"--threads", "2"},
    {"--threads", "3"},
    {"--threads", "7", "--recompute"},
    {"--recompute"},
    {"--threads", "3", "--ranks", "2", "--recompute"},
    {"--threads", "2", "--ranks", "3", "--shard-optimizer", "--bucket", "16384"},
};

enum { WAYS = sizeof ways / sizeof ways[0] };

static void check_chain(const char *what, const char *precision, const char *const *flags)
{
    const char *words[FLAGS_MAX] = {"--precision", precision};
    const char *const alone[] = {NULL};
    const char *const control[] = {"--threads", "2", "--ranks", "2", "--reduce", "f32", NULL};
    char run[64];
    int n = 2;

    for (; *flags; flags++)
        words[n++] = *flags;
    snprintf(run, sizeof run, "%s-%s", what, precision);
    ls__digest *expected = train(run, "4", words, alone);
    for (int i = 0; i < WAYS; i++) {
        snprintf(run, sizeof run, "%s-%s-%d", what, precision, i);
        ls__digest *digests = train(run, "4", words, ways[i]);
        assert_int_equal(equal_steps(expected, digests), STEPS);
        free(digests);
    }
    snprintf(run, sizeof run, "%s-%s-control", what, precision);
    ls__digest *other = train(run, "4", words, control);
    assert_true(equal_steps(expected, other) < STEPS);
    ls__figure("%s in %s: one chain of digests on 1, 2, 3 and 7 threads, with and without "
               "recomputation; control, FP32 sums: %d of %d steps equal",
               what, precision, equal_steps(expected, other), STEPS);
    free(other);
    free(expected);
}

static const char *const precisions[] = {"f32", "bf16", "f16"};

/* Large enough that every kind of work is shared between threads, and odd enough that its pieces
 * are of unequal size. */
static void test_threads_gpt(void **state)
{
    const char *data = ls__test_path("text.h5");
    const char *flags[] = {"--data",    data, "--layers",  "2",   "--heads", "3", "--width", "132",
                           "--context", "37", "--dropout", "0.1", NULL};

    (void)state;
    for (int i = 0; i < 3; i++)
        check_chain("GPT", precisions[i], flags);
}

static void test_threads_mlp(void **state)
{
    const char *data = ls__test_path("images.h5");
    const char *flags[] = {"--data", data, "--model", "mlp", "--hidden", "311,130", NULL};

    (void)state;
    for (int i = 0; i < 3; i++)
        check_chain("MLP", precisions[i], flags);
}

/* ---- going on with other threads ---- */

static void test_resumed_on_other_threads(void **state)
{
    const char *data = ls__test_path("images.h5");
    const char *flags[] = {"--data", data, "--model", "mlp", "--precision", "bf16", NULL};
    const char *const first[] = {"--threads", "2", NULL};
    const char *const then[] = {"--resume", "--threads", "3", "--recompute", NULL};

    (void)state;
    ls__digest *expected = train("whole", "4", flags, first);
    free(train("halves", "2", flags, first));
    ls__digest *digests = train("halves", "4", flags, then);
    assert_int_equal(equal_steps(expected, digests), STEPS);
    free(digests);
    free(expected);
}

/* What a run of a version without the flag did is what the flag's preset says. */
static void forget_precision(const char *run)
{
    char config[LS__PATH_SIZE];
    static char text[1 << 16];

    assert_ok(ls__path_join(config, run, "config.ini"));
    assert_ok(ls__file_read_text(config, text, sizeof text));
    char *line = strstr(text, "\nprecision");
    assert_non_null(line);
    memmove(line, strchr(line + 1, '\n'), strlen(strchr(line + 1, '\n')) + 1);
    assert_ok(ls__file_write_text(config, text));
}

static void test_precision_is_kept(void **state)
{
    const char *data = ls__test_path("images.h5");
    const char *run = ls__test_path("kept");
    const char *flags[] = {"--data", data, "--model", "mlp", NULL};
    const char *const none[] = {NULL};
    ls__process p;

    (void)state;
    free(train("kept", "2", flags, none));
    for (int old = 0; old < 2; old++) {
        if (old)
            forget_precision(run);
        ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "4", "--precision",
                         "bf16", NULL);
        assert_exit(p, 2);
        assert_one_line(p, "holds a run with --precision f32, not bf16");
        ls__process_free(&p);
    }
}

static void test_crowded_cores(void **state)
{
    const char *data = ls__test_path("images.h5");
    const char *run = ls__test_path("crowd");
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, "--model", "mlp", "--steps", "1",
                     "--threads", "256", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "warning: 1 rank of 256 threads may use "));
    ls__process_free(&p);
}

static int set_up(void **state)
{
    (void)state;
    make_text(ls__test_path("text.h5"));
    make_images(ls__test_path("images.h5"));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_threads_gpt),
        cmocka_unit_test(test_threads_mlp),
        cmocka_unit_test(test_resumed_on_other_threads),
        cmocka_unit_test(test_precision_is_kept),
        cmocka_unit_test(test_crowded_cores),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
