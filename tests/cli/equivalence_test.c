/* Data-parallel equivalence, GPT and MLP: 64 samples as 4 x 16 against one rank, 100 steps, with
 * FP32 sums to rounding; with exact sums one chain of digests over ranks, algorithms, bucket sizes
 * and sharding. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "support/process.h"
#include "support/test.h"

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
    assert_int_equal(sscanf(row, " 4 %*s %*s %*s %*s %*s %*s %*s %lf", &difference), 1);
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
    const char *data = path_of("text.h5");
    const char *flags[] = {"--data",  data, "--layers",  "2",  "--heads", "2",
                           "--width", "32", "--context", "16", NULL};

    (void)state;
    make_text(data);
    static const char *const exact[] = {"--ranks", "1,3,8",   "--full", "--batch",
                                        "16",      "--steps", "10",     NULL};
    verify_both("GPT", flags, exact);
}

static void test_mlp(void **state)
{
    const char *data = path_of("images.h5");
    const char *flags[] = {"--data", data, "--model", "mlp", "--hidden", "48,32", NULL};

    (void)state;
    make_images(data);
    static const char *const exact[] = {"--ranks", "1,2,5,8", "--batch=16", "--steps", "10", NULL};
    verify_both("MLP", flags, exact);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_mlp),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
