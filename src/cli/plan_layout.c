/* lockstep plan layout */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "plan/flops.h"
#include "plan/search.h"

#define AT(member) LS__PLAN_AT(member)
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"devices", "1024", "devices", "to lay the work out on", AT(devices), 1, 0x1p20, LS__OPTION_INT,
     RUN, 0},
    {"batch", "1536", "sequences", "of a step, all devices together", AT(batch), 1, 0x1p24,
     LS__OPTION_INT, RUN, 0},
    {"efficiency", "0.5", "share", "of the peak that kernels reach", AT(share), 1e-6, 1,
     LS__OPTION_REAL, RUN, 0},
    {"overlap", "on", "off|on", "whether data ranks communicate while they compute", AT(overlap), 0,
     0, LS__OPTION_CHOICE, RUN, 0},
    {"rows", "20", "rows", "of the table, at most", AT(rows), 1, 100000, LS__OPTION_INT, RUN, 0},
};

static const ls__plan_command command = {
    .command = "lockstep plan layout",
    .summary = "the fastest tensor x pipeline x data parallelism that fits",
    .flags = LS__PLAN_FLAGS_MODEL | LS__PLAN_FLAGS_FORMATS | LS__PLAN_FLAGS_STATES |
             LS__PLAN_FLAGS_MEMORY | LS__PLAN_FLAGS_LINKS,
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "A row is a grid TP x PP x DP with the best of its micro-batches, shardings (0 to 3, as\n"
        "ZeRO) and recomputations: params, the mean of the devices; states, what they take with\n"
        "gradients and optimizer before sharding; memory, all that the fullest device holds; then\n"
        "the step and its parts. The formulas stand in src/plan/step.h and src/plan/memory.h.\n"
        "\n"
        "Tensor parallelism splits the first matrix of a pair by columns, so that each shard may\n"
        "apply the nonlinearity to its own columns, and the second by rows: one all-reduce after\n"
        "the second. It is the matrix split by rows whose result must be summed first.\n"
        "\n"
        "--intra and --inter are of one direction (NVLink's 600 and 900 GB/s count both), and "
        "each\n"
        "device has its own --inter, as in nodes with a network card a device.\n"
        "--memory says how much of a device to count on: drivers and libraries take some GB.\n",
};

static const ls__column columns[] = {
    {"tensor", "TP", "", LS__COLUMN_FIXED, 0, 0},
    {"pipeline", "PP", "", LS__COLUMN_FIXED, 0, 0},
    {"data", "DP", "", LS__COLUMN_FIXED, 0, 0},
    {"micro_batch", "micro", "batch", LS__COLUMN_FIXED, 0, 0},
    {"sharding", "shard", "", LS__COLUMN_FIXED, 0, 0},
    {"recompute", "recompute", "", LS__COLUMN_TEXT, 0, 0},
    {"device_parameters", "params", "(1e9)", LS__COLUMN_FIXED, 2, 1e9},
    {"states_bytes", "states", "(GB)", LS__COLUMN_FIXED, 1, 1e9},
    {"memory_bytes", "memory", "(GB)", LS__COLUMN_FIXED, 1, 1e9},
    {"step_seconds", "step", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"compute_seconds", "compute", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"bubble_seconds", "bubble", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"tensor_seconds", "tensor", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"pipeline_seconds", "pipeline", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"data_seconds", "data", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"mfu", "MFU", "(%)", LS__COLUMN_FIXED, 1, 0.01},
};

static void print_candidate(ls__report *report, const ls__plan_question *q,
                            const ls__plan_candidate *candidate)
{
    static const char *const recompute[] = {"none", "selective", "full"};
    const ls__plan_layout *layout = &candidate->layout;
    const ls__plan_step *step = &candidate->step;
    double parameters = ls__plan_device_parameters(&q->model, layout);
    double flops = ls__plan_step_flops(&q->model, (double)q->batch, LS__PLAN_RECOMPUTE_NONE);

    ls__report_row(
        report,
        (ls__cell[]){{.number = (double)layout->tensor},
                     {.number = (double)layout->pipeline},
                     {.number = (double)layout->data},
                     {.number = (double)layout->micro_batch},
                     {.number = (double)layout->sharding},
                     {.text = recompute[layout->recompute]},
                     {.number = parameters},
                     {.number = parameters * ls__plan_bytes_per_parameter(&q->storage)},
                     {.number = ls__plan_memory_total(&candidate->memory)},
                     {.number = step->total},
                     {.number = step->compute},
                     {.number = step->bubble},
                     {.number = step->tensor},
                     {.number = step->pipeline},
                     {.number = step->data},
                     {.number = flops / (q->cluster.peak * (double)q->devices * step->total)}});
}

/* ---- why the best wins ---- */

typedef struct part {
    const char *name;
    double best;
    double other;
} part;

/* The parts of a step in which a layout loses, or gains, at least so much against the best. */
static void print_difference(const part *parts, int count, double least, bool loses)
{
    bool first = true;

    for (int i = 0; i < count; i++) {
        double more = parts[i].other - parts[i].best;
        if ((more > 0) != loses || fabs(more) < least)
            continue;
        printf("%s%s %+.3g s", first ? "" : ", ", parts[i].name, more);
        first = false;
    }
    if (first)
        printf("nothing");
}

static void compare(const ls__plan_candidate *best, const ls__plan_candidate *other)
{
    const part parts[] = {
        {"compute", best->step.compute, other->step.compute},
        {"bubble", best->step.bubble, other->step.bubble},
        {"tensor", best->step.tensor, other->step.tensor},
        {"pipeline", best->step.pipeline, other->step.pipeline},
        {"data", best->step.data, other->step.data},
    };
    enum { PARTS = sizeof parts / sizeof parts[0] };
    double least = 0.001 * best->step.total;

    printf("  TP %lld x PP %lld x DP %lld is %.1f%% slower: it loses ",
           (long long)other->layout.tensor, (long long)other->layout.pipeline,
           (long long)other->layout.data, 100 * (other->step.total / best->step.total - 1));
    print_difference(parts, PARTS, least, true);
    printf(" and gains ");
    print_difference(parts, PARTS, least, false);
    printf("\n");
}

static void explain(const ls__plan_answer *answer)
{
    enum { COMPARED = 3 };
    const ls__plan_candidate *best = &answer->best[0];

    printf("TP %lld x PP %lld x DP %lld wins: %.0f%% of its step is compute\n",
           (long long)best->layout.tensor, (long long)best->layout.pipeline,
           (long long)best->layout.data, 100 * best->step.compute / best->step.total);
    for (int64_t i = 1; i < answer->count && i <= COMPARED; i++)
        compare(best, &answer->best[i]);
}

static void print_all(ls__report *report, const ls__plan_settings *settings,
                      const ls__plan_question *q, const ls__plan_answer *answer)
{
    ls__plan_print_model(settings);
    printf("%lld x %s, batch of %lld; %lld layouts, %lld of which do not fit\n\n",
           (long long)q->devices, settings->device, (long long)q->batch, (long long)answer->tried,
           (long long)answer->too_large);
    ls__report_fact(report, "tried", (double)answer->tried);
    ls__report_fact(report, "too_large", (double)answer->too_large);
    ls__report_table(report, "layouts", columns, sizeof columns / sizeof columns[0]);
    for (int64_t i = 0; i < answer->count && i < settings->rows; i++)
        print_candidate(report, q, &answer->best[i]);
    printf("\n");
    explain(answer);
}

static ls_status make_question(ls__plan_question *q, const ls__plan_settings *settings,
                               const ls__plan_machine *machine)
{
    *q = (ls__plan_question){
        .model = settings->model,
        .storage = settings->storage,
        .cluster = {.memory = machine->memory,
                    .peak = machine->peak,
                    .efficiency = settings->share,
                    .per_node = settings->per_node,
                    .overlap = settings->overlap == 1},
        .devices = settings->devices,
        .batch = settings->batch,
    };
    return ls__plan_links_of(settings, machine, &q->cluster.within, &q->cluster.across);
}

ls_status ls__cli_plan_layout(int argc, char **argv)
{
    static ls__plan_settings settings;
    ls__plan_machine machine;
    ls__plan_question question;
    ls__plan_answer answer;
    ls__report report;
    bool help = false;

    LS_TRY(ls__plan_parse(&command, &settings, argc, argv, &help));
    if (help)
        return LS_OK;
    LS_TRY(ls__plan_machine_of(&settings, &machine));
    LS_TRY(make_question(&question, &settings, &machine));
    LS_TRY(ls__plan_search(&question, &answer));
    ls_status status = ls__report_open(&report, settings.json);
    if (status == LS_OK) {
        print_all(&report, &settings, &question, &answer);
        status = ls__report_close(&report);
    }
    ls__plan_answer_free(&answer);
    return status;
}
