#include "support/training.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "support/test.h"

enum { TEXT_BYTES = 6000, WORDS = 60, STEPS = 12, LINE = 2048 };

static char data[LS__PATH_SIZE];

int ls__training_set_up(void **state)
{
    const char *text = ls__test_path("text.txt");
    FILE *file = fopen(text, "w");
    ls__process p;

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < TEXT_BYTES; i++)
        fputc("a stitch in time saves nine\n"[(i + i * i / 7 % 3) % 28], file);
    assert_int_equal(fclose(file), 0);
    snprintf(data, sizeof data, "%s", ls__test_path("text.h5"));
    ls__run_lockstep(&p, "data", "text", text, "-o", data, NULL);
    assert_exit(p, 0);
    ls__process_free(&p);
    return 0;
}

static void add_words(const char **words, int *count, const char *const *more)
{
    for (; more && *more; more++) {
        assert_true(*count < WORDS - 1);
        words[(*count)++] = *more;
    }
}

/* mpirun waits a second between asking its ranks to end and ending them: not here. */
void ls__training_run(const ls__training *training, ls__process *result)
{
    char ranks[16];
    char steps[16];
    char fault[256];
    const char *env[] = {"OMPI_MCA_odls_base_sigkill_timeout=0", fault, NULL};
    const char *const run[] = {ls__lockstep(),
                               "train",
                               "--data",
                               data,
                               "--run",
                               training->run,
                               "--resume",
                               "--ranks",
                               ranks,
                               "--steps",
                               steps,
                               "--decay-steps",
                               "100",
                               "--layers",
                               "1",
                               "--heads",
                               "2",
                               "--width",
                               "16",
                               "--context",
                               "16",
                               "--batch",
                               "8",
                               "--warmup",
                               "2",
                               "--eval-every",
                               "0",
                               "--checkpoint-every",
                               "1",
                               NULL};
    const char *words[WORDS] = {0};
    int count = 0;

    add_words(words, &count, training->through);
    add_words(words, &count, run);
    add_words(words, &count, training->flags);
    snprintf(ranks, sizeof ranks, "%d", training->ranks);
    snprintf(steps, sizeof steps, "%d", training->steps ? training->steps : STEPS);
    snprintf(fault, sizeof fault, "LOCKSTEP_FAULT=%s", training->fault ? training->fault : "");
    ls__process_run(
        &(ls__command){.argv = words, .env = env, .folder = training->folder, .timeout_s = 60},
        result);
    assert_false(result->timed_out);
}

/* ---- what a run left ---- */

static FILE *open_metrics(const char *run)
{
    char path[LS__PATH_SIZE];

    assert_ok(ls__path_join(path, run, "metrics.jsonl"));
    return fopen(path, "r");
}

/* The next whole line of the metrics that is of a step, (LINE); false where there is none. */
static bool next_line(FILE *file, char *line)
{
    while (file && fgets(line, LINE, file))
        if (strncmp(line, "{\"step\": ", 9) == 0 && strstr(line, "\"lr\"") && strchr(line, '\n'))
            return true;
    return false;
}

static int64_t step_of(const char *line)
{
    return strtoll(line + 9, NULL, 10);
}

/* The last such line; false where there is none. */
static bool last_line(const char *run, char *found)
{
    FILE *file = open_metrics(run);
    char line[LINE];
    bool any = false;

    while (next_line(file, line)) {
        snprintf(found, LINE, "%s", line);
        any = true;
    }
    if (file)
        fclose(file);
    return any;
}

void ls__assert_every_step(const char *run, int64_t last)
{
    FILE *file = open_metrics(run);
    char line[LINE];
    int64_t step = 0;

    assert_non_null(file);
    while (next_line(file, line))
        assert_int_equal(step_of(line), ++step);
    assert_int_equal(step, last);
    fclose(file);
}

const char *ls__training_digest(const char *run)
{
    static char digest[LS__DIGEST_TEXT];
    static const char key[] = "\"digest\": \"";
    char line[LINE];

    digest[0] = '\0';
    if (last_line(run, line) && strstr(line, key))
        snprintf(digest, sizeof digest, "%s", strstr(line, key) + sizeof key - 1);
    return digest;
}

int64_t ls__training_last_step(const char *run)
{
    char line[LINE];

    return last_line(run, line) ? step_of(line) : 0;
}

int64_t ls__training_checkpoint(const char *run)
{
    static ls__checkpoint_info info;
    char folder[LS__PATH_SIZE];
    char path[LS__PATH_SIZE];

    assert_ok(ls__path_join(folder, run, "checkpoints"));
    if (ls__checkpoint_latest(folder, path) != LS_OK)
        return 0;
    assert_ok(ls__checkpoint_read_info(path, &info));
    return info.step;
}

const char *ls__training_undisturbed(int steps)
{
    static char digest[LS__DIGEST_TEXT];
    static int of;
    char run[LS__PATH_SIZE];
    char name[32];
    ls__process p;

    if (of == steps)
        return digest;
    snprintf(name, sizeof name, "undisturbed-%d", steps);
    snprintf(run, sizeof run, "%s", ls__test_path(name));
    ls__training_run(&(ls__training){.run = run, .ranks = 1, .steps = steps}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    of = steps;
    snprintf(digest, sizeof digest, "%s", ls__training_digest(run));
    assert_int_equal(strlen(digest), LS__DIGEST_TEXT - 1);
    return digest;
}

/* ---- processes ---- */

static bool command_has(const char *process, const char *word)
{
    char path[64];
    char text[4096];

    snprintf(path, sizeof path, "/proc/%.16s/cmdline", process);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return memmem(text, length, word, strlen(word)) != NULL;
}

static int count_processes(const char *word)
{
    DIR *dir = opendir("/proc");
    int count = 0;

    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != getpid())
            count += command_has(entry->d_name, word);
    closedir(dir);
    return count;
}

void ls__assert_nothing_runs(const char *word)
{
    double deadline = ls__clock_seconds() + 5;

    while (count_processes(word) > 0 && ls__clock_seconds() < deadline)
        usleep(20000);
    assert_int_equal(count_processes(word), 0);
}
