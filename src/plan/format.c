#include "plan/format.h"

#include <math.h>

ls__plan_number ls__plan_number_of(ls__plan_format format)
{
    static const struct {
        const char *name;
        int exponent_bits;
        int fraction_bits;
    } formats[] = {{"f32", 8, 23}, {"bf16", 8, 7}, {"f16", 5, 10}};
    int exponent = formats[format].exponent_bits;
    int fraction = formats[format].fraction_bits;
    int bias = (1 << (exponent - 1)) - 1;

    return (ls__plan_number){
        .name = formats[format].name,
        .bytes = (1 + exponent + fraction) / 8.0,
        .fraction_bits = fraction,
        .spacing = ldexp(1, -fraction),
        .smallest = ldexp(1, 1 - bias),
        .largest = ldexp(2 - ldexp(1, -fraction), bias),
    };
}
