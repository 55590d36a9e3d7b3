/* Starting ranks, losing them, stopping them: what the launcher says, what it ends with, and that a
 * run that goes on ends with the bits of one that was never interrupted. */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

enum { LAUNCHER = -1, MPIRUN = -2, WORDS = 48, PROC_TEXT = 65536 };

static const double patience = 30; /* seconds */

static const char *data;

/* A model that trains in no time, for steps enough to be interrupted in. */
#define SMALL                                                                            \
    "--layers", "1", "--heads", "2", "--width", "16", "--context", "32", "--batch", "8", \
        "--warmup", "2", "--eval-every", "0", "--checkpoint-every", "40"
#define STEPS   "--steps", "400", "--decay-steps", "400"
#define FOREVER "--steps", "1000000"

static int set_up(void **state)
{
    const char *text = ls__test_path("text.txt");
    FILE *file = fopen(text, "w");
    ls__process p;

    (void)state;
    assert_non_null(file);
    for (unsigned i = 0; i < 20000; i++)
        fputc(i % 11 == 10 ? '\n' : (int)('a' + i * i % 7), file);
    assert_int_equal(fclose(file), 0);
    data = ls__test_path("text.h5");
    ls__run_lockstep(&p, "data", "text", text, "-o", data, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    return 0;
}

/* ---- processes of a run ---- */

/* A file of /proc, whose strings end with zeros, as lines. */
static void read_proc(const char *pid, const char *name, char *text)
{
    char path[512];
    size_t length = 0;

    snprintf(path, sizeof path, "/proc/%.200s/%s", pid, name);
    FILE *file = fopen(path, "r");
    if (file) {
        length = fread(text, 1, PROC_TEXT - 1, file);
        fclose(file);
    }
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\0')
            text[i] = '\n';
    text[length] = '\0';
}

/* Whether this process is that rank, the launcher or mpirun of the run. */
static bool is_of_run(const char *pid, const char *run, int which)
{
    static char words[PROC_TEXT];
    static char environment[PROC_TEXT];
    char variable[64];

    read_proc(pid, "cmdline", words);
    bool is_mpirun = strncmp(words, "mpirun\n", 7) == 0;
    if (!strstr(words, run) || (!is_mpirun && strncmp(words, ls__lockstep(), 8) != 0))
        return false;
    if (which == MPIRUN || is_mpirun)
        return which == MPIRUN && is_mpirun;
    read_proc(pid, "environ", environment);
    if (which == LAUNCHER)
        return !strstr(environment, "OMPI_COMM_WORLD_RANK=");
    snprintf(variable, sizeof variable, "OMPI_COMM_WORLD_RANK=%d\n", which);
    return strstr(environment, variable) != NULL;
}

/* 0 where there is none. */
static pid_t find_process(const char *run, int which)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry = NULL;
    pid_t found = 0;

    while (proc && !found && (entry = readdir(proc)))
        if (isdigit((unsigned char)entry->d_name[0]) && is_of_run(entry->d_name, run, which))
            found = (pid_t)strtol(entry->d_name, NULL, 10);
    if (proc)
        closedir(proc);
    return found;
}

static bool has_metric(const char *run, const char *part)
{
    char path[LS__PATH_SIZE];
    char line[2048];
    bool found = false;

    if (ls__path_join(path, run, "metrics.jsonl") != LS_OK)
        return false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, part) != NULL;
    if (file)
        fclose(file);
    return found;
}

/* In a process beside: once the run has done a step, sends the signal to one of its processes. */
static pid_t strike(const char *run, int step, int which, int signal_number)
{
    char part[64];
    double deadline = ls__clock_seconds() + patience;
    pid_t striker = fork();

    if (striker != 0)
        return striker;
    snprintf(part, sizeof part, "{\"step\": %d,", step);
    while (!has_metric(run, part) && ls__clock_seconds() < deadline)
        usleep(5000);
    pid_t victim = find_process(run, which);
    _exit(victim > 0 && kill(victim, signal_number) == 0 ? 0 : 1);
}

static void assert_struck(pid_t striker)
{
    int how = 0;

    assert_int_equal(waitpid(striker, &how, 0), striker);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static int count_text(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        count++;
    return count;
}

/* One error, with these words in it, and nothing of mpirun's. */
static void assert_one_error(const ls__process *p, const char *part)
{
    if (count_text(p->err, "error: ") != 1 || !strstr(p->err, part) || strstr(p->err, "-----") ||
        strstr(p->err, "Read -1") || strstr(p->err, "MPI_ABORT")) {
        ls__process_show(p);
        fail_msg("one error that says '%s' was expected", part);
    }
}

/* ---- digests ---- */

static void last_digest(const char *run, char digest[64])
{
    char path[LS__PATH_SIZE];
    char line[2048];

    digest[0] = '\0';
    assert_ok(ls__path_join(path, run, "metrics.jsonl"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        const char *at = strstr(line, "\"digest\": ");
        if (at)
            snprintf(digest, 64, "%.32s", at + strlen("\"digest\": \""));
    }
    fclose(file);
}

/* That of a run never interrupted, on one rank. */
static const char *digest_of_whole(void)
{
    static char digest[64];
    const char *run = ls__test_path("whole");
    ls__process p;

    if (digest[0])
        return digest;
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, STEPS, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    last_digest(run, digest);
    assert_int_equal(strlen(digest), 32);
    return digest;
}

static void assert_goes_on_to_the_same(const char *run, const char *ranks)
{
    char digest[64];
    ls__process p;

    ls__run_lockstep(&p, "train", "--run", run, "--resume", "--ranks", ranks, NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "going on from step "));
    ls__process_free(&p);
    last_digest(run, digest);
    assert_string_equal(digest, digest_of_whole());
}

/* ---- lost ranks ---- */

static void test_lost_rank_is_named(void **state)
{
    const char *run = ls__test_path("lost");
    ls__process p;

    (void)state;
    pid_t striker = strike(run, 20, 1, SIGKILL);
    double start = ls__clock_seconds();
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, FOREVER, "--ranks", "2",
                     NULL);
    assert_exit(p, 3);
    assert_true(ls__clock_seconds() - start < 60); /* half of the stall timeout */
    assert_one_error(&p, "lockstep: error: rank 1 on ");
    assert_non_null(strstr(p.err, " was lost (signal 9): go on with --resume"));
    ls__process_free(&p);
    assert_struck(striker);
    assert_int_equal(find_process(run, 0), 0);
}

static void test_restart_on_those_left(void **state)
{
    const char *run = ls__test_path("restarted");
    char digest[64];
    ls__process p;

    (void)state;
    pid_t striker = strike(run, 100, 1, SIGKILL);
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, STEPS, "--ranks", "3",
                     "--restarts", "2", NULL);
    assert_exit(p, 0);
    assert_non_null(strstr(p.err, "was lost (signal 9): restart 1 of 2, on 2 ranks"));
    assert_int_equal(count_text(p.err, "error: "), 0);
    ls__process_free(&p);
    assert_struck(striker);
    assert_true(has_metric(run, "{\"restart\": {\"number\": 1, \"of\": 2, \"ranks_before\": 3, "
                                "\"ranks\": 2, \"reason\": \"rank 1 on "));
    last_digest(run, digest);
    assert_string_equal(digest, digest_of_whole());
}

/* The last rank lost leaves none, but --min-ranks is 1 at least; and a run out of restarts ends. */
static void test_restarts_end(void **state)
{
    const char *run = ls__test_path("twice");
    ls__process p;

    (void)state;
    pid_t first = strike(run, 100, 0, SIGKILL);
    pid_t second = strike(run, 250, 0, SIGKILL);
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, STEPS, "--ranks", "1",
                     "--restarts", "1", NULL);
    assert_exit(p, 3);
    assert_one_error(&p, "rank 0 on ");
    assert_non_null(strstr(p.err, "restart 1 of 1, on 1 rank,"));
    ls__process_free(&p);
    assert_struck(first);
    assert_struck(second);
    assert_goes_on_to_the_same(run, "2");
}

/* What no restart can mend is not tried again. */
static void test_no_restart_without_loss(void **state)
{
    const char *run = ls__test_path("hopeless");
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, "--context", "20000", "--ranks",
                     "2", "--restarts", "3", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "tokens");
    ls__process_free(&p);
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, "--ranks", "2", "--restarts",
                     "3", "--min-ranks", "3", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "--min-ranks 3 is above --ranks 2");
    ls__process_free(&p);
}

static void test_lost_launcher_takes_ranks_along(void **state)
{
    const char *run = ls__test_path("orphans");
    double deadline = ls__clock_seconds() + patience;
    ls__process p;

    (void)state;
    pid_t striker = strike(run, 5, LAUNCHER, SIGKILL);
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, FOREVER, "--ranks", "2",
                     NULL);
    assert_int_equal(p.signal, SIGKILL);
    ls__process_free(&p);
    assert_struck(striker);
    while ((find_process(run, 0) || find_process(run, 1) || find_process(run, MPIRUN)) &&
           ls__clock_seconds() < deadline)
        usleep(50000);
    assert_int_equal(find_process(run, 0), 0);
    assert_int_equal(find_process(run, 1), 0);
    assert_int_equal(find_process(run, MPIRUN), 0);
}

/* ---- told to stop ---- */

/* Trains, is told to stop, saves. */
static void stops(const char *run, const char *ranks, int which, int signal_number,
                  const char *said)
{
    ls__process p;

    pid_t striker = strike(run, 60, which, signal_number);
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, STEPS, "--ranks", ranks,
                     "--restarts", "1", NULL);
    assert_exit(p, 3);
    assert_one_error(&p, said);
    assert_non_null(strstr(p.err, "checkpoint saved, go on with --resume"));
    ls__process_free(&p);
    assert_struck(striker);
}

static void test_signals_save(void **state)
{
    const char *run = ls__test_path("stop-term");
    const char *alone = ls__test_path("stop-alone");

    (void)state;
    stops(run, "2", LAUNCHER, SIGTERM, "stopped by SIGTERM at step ");
    assert_goes_on_to_the_same(run, "2");
    stops(alone, "0", LAUNCHER, SIGTERM, "stopped by SIGTERM at step ");
    assert_goes_on_to_the_same(alone, "2");
    stops(ls__test_path("stop-int"), "2", LAUNCHER, SIGINT, "stopped by SIGINT at step ");
    stops(ls__test_path("stop-rank"), "2", 1, SIGTERM, "stopped by SIGTERM at step ");
}

/* Without our launcher: mpirun gives the ranks a second after SIGTERM, and all their time after
 * SIGUSR1. */
static void test_plain_mpirun_saves(void **state)
{
    static const int numbers[] = {SIGTERM, SIGUSR1};
    const char *runs[] = {ls__test_path("plain-term"), ls__test_path("plain-usr1")};
    const char *env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                         "OPENBLAS_NUM_THREADS=1", NULL};
    ls__process p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *words[] = {
            "mpirun", "--oversubscribe", "-n",    "2",   ls__lockstep(), "train", "--data",
            data,     "--run",           runs[i], SMALL, STEPS,          NULL};
        pid_t striker = strike(runs[i], 60, MPIRUN, numbers[i]);
        ls__process_run(&(ls__command){.argv = words, .env = env}, &p);
        assert_int_not_equal(p.exit_code, 0);
        assert_false(p.timed_out);
        if (numbers[i] == SIGUSR1) /* a second may be too short on a busy machine */
            assert_non_null(strstr(p.err, "checkpoint saved, go on with --resume"));
        ls__process_free(&p);
        assert_struck(striker);
    }
    assert_goes_on_to_the_same(runs[0], "1");
}

static int count_entries(const char *folder)
{
    DIR *entries = opendir(folder);
    int count = 0;

    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

/* Verify ends its training and leaves no folder behind. */
static void test_verify_cleans_up(void **state)
{
    const char *folder = ls__test_path("temporary");
    char variable[LS__PATH_SIZE + 16];
    const char *env[] = {variable, NULL};
    const char *words[] = {ls__lockstep(), "verify",  "--data", data, SMALL,
                           FOREVER,        "--ranks", "2",      NULL};
    ls__process p;

    (void)state;
    assert_ok(ls__make_folders(folder));
    snprintf(variable, sizeof variable, "TMPDIR=%s", folder);
    pid_t striker = fork();
    if (striker == 0) {
        double deadline = ls__clock_seconds() + patience;
        pid_t verify = 0;
        while (!find_process(folder, 1) && ls__clock_seconds() < deadline)
            usleep(20000);
        /* mpirun's parent. */
        char pid[32];
        static char stat[PROC_TEXT];
        snprintf(pid, sizeof pid, "%d", (int)find_process(folder, MPIRUN));
        read_proc(pid, "stat", stat);
        if (sscanf(stat, "%*d %*s %*c %d", &verify) != 1)
            _exit(1);
        _exit(kill(verify, SIGTERM) == 0 ? 0 : 1);
    }
    ls__process_run(&(ls__command){.argv = words, .env = env}, &p);
    assert_exit(p, 3);
    assert_one_line(p, "verify was told to stop");
    ls__process_free(&p);
    assert_struck(striker);
    /* Open MPI keeps a folder of its own there. */
    for (DIR *left = opendir(folder); left; left = NULL) {
        for (struct dirent *entry = readdir(left); entry; entry = readdir(left))
            assert_null(strstr(entry->d_name, "lockstep-verify"));
        closedir(left);
    }
    assert_int_equal(find_process(folder, 0), 0);
}

/* ---- refusals and mistakes ---- */

static void test_verify_takes_a_runs_config(void **state)
{
    const char *run = ls__test_path("as-run");
    char config[LS__PATH_SIZE];
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, "--steps", "3", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    int entries = count_entries(run);
    assert_ok(ls__path_join(config, run, "config.ini"));
    ls__run_lockstep(&p, "verify", "--config", config, "--ranks", "1,1", NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    assert_int_equal(count_entries(run), entries);
    ls__run_lockstep(&p, "verify", "--data", data, SMALL, "--ranks", "1,2,9", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "9 ranks cannot share the 8 micro-batches");
    ls__process_free(&p);
}

/* Paths longer than a line of other INI readers, and with what ends a value in other INI files. */
static void test_paths_of_any_kind(void **state)
{
    char name[256];
    ls__process p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        memset(name, 'x', sizeof name);
        snprintf(i == 0 ? name + 230 : name, 24, "%s", i == 0 ? "" : " a ; b # c = \"d\" ");
        const char *run = ls__test_path(name);
        ls__run_lockstep(&p, "train", "--data", data, "--run", run, SMALL, "--steps", "2", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
        ls__run_lockstep(&p, "train", "--run", run, "--resume", "--steps", "3", "--ranks", "2",
                         NULL);
        assert_exit(p, 0);
        assert_non_null(strstr(p.err, "going on from step 2"));
        ls__process_free(&p);
        ls__run_lockstep(&p, "sample", "--run", run, "--length", "5", "--prompt", "a", NULL);
        assert_exit(p, 0);
        ls__process_free(&p);
    }
}

static void test_unwritable_places(void **state)
{
    const char *file = ls__test_path("a-file");
    ls__process p;

    (void)state;
    assert_ok(ls__file_write_text(file, "x"));
    ls__run_lockstep(&p, "train", "--data", data, "--run", file, SMALL, NULL);
    assert_exit(p, 2);
    assert_one_line(p, "is a file, not a folder");
    ls__process_free(&p);
    ls__run_lockstep(&p, "train", "--run", "--resume", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "write --run=--resume if you mean it");
    ls__process_free(&p);
}

/* Output that cannot be written is told, of one process and of ranks. */
static void test_full_output(void **state)
{
    static const char *const commands[] = {"data info %s", "bench allreduce -e 4K --ranks 2"};
    char command[LS__PATH_SIZE];
    char script[3 * LS__PATH_SIZE];
    const char *words[] = {"sh", "-c", script, NULL};
    ls__process p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "%s", commands[i]);
        if (i == 0)
            snprintf(command, sizeof command, "data info %s", data);
        snprintf(script, sizeof script, "%s %s >/dev/full", ls__lockstep(), command);
        ls__process_run(&(ls__command){.argv = words}, &p);
        assert_exit(p, 2);
        assert_one_error(&p, "cannot write standard output");
        ls__process_free(&p);
    }
}

/* Runs `mpirun -q -n 1 lockstep FIRST : -n 1 lockstep SECOND`, of which the words are separated by
 * spaces, and expects one error with exit code 2. */
static void refused_under_mpirun(const char *first, const char *second, const char *part)
{
    char script[4 * LS__PATH_SIZE];
    const char *words[] = {"sh", "-c", script, NULL};
    const char *env[] = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    ls__process p;

    snprintf(script, sizeof script, "exec mpirun -q --oversubscribe -n 1 %s %s : -n 1 %s %s",
             ls__lockstep(), first, ls__lockstep(), second);
    ls__process_run(&(ls__command){.argv = words, .env = env}, &p);
    assert_exit(p, 2);
    assert_one_line(p, part);
    ls__process_free(&p);
}

static void test_different_words_on_ranks(void **state)
{
    (void)state;
    refused_under_mpirun("bench allreduce -e 4K", "bench allreduce -e 8K",
                         "rank 1 has --max-bytes 8192 where rank 0 has --max-bytes 4096");
    refused_under_mpirun("bench allreduce -e 4K", "bench allreduce --help",
                         "rank 1 has --help true");
    refused_under_mpirun("eval --run x", "bench allreduce", "rank 1 runs lockstep bench allreduce");
    refused_under_mpirun("data info x", "data info x", "data runs by itself");
    refused_under_mpirun("verify --data x", "verify --data x", "verify starts mpirun itself");
}

static void test_far_too_many_ranks(void **state)
{
    double start = ls__clock_seconds();
    ls__process p;

    (void)state;
    ls__run_lockstep(&p, "train", "--data", data, "--run", ls__test_path("crowd"), SMALL, "--ranks",
                     "65536", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "65536 ranks cannot share");
    ls__process_free(&p);
    ls__run_lockstep(&p, "bench", "allreduce", "--ranks", "65536", NULL);
    assert_exit(p, 2);
    assert_one_line(p, "start fewer");
    ls__process_free(&p);
    assert_true(ls__clock_seconds() - start < 10);
}

/* One rank that fails leaves MPI without MPI_Abort's words. */
static void test_one_rank_fails_quietly(void **state)
{
    const char *run = ls__test_path("diverging");
    ls__process p;

    (void)state;
    for (int i = 0; i < 2; i++) {
        ls__run_lockstep(&p, "eval", "--run", run, "--ranks", i == 0 ? "0" : "1", NULL);
        assert_exit(p, 2);
        assert_one_line(p, "not the folder of a run");
        ls__process_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost_rank_is_named),
        cmocka_unit_test(test_restart_on_those_left),
        cmocka_unit_test(test_restarts_end),
        cmocka_unit_test(test_no_restart_without_loss),
        cmocka_unit_test(test_lost_launcher_takes_ranks_along),
        cmocka_unit_test(test_signals_save),
        cmocka_unit_test(test_plain_mpirun_saves),
        cmocka_unit_test(test_verify_cleans_up),
        cmocka_unit_test(test_verify_takes_a_runs_config),
        cmocka_unit_test(test_paths_of_any_kind),
        cmocka_unit_test(test_unwritable_places),
        cmocka_unit_test(test_full_output),
        cmocka_unit_test(test_different_words_on_ranks),
        cmocka_unit_test(test_far_too_many_ranks),
        cmocka_unit_test(test_one_rank_fails_quietly),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
