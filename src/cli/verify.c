/* lockstep verify: the same training on several numbers of ranks, by several algorithms, in several
 * buckets, sharded or not, on other threads: one chain of digests, or not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/runs.h"
#include "cli/start.h"
#include "lockstep/schedule.h"
#include "train/compare.h"
#include "train/metrics.h"
#include "train/run_folder.h"
#include "train/settings.h"

enum { OPTIONS_MAX = 64, VARIANTS_MAX = 512, SMALL_BUCKET = 16384 };

/* Any flag of train, a list of rank counts in place of one, and what is our own. */
typedef struct verify_settings {
    ls__train_settings train; /* first: the offsets of train's options hold */
    ls__list ranks;
    bool full;
    double tolerance;
} verify_settings;

static const ls__option rank_list = {"ranks",
                                     "1,2,4",
                                     "N,N,...",
                                     "rank counts to train at; the first is the reference",
                                     offsetof(verify_settings, ranks),
                                     0, /* as a run's config.ini has it: not given */
                                     65536,
                                     LS__OPTION_LIST,
                                     LS__SCOPE_RUN,
                                     0};

static const ls__option own_options[] = {
    {"full", "false", "", "every rank count x algorithm x bucket size x sharded or not",
     offsetof(verify_settings, full), 0, 0, LS__OPTION_SWITCH, LS__SCOPE_RUN, 0},
    {"tolerance", "1e-5", "difference",
     "with --reduce f32: largest difference of two weights that passes",
     offsetof(verify_settings, tolerance), 0, 1e30, LS__OPTION_REAL, LS__SCOPE_RUN, 0},
};

/* Train's table with a few rows of our own. */
static void make_table(ls__option_table *table, ls__option *rows)
{
    int count = 0;

    for (int i = 0; i < ls__train_options.count; i++) {
        ls__option row = ls__train_options.option[i];
        if (ls__runs_leave_out(row.name))
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
    for (size_t i = 0; i < sizeof own_options / sizeof own_options[0]; i++)
        rows[count++] = own_options[i];
    *table = (ls__option_table){
        .command = "lockstep verify",
        .summary = "train the same in several ways and compare the bits of every step",
        .operands = "",
        .option = rows,
        .count = count,
        .passed_over = ls__runs_left_out,
    };
}

/* ---- one way to train ---- */

typedef struct variant {
    int64_t ranks;
    int64_t threads;
    int algorithm;
    int64_t bucket;
    bool sharded;
    int reduce;
} variant;

/* What came of it. */
typedef struct outcome {
    ls__loaded loaded;
    ls__digest *digests; /* (steps) */
    int64_t steps;
} outcome;

static void free_outcome(outcome *o)
{
    ls__loaded_close(&o->loaded);
    free(o->digests);
    o->digests = NULL;
}

/* Trains in a folder of its own, then reads what the run left. */
static ls_status run_variant(const verify_settings *settings, const variant *v, const char *folder,
                             int number, outcome *o)
{
    static ls__train_settings of_run;
    char name[64];
    ls__run_folder files;

    of_run = settings->train;
    of_run.allreduce = v->algorithm;
    of_run.threads = v->threads;
    of_run.bucket = v->bucket;
    of_run.shard_optimizer = v->sharded;
    of_run.reduce = v->reduce;
    snprintf(name, sizeof name, "run-%d-on-%lld", number, (long long)v->ranks);
    LS_TRY(ls__path_join(of_run.run, folder, name));
    LS_TRY(ls__runs_train("verify", &of_run, v->ranks));
    LS_TRY(ls__run_folder_name(&files, of_run.run));
    LS_TRY(ls__metrics_read_digests(files.metrics, &o->digests, &o->steps));
    return ls__load_run(&o->loaded, of_run.run, -1, 1, 0);
}

/* ---- all of them ---- */

static void add_variant(variant *list, int *count, variant v)
{
    if (*count < VARIANTS_MAX)
        list[(*count)++] = v;
}

/* Every combination. */
static int list_full(const verify_settings *settings, variant base, variant *list)
{
    int count = 0;

    for (int i = 0; i < settings->ranks.count; i++)
        for (int algorithm = 1; algorithm <= LS_ALGORITHM_COUNT; algorithm++)
            for (int small = 0; small < 2; small++)
                for (int sharded = 0; sharded < 2; sharded++) {
                    variant v = base;
                    v.ranks = settings->ranks.value[i];
                    v.algorithm = algorithm;
                    v.bucket = small ? SMALL_BUCKET : base.bucket;
                    v.sharded = sharded != 0;
                    add_variant(list, &count, v);
                }
    return count;
}

/* Every number of ranks; then, on the last of them, each other choice by itself. */
static int list_variants(const verify_settings *settings, variant base, variant *list)
{
    int count = 0;

    if (settings->full)
        return list_full(settings, base, list);
    for (int i = 0; i < settings->ranks.count; i++) {
        base.ranks = settings->ranks.value[i];
        add_variant(list, &count, base);
    }
    for (int algorithm = 1; algorithm <= LS_ALGORITHM_COUNT; algorithm++) {
        variant v = base;
        v.algorithm = algorithm;
        if (algorithm != base.algorithm && base.reduce == LS__REDUCE_EXACT)
            add_variant(list, &count, v);
    }
    if (base.reduce != LS__REDUCE_EXACT)
        return count;
    variant v = base;
    v.bucket = SMALL_BUCKET;
    add_variant(list, &count, v);
    v.bucket = base.bucket;
    v.sharded = !base.sharded;
    add_variant(list, &count, v);
    v.sharded = base.sharded;
    v.threads = base.threads > 1 ? 1 : 2;
    add_variant(list, &count, v);
    return count;
}

/* ---- the table ---- */

static int64_t steps_in_common(const outcome *a, const outcome *b)
{
    int64_t same = 0;

    while (same < a->steps && same < b->steps &&
           ls__digest_equal(a->digests[same], b->digests[same]))
        same++;
    return same;
}

static void print_row(const variant *v, const outcome *o, const outcome *reference,
                      const ls__comparison *comparison)
{
    char bucket[32];
    char steps[48];

    snprintf(steps, sizeof steps, "%lld/%lld", (long long)steps_in_common(reference, o),
             (long long)o->steps);
    printf("%5lld  %7lld  %-9s  %-6s  %9s  %-7s  %12.8f  %11s  %10.3g  %s\n", (long long)v->ranks,
           (long long)v->threads, ls__train_allreduce_name(v->algorithm),
           v->reduce == LS__REDUCE_EXACT ? "exact" : "f32",
           v->bucket > 0 ? ls__format_bytes(bucket, sizeof bucket, v->bucket) : "measured",
           v->sharded ? "yes" : "no", o->loaded.info.loss, steps, comparison->largest,
           o == reference          ? "reference"
           : comparison->same_bits ? "yes"
                                   : "no");
    fflush(stdout);
}

/* What all rows are held against, and the worst that was found. */
typedef struct findings {
    outcome reference;
    int64_t reference_ranks;
    int differing; /* rows with other bits than the reference */
    double worst;  /* largest difference of two weights; NaN where one is NaN */
} findings;

static ls_status compare_row(findings *f, const variant *v, outcome *o)
{
    ls__comparison comparison;

    LS_TRY(ls__compare(&f->reference.loaded, &o->loaded, &comparison));
    if (steps_in_common(&f->reference, o) < f->reference.steps)
        comparison.same_bits = false;
    print_row(v, o, &f->reference, &comparison);
    f->differing += !comparison.same_bits;
    f->worst = ls__larger(f->worst, comparison.largest);
    return LS_OK;
}

static ls_status run_row(const verify_settings *settings, const variant *v, const char *folder,
                         int number, findings *f)
{
    static outcome other;

    if (number == 0) {
        LS_TRY(run_variant(settings, v, folder, number, &f->reference));
        f->reference_ranks = v->ranks;
        return compare_row(f, v, &f->reference);
    }
    ls_status status = run_variant(settings, v, folder, number, &other);
    if (status == LS_OK)
        status = compare_row(f, v, &other);
    free_outcome(&other);
    return status;
}

/* FP32 sums must give other bits, or the table above shows nothing. */
static ls_status run_control(const verify_settings *settings, variant v, const char *folder,
                             int number, findings *f)
{
    int before = f->differing;

    v.reduce = LS__REDUCE_F32;
    printf("control, which must differ:\n");
    LS_TRY(run_row(settings, &v, folder, number, f));
    if (f->differing == before)
        printf("the control has the same bits here, so it could not tell exact sums from FP32\n");
    f->differing = before;
    return LS_OK;
}

static ls_status judge(const verify_settings *settings, const findings *f)
{
    if (settings->train.reduce == LS__REDUCE_EXACT) {
        LS_FAIL_IF(f->differing > 0, LS_CHECK_FAILED,
                   "%d of the runs have other bits than the one on %lld ranks", f->differing,
                   (long long)f->reference_ranks);
        return LS_OK;
    }
    LS_FAIL_IF(!(f->worst <= settings->tolerance), LS_CHECK_FAILED,
               "weights differ by %.3g from those on %lld ranks, more than --tolerance %g",
               f->worst, (long long)f->reference_ranks, settings->tolerance);
    return LS_OK;
}

static ls_status run_table(const verify_settings *settings, const char *folder, findings *f)
{
    static variant list[VARIANTS_MAX];
    variant base = {.threads = settings->train.threads,
                    .algorithm = settings->train.allreduce,
                    .bucket = settings->train.bucket,
                    .sharded = settings->train.shard_optimizer,
                    .reduce = settings->train.reduce};
    int count = list_variants(settings, base, list);

    printf("ranks  threads  algorithm  reduce     bucket  sharded    final loss  equal steps  "
           "difference  "
           "same bits\n");
    for (int i = 0; i < count; i++)
        LS_TRY(run_row(settings, &list[i], folder, i, f));
    ls_status verdict = judge(settings, f);
    if (base.reduce == LS__REDUCE_EXACT) {
        base.ranks = settings->ranks.value[settings->ranks.count - 1];
        LS_TRY(run_control(settings, base, folder, count, f));
    }
    return verdict;
}

static ls_status verify_in(const verify_settings *settings, const char *folder)
{
    static findings f;
    ls_status status = run_table(settings, folder, &f);

    free_outcome(&f.reference);
    return status;
}

/* Checks the settings once, before any run is started. */
static ls_status check_settings(verify_settings *settings)
{
    LS_FAIL_IF(settings->ranks.count < 1, LS_BAD_USAGE,
               "--ranks is empty: write for example 1,2,4");
    LS_TRY(ls__train_settings_resolve(&settings->train));
    for (int i = 0; i < settings->ranks.count; i++) {
        LS_FAIL_IF(settings->ranks.value[i] < 1, LS_BAD_USAGE,
                   "--ranks: a run takes 1 rank at least");
        LS_TRY(ls__train_settings_check_ranks(&settings->train, settings->ranks.value[i]));
    }
    return LS_OK;
}

static ls_status verify_in_temporary(verify_settings *settings)
{
    char folder[LS__PATH_SIZE];

    LS_TRY(ls__runs_folder_make(folder, "lockstep-verify-XXXXXX"));
    snprintf(settings->train.run, sizeof settings->train.run, "%s", folder);
    ls_status status = check_settings(settings);
    if (status == LS_OK)
        status = verify_in(settings, folder);
    ls__runs_folder_remove(folder);
    return status;
}

/* A run's own config.ini says where that run is, which is no place for ours, and on how many ranks
 * it was: 0, or one count. */
static ls_status take_from_run(verify_settings *settings)
{
    ls__run_folder folder;

    if (settings->ranks.count == 1 && settings->ranks.value[0] == 0)
        settings->ranks = (ls__list){.value = {1, 2, 4}, .count = 3};
    if (!*settings->train.run)
        return LS_OK;
    LS_TRY(ls__run_folder_name(&folder, settings->train.run));
    if (ls__run_folder_in_use(&folder))
        settings->train.run[0] = '\0';
    return LS_OK;
}

static ls_status verify(verify_settings *settings)
{
    LS_TRY(take_from_run(settings));
    if (!*settings->train.run)
        return verify_in_temporary(settings);
    LS_TRY(check_settings(settings));
    LS_TRY(ls__make_folders(settings->train.run));
    return verify_in(settings, settings->train.run);
}

ls_status ls__cli_verify(int argc, char **argv)
{
    static verify_settings settings;
    static ls__option rows[OPTIONS_MAX];
    ls__option_table table;
    ls__parsed parsed;

    LS_TRY(ls__cli_refuse_mpi("verify", "starts mpirun itself"));
    make_table(&table, rows);
    LS_TRY(ls__options_parse(&table, &settings, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    ls__launch_catch_signals();
    return verify(&settings);
}
