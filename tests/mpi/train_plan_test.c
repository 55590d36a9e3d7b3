/* The planner's prediction of the trainer's memory, against the ledger of trainers opened on real
 * ranks: six configurations, every category, every rank. And of the bytes a step sends. */
#include "plan/pace.h"

#include <string.h>

#include "base/threads.h"
#include "data/import.h"
#include "math/gemm.h"
#include "support/mpi_main.h"
#include "train/predict.h"
#include "train/trainer.h"

enum { TEXT = 6000, IMAGES = 40, ROWS = 12 };

_Static_assert((int)LS__PLAN_UNIT == (int)LS__REDUCE_UNIT, "the planner's unit is the trainer's");

static ls__world *world;

/* ---- datasets, a copy for each rank ---- */

static void make_text(void)
{
    const char *source = ls__test_path("text.txt");
    FILE *file = fopen(source, "w");

    assert_non_null(file);
    for (int i = 0; i < TEXT; i++)
        fputc("a stitch in time saves nine\n"[(i + i * i / 7 % 3) % 28], file);
    assert_int_equal(fclose(file), 0);
    assert_ok(ls__import_text(&source, 1, ls__test_path("text.h5"), 0.2));
}

/* Big-endian words, then `length` bytes, all below 10. */
static void write_idx(const char *path, const uint32_t *header, int words, int length)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (int i = 0; i < words; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            fputc((int)(header[i] >> shift & 0xff), file);
    for (int i = 0; i < length; i++)
        fputc(i % 10, file);
    assert_int_equal(fclose(file), 0);
}

static void make_images(void)
{
    static const uint32_t images[] = {0x803, IMAGES, ROWS, ROWS};
    static const uint32_t labels[] = {0x801, IMAGES};
    char paths[2][LS__PATH_SIZE];
    ls__image_files files = {.train_images = paths[0],
                             .train_labels = paths[1],
                             .test_images = paths[0],
                             .test_labels = paths[1]};

    snprintf(paths[0], sizeof paths[0], "%s", ls__test_path("images"));
    snprintf(paths[1], sizeof paths[1], "%s", ls__test_path("labels"));
    write_idx(paths[0], images, 4, IMAGES * ROWS * ROWS);
    write_idx(paths[1], labels, 2, IMAGES);
    assert_ok(ls__import_images(&files, ls__test_path("images.h5")));
}

static int set_up(void **state)
{
    (void)state;
    ls__gemm_start();
    make_text();
    make_images();
    return ls__world_open(&world, 50) != LS_OK;
}

static int tear_down(void **state)
{
    (void)state;
    ls__world_close(world);
    return 0;
}

/* `flags`: names and values, closed with NULL. */
static void set(ls__train_settings *settings, const char *data, const char *const *flags)
{
    ls__options_preset(&ls__train_options, settings);
    assert_ok(ls__options_set(&ls__train_options, settings, "run", "none"));
    assert_ok(ls__options_set(&ls__train_options, settings, "allreduce", "ring"));
    assert_ok(ls__options_set(&ls__train_options, settings, "bucket", "64M"));
    assert_ok(ls__options_set(&ls__train_options, settings, "data", ls__test_path(data)));
    for (; flags[0]; flags += 2)
        assert_ok(ls__options_set(&ls__train_options, settings, flags[0], flags[1]));
    assert_ok(ls__train_settings_resolve(settings));
}

/* ---- the comparison ---- */

static void compare_ledgers(const ls__trainer *trainer, const ls__plan_run *run)
{
    int64_t predicted[LS__CATEGORY_COUNT];

    assert_int_equal(ls__plan_run_parameters(run), trainer->model->tensors.total);
    ls__plan_run_memory(run, predicted);
    for (ls__category category = 0; category < LS__CATEGORY_COUNT; category++) {
        int64_t booked = ls__arena_booked(trainer->arena, category);
        if (booked != predicted[category])
            print_error("%s: %lld predicted, %lld booked\n", ls__category_name(category),
                        (long long)predicted[category], (long long)booked);
        assert_int_equal(booked, predicted[category]);
    }
}

static void compare(const char *data, const char *const *flags)
{
    static ls__train_settings settings;
    ls__trainer trainer;
    ls__step_metrics metrics[2] = {0};
    int complete = 0;

    set(&settings, data, flags);
    assert_ok(ls__trainer_open(&trainer, &settings, world));
    ls__plan_run run = ls__predict_run(&settings, ls__dataset_about(trainer.dataset),
                                       ls__world_rank(world), ls__world_ranks(world));
    compare_ledgers(&trainer, &run);
    assert_ok(ls__trainer_step(&trainer, metrics, &complete));
    assert_ok(ls__trainer_settle(&trainer, metrics, &complete));
    assert_int_equal(complete, 1);
    assert_int_equal(metrics[0].bytes_sent, ls__plan_run_sent_bytes(&run));
    if (run.rank == 0)
        assert_near((double)metrics[0].flops, ls__plan_run_flops(&run), 0);
    ls__trainer_close(&trainer);
}

static void test_gpt(void **state)
{
    (void)state;
    compare("text.h5", (const char *[]){"width", "64", NULL});
    compare("text.h5", (const char *[]){"width", "64", "allreduce", "auto", NULL});
}

static void test_gpt_of_odd_sizes(void **state)
{
    (void)state;
    compare("text.h5", (const char *[]){"layers", "3", "heads", "3", "width", "33", "context", "17",
                                        "batch", "10", "dropout", "0.1", NULL});
}

static void test_gpt_in_16_bits(void **state)
{
    (void)state;
    compare("text.h5", (const char *[]){"width", "64", "precision", "bf16", NULL});
    compare("text.h5", (const char *[]){"width", "60", "layers", "3", "context", "70", "precision",
                                        "f16", "recompute", "true", NULL});
}

static void test_gpt_recomputed_by_threads(void **state)
{
    (void)state;
    assert_ok(ls__threads_start(2));
    compare("text.h5", (const char *[]){"width", "64", "threads", "2", "recompute", "true", NULL});
    assert_ok(ls__threads_start(1));
}

static void test_sharded_optimizer_in_buckets(void **state)
{
    (void)state;
    compare("text.h5", (const char *[]){"width", "32", "shard-optimizer", "true", "bucket", "10K",
                                        "micro-batch", "1", NULL});
}

static void test_sgd(void **state)
{
    (void)state;
    compare("text.h5", (const char *[]){"width", "48", "optimizer", "sgd", "shard-optimizer",
                                        "true", "eval-batches", "1", NULL});
}

static void test_f32_sums(void **state)
{
    (void)state;
    compare("text.h5", (const char *[]){"width", "32", "context", "32", "reduce", "f32", "bucket",
                                        "64K", NULL});
}

static void test_mlp(void **state)
{
    (void)state;
    compare("images.h5", (const char *[]){"model", "mlp", "hidden", "50,20", "batch", "20",
                                          "shard-optimizer", "true", NULL});
    compare("images.h5", (const char *[]){"model", "mlp", "hidden", "50,20", "batch", "20",
                                          "precision", "bf16", NULL});
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_gpt_in_16_bits),
        cmocka_unit_test(test_gpt_recomputed_by_threads),
        cmocka_unit_test(test_gpt_of_odd_sizes),
        cmocka_unit_test(test_sharded_optimizer_in_buckets),
        cmocka_unit_test(test_sgd),
        cmocka_unit_test(test_f32_sums),
        cmocka_unit_test(test_mlp),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}

LS__MPI_MAIN(run_cases())
