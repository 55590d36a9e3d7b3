/* One all-reduce as `lockstep bench allreduce` times it: its input, its run, the check of its
 * result.
 *
 *     f32      ls_allreduce; for the algorithm `mpi` the blocking MPI_Allreduce, which is what
 *              one would use otherwise
 *     exact    as training does it: lanes (8 bytes) to their owners, spills delivered, rounded
 *              once, FP32 (4 bytes) to everyone
 *
 * Inputs are whole numbers so small that their float sum is exact in any order, so every result is
 * known to the last bit. */
#ifndef LS_CLI_BENCH_SUM_H
#define LS_CLI_BENCH_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/world.h"
#include "lockstep/schedule.h"

/* The caller's, for sums of at most the count that it was made for. */
typedef struct ls__bench_memory {
    float *data;   /* (count) addends, then their sums */
    double *lanes; /* (count); only exact sums need it */
    void *scratch; /* ls__bench_scratch bytes */
} ls__bench_memory;

typedef struct ls__bench_sum ls__bench_sum;

int64_t ls__bench_scratch(const ls_algorithm *algorithm, bool exact, ls_layout layout,
                          int64_t count);

/* Collective. LS_NO_MEMORY; LS_BAD_USAGE where ranks do not mean the same. If this succeeded you
 * must close. */
ls_status ls__bench_sum_open(ls__bench_sum **sum, ls__world *world, const ls_algorithm *algorithm,
                             bool exact, int64_t count, const ls__bench_memory *memory);
void ls__bench_sum_close(ls__bench_sum *sum); /* NULL is fine */

/* This rank's addends, before each run. With `spills`, for exact sums only, some elements have
 * others beside, so far from them that lanes cannot hold both. */
void ls__bench_sum_fill(ls__bench_sum *sum, bool spills);

/* Collective; what is timed. */
ls_status ls__bench_sum_run(ls__bench_sum *sum);

/* Records that the last run had to deliver from one rank to another; 0 for f32. */
int64_t ls__bench_sum_spills(const ls__bench_sum *sum);

/* Elements that are not, in all bits, what the same addends sum up to as integers. */
int64_t ls__bench_sum_wrong(const ls__bench_sum *sum);

#endif
