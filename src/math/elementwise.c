#include "math/lanes.h"
#include "math/ops.h"

void ls__scale(float *out, const float *in, float scale, int64_t count)
{
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++)
        out[i] = scale * in[i];
}
