#include "lockstep/transport.h"

static void add_f32(void *context, void *into, const void *from, int64_t count)
{
    float *restrict sum = into;
    const float *restrict addend = from;

    (void)context;
    for (int64_t i = 0; i < count; i++)
        sum[i] += addend[i];
}

static void add_f64(void *context, void *into, const void *from, int64_t count)
{
    double *restrict sum = into;
    const double *restrict addend = from;

    (void)context;
    for (int64_t i = 0; i < count; i++)
        sum[i] += addend[i];
}

const ls_element_type ls_sum_f32 = {.name = "f32", .size = sizeof(float), .combine = add_f32};
const ls_element_type ls_sum_f64 = {.name = "f64", .size = sizeof(double), .combine = add_f64};
