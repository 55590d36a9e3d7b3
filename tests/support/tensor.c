#include "support/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/test.h"

enum { POOL_CAPACITY = 4096, ALIGNMENT = 64 };

static void *pool[POOL_CAPACITY];
static int pooled;
static uint64_t tensor_seed;
static uint64_t drawn;

static void *take(int64_t count, size_t size)
{
    size_t bytes = ((size_t)count * size / ALIGNMENT + 1) * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, bytes);

    assert_non_null(memory);
    assert_true(pooled < POOL_CAPACITY);
    pool[pooled++] = memory;
    return memset(memory, 0, bytes);
}

double *ls__doubles(int64_t count)
{
    return take(count, sizeof(double));
}

float *ls__new_floats(int64_t count)
{
    return take(count, sizeof(float));
}

int32_t *ls__ints(int64_t count)
{
    return take(count, sizeof(int32_t));
}

int ls__free_tensors(void **state)
{
    (void)state;
    while (pooled > 0)
        free(pool[--pooled]);
    return 0;
}

void ls__seed_tensors(uint64_t seed)
{
    tensor_seed = seed;
    drawn = 0;
}

double *ls__random_doubles(int64_t count, double scale)
{
    double *x = ls__doubles(count);

    for (int64_t i = 0; i < count; i++) {
        double normal = ls__normal(tensor_seed, LS__STREAM_INIT, drawn++);

        x[i] = (double)(float)(scale * (normal + copysign(0.01, normal)));
    }
    return x;
}

int32_t *ls__random_ints(int64_t count, int64_t bound)
{
    int32_t *x = ls__ints(count);

    for (int64_t i = 0; i < count; i++) {
        ls__random4 words = ls__random(tensor_seed, LS__STREAM_SAMPLE, 0, drawn++);

        x[i] = (int32_t)ls__bounded(words, (uint64_t)bound);
    }
    return x;
}

float *ls__to_floats(const double *x, int64_t count)
{
    float *copy = ls__new_floats(count);

    for (int64_t i = 0; i < count; i++)
        copy[i] = (float)x[i];
    return copy;
}

double *ls__to_doubles(const float *x, int64_t count)
{
    double *copy = ls__doubles(count);

    for (int64_t i = 0; i < count; i++)
        copy[i] = (double)x[i];
    return copy;
}

double ls__relative_error(const double *actual, const double *expected, int64_t count)
{
    double difference = 0;
    double norm = 0;

    for (int64_t i = 0; i < count; i++) {
        difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return sqrt(norm) < 1e-10 ? sqrt(difference) : sqrt(difference / norm);
}

static double central_difference(double (*loss)(void *), void *context, double *x, double step)
{
    double middle = *x;
    double above;
    double below;

    *x = middle + step;
    above = loss(context);
    *x = middle - step;
    below = loss(context);
    *x = middle;
    return (above - below) / (2 * step);
}

double *ls__central_differences(double (*loss)(void *context), void *context, double *x,
                                int64_t count, double step)
{
    double *derivative = ls__doubles(count);

    for (int64_t i = 0; i < count; i++) {
        double wide = central_difference(loss, context, x + i, step);
        double narrow = central_difference(loss, context, x + i, step / 2);

        derivative[i] = (4 * narrow - wide) / 3;
    }
    return derivative;
}
