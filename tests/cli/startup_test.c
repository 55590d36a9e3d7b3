/* How a run starts and is taken up again: ranks that compute unlike each other, checkpoints that
 * are missing, unreadable or of another BLAS core, other ranks, nothing to do, data that moved. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "math/gemm.h"
#include "support/process.h"
#include "support/test.h"

enum { TEXT_BYTES = 6000, WORDS = 64 };

static const char *data;

/* Flags of a model that trains in no time. */
#define SMALL                                                                            \
    "--layers", "1", "--heads", "2", "--width", "16", "--context", "16", "--batch", "8", \
        "--warmup", "2", "--eval-every", "0"

static int set_up(void **state)
{
    const char *text = ls__test_path("text.txt");
    FILE *file = fopen(text, "w");
    ls__process p;

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < TEXT_BYTES; i++)
        fputc(i % 11 == 10 ? '\n' : 'a' + i * i % 7, file);
    assert_int_equal(fclose(file), 0);
    data = ls__test_path("text.h5");
    ls__run_lockstep(&p, "data", "text", text, "-o", data, "--val", "0.2", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    return 0;
}

/* A run of 4 steps with a checkpoint every 2. */
static void train(const char *run, const char *ranks)
{
    ls__process p;

    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, "--steps", "4",
                     "--decay-steps", "8", "--checkpoint-every", "2", "--ranks", ranks, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
}

static const char *inside(const char *run, const char *name)
{
    static char path[LS__PATH_SIZE];

    assert_ok(ls__path_join(path, run, name));
    return path;
}

static int64_t size_of(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

/* ---- ranks that compute unlike each other ---- */

/* A core of OpenBLAS that any x86-64 processor of the last decade has, other than the one in use.
 * Elsewhere there may be no choice. */
static const char *other_core(void)
{
#ifndef __x86_64__
    skip();
#endif
    return strcmp(ls__gemm_core(), "Sandybridge") == 0 ? "Nehalem" : "Sandybridge";
}

/* mpirun with two ranks of one command, the first with a variable "NAME=value". */
static void run_with_variable(ls__process *p, const char *variable, const char *const *arguments)
{
    static const char *const env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
                                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    const char *start[] = {"mpirun", "-q", "--oversubscribe", "--bind-to", "none", "-n", "1", "-x"};
    const char *words[WORDS];
    int n = 0;

    for (size_t i = 0; i < sizeof start / sizeof start[0]; i++)
        words[n++] = start[i];
    words[n++] = variable;
    for (int rank = 0; rank < 2; rank++) {
        words[n++] = ls__lockstep();
        for (int i = 0; arguments[i]; i++)
            words[n++] = arguments[i];
        if (rank > 0)
            break;
        words[n++] = ":";
        words[n++] = "-n";
        words[n++] = "1";
    }
    words[n] = NULL;
    ls__process_run(&(ls__command){.argv = words, .env = env}, p);
}

/* The first rank on another core of OpenBLAS. */
static void run_on_two_cores(ls__process *p, const char *const *arguments)
{
    char core[64];

    snprintf(core, sizeof core, "OPENBLAS_CORETYPE=%s", other_core());
    run_with_variable(p, core, arguments);
}

static void test_ranks_on_two_cores_are_refused(void **state)
{
    const char *run = ls__test_path("cores");
    const char *arguments[] = {"train", "--data", data, "--run", run, SMALL, "--steps", "3", NULL};
    char says[128];
    ls__process p;

    (void)state;
    snprintf(says, sizeof says, "OpenBLAS core %s, not %s", ls__gemm_core(), other_core());
    run_on_two_cores(&p, arguments);
    assert_exit(p, 2);
    assert_one_line(p, "not the same bits on rank 1 (");
    assert_one_line(p, "as on rank 0 (");
    assert_one_line(p, says);
    assert_one_line(p, "set OPENBLAS_CORETYPE");
    ls__process_free(&p);
    assert_false(ls__path_exists(run));
}

static void test_two_engines_of_bf16_are_refused(void **state)
{
    const char *run = ls__test_path("engines");
    const char *arguments[] = {"train",   "--data", data,          "--run", run, SMALL,
                               "--steps", "3",      "--precision", "bf16",  NULL};
    ls__process p;

    (void)state;
    if (strncmp(ls__gemm_engine(LS__BF16), "oneDNN", 6) != 0)
        skip(); /* all widen: there is one engine only */
    run_with_variable(&p, "ONEDNN_MAX_CPU_ISA=AVX2", arguments);
    assert_exit(p, 2);
    assert_one_line(p, "not the same bits on rank 1 (");
    assert_one_line(p, ls__gemm_engine(LS__BF16));
    assert_one_line(p, "set ONEDNN_MAX_CPU_ISA");
    ls__process_free(&p);
    assert_false(ls__path_exists(run));
}

/* Attention's products in FP32 are oneDNN's too, where it has kernels. */
static void test_two_engines_of_attention_are_refused(void **state)
{
    const char *run = ls__test_path("attention");
    const char *arguments[] = {"train", "--data", data, "--run", run, SMALL, "--steps", "3", NULL};
    ls__process p;

    (void)state;
    if (strncmp(ls__gemm_small_engine(), "oneDNN", 6) != 0)
        skip();
    run_with_variable(&p, "ONEDNN_MAX_CPU_ISA=SSE41", arguments);
    assert_exit(p, 2);
    assert_one_line(p, "not the same bits on rank 1 (");
    assert_one_line(p, ls__gemm_small_engine());
    assert_one_line(p, "set ONEDNN_MAX_CPU_ISA");
    ls__process_free(&p);
    assert_false(ls__path_exists(run));
}

/* FP32 sums promise no bits: a warning. */
static void test_ranks_on_two_cores_under_f32(void **state)
{
    const char *run = ls__test_path("cores-f32");
    const char *arguments[] = {"train",   "--data", data,       "--run", run, SMALL,
                               "--steps", "3",      "--reduce", "f32",   NULL};
    ls__process p;

    (void)state;
    run_on_two_cores(&p, arguments);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "warning: not the same bits on rank 1 ("));
    ls__process_free(&p);
}

static void test_evaluation_on_two_cores_is_refused(void **state)
{
    const char *run = ls__test_path("cores-eval");
    const char *arguments[] = {"eval", "--run", run, NULL};
    ls__process p;

    (void)state;
    train(run, "1");
    run_on_two_cores(&p, arguments);
    assert_exit(p, 2);
    assert_one_line(p, "not the same bits on rank 1 (");
    ls__process_free(&p);
}

static void test_resuming_on_another_core_warns(void **state)
{
    const char *run = ls__test_path("cores-resume");
    const char *arguments[] = {ls__lockstep(), "train",   "--run", run,
                               "--resume",     "--steps", "6",     NULL};
    char core[64];
    char says[128];
    const char *env[] = {core, NULL};
    ls__process p;

    (void)state;
    train(run, "1");
    snprintf(core, sizeof core, "OPENBLAS_CORETYPE=%s", other_core());
    snprintf(says, sizeof says, "made on the OpenBLAS core %s, this is %s", ls__gemm_core(),
             other_core());
    ls__process_run(&(ls__command){.argv = arguments, .env = env}, &p);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, says));
    ls__process_free(&p);
    /* The control: on the same core there is nothing to warn of. */
    train(ls__test_path("cores-same"), "1");
    ls__run_lockstep(&p, "train", "--run", ls__test_path("cores-same"), "--resume", "--steps", "6",
                     NULL);
    assert_exit(p, 0);
    assert_null(strstr(p.err, "warning: the checkpoint"));
    ls__process_free(&p);
}

/* The same of oneDNN's instruction set. */
static void test_resuming_on_another_engine_warns(void **state)
{
    const char *run = ls__test_path("engine-resume");
    const char *arguments[] = {ls__lockstep(), "train",   "--run", run,
                               "--resume",     "--steps", "6",     NULL};
    const char *env[] = {"ONEDNN_MAX_CPU_ISA=SSE41", NULL};
    ls__process p;

    (void)state;
    if (strncmp(ls__gemm_small_engine(), "oneDNN", 6) != 0)
        skip();
    train(run, "1");
    ls__process_run(&(ls__command){.argv = arguments, .env = env}, &p);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "the checkpoint was made with products by"));
    assert_non_null(strstr(p.err, ls__gemm_small_engine()));
    ls__process_free(&p);
}

/* ---- taking a run up again ---- */

static void test_missing_checkpoints(void **state)
{
    const char *run = ls__test_path("missing");
    ls__process p;

    (void)state;
    train(run, "1");
    assert_int_equal(unlink(inside(run, "checkpoints/step-00000002.h5")), 0);
    assert_int_equal(unlink(inside(run, "checkpoints/step-00000004.h5")), 0);
    assert_int_equal(unlink(inside(run, "checkpoints/latest")), 0);
    assert_int_equal(rmdir(inside(run, "checkpoints")), 0);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "no checkpoint yet: starting again from step 0"));
    ls__process_free(&p);
    assert_true(ls__path_exists(inside(run, "checkpoints/step-00000004.h5")));
}

/* What cannot be read is not empty: nothing of the run is touched. */
static void test_unreadable_checkpoints(void **state)
{
    const char *run = ls__test_path("unreadable");
    ls__process p;

    (void)state;
    train(run, "1");
    int64_t before = size_of(inside(run, "metrics.jsonl"));
    const char *aside = ls__test_path("unreadable-aside");
    assert_int_equal(rename(inside(run, "checkpoints"), aside), 0);
    assert_int_equal(symlink("checkpoints", inside(run, "checkpoints")), 0);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "6", NULL);
    assert_exit(p, 3);
    assert_one_line(p, "cannot open the folder");
    ls__process_free(&p);
    assert_int_equal(size_of(inside(run, "metrics.jsonl")), before);
}

/* The newest is damaged: the run goes on from the one before, and keeps what it then saves. */
static void test_damaged_newest(void **state)
{
    const char *run = ls__test_path("newest");
    ls__process p;

    (void)state;
    train(run, "1");
    assert_int_equal(truncate(inside(run, "checkpoints/step-00000004.h5"), 1000), 0);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "3", "--keep", "1", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "passing over a damaged checkpoint"));
    assert_non_null(strstr(p.err, "going on from step 2"));
    ls__process_free(&p);
    assert_true(ls__path_exists(inside(run, "checkpoints/step-00000003.h5")));
    assert_false(ls__path_exists(inside(run, "checkpoints/step-00000004.h5")));
    ls__run_lockstep(&p, "eval", "--run", run, NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "step 3:"));
    ls__process_free(&p);
}

static void test_other_ranks_and_nothing_to_do(void **state)
{
    const char *run = ls__test_path("ranks");
    ls__process p;

    (void)state;
    train(run, "2");
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "3", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "the run was on 2 ranks, now it is on 1: its bits stay"));
    assert_non_null(strstr(p.err, "nothing to do: 4 of 3 steps are done"));
    ls__process_free(&p);
}

/* ---- data that moved ---- */

static void test_relative_data_from_another_folder(void **state)
{
    const char *run = ls__test_path("relative");
    const char *words[] = {ls__lockstep(), "train", "--data",  "text.h5", "--run",
                           "relative",     SMALL,   "--steps", "2",       NULL};
    ls__process p;

    (void)state;
    ls__process_run(&(ls__command){.argv = words, .folder = ls__test_folder()}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    ls__run_lockstep(&p, "eval", "--run", run, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "3", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
}

static void test_data_that_is_gone(void **state)
{
    static const char hint[] = "--data FILE overrides it";
    const char *run = ls__test_path("gone");
    const char *aside = ls__test_path("aside.h5");
    ls__process p;

    (void)state;
    train(run, "1");
    assert_int_equal(rename(data, aside), 0);
    ls__run_lockstep(&p, "eval", "--run", run, "--ranks", "2", NULL);
    assert_exit(p, 2);
    assert_one_line(p, hint);
    ls__process_free(&p);
    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "6", NULL);
    assert_exit(p, 2);
    assert_one_line(p, hint);
    ls__process_free(&p);
    ls__run_lockstep(&p, "eval", "--run", run, "--data", aside, "--ranks", "2", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_int_equal(rename(aside, data), 0);
}

/* A run's folder that only rank 0 sees: the other rank starts where the name leads nowhere. */
static void test_only_rank_0_needs_the_folder(void **state)
{
    static const char *const env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
                                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    const char *words[] = {"mpirun",
                           "-q",
                           "--oversubscribe",
                           "--bind-to",
                           "none",
                           "-n",
                           "1",
                           "--wdir",
                           ls__test_folder(),
                           ls__lockstep(),
                           "eval",
                           "--run",
                           "alone",
                           ":",
                           "-n",
                           "1",
                           "--wdir",
                           "/",
                           ls__lockstep(),
                           "eval",
                           "--run",
                           "alone",
                           NULL};
    ls__process p;

    (void)state;
    train(ls__test_path("alone"), "1");
    ls__process_run(&(ls__command){.argv = words, .env = env}, &p);
    assert_exit(p, 0);
    assert_non_null(strstr(p.out, "step 4:"));
    ls__process_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_on_two_cores_are_refused),
        cmocka_unit_test(test_two_engines_of_bf16_are_refused),
        cmocka_unit_test(test_two_engines_of_attention_are_refused),
        cmocka_unit_test(test_ranks_on_two_cores_under_f32),
        cmocka_unit_test(test_evaluation_on_two_cores_is_refused),
        cmocka_unit_test(test_resuming_on_another_core_warns),
        cmocka_unit_test(test_resuming_on_another_engine_warns),
        cmocka_unit_test(test_missing_checkpoints),
        cmocka_unit_test(test_unreadable_checkpoints),
        cmocka_unit_test(test_damaged_newest),
        cmocka_unit_test(test_other_ranks_and_nothing_to_do),
        cmocka_unit_test(test_relative_data_from_another_folder),
        cmocka_unit_test(test_data_that_is_gone),
        cmocka_unit_test(test_only_rank_0_needs_the_folder),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
