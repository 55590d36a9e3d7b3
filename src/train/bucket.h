/* The size of a bucket, found by measurement: long enough that what a message costs whatever its
 * length is small beside what its bytes cost, and no longer, so that the first bucket can leave
 * early. */
#ifndef LS_TRAIN_BUCKET_H
#define LS_TRAIN_BUCKET_H

#include "comm/reduction.h"
#include "comm/world.h"

/* Times reductions of a short and of a long piece of `sums` (units), which must be zeros and stay
 * so, and sets *bytes, of gradient, the same on all ranks. Collective; blocks. LS_NO_MEMORY,
 * LS_COMM, LS_TIMEOUT. */
ls_status ls__bucket_measure(ls__world *world, const ls_algorithm *algorithm,
                             const ls_element_type *unit, char *sums, int64_t units,
                             int64_t *bytes);

/* From what two reductions took, of so many bytes: a power of two between a least and a most size.
 * A pure function. */
int64_t ls__bucket_choose(double short_seconds, int64_t short_bytes, double long_seconds,
                          int64_t long_bytes);

#endif
