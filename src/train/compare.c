#include "train/compare.h"

#include <math.h>
#include <string.h>

double ls__larger(double a, double b)
{
    return isnan(a) || a >= b ? a : b;
}

ls_status ls__compare(const ls__loaded *a, const ls__loaded *b, ls__comparison *result)
{
    int64_t total = a->model->tensors.total;

    LS_FAIL_IF(total != b->model->tensors.total, LS_BAD_INPUT,
               "the runs have %lld and %lld parameters: only runs of one model can be compared",
               (long long)total, (long long)b->model->tensors.total);
    *result = (ls__comparison){.same_bits = true, .first = -1};
    for (int64_t i = 0; i < total; i++) {
        if (memcmp(&a->parameters[i], &b->parameters[i], sizeof *a->parameters) == 0)
            continue;
        double difference = fabs((double)a->parameters[i] - (double)b->parameters[i]);
        result->largest = ls__larger(result->largest, difference);
        if (result->same_bits)
            result->first = i;
        result->same_bits = false;
    }
    return LS_OK;
}

/* FP32 numbers in order as integers: the negative ones count backwards. */
static int64_t place_of(float value)
{
    int32_t bits = 0;

    memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

int64_t ls__ulps_between(float a, float b)
{
    if (isnan(a) || isnan(b))
        return INT64_MAX;
    int64_t difference = place_of(a) - place_of(b);
    return difference < 0 ? -difference : difference;
}
