/* The planner's prediction against `lockstep train` as a user runs it: the memory that it says each
 * rank takes, and the bytes that its metrics say rank 0 sent. By category and to the byte:
 * tests/mpi/train_plan_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "math/ops.h"
#include "nn/model.h"
#include "plan/trainer.h"
#include "support/test.h"
#include "support/training.h"

/* Of support/training.c's runs; --eval-batches is 64. */
static const ls__plan_run small = {.layers = 1,
                                   .heads = 2,
                                   .width = 16,
                                   .context = 16,
                                   .classes = 12,
                                   .batch = 8,
                                   .micro_batch = 1,
                                   .adamw = true,
                                   .exact = true,
                                   .direct = true,
                                   .bucket = 64 << 20,
                                   .ranks = 1,
                                   .dataset_bytes = 6000,
                                   .evaluated = 599 / 16};

/* From "..., 1 rank, 1.23 MiB each, ...". */
static double printed_bytes(const char *text)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{" KiB each", 1024}, {" MiB each", 1048576}};

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const char *at = strstr(text, units[i].name);
        if (!at)
            continue;
        while (at > text && at[-1] != ' ')
            at--;
        return strtod(at, NULL) * units[i].bytes;
    }
    return 0;
}

static double sent_bytes(const char *run)
{
    static const char key[] = "\"bytes_sent\": ";
    static char text[1 << 16];
    char path[LS__PATH_SIZE];

    assert_ok(ls__path_join(path, run, "metrics.jsonl"));
    assert_ok(ls__file_read_text(path, text, sizeof text));
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

static double predicted_bytes(ls__plan_run run)
{
    int64_t booked[LS__CATEGORY_COUNT];
    int64_t sum = 0;

    run.scratch =
        ls__model_scratch_bytes(LS__F32, 1, 4 * run.width, run.classes,
                                ls__attention_scratch(LS__F32, run.context, run.width / run.heads),
                                ls__ops_shared(run.micro_batch * run.context, run.width));
    ls__plan_run_memory(&run, booked);
    for (ls__category category = 0; category < LS__CATEGORY_COUNT; category++)
        sum += booked[category];
    return (double)sum;
}

static void compare(const char *name, ls__plan_run run, const char *const *flags)
{
    const char *folder = ls__test_path(name);
    ls__process result;

    ls__training_run(
        &(ls__training){.run = folder, .ranks = (int)run.ranks, .steps = 1, .flags = flags},
        &result);
    assert_exit(result, 0);
    double printed = printed_bytes(result.err);
    double predicted = predicted_bytes(run);
    assert_near(predicted / printed, 1, 0.01);
    assert_near(sent_bytes(folder), (double)ls__plan_run_sent_bytes(&run), 0);
    ls__figure("%s: %.0f bytes of memory predicted, %.0f printed; bytes sent equal", name,
               predicted, printed);
    ls__process_free(&result);
}

static void test_one_rank(void **state)
{
    (void)state;
    compare("one rank", small, NULL);
}

static void test_two_ranks(void **state)
{
    ls__plan_run run = small;

    (void)state;
    run.ranks = 2;
    run.width = 64;
    compare("two ranks", run, (const char *[]){"--width", "64", NULL});
}

static void test_three_ranks_sharded(void **state)
{
    ls__plan_run run = small;

    (void)state;
    run.ranks = 3;
    run.width = 48;
    run.sharded = true;
    compare("three ranks, sharded", run,
            (const char *[]){"--width", "48", "--shard-optimizer", NULL});
}

static void test_sgd_deep(void **state)
{
    ls__plan_run run = small;

    (void)state;
    run.ranks = 2;
    run.layers = 5;
    run.adamw = false;
    compare("SGD, five layers", run, (const char *[]){"--layers", "5", "--optimizer", "sgd", NULL});
}

static void test_f32_sums(void **state)
{
    ls__plan_run run = small;

    (void)state;
    run.ranks = 2;
    run.width = 64;
    run.exact = false;
    compare("FP32 sums", run, (const char *[]){"--width", "64", "--reduce", "f32", NULL});
}

static void test_small_buckets(void **state)
{
    ls__plan_run run = small;

    (void)state;
    run.ranks = 2;
    run.width = 32;
    run.batch = 12;
    run.micro_batch = 3;
    run.bucket = 8192;
    compare("buckets of 8 KiB", run,
            (const char *[]){"--width", "32", "--batch", "12", "--micro-batch", "3", "--bucket",
                             "8K", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_two_ranks),
        cmocka_unit_test(test_three_ranks_sharded),
        cmocka_unit_test(test_sgd_deep),
        cmocka_unit_test(test_f32_sums),
        cmocka_unit_test(test_small_buckets),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
