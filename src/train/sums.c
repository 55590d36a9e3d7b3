#include "train/sums.h"

#include "base/threads.h"

/* So no two pieces have a block of exact sums in common, which is what lockstep/exact.h asks of
 * threads. Its other demand, that each thread rounds as the first one does, the pool keeps. */
_Static_assert(LS__THREADS_PIECE % LS_EXACT_BLOCK == 0, "threads take whole blocks");

/* Ranges are of the lanes; the arrays beside them begin at `offset`. */
typedef struct exact_work {
    ls_exact *exact;
    int64_t offset;
    const float *addend;
    const double *from;
    double divisor;
    float *out;
} exact_work;

static void add(void *context, int64_t offset, int64_t count)
{
    const exact_work *w = context;

    ls_exact_add(w->exact, offset, w->addend + (offset - w->offset), count);
}

void ls__sums_add(ls_exact *exact, int64_t offset, const float *addend, int64_t count)
{
    exact_work w = {.exact = exact, .offset = offset, .addend = addend};

    ls__threads_over(offset, count, add, &w);
}

static void combine(void *context, int64_t offset, int64_t count)
{
    const exact_work *w = context;

    ls_exact_combine(w->exact, offset, w->from + (offset - w->offset), count);
}

void ls__sums_combine(ls_exact *exact, int64_t offset, const double *from, int64_t count)
{
    exact_work w = {.exact = exact, .offset = offset, .from = from};

    ls__threads_over(offset, count, combine, &w);
}

static void round_sums(void *context, int64_t offset, int64_t count)
{
    const exact_work *w = context;

    ls_exact_round(w->exact, offset, count, w->divisor, w->out + (offset - w->offset));
}

void ls__sums_round(ls_exact *exact, int64_t offset, int64_t count, double divisor, float *out)
{
    exact_work w = {.exact = exact, .offset = offset, .divisor = divisor, .out = out};

    ls__threads_over(offset, count, round_sums, &w);
}

/* ---- FP32 ---- */

typedef struct float_work {
    float *sum;
    const float *addend;
    float divisor;
} float_work;

static void add_floats(void *context, int64_t offset, int64_t count)
{
    const float_work *w = context;
    float *restrict sum = w->sum + offset;
    const float *restrict addend = w->addend + offset;

    for (int64_t i = 0; i < count; i++)
        sum[i] += addend[i];
}

void ls__sums_add_floats(float *sum, const float *addend, int64_t count)
{
    ls__threads_over(0, count, add_floats, &(float_work){.sum = sum, .addend = addend});
}

static void divide_floats(void *context, int64_t offset, int64_t count)
{
    const float_work *w = context;
    float *sum = w->sum + offset;
    float divisor = w->divisor;

    for (int64_t i = 0; i < count; i++)
        sum[i] /= divisor;
}

void ls__sums_divide_floats(float *sum, float divisor, int64_t count)
{
    ls__threads_over(0, count, divide_floats, &(float_work){.sum = sum, .divisor = divisor});
}
