/* The learning rate as a function of the step. */
#ifndef LS_OPTIM_SCHEDULE_H
#define LS_OPTIM_SCHEDULE_H

#include <stdint.h>

typedef struct ls__learning_rate {
    double highest;
    double lowest;
    int64_t warmup; /* steps */
    int64_t decay;  /* steps, warmup included, after which the rate stays at its lowest */
} ls__learning_rate;

/* The rate at `step`, counted from 0: linear to the highest over `warmup` steps, then half a cosine
 * to the lowest at `decay`. As nanoGPT's get_lr: (step + 1) / (warmup + 1) of the highest while it
 * warms up. */
double ls__learning_rate_at(const ls__learning_rate *schedule, int64_t step);

#endif
