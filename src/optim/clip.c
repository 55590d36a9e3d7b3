#include "optim/clip.h"

#include <math.h>

#include "base/threads.h"

enum { LANES = 8, STRETCH = 4096 /* blocks */ };

_Static_assert(LS__THREADS_PIECE % LS__NORM_BLOCK == 0, "threads take whole blocks");

static int64_t less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

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

/* A stretch of the vector, and the sums of its blocks. */
typedef struct stretch {
    const float *values;
    int64_t count;
    double block[STRETCH];
} stretch;

static void sum_blocks(void *context, int64_t offset, int64_t count)
{
    stretch *s = context;

    for (int64_t i = offset; i < offset + count; i += LS__NORM_BLOCK)
        s->block[i / LS__NORM_BLOCK] =
            ls__norm_block(s->values + i, less(s->count - i, LS__NORM_BLOCK));
}

double ls__norm(const float *values, int64_t count)
{
    const int64_t longest = (int64_t)STRETCH * LS__NORM_BLOCK;
    stretch s;
    double sum = 0;

    for (int64_t i = 0; i < count; i += longest) {
        s.values = values + i;
        s.count = less(count - i, longest);
        ls__threads_over(0, s.count, sum_blocks, &s);
        for (int64_t block = 0; block * LS__NORM_BLOCK < s.count; block++)
            sum += s.block[block];
    }
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

typedef struct clipping {
    float *values;
    float factor;
} clipping;

static void clip_range(void *context, int64_t offset, int64_t count)
{
    const clipping *c = context;
    float *values = c->values + offset;
    float factor = c->factor;

    for (int64_t i = 0; i < count; i++)
        values[i] *= factor;
}

void ls__clip(float *values, int64_t count, float factor)
{
    ls__threads_over(0, count, clip_range, &(clipping){values, factor});
}
