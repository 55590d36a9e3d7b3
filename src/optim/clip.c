#include "optim/clip.h"

#include <math.h>

enum { LANES = 8 };

double ls__norm_block(const float *values, int64_t count)
{
    double sum[LANES] = {0};
    int64_t whole = count - count % LANES;

    for (int64_t i = 0; i < whole; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            double value = (double)values[i + lane];
            sum[lane] += value * value;
        }
    for (int64_t i = whole; i < count; i++)
        sum[i - whole] += (double)values[i] * (double)values[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

double ls__norm(const float *values, int64_t count)
{
    double sum = 0;

    for (int64_t i = 0; i < count; i += LS__NORM_BLOCK)
        sum += ls__norm_block(values + i, count - i < LS__NORM_BLOCK ? count - i : LS__NORM_BLOCK);
    return sqrt(sum);
}

double ls__norm_of_blocks(const double *block, int64_t blocks)
{
    double sum = 0;

    for (int64_t i = 0; i < blocks; i++)
        sum += block[i];
    return sqrt(sum);
}

double ls__clip_factor(double norm, double limit)
{
    if (limit == 0 || norm <= limit)
        return 1;
    return limit / (norm + 1e-6);
}
