/* lockstep verify: the same training at several rank counts, and what became of the weights. */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "lockstep/schedule.h"
#include "train/compare.h"
#include "train/settings.h"

enum { OPTIONS_MAX = 64, LOG_TAIL = 2048 };

/* Any flag of train, a list of rank counts in place of one, and a tolerance. */
typedef struct verify_settings {
    ls__train_settings train; /* first: the offsets of train's options hold */
    ls__list ranks;
    double tolerance;
} verify_settings;

static const ls__option rank_list = {"ranks",
                                     "1,2,4",
                                     "N,N,...",
                                     "rank counts to train at; the first is the reference",
                                     offsetof(verify_settings, ranks),
                                     1,
                                     65536,
                                     LS__OPTION_LIST,
                                     LS__SCOPE_RUN,
                                     0};

static const ls__option tolerance = {"tolerance",
                                     "1e-5",
                                     "difference",
                                     "largest difference of two weights that passes",
                                     offsetof(verify_settings, tolerance),
                                     0,
                                     1e30,
                                     LS__OPTION_REAL,
                                     LS__SCOPE_RUN,
                                     0};

/* Train's table with a few rows of our own. */
static void make_table(ls__option_table *table, ls__option *rows)
{
    int count = 0;

    for (int i = 0; i < ls__train_options.count; i++) {
        ls__option row = ls__train_options.option[i];
        if (strcmp(row.name, "resume") == 0)
            continue;
        if (strcmp(row.name, "ranks") == 0)
            row = rank_list;
        if (strcmp(row.name, "steps") == 0)
            row.preset = "50";
        if (strcmp(row.name, "eval-every") == 0)
            row.preset = "0";
        if (strcmp(row.name, "run") == 0)
            row.help = "keep the runs in this folder; none: a temporary one";
        rows[count++] = row;
    }
    rows[count++] = tolerance;
    *table = (ls__option_table){
        .command = "lockstep verify",
        .summary = "train from the same start at several rank counts and compare the weights",
        .operands = "",
        .option = rows,
        .count = count,
    };
}

/* ---- the folder of the runs ---- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_folder(const char *folder)
{
    if (nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        ls__log_warning("cannot remove %s", folder);
}

static ls_status make_temporary(char *folder)
{
    const char *parent = getenv("TMPDIR");

    LS_TRY(ls__path_join(folder, parent && *parent ? parent : "/tmp", "lockstep-verify-XXXXXX"));
    if (!mkdtemp(folder))
        return ls__fail_errno("make the folder", folder);
    return LS_OK;
}

/* ---- one run ---- */

/* The end of what a failed run printed is what says why. */
static ls_status tell_failure(const char *log, int64_t ranks, int exit_code)
{
    static char text[1 << 20];
    char *from = text;

    if (ls__file_read_text(log, text, sizeof text) != LS_OK)
        text[0] = '\0';
    size_t length = strlen(text);
    if (length > LOG_TAIL)
        from += length - LOG_TAIL;
    fputs(from, stderr);
    return LS_FAIL(exit_code == 2 ? LS_BAD_USAGE : LS_COMM,
                   "the training on %lld ranks ended with exit code %d; its last words are above",
                   (long long)ranks, exit_code);
}

/* `lockstep train` with all of these settings spelled out. */
static ls_status train_on(const verify_settings *settings, const char *run, const char *log,
                          int64_t ranks)
{
    static char words[OPTIONS_MAX][LS__TEXT_MAX + 64];
    static char value[LS__TEXT_MAX];
    const char *arguments[OPTIONS_MAX + 1] = {"train"};
    int count = 1;
    int exit_code = 0;

    for (int i = 0; i < ls__train_options.count; i++) {
        const char *name = ls__train_options.option[i].name;
        if (strcmp(name, "ranks") == 0 || strcmp(name, "resume") == 0)
            continue;
        ls__options_format(&ls__train_options, &settings->train, i, value, sizeof value);
        snprintf(words[count], sizeof words[count], "--%s=%s", name,
                 strcmp(name, "run") == 0 ? run : value);
        arguments[count] = words[count];
        count++;
    }
    LS_TRY(ls__cli_run(ranks, count, arguments, log, &exit_code));
    return exit_code == 0 ? LS_OK : tell_failure(log, ranks, exit_code);
}

static ls_status train_and_load(const verify_settings *settings, const char *folder, int64_t ranks,
                                ls__loaded *loaded)
{
    char name[64];
    char run[LS__PATH_SIZE];
    char log[LS__PATH_SIZE];

    snprintf(name, sizeof name, "ranks-%lld", (long long)ranks);
    LS_TRY(ls__path_join(run, folder, name));
    snprintf(name, sizeof name, "ranks-%lld.log", (long long)ranks);
    LS_TRY(ls__path_join(log, folder, name));
    LS_TRY(train_on(settings, run, log, ranks));
    return ls__load_run(loaded, run, 1, 0);
}

/* ---- the table ---- */

static void print_row(const verify_settings *settings, int64_t ranks, const ls__loaded *loaded,
                      const ls__comparison *comparison)
{
    printf("%5lld  %-9s  %12.8f", (long long)ranks,
           ls_algorithm_at(settings->train.allreduce)->name, loaded->info.loss);
    if (!comparison)
        printf("  %18s  %s\n", "-", "reference");
    else
        printf("  %18.3g  %s\n", comparison->largest, comparison->same_bits ? "yes" : "no");
    fflush(stdout);
}

static ls_status compare_all(const verify_settings *settings, const char *folder,
                             ls__loaded *reference, ls__loaded *other)
{
    double worst = 0;
    int64_t worst_ranks = 0;

    printf("ranks  algorithm    final loss  largest difference  same bits\n");
    LS_TRY(train_and_load(settings, folder, settings->ranks.value[0], reference));
    print_row(settings, settings->ranks.value[0], reference, NULL);
    for (int i = 1; i < settings->ranks.count; i++) {
        ls__comparison comparison;
        int64_t ranks = settings->ranks.value[i];
        LS_TRY(train_and_load(settings, folder, ranks, other));
        ls_status status = ls__compare(reference, other, &comparison);
        if (status == LS_OK)
            print_row(settings, ranks, other, &comparison);
        ls__loaded_close(other);
        LS_TRY(status);
        if (!(comparison.largest <= worst)) {
            worst = comparison.largest;
            worst_ranks = ranks;
        }
    }
    LS_FAIL_IF(!(worst <= settings->tolerance), LS_CHECK_FAILED,
               "weights on %lld ranks differ by %.3g from those on %lld, more than --tolerance %g",
               (long long)worst_ranks, worst, (long long)settings->ranks.value[0],
               settings->tolerance);
    return LS_OK;
}

static ls_status verify_in(const verify_settings *settings, const char *folder)
{
    static ls__loaded reference;
    static ls__loaded other;
    ls_status status = compare_all(settings, folder, &reference, &other);

    ls__loaded_close(&reference);
    return status;
}

/* Checks the settings once, before any run is started. */
static ls_status verify_at(verify_settings *settings, const char *folder)
{
    if (folder != settings->train.run)
        snprintf(settings->train.run, sizeof settings->train.run, "%s", folder);
    LS_FAIL_IF(settings->ranks.count < 1, LS_BAD_USAGE,
               "--ranks is empty: write for example 1,2,4");
    LS_TRY(ls__train_settings_resolve(&settings->train));
    LS_TRY(ls__make_folders(folder));
    return verify_in(settings, folder);
}

ls_status ls__cli_verify(int argc, char **argv)
{
    static verify_settings settings;
    static ls__option rows[OPTIONS_MAX];
    char folder[LS__PATH_SIZE];
    ls__option_table table;
    ls__parsed parsed;

    make_table(&table, rows);
    LS_TRY(ls__options_parse(&table, &settings, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    if (*settings.train.run)
        return verify_at(&settings, settings.train.run);
    LS_TRY(make_temporary(folder));
    ls_status status = verify_at(&settings, folder);
    remove_folder(folder);
    return status;
}
