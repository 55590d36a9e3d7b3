/* Loss scaling in runs: a power of two changes no bit; an overflow on one rank skips the step on
 * all, as if it had never been; growth, the floor; a run resumed in the middle goes on the same. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/checkpoint.h"
#include "data/import.h"
#include "support/test.h"
#include "support/training.h"
#include "train/load.h"
#include "train/metrics.h"
#include "train/run_folder.h"

enum { IMAGES = 40, SIDE = 6, STEPS = 12, FLAGS = 40 };

static char images[LS__PATH_SIZE];

/* ---- datasets ---- */

static void put_word(FILE *file, uint32_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        fputc((int)(word >> shift & 255), file);
}

static void make_idx(const char *path, uint32_t magic, int sides, int items)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    put_word(file, magic);
    put_word(file, IMAGES);
    for (int i = 0; i < sides; i++)
        put_word(file, SIDE);
    for (int i = 0; i < items; i++)
        fputc(sides ? i * i % 251 : i % 10, file);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    char pixels[LS__PATH_SIZE];
    char labels[LS__PATH_SIZE];
    ls__image_files files = {.train_images = pixels,
                             .train_labels = labels,
                             .test_images = pixels,
                             .test_labels = labels};

    snprintf(pixels, sizeof pixels, "%s", ls__test_path("pixels"));
    snprintf(labels, sizeof labels, "%s", ls__test_path("labels"));
    snprintf(images, sizeof images, "%s", ls__test_path("images.h5"));
    make_idx(pixels, 0x803, 2, IMAGES * SIDE * SIDE);
    make_idx(labels, 0x801, 0, IMAGES);
    assert_ok(ls__import_images(&files, images));
    return ls__training_set_up(state);
}

/* ---- runs ---- */

/* A run, and what its metrics say of each step. */
typedef struct trace {
    char run[LS__PATH_SIZE];
    int64_t count; /* steps */
    ls__digest *digest;
    double scale[STEPS + 1]; /* entry i of step i + 1 */
    double skipped[STEPS + 1];
    int scales; /* entries of the two above */
} trace;

static void next_run(trace *t)
{
    static int index;
    char name[32];

    snprintf(name, sizeof name, "loss-scale-%d", index++);
    *t = (trace){0};
    snprintf(t->run, sizeof t->run, "%s", ls__test_path(name));
}

static void read_trace(trace *t)
{
    ls__run_folder folder;
    int count = 0;

    free(t->digest);
    assert_ok(ls__run_folder_name(&folder, t->run));
    assert_ok(ls__metrics_read_digests(folder.metrics, &t->digest, &t->count));
    assert_ok(ls__metrics_read_numbers(folder.metrics, NULL, "loss_scale", t->scale, STEPS + 1,
                                       &t->scales));
    assert_ok(
        ls__metrics_read_numbers(folder.metrics, NULL, "skipped", t->skipped, STEPS + 1, &count));
    assert_int_equal(count, t->scales);
}

/* Several lists of flags, each closed with NULL, as one. */
static void join(const char **flags, const char *const *a, const char *const *b,
                 const char *const *c)
{
    const char *const *lists[] = {a, b, c};
    int count = 0;

    for (int i = 0; i < 3; i++)
        for (const char *const *flag = lists[i]; flag && *flag; flag++) {
            assert_true(count < FLAGS - 1);
            flags[count++] = *flag;
        }
    flags[count] = NULL;
}

/* Runs, or goes on, to `steps`; what standard error says must contain `says`. */
static void go(trace *t, int ranks, int steps, const char *fault, const char *const *flags,
               int code, const char *says)
{
    ls__process p;

    ls__training_run(
        &(ls__training){
            .fault = fault, .run = t->run, .ranks = ranks, .steps = steps, .flags = flags},
        &p);
    assert_exit(p, code);
    if (says && !strstr(p.err, says))
        ls__process_show(&p);
    assert_true(!says || strstr(p.err, says));
    assert_true(says || !strstr(p.err, "skipped"));
    ls__process_free(&p);
    read_trace(t);
}

static bool step_equal(const trace *a, int64_t i, const trace *b, int64_t j)
{
    assert_true(i >= 1 && i <= a->count && j >= 1 && j <= b->count);
    return ls__digest_equal(a->digest[i - 1], b->digest[j - 1]);
}

static void assert_same_chain(const trace *a, const trace *b)
{
    assert_int_equal(a->count, STEPS);
    assert_int_equal(b->count, STEPS);
    for (int64_t step = 1; step <= STEPS; step++)
        assert_true(step_equal(a, step, b, step));
}

static void assert_same_scales(const trace *a, const trace *b)
{
    assert_int_equal(a->scales, STEPS);
    assert_int_equal(b->scales, STEPS);
    assert_memory_equal(a->scale, b->scale, STEPS * sizeof(double));
    assert_memory_equal(a->skipped, b->skipped, STEPS * sizeof(double));
}

static void forget(trace *t)
{
    free(t->digest);
    t->digest = NULL;
}

/* ---- powers of two ---- */

static const char *const sharded[] = {"--shard-optimizer", NULL};
static const char *const at_1024[] = {"--loss-scale", "1024", NULL};
static const char *const audited[] = {"--loss-scale", "1024", "--audit-every", "1", NULL};

/* Three micro-batches of a mean, and eight: divisors of both kinds. Audits recompute with the
 * scale.
 */
static void test_a_power_of_two_changes_no_bit(void **state)
{
    static const char *const thirds[] = {"--batch", "6", "--micro-batch", "2", NULL};
    static const char *const f32[] = {"--reduce", "f32", "--allreduce", "ring", NULL};
    const char *const mlp[] = {"--data",  images, "--model",       "mlp", "--hidden", "12",
                               "--batch", "6",    "--micro-batch", "2",   NULL};
    const char *const *const ways[][2] = {
        {NULL, NULL}, {thirds, NULL}, {thirds, f32}, {mlp, NULL}, {mlp, f32}};

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *flags[FLAGS];
        trace plain;
        trace scaled;
        next_run(&plain);
        next_run(&scaled);
        join(flags, ways[i][0], ways[i][1], NULL);
        go(&plain, 2, 0, NULL, flags, 0, NULL);
        join(flags, ways[i][0], ways[i][1], audited);
        go(&scaled, 2, 0, NULL, flags, 0, NULL);
        assert_same_chain(&plain, &scaled);
        assert_int_equal(plain.scales, 0);
        assert_int_equal(scaled.scales, STEPS);
        assert_true(scaled.scale[STEPS - 1] == 1024 && scaled.skipped[STEPS - 1] == 0);
        forget(&plain);
        forget(&scaled);
    }
}

/* ---- an overflow ---- */

static const char *const sgd[] = {"--optimizer", "sgd", NULL};

static void assert_skipped(const trace *t, int64_t step)
{
    assert_int_equal(t->count, STEPS);
    assert_int_equal(t->scales, STEPS);
    for (int64_t i = 1; i <= STEPS; i++) {
        assert_true(t->scale[i - 1] == (i <= step ? 1024 : 512));
        assert_true(t->skipped[i - 1] == (i < step ? 0 : 1));
        if (i > 1)
            assert_int_equal(step_equal(t, i, t, i - 1), i == step);
    }
}

/* Whichever rank has it, however many there are. */
static void test_an_overflow_on_one_rank_skips_on_all(void **state)
{
    static const struct {
        int ranks;
        const char *fault;
    } ways[] = {{1, "inf:rank=0:step=5:element=300"},
                {2, "inf:rank=1:step=5:element=300"},
                {4, "inf:rank=2:step=5:element=300"},
                {4, "nan:rank=3:step=5:element=2000"}};

    (void)state;
    for (int rule = 0; rule < 2; rule++) {
        trace first = {0};
        for (int i = 0; i < 8; i++) {
            const char *flags[FLAGS];
            trace t;
            next_run(&t);
            join(flags, at_1024, rule ? sgd : NULL, i < 4 ? NULL : sharded);
            go(&t, ways[i % 4].ranks, 0, ways[i % 4].fault, flags, 0, "1 of 12 steps were skipped");
            assert_skipped(&t, 5);
            if (i == 0) {
                first = t;
                continue;
            }
            assert_same_chain(&first, &t);
            assert_same_scales(&first, &t);
            forget(&t);
        }
        forget(&first);
    }
}

/* FP32 sums too, in which the infinity is that of a sum. */
static void test_an_overflow_in_fp32_sums(void **state)
{
    static const char *const f32[] = {"--reduce", "f32", NULL};
    const char *flags[FLAGS];
    trace t;

    (void)state;
    for (int i = 0; i < 2; i++) {
        next_run(&t);
        join(flags, at_1024, f32, i ? sharded : NULL);
        go(&t, 2, 0, "inf:rank=1:step=5:element=300", flags, 0, "1 of 12 steps were skipped");
        assert_skipped(&t, 5);
        forget(&t);
    }
}

/* Every batch is the whole dataset, a sample a micro-batch, the rate is constant: with exact sums
 * the gradient follows from the parameters alone. So a run that skips a step is one that never had
 * it, later by one: moments and bias correction have seen nothing. */
static void test_a_skipped_step_leaves_nothing(void **state)
{
    const char *const whole[] = {"--data",   images, "--model",       "mlp", "--hidden", "12",
                                 "--batch",  "40",   "--micro-batch", "1",   "--lr",     "1e-3",
                                 "--min-lr", "1e-3", "--warmup",      "0",   NULL};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *flags[FLAGS];
        trace plain;
        trace skips;
        next_run(&plain);
        next_run(&skips);
        join(flags, whole, at_1024, i % 2 ? sgd : NULL);
        go(&plain, 1, 0, NULL, flags, 0, NULL);
        join(flags, flags, i < 2 ? NULL : sharded, NULL);
        go(&skips, 2, 0, "inf:rank=1:step=4:element=30", flags, 0, "1 of 12 steps were skipped");
        for (int64_t step = 1; step <= STEPS; step++)
            assert_true(step_equal(&skips, step, &plain, step < 4 ? step : step - 1));
        forget(&plain);
        forget(&skips);
    }
}

static void test_growth(void **state)
{
    static const char *const flags[] = {"--loss-scale", "8", "--loss-scale-growth", "3", NULL};
    static const double expected[STEPS] = {8, 8, 8, 16, 16, 8, 8, 8, 16, 16, 16, 32};
    trace t;

    (void)state;
    next_run(&t);
    go(&t, 2, 0, "inf:rank=0:step=5:element=0", flags, 0, "the loss scale is now 32");
    assert_int_equal(t.scales, STEPS);
    assert_memory_equal(t.scale, expected, sizeof expected);
    forget(&t);
}

static void test_an_overflow_at_the_floor(void **state)
{
    static const char *const floor[] = {"--loss-scale-floor", "1024", NULL};
    const char *flags[FLAGS];
    trace t;

    (void)state;
    for (int i = 0; i < 2; i++) {
        next_run(&t);
        join(flags, at_1024, floor, i ? sharded : NULL);
        go(&t, 2, 0, "inf:rank=1:step=5:element=300", flags, 3,
           "is not finite (element 300 of all), with the loss scale at its floor, first in");
        assert_int_equal(t.count, 4);
        assert_int_equal(ls__training_checkpoint(t.run), 4);
        forget(&t);
    }
}

/* Overflows of FP16 itself, from a scale far too large: it finds one that fits, by the same steps
 * on any number of ranks, and when resumed on the way. */
static void test_fp16_overflows(void **state)
{
    static const char *const f16[] = {
        "--precision", "f16", "--loss-scale", "0x1p26", "--loss-scale-growth", "2", NULL};
    static const int ranks[] = {1, 2, 4, 4};
    trace first = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *flags[FLAGS];
        trace t;
        next_run(&t);
        join(flags, f16, i % 2 ? sharded : NULL, NULL);
        if (i == 3)
            go(&t, 2, 4, NULL, flags, 0, "of 4 steps were skipped");
        go(&t, ranks[i], STEPS, NULL, flags, 0, "of 12 steps were skipped");
        assert_int_equal(t.count, STEPS);
        if (i == 0) {
            first = t;
            continue;
        }
        assert_same_chain(&first, &t);
        assert_same_scales(&first, &t);
        forget(&t);
    }
    assert_true(first.skipped[3] == 4); /* so one of them was resumed among skipped steps */
    assert_true(first.skipped[STEPS - 1] < STEPS - 2);
    ls__figure("FP16 from a loss scale of 2^26: %g of %d steps skipped, then at %g; the same on 1, "
               "2 and 4 ranks, sharded or not, resumed or not",
               first.skipped[STEPS - 1], STEPS, first.scale[STEPS - 1]);
    forget(&first);
}

static void test_refusals(void **state)
{
    static const char *const odd[] = {"--loss-scale", "1000", NULL};
    ls__process p;

    (void)state;
    ls__training_run(&(ls__training){.run = ls__test_path("refused"), .ranks = 2, .flags = odd},
                     &p);
    assert_exit(p, 2);
    assert_one_line(p, "--loss-scale 1000 is not a power of two: use 512 or 1024");
    ls__process_free(&p);
}

/* ---- resuming ---- */

/* Takes the scaler out of a run's newest checkpoint: as an older version would have written it. */
static void forget_scaler(const char *run)
{
    static ls__loaded loaded; /* large */
    ls__run_folder folder;
    char path[LS__PATH_SIZE];

    assert_ok(ls__load_run(&loaded, run, -1, 0, 0));
    assert_true(loaded.info.loss_scale > 0);
    assert_int_equal(loaded.info.skipped_steps, 1);
    int64_t total = loaded.model->tensors.total;
    ls__checkpoint_arrays arrays = {.tensors = &loaded.model->tensors,
                                    .parameters = loaded.parameters,
                                    .state_name = {"exp_avg", "exp_avg_sq"}};
    for (int i = 0; i < LS__CHECKPOINT_STATES; i++) {
        arrays.state[i] = calloc((size_t)total, sizeof(float));
        assert_non_null(arrays.state[i]);
    }
    assert_ok(ls__run_folder_name(&folder, run));
    assert_ok(ls__checkpoint_path(path, folder.checkpoints, loaded.info.step));
    assert_ok(ls__checkpoint_read(path, &loaded.info, &arrays));
    loaded.info.loss_scale = 0;
    assert_ok(ls__checkpoint_write(path, &loaded.info, &arrays));
    for (int i = 0; i < LS__CHECKPOINT_STATES; i++)
        free(arrays.state[i]);
    ls__loaded_close(&loaded);
}

static const char *const grows[] = {"--loss-scale", "1024", "--loss-scale-growth", "5", NULL};
static const char early[] = "inf:rank=0:step=3:element=300";

/* After 6 steps three of the five before the scale grows are done. */
static void test_resumed_in_the_middle(void **state)
{
    static const int ranks[] = {1, 4};
    trace whole;

    (void)state;
    next_run(&whole);
    go(&whole, 1, 0, early, grows, 0, "1 of 12 steps were skipped");
    assert_true(whole.scale[7] == 512 && whole.scale[8] == 1024);
    for (int i = 0; i < 2; i++) {
        const char *flags[FLAGS];
        trace t;
        next_run(&t);
        join(flags, grows, i ? sharded : NULL, NULL);
        go(&t, 2, 6, early, flags, 0, "1 of 6 steps were skipped");
        go(&t, ranks[i], STEPS, NULL, NULL, 0, "1 of 12 steps were skipped");
        assert_same_chain(&whole, &t);
        assert_same_scales(&whole, &t);
        forget(&t);
    }
    forget(&whole);
}

/* The control, and a checkpoint from before there was scaling: it loads, the scale begins anew, and
 * without the count of updates AdamW corrects its bias for one too many. */
static void test_a_scaler_that_is_lost_shows(void **state)
{
    trace whole;
    trace t;

    (void)state;
    next_run(&whole);
    next_run(&t);
    go(&whole, 1, 0, early, grows, 0, "1 of 12 steps were skipped");
    go(&t, 1, 6, early, grows, 0, "1 of 6 steps were skipped");
    forget_scaler(t.run);
    go(&t, 1, STEPS, NULL, NULL, 0, NULL);
    assert_int_equal(t.count, STEPS);
    assert_true(step_equal(&t, 6, &whole, 6));
    assert_false(step_equal(&t, 7, &whole, 7));
    assert_true(t.scale[6] == 1024 && whole.scale[6] == 512);
    assert_true(t.skipped[6] == 0 && whole.skipped[6] == 1);
    forget(&whole);
    forget(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_power_of_two_changes_no_bit),
        cmocka_unit_test(test_an_overflow_on_one_rank_skips_on_all),
        cmocka_unit_test(test_an_overflow_in_fp32_sums),
        cmocka_unit_test(test_a_skipped_step_leaves_nothing),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_an_overflow_at_the_floor),
        cmocka_unit_test(test_fp16_overflows),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_resumed_in_the_middle),
        cmocka_unit_test(test_a_scaler_that_is_lost_shows),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
