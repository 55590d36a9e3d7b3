/* lockstep bench allreduce --simulate: how long the all-reduce algorithms take on a network that
 * need not exist, beside their closed formulas. */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/units.h"
#include "cli/algorithms.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "comm/simulate.h"
#include "plan/collectives.h"

enum { ELEMENT = sizeof(float), RANKS_MAX = 65536 };

typedef struct simulate_settings {
    bool simulate;
    int64_t ranks;
    int64_t per_node;
    int64_t bytes;
    double latency;
    double bandwidth;
    double node_latency;
    double node_bandwidth;
    ls__list slow_ranks;
    double slow_factor;
    int reduce; /* reduce_kind */
    char algorithm[LS__TEXT_MAX];
} simulate_settings;

typedef enum reduce_kind { REDUCE_F32, REDUCE_EXACT } reduce_kind;

#define AT(member) offsetof(simulate_settings, member)

static const ls__option options[] = {
    {"simulate", "false", "", "simulate a network instead of timing this one", AT(simulate), 0, 0,
     LS__OPTION_SWITCH, LS__SCOPE_RUN, 0},
    {"ranks", "64", "N", "simulated ranks", AT(ranks), 2, RANKS_MAX, LS__OPTION_INT, LS__SCOPE_RUN,
     0},
    {"ranks-per-node", "1", "N", "ranks that share a node, and its link to the others",
     AT(per_node), 1, RANKS_MAX, LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"latency", "2us", "TIME", "between nodes", AT(latency), 0, 0, LS__OPTION_SECONDS,
     LS__SCOPE_RUN, 0},
    {"bandwidth", "12.5GB/s", "RATE", "of a node's link, in each direction", AT(bandwidth), 0, 0,
     LS__OPTION_RATE, LS__SCOPE_RUN, 0},
    {"node-latency", "500ns", "TIME", "within a node", AT(node_latency), 0, 0, LS__OPTION_SECONDS,
     LS__SCOPE_RUN, 0},
    {"node-bandwidth", "100GB/s", "RATE", "of a rank within its node, in each direction",
     AT(node_bandwidth), 0, 0, LS__OPTION_RATE, LS__SCOPE_RUN, 0},
    {"bytes", "64M", "BYTES", "the size of the data", AT(bytes), ELEMENT, 0x1p45, LS__OPTION_BYTES,
     LS__SCOPE_RUN, 0},
    {"reduce", "f32", "f32|exact", "what the sums are made of", AT(reduce), 0, 0, LS__OPTION_CHOICE,
     LS__SCOPE_RUN, 0},
    {"algorithm", "ring,hier,halving,tree,naive", "NAMES", "which algorithms to simulate",
     AT(algorithm), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"slow-ranks", "", "R,R,...", "ranks whose messages take longer", AT(slow_ranks), 0,
     RANKS_MAX - 1, LS__OPTION_LIST, LS__SCOPE_RUN, 0},
    {"slow-factor", "2", "TIMES", "how much longer those take", AT(slow_factor), 1, 1e6,
     LS__OPTION_REAL, LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep bench allreduce",
    .summary = "simulate all-reduce algorithms on a network that need not exist",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes = "A message holds its sender's way out and its receiver's way in; between nodes, the\n"
             "ranks of a node share both. RATE is in powers of 1000, BYTES in powers of 1024.\n",
};

/* ---- set-up ---- */

static ls_status choose_algorithms(const simulate_settings *set, ls__algorithms *chosen)
{
    LS_TRY(ls__algorithms_read(chosen, set->algorithm));
    for (int i = 0; i < chosen->count; i++)
        LS_FAIL_IF(!chosen->algorithm[i]->reduce, LS_BAD_USAGE,
                   "--algorithm: %s is the library's own and has no schedule to simulate",
                   chosen->algorithm[i]->name);
    return LS_OK;
}

static ls_status check_settings(const simulate_settings *set)
{
    LS_FAIL_IF(set->ranks % set->per_node != 0, LS_BAD_USAGE,
               "--ranks-per-node %lld does not divide --ranks %lld", (long long)set->per_node,
               (long long)set->ranks);
    for (int i = 0; i < set->slow_ranks.count; i++)
        LS_FAIL_IF(set->slow_ranks.value[i] >= set->ranks, LS_BAD_USAGE,
                   "--slow-ranks %lld: the ranks are 0 to %lld",
                   (long long)set->slow_ranks.value[i], (long long)set->ranks - 1);
    return LS_OK;
}

static ls_status open_network(const simulate_settings *set, ls__sim **sim)
{
    ls__sim_options network = {
        .ranks = (int)set->ranks,
        .per_node = (int)set->per_node,
        .latency = set->latency,
        .seconds_per_byte = 1 / set->bandwidth,
        .node_latency = set->node_latency,
        .node_seconds_per_byte = 1 / set->node_bandwidth,
        .time_only = true,
    };

    LS_TRY(ls__sim_open(sim, &network));
    for (int i = 0; i < set->slow_ranks.count; i++)
        ls__sim_slow_down(*sim, (int)set->slow_ranks.value[i], set->slow_factor);
    return LS_OK;
}

/* The formulas have elements of one size; the phases of exact sums, 8 and 4 bytes, are each half of
 * an all-reduce of such elements. */
static double formula_of(const simulate_settings *set, const char *algorithm, int64_t ranks,
                         int64_t bytes)
{
    ls__network network = {
        .ranks = ranks,
        .per_node = set->per_node,
        .across = {set->latency, 1 / set->bandwidth},
        .within = {set->node_latency, 1 / set->node_bandwidth},
    };
    double floats = ls__all_reduce_seconds(algorithm, &network, (double)bytes);

    if (set->reduce == REDUCE_F32)
        return floats;
    return (ls__all_reduce_seconds(algorithm, &network, 2 * (double)bytes) + floats) / 2;
}

/* ---- a row an algorithm ---- */

static ls_status simulate(const simulate_settings *set, const ls_algorithm *algorithm,
                          ls__simulated *result)
{
    ls__sim *sim = NULL;

    LS_TRY(open_network(set, &sim));
    ls_status status = ls__simulate_all_reduce(
        sim, algorithm, set->bytes / ELEMENT,
        set->reduce == REDUCE_EXACT ? ls__exact_sums : ls__float_sums, result);
    ls__sim_close(sim);
    LS_TRY(status);
    LS_FAIL_IF(result->total.sent_bytes != result->total.received_bytes, LS_CHECK_FAILED,
               "%s: %lld bytes were sent, but %lld received", algorithm->name,
               (long long)result->total.sent_bytes, (long long)result->total.received_bytes);
    return LS_OK;
}

static void print_header(const simulate_settings *set)
{
    printf("# simulated: %lld ranks, %lld a node, %s sums; %g us and %g GB/s between nodes, %g us "
           "and %g "
           "GB/s within\n",
           (long long)set->ranks, (long long)set->per_node,
           set->reduce == REDUCE_EXACT ? "exact" : "float", set->latency * 1e6,
           set->bandwidth * 1e-9, set->node_latency * 1e6, set->node_bandwidth * 1e-9);
    if (set->slow_ranks.count > 0)
        printf(
            "# slow ranks: %d, whose messages take %g times as long; the formula knows nothing of "
            "them\n",
            set->slow_ranks.count, set->slow_factor);
    printf("#%9s %7s %14s %15s %15s %7s %15s %12s\n", "algorithm", "ranks", "bytes", "time",
           "formula", "ratio", "sent per rank", "messages");
    printf("#%9s %7s %14s %15s %15s %7s %15s %12s\n", "", "", "", "(us)", "(us)", "", "(bytes)",
           "");
}

static void print_row(const simulate_settings *set, const ls_algorithm *algorithm,
                      const ls__simulated *result)
{
    int64_t bytes = set->bytes / ELEMENT * ELEMENT;
    double formula = formula_of(set, algorithm->name, set->ranks, bytes);

    printf(" %9s %7lld %14lld %15.2f %15.2f %7.4f %15.10g %12lld\n", algorithm->name,
           (long long)set->ranks, (long long)bytes, result->seconds * 1e6, formula * 1e6,
           result->seconds / formula, (double)result->total.sent_bytes / (double)set->ranks,
           (long long)result->total.sent_messages);
    fflush(stdout);
}

static ls_status print_rows(const simulate_settings *set, const ls__algorithms *chosen)
{
    ls__simulated result;

    print_header(set);
    for (int i = 0; i < chosen->count; i++) {
        LS_TRY(simulate(set, chosen->algorithm[i], &result));
        print_row(set, chosen->algorithm[i], &result);
    }
    return LS_OK;
}

/* ---- which algorithm is fastest where ---- */

static const int64_t grid_bytes[] = {1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30};

enum { GRID_SIZES = sizeof grid_bytes / sizeof grid_bytes[0], GRID_RANKS = 16384, GRID_STEP = 4 };

/* Algorithms that are the same on a network differ by rounding only; the first one named wins. */
static const double alike = 1e-9;

static const char *fastest(const simulate_settings *set, const ls__algorithms *chosen,
                           int64_t ranks, int64_t bytes)
{
    const char *best = NULL;
    double best_seconds = 0;

    for (int i = 0; i < chosen->count; i++) {
        const char *name = chosen->algorithm[i]->name;
        double seconds = formula_of(set, name, ranks, bytes);
        if (best && seconds >= best_seconds * (1 - alike))
            continue;
        best = name;
        best_seconds = seconds;
    }
    return best;
}

static void print_grid_row(const simulate_settings *set, const ls__algorithms *chosen,
                           int64_t ranks)
{
    printf("  %7lld", (long long)ranks);
    for (int i = 0; i < GRID_SIZES; i++)
        printf(" %11s", fastest(set, chosen, ranks, grid_bytes[i]));
    putchar('\n');
}

static void print_grid(const simulate_settings *set, const ls__algorithms *chosen)
{
    char text[32];

    printf("\n# the fastest of these on such a network, by the formulas\n# %7s", "ranks");
    for (int i = 0; i < GRID_SIZES; i++)
        printf(" %11s", ls__format_bytes(text, sizeof text, grid_bytes[i]));
    putchar('\n');
    for (int64_t ranks = 2 * set->per_node; ranks <= GRID_RANKS; ranks *= GRID_STEP)
        print_grid_row(set, chosen, ranks);
}

ls_status ls__cli_bench_simulate(int argc, char **argv)
{
    static simulate_settings set;
    ls__algorithms chosen;
    ls__parsed parsed;

    LS_TRY(ls__cli_alone("bench allreduce --simulate"));
    LS_TRY(ls__options_parse(&table, &set, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    LS_TRY(check_settings(&set));
    LS_TRY(choose_algorithms(&set, &chosen));
    LS_TRY(print_rows(&set, &chosen));
    print_grid(&set, &chosen);
    return LS_OK;
}
