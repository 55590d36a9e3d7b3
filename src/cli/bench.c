/* lockstep bench */
#include <string.h>

#include "cli/commands.h"

static bool is_given(const char *flag, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], flag) == 0)
            return true;
    return false;
}

/* Two programs, with flags of their own. */
static ls_status allreduce(int argc, char **argv)
{
    if (is_given("--simulate", argc, argv))
        return ls__cli_bench_simulate(argc, argv);
    return ls__cli_bench_allreduce(argc, argv);
}

static const ls__cli_entry benchmarks[] = {
    {"allreduce",
     "time the all-reduce algorithms, every result checked; --simulate: on any network", allreduce,
     false},
    {"step", "time the parts of a training step on one rank, beside the peak of its products",
     ls__cli_bench_step, true},
    {"precision", "show what bf16 and f16 do to the gradients, updates and losses of a training",
     ls__cli_bench_precision, true},
};

ls_status ls__cli_bench(int argc, char **argv)
{
    return ls__cli_dispatch("lockstep bench", benchmarks, sizeof benchmarks / sizeof benchmarks[0],
                            argc, argv);
}
