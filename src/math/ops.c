#include "math/ops.h"

#include "math/gemm.h"
#include "math/panels.h"

enum { ROW_ARRAYS = 3 }; /* rows in FP32 that an operation works on at a time, at most */

static int64_t more(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t ls__ops_scratch(ls__format format, int64_t widest)
{
    if (format == LS__F32)
        return 0;
    return more(ls__product_scratch(format), ls__chunks_scratch(ROW_ARRAYS, widest));
}
