/* The flag --algorithm, a list of names. */
#ifndef LS_CLI_ALGORITHMS_H
#define LS_CLI_ALGORITHMS_H

#include "lockstep/schedule.h"
#include "lockstep/status.h"

typedef struct ls__algorithms {
    const ls_algorithm *algorithm[LS_ALGORITHM_COUNT]; /* in the order of the list */
    int count;
} ls__algorithms;

/* From "ring,direct,mpi". LS_BAD_USAGE, naming what is not an algorithm. */
ls_status ls__algorithms_read(ls__algorithms *algorithms, const char *list);

#endif
