#include "optim/schedule.h"

#include <math.h>

double ls__learning_rate_at(const ls__learning_rate *schedule, int64_t step)
{
    static const double pi = 3.14159265358979323846;

    if (step < schedule->warmup)
        return schedule->highest * (double)(step + 1) / (double)(schedule->warmup + 1);
    if (step >= schedule->decay)
        return schedule->lowest;
    double done = (double)(step - schedule->warmup) / (double)(schedule->decay - schedule->warmup);
    return schedule->lowest + 0.5 * (1 + cos(pi * done)) * (schedule->highest - schedule->lowest);
}
