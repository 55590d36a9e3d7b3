/* What exact sums ask of the machine and of the compiler, found out by arithmetic. Operands are
 * volatile, so that the answer is the machine's as it is now and not the compiler's. */
#include "lockstep/exact.h"

#include <fenv.h>
#include <float.h>

#include "exact/two_sum.h"

/* fegetround need not know of the unit that does the arithmetic: on x86 there are two. */
static bool rounds_to_nearest(void)
{
    volatile double one = 1;
    volatile double little = DBL_EPSILON / 4;
    volatile double much = DBL_EPSILON / 4 * 3;
    volatile float little_float = FLT_EPSILON / 4;
    volatile float one_float = 1;

    return fegetround() == FE_TONEAREST && one + little == one && one + much > one &&
           -one - little == -one && -one - much < -one && one_float + little_float == one_float;
}

/* Operands are subnormal, results are not. */
static bool reads_subnormals(void)
{
    volatile double least = DBL_TRUE_MIN;
    volatile float least_float = FLT_TRUE_MIN;

    return least * 0x1p200 != 0 && least_float * 0x1p100f != 0 && (double)least_float != 0;
}

/* Operands are normal numbers, results are not; to be asked once subnormal numbers are read. */
static bool writes_subnormals(void)
{
    volatile double least = DBL_MIN;
    volatile float least_float = FLT_MIN;
    volatile double narrow = 0x1p-149;

    return least / 2 != 0 && least_float / 2 != 0 && (float)narrow != 0;
}

/* The very loops that sums are made of, on enough elements for the vectorised path. */
static bool two_sum_is_exact(void)
{
    enum { COUNT = 67 };
    volatile double big = 0x1p80;
    volatile float least = -FLT_TRUE_MIN;
    double lane[COUNT];
    double error[COUNT];
    double doubles[COUNT];
    float floats[COUNT];
    bool fine = true;

    for (int i = 0; i < COUNT; i++) {
        lane[i] = big;
        floats[i] = least;
        doubles[i] = -big - 0x1p28;
    }
    fine &= ls__two_sum_float(lane, error, floats, COUNT);
    for (int i = 0; i < COUNT; i++)
        fine &= lane[i] == 0x1p80 && error[i] == -0x1p-149;
    for (int i = 0; i < COUNT; i++)
        lane[i] = 1 + DBL_EPSILON;
    fine &= ls__two_sum_double(lane, error, doubles, COUNT);
    for (int i = 0; i < COUNT; i++)
        fine &= lane[i] == -0x1p80 - 0x1p28 && error[i] == 1 + DBL_EPSILON;
    return fine;
}

ls_status ls_exact_check_machine(void)
{
    LS_FAIL_IF(!rounds_to_nearest(), LS_BAD_INPUT,
               "this thread does not round to nearest, which exact sums stand on: something called "
               "fesetround, or set the processor's rounding mode");
    LS_FAIL_IF(!reads_subnormals(), LS_BAD_INPUT,
               "subnormal operands are read as zero (DAZ), so sums would lose parts: build "
               "without -ffast-math, also the libraries that are loaded");
    LS_FAIL_IF(!writes_subnormals(), LS_BAD_INPUT,
               "subnormal results are flushed to zero (FTZ), so sums would lose parts: build "
               "without -ffast-math, also the libraries that are loaded");
    LS_FAIL_IF(!two_sum_is_exact(), LS_BAD_INPUT,
               "TwoSum lost the error of a sum: the compiler has rearranged it; build without "
               "-ffast-math and with -ffp-contract=off");
    return LS_OK;
}
