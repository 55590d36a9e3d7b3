#include "train/scaler.h"

#include <math.h>

bool ls__scaler_allows(double scale)
{
    int exponent = 0;

    return scale >= LS__SCALE_MIN && scale <= LS__SCALE_MAX && frexp(scale, &exponent) == 0.5;
}

ls__scaler ls__scaler_begin(double initial, int64_t interval, double floor)
{
    bool scales = initial > 0;

    return (ls__scaler){
        .floor = scales ? floor : 0, .interval = interval, .scale = scales ? initial : 1};
}

void ls__scaler_resume(ls__scaler *scaler, double scale, int64_t good, int64_t skipped)
{
    scaler->scale = scale;
    scaler->good = good;
    scaler->skipped = skipped;
}

bool ls__scaler_active(const ls__scaler *scaler)
{
    return scaler->floor > 0;
}

void ls__scaler_good(ls__scaler *scaler)
{
    if (!ls__scaler_active(scaler) || ++scaler->good < scaler->interval)
        return;
    scaler->good = 0;
    if (scaler->scale < LS__SCALE_MAX)
        scaler->scale *= 2;
}

bool ls__scaler_overflow(ls__scaler *scaler)
{
    if (!ls__scaler_active(scaler) || scaler->scale <= scaler->floor)
        return false;
    scaler->scale /= 2;
    scaler->good = 0;
    scaler->skipped++;
    return true;
}

int64_t ls__scaler_update(const ls__scaler *scaler, int64_t step)
{
    return step - scaler->skipped;
}
