#include "base/profile.h"

#include "base/clock.h"

ls__profile_clock *ls__profile;

void ls__profile_enter(ls__part part)
{
    double now = ls__clock_seconds();

    ls__profile->seconds[ls__profile->pass][ls__profile->part] += now - ls__profile->since;
    ls__profile->part = part;
    ls__profile->since = now;
}

void ls__profile_product(double began)
{
    ls__profile->gemm[ls__profile->part] += ls__clock_seconds() - began;
}
