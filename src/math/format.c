#include "math/format.h"

#include <string.h>

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Adding one less than half of what is cut off, and the last bit that stays, carries just where the
 * nearest is above; a NaN keeps its upper bits and becomes quiet. */
static inline uint16_t bf16_of(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    uint32_t nan = bits | 0x400000;

    return (uint16_t)(((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16);
}

static inline float float_of_bf16(uint16_t x)
{
    return float_of((uint32_t)x << 16);
}

/* Below 2^-14, the smallest normal number of FP16, its spacing is fixed at 2^-24, which is that of
 * FP32 numbers from 1/2 to 1: so adding 1/2 rounds there. */
static inline uint32_t f16_below_normal(uint32_t magnitude)
{
    return bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
}

/* The exponent's bias goes from 127 to 15; rounding as in bf16_of, and what carries beyond the
 * largest number gives the bits of infinity. */
static inline uint32_t f16_normal(uint32_t magnitude)
{
    return (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

static inline uint16_t f16_of(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t magnitude = bits & 0x7fffffff;
    uint32_t small = f16_below_normal(magnitude);
    uint32_t normal = f16_normal(magnitude);
    uint32_t large = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t result = magnitude < 0x38800000 ? small : normal;

    result = magnitude >= 0x47800000 ? large : result;
    return (uint16_t)(result | (bits >> 16 & 0x8000));
}

/* The bits in FP32's places, times 2^112 for the difference of the exponents' biases: right for
 * subnormal numbers too. Infinities and NaNs get FP32's exponent for those. */
static inline float float_of_f16(uint16_t x)
{
    uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13;
    uint32_t number = bits_of(float_of(magnitude) * 0x1p112f);
    uint32_t result = magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000 : number;

    return float_of(result | (uint32_t)(x & 0x8000) << 16);
}

static void widen_bf16(float *restrict out, const uint16_t *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = float_of_bf16(in[i]);
}

static void narrow_bf16(uint16_t *restrict out, const float *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = bf16_of(in[i]);
}

static void widen_f16(float *restrict out, const uint16_t *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = float_of_f16(in[i]);
}

static void narrow_f16(uint16_t *restrict out, const float *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = f16_of(in[i]);
}

const char *ls__format_name(ls__format format)
{
    static const char *const names[] = {"f32", "bf16", "f16"};

    return names[format];
}

void ls__widen(float *out, ls__values in, int64_t count)
{
    if (in.format == LS__BF16)
        widen_bf16(out, in.at, count);
    else if (in.format == LS__F16)
        widen_f16(out, in.at, count);
    else
        memmove(out, in.at, (size_t)count * sizeof *out);
}

void ls__narrow(ls__values out, const float *in, int64_t count)
{
    if (out.format == LS__BF16)
        narrow_bf16(out.at, in, count);
    else if (out.format == LS__F16)
        narrow_f16(out.at, in, count);
    else
        memmove(out.at, in, (size_t)count * sizeof *in);
}
