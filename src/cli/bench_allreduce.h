/* `lockstep bench allreduce`: times the all-reduce algorithms, checking every result. */
#ifndef LS_CLI_BENCH_ALLREDUCE_H
#define LS_CLI_BENCH_ALLREDUCE_H

#include "comm/world.h"

/* argv[0] is "allreduce". Collective. LS_CHECK_FAILED where any element came out wrong. */
ls_status ls__cli_bench_allreduce(ls__world *world, int argc, char **argv);

#endif
