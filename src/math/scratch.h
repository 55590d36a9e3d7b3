/* Scratch memory for operations that threads share: a piece for each thread of ls__threads_run. */
#ifndef LS_MATH_SCRATCH_H
#define LS_MATH_SCRATCH_H

#include <stdint.h>

typedef struct ls__scratch {
    float *at;      /* (ls__threads_count(), floats) */
    int64_t floats; /* of one thread's piece */
    float *shared;  /* what all threads fill parts of and one then reads; each operation says how
                       much it needs */
} ls__scratch;

static inline float *ls__scratch_of(ls__scratch scratch, int thread)
{
    return scratch.at + thread * scratch.floats;
}

#endif
