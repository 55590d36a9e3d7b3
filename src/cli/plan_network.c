/* lockstep plan network */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "cli/plot.h"
#include "plan/flops.h"

static const int64_t ranks_max = 1 << 20;

#define AT(member) LS__PLAN_AT(member)
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"bytes", "", "BYTES", "another size of the all-reduce than the gradients'", AT(bytes), 1, 1e18,
     LS__OPTION_REAL, RUN, 0},
    {"batch", "8", "sequences", "of a step: of each rank, or with --scaling strong all", AT(batch),
     1, 0x1p40, LS__OPTION_INT, RUN, 0},
    {"scaling", "weak", "weak|strong",
     "weak: each rank's batch stays as ranks grow; strong: that of all", AT(scaling), 0, 0,
     LS__OPTION_CHOICE, RUN, 0},
    {"algorithm", "ring", LS__ALL_REDUCE_CHOICES, "that steps are predicted with", AT(algorithm), 0,
     0, LS__OPTION_CHOICE, RUN, 0},
    {"ranks", "64", "N", "the most data ranks to look at", AT(ranks), 2, 0x1p20, LS__OPTION_INT,
     RUN, 0},
    {"mfu", "0.4", "share", "of the peak that compute reaches", AT(share), 1e-6, 1, LS__OPTION_REAL,
     RUN, 0},
    {"pp", "8", "stages", "of a pipeline, for its bubble", AT(layout.pipeline), 1, 65536,
     LS__OPTION_INT, RUN, 0},
    {"micro-batches", "32", "count", "of a step in that pipeline", AT(layout.micro_batches), 1,
     0x1p20, LS__OPTION_INT, RUN, 0},
    {"plot", "", "FILE.svg", "draw them, with gnuplot", AT(plot), 0, 0, LS__OPTION_TEXT, RUN, 0},
};

static const ls__plan_command command = {
    .command = "lockstep plan network",
    .summary = "what collectives cost, and where communication overtakes compute",
    .flags = LS__PLAN_FLAGS_MODEL | LS__PLAN_FLAGS_FORMATS | LS__PLAN_FLAGS_LINKS,
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "A message of B bytes takes latency + B / bandwidth. In a ring all-reduce of D bytes each\n"
        "rank sends 2 (N-1)/N D bytes and receives as many: for 1 GB nearly 2 GB out and 2 GB in,\n"
        "not 1 GB. Bandwidths are of one direction: NVLink's 600 and 900 GB/s are the sum of "
        "both.\n"
        "Ranks of a node share its link. Formulas: src/plan/collectives.h. With overlap,\n"
        "communication hides behind the backward pass, two thirds of compute.\n",
};

/* The question, in the planner's terms. */
typedef struct question {
    ls__network network;
    ls__plan_replicas replicas;
} question;

static ls_status make_question(question *q, const ls__plan_settings *settings,
                               const ls__plan_machine *machine)
{
    const ls__plan_model *model = &settings->model;
    double element = ls__plan_number_of((ls__plan_format)settings->storage.format).bytes;
    double flops = ls__plan_step_flops(model, (double)settings->batch, LS__PLAN_RECOMPUTE_NONE);

    *q = (question){.network = {.ranks = settings->ranks, .per_node = settings->per_node}};
    LS_TRY(ls__plan_links_of(settings, machine, &q->network.within, &q->network.across));
    q->replicas = (ls__plan_replicas){
        .algorithm = ls__all_reduce_names[settings->algorithm],
        .network = q->network,
        .bytes = settings->bytes > 0 ? settings->bytes : element * ls__plan_parameters(model),
        .compute = flops / machine->peak / settings->share,
        .strong = settings->scaling == 1,
    };
    return LS_OK;
}

/* 2, 4, 8 and so on, the most ranks last. */
static int64_t next_ranks(int64_t ranks, int64_t most)
{
    return ranks < most && 2 * ranks > most ? most : 2 * ranks;
}

static double seconds_of(const question *q, const char *algorithm, int64_t ranks)
{
    ls__network network = q->network;

    network.ranks = ranks;
    return ls__all_reduce_seconds(algorithm, &network, q->replicas.bytes);
}

/* ---- tables ---- */

static const ls__column all_reduce_columns[] = {
    {"ranks", "ranks", "", LS__COLUMN_FIXED, 0, 0},
    {"factor", "ring factor", "2(N-1)/N", LS__COLUMN_FIXED, 3, 0},
    {"sent_bytes", "sent", "(GB a rank)", LS__COLUMN_FIXED, 3, 1e9},
    {"naive_seconds", "naive", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"tree_seconds", "tree", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"halving_seconds", "halving", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"ring_seconds", "ring", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"hier_seconds", "hier", "(s)", LS__COLUMN_SHORT, 4, 0},
};

static void print_all_reduce(ls__report *report, const question *q)
{
    ls__report_table(report, "all_reduce", all_reduce_columns,
                     sizeof all_reduce_columns / sizeof all_reduce_columns[0]);
    for (int64_t n = 2; n <= q->network.ranks; n = next_ranks(n, q->network.ranks))
        ls__report_row(report, (ls__cell[]){{.number = (double)n},
                                            {.number = ls__ring_sent_bytes(n, 1)},
                                            {.number = ls__ring_sent_bytes(n, q->replicas.bytes)},
                                            {.number = seconds_of(q, "naive", n)},
                                            {.number = seconds_of(q, "tree", n)},
                                            {.number = seconds_of(q, "halving", n)},
                                            {.number = seconds_of(q, "ring", n)},
                                            {.number = seconds_of(q, "hier", n)}});
}

static const ls__column step_columns[] = {
    {"ranks", "ranks", "", LS__COLUMN_FIXED, 0, 0},
    {"compute_seconds", "compute", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"communication_seconds", "communication", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"step_seconds", "step", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"step_overlapped_seconds", "overlapped", "(s)", LS__COLUMN_SHORT, 4, 0},
    {"efficiency", "efficiency", "(%)", LS__COLUMN_FIXED, 1, 0.01},
    {"efficiency_overlapped", "overlapped", "(%)", LS__COLUMN_FIXED, 1, 0.01},
};

static void print_steps(ls__report *report, const question *q)
{
    ls__report_table(report, "steps", step_columns, sizeof step_columns / sizeof step_columns[0]);
    for (int64_t n = 2; n <= q->network.ranks; n = next_ranks(n, q->network.ranks)) {
        ls__plan_replicas_time time = ls__plan_replicas_step(&q->replicas, n);
        ls__report_row(report, (ls__cell[]){{.number = (double)n},
                                            {.number = time.compute},
                                            {.number = time.communication},
                                            {.number = time.apart},
                                            {.number = time.together},
                                            {.number = time.compute / time.apart},
                                            {.number = time.compute / time.together}});
    }
}

static const ls__column collective_columns[] = {
    {"collective", "collective", "", LS__COLUMN_TEXT, 0, 0},
    {"seconds", "time", "(s)", LS__COLUMN_SHORT, 4, 0},
};

static void print_collectives(ls__report *report, const question *q)
{
    const struct {
        const char *name;
        double (*seconds)(const ls__network *network, double bytes);
    } rows[] = {
        {"all-gather", ls__all_gather_seconds},
        {"reduce-scatter", ls__reduce_scatter_seconds},
        {"broadcast", ls__broadcast_seconds},
        {"all-to-all", ls__all_to_all_seconds},
        {"point to point", ls__point_to_point_seconds},
    };

    ls__report_table(report, "collectives", collective_columns,
                     sizeof collective_columns / sizeof collective_columns[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ls__report_row(report,
                       (ls__cell[]){{.text = rows[i].name},
                                    {.number = rows[i].seconds(&q->network, q->replicas.bytes)}});
}

/* ---- sentences ---- */

static void print_overtaken(ls__report *report, const question *q, bool overlap)
{
    int64_t ranks = ls__plan_overtaken(&q->replicas, overlap, ranks_max);
    const char *what = overlap ? "the backward pass, and no longer hides behind it," : "compute";

    if (ranks > 0)
        printf("communication overtakes %s from N = %lld on\n", what, (long long)ranks);
    else
        printf("communication overtakes %s at no N up to %lld\n", what, (long long)ranks_max);
    ls__report_fact(report, overlap ? "overtaken_overlapped_ranks" : "overtaken_ranks",
                    ranks > 0 ? (double)ranks : (double)NAN);
}

static void print_bubble(ls__report *report, const ls__plan_layout *layout)
{
    double bubble = ls__plan_bubble(layout->pipeline, layout->micro_batches);

    printf("a pipeline of %lld stages and %lld micro-batches waits (p-1)/(m+p-1) = %.1f%% of a "
           "step\n",
           (long long)layout->pipeline, (long long)layout->micro_batches, 100 * bubble);
    ls__report_fact(report, "pipeline_bubble", bubble);
}

static void print_all(ls__report *report, const question *q, const ls__plan_settings *settings)
{
    ls__plan_print_model(settings);
    printf("all-reduce of %.4g GB; nodes of %lld; a step's compute is %.4g s on one rank\n\n",
           q->replicas.bytes / 1e9, (long long)q->network.per_node, q->replicas.compute);
    ls__report_fact(report, "all_reduce_bytes", q->replicas.bytes);
    print_all_reduce(report, q);
    printf("\nsteps with %s, %s scaling:\n", q->replicas.algorithm,
           q->replicas.strong ? "strong" : "weak");
    print_steps(report, q);
    printf("\nother collectives of %.4g GB over %lld ranks:\n", q->replicas.bytes / 1e9,
           (long long)q->network.ranks);
    print_collectives(report, q);
    printf("\n");
    print_overtaken(report, q, false);
    print_overtaken(report, q, true);
    print_bubble(report, &settings->layout);
}

/* ---- the picture ---- */

static void write_curves(FILE *script, const question *q)
{
    static const char *const algorithms[] = {"naive", "tree", "halving", "ring", "hier"};
    enum { CURVES = sizeof algorithms / sizeof algorithms[0] };

    fputs("set logscale xy\nset xlabel 'ranks N'\nset ylabel 'seconds'\nset key left top\n"
          "$data << EOD\n",
          script);
    for (int64_t n = 2; n <= q->network.ranks; n = next_ranks(n, q->network.ranks)) {
        fprintf(script, "%lld", (long long)n);
        for (int i = 0; i < CURVES; i++)
            fprintf(script, " %.9g", seconds_of(q, algorithms[i], n));
        fprintf(script, " %.9g\n", ls__plan_replicas_step(&q->replicas, n).compute);
    }
    fputs("EOD\nplot ", script);
    for (int i = 0; i < CURVES; i++)
        fprintf(script, "$data using 1:%d with linespoints title '%s', ", i + 2, algorithms[i]);
    fprintf(script, "$data using 1:%d with lines dashtype 2 title 'compute'\n", CURVES + 2);
}

static ls_status draw(const question *q, const char *path)
{
    ls__plot plot;

    LS_TRY(ls__plot_open(&plot, path));
    write_curves(plot.script, q);
    return ls__plot_close(&plot);
}

ls_status ls__cli_plan_network(int argc, char **argv)
{
    static ls__plan_settings settings;
    ls__plan_machine machine;
    ls__report report;
    question q;
    bool help = false;

    LS_TRY(ls__plan_parse(&command, &settings, argc, argv, &help));
    if (help)
        return LS_OK;
    LS_TRY(ls__plan_machine_of(&settings, &machine));
    LS_TRY(make_question(&q, &settings, &machine));
    LS_TRY(ls__report_open(&report, settings.json));
    print_all(&report, &q, &settings);
    LS_TRY(ls__report_close(&report));
    return *settings.plot ? draw(&q, settings.plot) : LS_OK;
}
