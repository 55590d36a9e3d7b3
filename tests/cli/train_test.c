/* lockstep train, eval, sample and verify as a user runs them: what they print, what they leave
 * behind, how they refuse. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

enum { TEXT_BYTES = 6000, WORDS = 48 };

static char text_data[LS__PATH_SIZE];
static char tiny_data[LS__PATH_SIZE];
static char long_data[LS__PATH_SIZE];

/* Flags of a model that trains in no time. */
#define SMALL                                                                            \
    "--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--batch", "8", \
        "--warmup", "2", "--eval-every", "0"

static const char *path_of(const char *name)
{
    static char paths[8][LS__PATH_SIZE];
    static int next;
    char *path = paths[next++ % 8];

    assert_ok(ls__path_join(path, ls__test_folder(), name));
    return path;
}

/* Text with some structure: letters of which each depends on the one before. */
static void write_text(const char *path, int bytes)
{
    FILE *file = fopen(path, "w");
    unsigned at = 1;

    assert_non_null(file);
    for (int i = 0; i < bytes; i++) {
        at = (at * 1103515245u + 12345u) % 2147483648u;
        fputc(i % 11 == 10 ? '\n' : 'a' + (int)((unsigned)(i % 7) + at % 3), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void make_dataset(char *data, const char *name, int bytes)
{
    ls__process p;
    const char *text = path_of("text.txt");

    write_text(text, bytes);
    assert_ok(ls__path_join(data, ls__test_folder(), name));
    ls__run_lockstep(&p, "data", "text", text, "-o", data, "--val", "0.2", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
}

static int set_up(void **state)
{
    (void)state;
    make_dataset(text_data, "text.h5", TEXT_BYTES);
    make_dataset(tiny_data, "tiny.h5", 40);
    make_dataset(long_data, "long.h5", 60000);
    return 0;
}

/* The last line of a run's metrics that has this key, from the key on; "" where there is none. */
static const char *last_metric(const char *run, const char *key)
{
    static char found[512];
    char path[LS__PATH_SIZE];
    char quoted[64];
    char line[2048];

    found[0] = '\0';
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    assert_ok(ls__path_join(path, run, "metrics.jsonl"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        const char *at = strstr(line, quoted);
        if (at)
            snprintf(found, sizeof found, "%s", at + strlen(quoted));
    }
    fclose(file);
    return found;
}

static int count_lines(const char *run, const char *part)
{
    char path[LS__PATH_SIZE];
    char line[2048];
    int count = 0;

    assert_ok(ls__path_join(path, run, "metrics.jsonl"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, part) != NULL;
    fclose(file);
    return count;
}

/* ---- a run ---- */

static void test_run_leaves_what_it_should(void **state)
{
    const char *run = path_of("whole");
    char path[LS__PATH_SIZE];
    char latest[64];
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, SMALL, "--steps", "20",
                     "--eval-every", "10", "--checkpoint-every", "5", "--keep", "2", "--ranks", "2",
                     NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "step 20/20"));
    ls__process_free(&p);
    assert_int_equal(count_lines(run, "\"run\": "), 1);
    assert_int_equal(count_lines(run, "\"digest\": "), 20);
    assert_int_equal(count_lines(run, "\"val_loss\": "), 2);
    assert_int_equal(count_lines(run, "\"val_bits_per_byte\": "), 2);
    assert_ok(ls__path_join(path, run, "checkpoints/latest"));
    assert_ok(ls__file_read_text(path, latest, sizeof latest));
    assert_string_equal(latest, "step-00000020.h5\n");
    assert_ok(ls__path_join(path, run, "checkpoints/step-00000015.h5"));
    assert_true(ls__path_exists(path));
    assert_ok(ls__path_join(path, run, "checkpoints/step-00000010.h5"));
    assert_false(ls__path_exists(path));
    assert_true(atof(last_metric(run, "loss")) < 2.3);

    /* The same folder again, and with another configuration. */
    ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, SMALL, NULL);
    assert_exit(p, 2);
    assert_one_line(p, "holds a run already");
    ls__process_free(&p);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--width", "32", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "holds a run with --width 16, not 32");
    ls__process_free(&p);
}

/* Twice stopped and resumed, with flags taken from the run's own configuration: the same digests
 * and the same lines as in one go. The control, another seed, differs. */
static void test_resume_is_bit_for_bit(void **state)
{
    static const char *const ranks[] = {"1", "2", "3"};
    char digest[64];
    ls__process p;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "once-%s", ranks[i]);
        const char *once = path_of(name);
        snprintf(name, sizeof name, "parts-%s", ranks[i]);
        const char *parts = path_of(name);
        snprintf(name, sizeof name, "other-%s", ranks[i]);
        const char *other = path_of(name);
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", once, SMALL, "--ranks",
                         ranks[i], "--steps", "12", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", parts, SMALL, "--ranks",
                         ranks[i], "--steps", "5", "--decay-steps", "12", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        ls__run_lockstep(&p, "train", "--run", parts, "--resume", "--ranks", ranks[i], "--steps",
                         "9", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        ls__run_lockstep(&p, "train", "--run", parts, "--resume", "--ranks", ranks[i], "--steps",
                         "12", NULL);
        assert_exit(p, 0);
        assert_non_null(strstr(p.err, "going on from step 9"));
        ls__process_free(&p);
        snprintf(digest, sizeof digest, "%s", last_metric(once, "digest"));
        assert_int_equal(strlen(digest), strlen("\"0123456789abcdef0123456789abcdef\"}\n"));
        assert_string_equal(last_metric(parts, "digest"), digest);
        assert_int_equal(count_lines(parts, "\"digest\": "), 12);
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", other, SMALL, "--ranks",
                         ranks[i], "--steps", "12", "--seed", "2", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        assert_string_not_equal(last_metric(other, "digest"), digest);
    }
}

/* Steps that a crash left in the metrics beyond the last checkpoint are done again, not repeated.
 */
static void test_resume_drops_later_lines(void **state)
{
    const char *run = path_of("crashed");
    char path[LS__PATH_SIZE];
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, SMALL, "--steps", "4",
                     "--decay-steps", "6", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_ok(ls__path_join(path, run, "metrics.jsonl"));
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs("{\"step\": 5, \"loss\": 1.0, \"digest\": \"lost\"}\n{\"step\": 6, \"lo", file);
    fclose(file);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "6", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_int_equal(count_lines(run, "\"digest\": "), 6);
    assert_int_equal(count_lines(run, "lost"), 0);
}

/* V = 8 micro-batches on 3 and 5 ranks: no hang, and the bits of one rank. */
static void test_ranks_need_not_divide(void **state)
{
    static const char *const ranks[] = {"1", "3", "5", "8"};
    char first[64] = "";
    ls__process p;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "uneven-%s", ranks[i]);
        const char *run = path_of(name);
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, SMALL, "--ranks", ranks[i],
                         "--steps", "10", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        if (i == 0)
            snprintf(first, sizeof first, "%s", last_metric(run, "digest"));
        assert_string_equal(last_metric(run, "digest"), first);
    }
}

/* ---- evaluation and text ---- */

static void test_eval_is_the_same_at_any_ranks(void **state)
{
    const char *run = path_of("evaluated");
    char first[256] = "";
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, SMALL, "--steps", "3", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    for (int ranks = 1; ranks <= 5; ranks++) {
        char count[8];
        snprintf(count, sizeof count, "%d", ranks);
        ls__run_lockstep(&p, "eval", "--run", run, "--ranks", count, NULL);
        assert_exit(p, 0);
        /* 1200 validation tokens make (1200 - 1) / 16 = 74 whole windows, each counted once. */
        assert_non_null(strstr(p.out, "over 74 sequences"));
        if (ranks == 1)
            snprintf(first, sizeof first, "%s", p.out);
        assert_string_equal(p.out, first);
        ls__process_free(&p);
    }
}

/* The number behind "validation loss". */
static double validation_loss(const char *text)
{
    static const char words[] = "validation loss ";
    const char *at = strstr(text, words);

    assert_non_null(at);
    return strtod(at + sizeof words - 1, NULL);
}

/* In 16 bits products read rounded copies of the weights: training's must follow every update.
 * Another process, which rounds what was saved, finds the same loss; far from the first step's. */
static void test_eval_agrees_with_training_in_16_bits(void **state)
{
    static const char *const precisions[] = {"bf16", "f16"};
    static const char *const steps[] = {"1", "30"};
    ls__process p;

    (void)state;
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"rounded-0", "rounded-1", "rounded-2", "rounded-3"};
        static double after[2];
        const char *run = path_of(names[i]);
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, "--layers", "1", "--heads",
                         "2", "--width", "16", "--context", "16", "--batch", "8", "--steps",
                         steps[i % 2], "--warmup", "1", "--lr", "1e-2", "--precision",
                         precisions[i / 2], "--eval-every", steps[i % 2], "--eval-batches", "0",
                         NULL);
        assert_exit(p, 0);
        after[i % 2] = validation_loss(p.err);
        ls__process_free(&p);
        ls__run_lockstep(&p, "eval", "--run", run, NULL);
        assert_exit(p, 0);
        assert_near(validation_loss(p.out), after[i % 2], 1e-4);
        ls__process_free(&p);
        if (i % 2 == 1)
            assert_true(after[1] < after[0] - 0.1);
    }
}

static void test_sample(void **state)
{
    const char *run = path_of("sampled");
    char first[256];
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", text_data, "--run", run, SMALL, "--steps", "3", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    ls__run_lockstep(&p, "sample", "--run", run, "--prompt", "abc", "--length", "50", NULL);
    assert_exit(p, 0);
    assert_int_equal(strlen(p.out), 3 + 50 + 1);
    assert_memory_equal(p.out, "abc", 3);
    snprintf(first, sizeof first, "%s", p.out);
    ls__process_free(&p);
    ls__run_lockstep(&p, "sample", "--run", run, "--prompt", "abc", "--length", "50", NULL);
    assert_string_equal(p.out, first);
    ls__process_free(&p);
    ls__run_lockstep(&p, "sample", "--run", run, "--prompt", "abc", "--length", "50", "--seed", "2",
                     NULL);
    assert_string_not_equal(p.out, first);
    ls__process_free(&p);
    /* One choice left is no choice: top-k 1 is temperature 0. */
    ls__run_lockstep(&p, "sample", "--run", run, "--prompt", "abc", "--length", "50", "--top-k",
                     "1", NULL);
    snprintf(first, sizeof first, "%s", p.out);
    ls__process_free(&p);
    ls__run_lockstep(&p, "sample", "--run", run, "--prompt", "abc", "--length", "50",
                     "--temperature", "0", NULL);
    assert_string_equal(p.out, first);
    ls__process_free(&p);
    ls__run_lockstep(&p, "sample", "--run", run, "--prompt", "abc%", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "'%'");
    ls__process_free(&p);
    ls__run_lockstep(&p, "sample", "--run", path_of("nowhere"), NULL);
    assert_exit(p, 2);
    assert_one_line(p, "not the folder of a run");
    ls__process_free(&p);
}

/* ---- verify ---- */

static void test_verify(void **state)
{
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "verify", "--data", text_data, SMALL, "--steps", "10", "--ranks", "1,3",
                     NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "reference"));
    assert_non_null(strstr(p.out, "control, which must differ"));
    assert_non_null(strstr(p.out, " 0/10 "));
    assert_null(strstr(p.out, "could not tell"));
    ls__process_free(&p);
    /* FP32 sums agree within a tolerance, and not within none. */
    ls__run_lockstep(&p, "verify", "--data", text_data, SMALL, "--steps", "10", "--ranks", "1,2,3",
                     "--reduce", "f32", "--optimizer", "sgd", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    ls__run_lockstep(&p, "verify", "--data", text_data, SMALL, "--steps", "10", "--ranks", "1,2",
                     "--reduce", "f32", "--tolerance", "0", NULL);
    assert_exit(p, 1);
    assert_one_line(p, "more than --tolerance 0");
    ls__process_free(&p);
    ls__run_lockstep(&p, "verify", "--data", text_data, SMALL, "--ranks", "1,9", NULL);
    assert_exit(p, 2);
    assert_non_null(strstr(p.err, "9 ranks cannot share the 8 micro-batches"));
    ls__process_free(&p);
}

/* Two runs from the same seed are one; from another seed they part at the first step, and the
 * tensor is told where both kept a checkpoint. */
static void test_diff(void **state)
{
    static const char *const seeds[] = {"1", "1", "2"};
    const char *runs[] = {path_of("diff-a"), path_of("diff-b"), path_of("diff-c")};
    ls__process p;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", runs[i], SMALL, "--steps", "4",
                         "--seed", seeds[i], "--ranks", i == 1 ? "3" : "1", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
    }
    ls__run_lockstep(&p, "diff", runs[0], runs[1], NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "the same bits in all 4 steps"));
    ls__process_free(&p);
    ls__run_lockstep(&p, "diff", runs[0], runs[2], NULL);
    assert_exit(p, 1);
    assert_one_line(p, "differ from step 1 on");
    assert_non_null(strstr(p.out, "first tensor: wte.weight, element [0, 0]"));
    assert_non_null(strstr(p.out, "ulps apart"));
    ls__process_free(&p);
    ls__run_lockstep(&p, "diff", runs[0], path_of("nowhere"), NULL);
    assert_exit(p, 2);
    assert_one_line(p, "nowhere/metrics.jsonl");
    ls__process_free(&p);
}

/* The bits do not depend on the ranks, so a run goes on where it stopped on any other number of
 * them, sharded or not. */
static void test_resume_on_other_ranks(void **state)
{
    static const char *const ranks[] = {"3", "1", "4", "2"};
    static const char *const until[] = {"3", "6", "9", "12"};
    const char *once = path_of("elastic-once");
    const char *parts = path_of("elastic-parts");
    char digest[64];
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", text_data, "--run", once, SMALL, "--steps", "12", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    snprintf(digest, sizeof digest, "%s", last_metric(once, "digest"));
    for (size_t i = 0; i < 4; i++) {
        ls__run_lockstep(&p, "train", "--data", text_data, "--run", parts, SMALL, "--decay-steps",
                         "12", "--resume", "--ranks", ranks[i], "--steps", until[i],
                         i % 2 ? "--shard-optimizer" : "--shard-optimizer=false", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
    }
    assert_string_equal(last_metric(parts, "digest"), digest);
    ls__run_lockstep(&p, "diff", once, parts, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
}

/* ---- refusals: one line, exit 2, no trace ---- */

/* Expects `lockstep train WORDS...` to be refused on 1 and on 2 ranks with one line saying `part`,
 * and to leave no run behind. */
static void refuses(const char *part, ...)
{
    static const char *const ranks[] = {"0", "2"};
    const char *run = path_of("refused");

    for (size_t i = 0; i < 2; i++) {
        const char *words[WORDS] = {ls__lockstep(), "train", "--run", run, "--ranks", ranks[i]};
        ls__process p;
        int count = 6;
        va_list list;
        va_start(list, part);
        while ((words[count] = va_arg(list, const char *)))
            count++;
        va_end(list);
        ls__process_run(&(ls__command){.argv = words}, &p);
        assert_exit(p, 2);
        assert_one_line(p, part);
        assert_false(ls__path_exists(run));
        ls__process_free(&p);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    refuses("--data is missing", NULL);
    refuses("nonexistent.h5", "--data", "/nonexistent.h5", NULL);
    refuses("did you mean --layers?", "--data", text_data, "--layer", "3", NULL);
    refuses("does not divide --width 16", "--data", text_data, "--heads", "3", "--width", "16",
            NULL);
    refuses("not a multiple of --micro-batch 5", "--data", text_data, "--batch", "12",
            "--micro-batch", "5", NULL);
    refuses("--model mlp does not fit", "--data", text_data, "--model", "mlp", NULL);
    refuses("--min-lr", "--data", text_data, "--lr", "1e-5", NULL);
    refuses("whole number", "--data", text_data, "--steps", "many", NULL);
    refuses("from 1 to", "--data", text_data, "--steps", "0", NULL);
    /* 32 training tokens: too few for one context of 64; then enough for that, too few for a step.
     */
    refuses("tokens", "--data", tiny_data, NULL);
    refuses("needs 1032 training tokens, and there are 32", "--data", tiny_data, "--context", "8",
            "--batch", "1024", NULL);
    /* 64 layers of 2^18 rows of 16 x 512 floats and more: refused before any is taken. */
    refuses("activations need", "--data", long_data, "--context", "32768", "--batch", "16",
            "--micro-batch", "8", "--heads", "16", "--width", "512", "--layers", "64", NULL);
    refuses("need", "--data", text_data, "--layers", "400", "--width", "8192", NULL);
}

static void test_more_ranks_than_micro_batches(void **state)
{
    const char *run = path_of("too-many");
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--run", run, "--data", text_data, SMALL, "--micro-batch", "4",
                     "--ranks", "3", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "3 ranks cannot share the 2 micro-batches");
    assert_false(ls__path_exists(run));
    ls__process_free(&p);
}

/* mpirun starts two programs, one with another width. */
static void test_different_flags_on_ranks(void **state)
{
    const char *run = path_of("differing");
    const char *words[] = {"mpirun",
                           "-q",
                           "--oversubscribe",
                           "-n",
                           "1",
                           ls__lockstep(),
                           "train",
                           "--data",
                           text_data,
                           "--run",
                           run,
                           "--width",
                           "128",
                           ":",
                           "-n",
                           "2",
                           ls__lockstep(),
                           "train",
                           "--data",
                           text_data,
                           "--run",
                           run,
                           "--width",
                           "256",
                           NULL};
    const char *env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = words, .env = env}, &p);
    assert_exit(p, 2);
    assert_one_line(p, "rank 1 has --width 256 where rank 0 has --width 128");
    assert_false(ls__path_exists(run));
    ls__process_free(&p);
}

/* A disk that fills up while a checkpoint is written: one line, exit 2, and nothing half-written.
 * The limit on file sizes stands for the disk: 16 MiB (in blocks of 512 bytes), which is enough for
 * Open MPI's own files and too little for 1.6 M parameters and their moments. */
static void test_full_disk(void **state)
{
    char script[3 * LS__PATH_SIZE];
    const char *run = path_of("full");
    const char *words[] = {"sh", "-c", script, NULL};
    char path[LS__PATH_SIZE];
    ls__process p;

    (void)state;
    snprintf(script, sizeof script,
             "ulimit -f 32768; exec %s train --data %s --run %s --ranks 2 --layers 2 --heads 2 "
             "--width 256 --context 16 --batch 8 --warmup 2 --eval-every 0 --steps 2",
             ls__lockstep(), text_data, run);
    ls__process_run(&(ls__command){.argv = words}, &p);
    assert_exit(p, 2);
    assert_non_null(strstr(p.err, "free some room"));
    ls__process_free(&p);
    assert_ok(ls__path_join(path, run, "checkpoints/step-00000002.h5"));
    assert_false(ls__path_exists(path));
    assert_ok(ls__path_join(path, run, "checkpoints/step-00000002.h5.tmp"));
    assert_false(ls__path_exists(path));
}

/* As root, in a container or not, with no variable of Open MPI set: works, and quietly. */
static void test_nothing_set(void **state)
{
    const char *run = path_of("bare");
    const char *words[] = {"env",          "-i",      "PATH=/usr/bin:/bin",
                           ls__lockstep(), "train",   "--data",
                           text_data,      "--run",   run,
                           SMALL,          "--steps", "2",
                           "--ranks",      "3",       NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = words}, &p);
    assert_exit(p, 0);
    assert_null(strstr(p.err, "Read -1"));
    assert_null(strstr(p.err, "root"));
    if (sysconf(_SC_NPROCESSORS_ONLN) < 3)
        assert_non_null(strstr(p.err, "3 ranks share"));
    ls__process_free(&p);
}

static void test_help(void **state)
{
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--help", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "--weight-decay"));
    ls__process_free(&p);
    ls__run_lockstep(&p, "trian", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "did you mean train?");
    ls__process_free(&p);
    ls__run_lockstep(&p, NULL);
    assert_exit(p, 2);
    assert_one_line(p, "--help lists them");
    ls__process_free(&p);
    ls__run_lockstep(&p, "--version", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_run_leaves_what_it_should),
        cmocka_unit_test(test_resume_is_bit_for_bit),
        cmocka_unit_test(test_resume_drops_later_lines),
        cmocka_unit_test(test_ranks_need_not_divide),
        cmocka_unit_test(test_eval_is_the_same_at_any_ranks),
        cmocka_unit_test(test_eval_agrees_with_training_in_16_bits),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_resume_on_other_ranks),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_more_ranks_than_micro_batches),
        cmocka_unit_test(test_different_flags_on_ranks),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_nothing_set),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
