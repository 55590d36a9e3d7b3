/* What is found out before a run begins: how much memory a rank may take, and whether all ranks
 * compute alike. The same arithmetic gives the same bits only where the program, the BLAS core and
 * the rounding are the same; what cannot be asked for is tried out, by a canary: a real micro-batch
 * with all the products' shapes that the run will use. */
#ifndef LS_TRAIN_STARTUP_H
#define LS_TRAIN_STARTUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "comm/world.h"
#include "lockstep/status.h"
#include "math/format.h"
#include "train/evaluate.h"

/* Collective: the bytes that each rank of this host may take. All look before any of them takes
 * memory. 0 where the machine does not tell. */
ls_status ls__startup_memory(ls__world *world, int64_t *bytes);

/* What came of the canary. */
typedef struct ls__canary {
    ls__digest weights;  /* the parameters it was computed with */
    ls__digest forward;  /* losses and probabilities */
    ls__digest backward; /* every addend of the gradient; zero where none was computed */
} ls__canary;

/* Forward of the first and the last held-out micro-batch, which may be of different sizes, where
 * there are any; for a run that trains also forward and backward of the first training micro-batch.
 * Not collective. LS_NO_MEMORY. */
ls_status ls__canary_run(ls__canary *canary, ls__evaluator *evaluator, const float *parameters,
                         bool trains);

/* Collective: version, BLAS, what computes products of the precision, and canary of all ranks
 * against rank 0's. Where they differ: under `exact` LS_BAD_INPUT on every rank, naming the ranks,
 * their hosts and what differs; else a warning that says the same. Under `exact` also LS_BAD_INPUT
 * where a rank does not round to nearest, or flushes subnormal numbers (lockstep/exact.h). */
ls_status ls__startup_compare(ls__world *world, const ls__canary *canary, ls__format precision,
                              bool exact);

/* What computes products of the precision here, and attention's, for people and to compare. */
void ls__startup_engine(char *text, size_t size, ls__format precision);

/* Warns where a checkpoint was made on another BLAS core, or by another engine ("": it does not
 * tell), than this process computes with. */
void ls__startup_compare_checkpoint(const char *core, const char *engine, ls__format precision);

#endif
