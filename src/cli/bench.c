/* lockstep bench */
#include "cli/commands.h"

static const ls__cli_entry benchmarks[] = {
    {"allreduce", "time the all-reduce algorithms, every result checked", ls__cli_bench_allreduce,
     false},
};

ls_status ls__cli_bench(int argc, char **argv)
{
    return ls__cli_dispatch("lockstep bench", benchmarks, sizeof benchmarks / sizeof benchmarks[0],
                            argc, argv);
}
