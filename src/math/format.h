/* Number formats that values are stored in. All arithmetic is FP32; a value is rounded to its
 * format when it is stored, to nearest, ties to even, and read back without loss.
 *
 * Source: IEEE 754-2019 (binary32, binary16); bf16 is binary32 cut to its upper 16 bits. What a
 * format can hold, for people: plan/format.h. */
#ifndef LS_MATH_FORMAT_H
#define LS_MATH_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define LS__FORMAT_NAMES "f32|bf16|f16"

typedef enum ls__format { LS__F32, LS__BF16, LS__F16 } ls__format;

/* Values side by side, stored in one format. Whether they are read or written the function says
 * that takes them. */
typedef struct ls__values {
    void *at;
    ls__format format;
} ls__values;

static inline int64_t ls__value_bytes(ls__format format)
{
    return format == LS__F32 ? 4 : 2;
}

const char *ls__format_name(ls__format format);

/* FP32 values, to be read only where they are const. */
static inline ls__values ls__floats(const float *at)
{
    return (ls__values){(void *)(uintptr_t)at, LS__F32};
}

/* The values from index `offset` on. */
static inline ls__values ls__from(ls__values values, int64_t offset)
{
    return (ls__values){(char *)values.at + offset * ls__value_bytes(values.format), values.format};
}

/* out[i] = in[i]. */
void ls__widen(float *out, ls__values in, int64_t count);

/* out[i] = in[i], rounded. A NaN stays one; what is too large becomes infinity. */
void ls__narrow(ls__values out, const float *in, int64_t count);

/* The values as FP32: where they stand if they are that, else copied to `room` (count). */
static inline const float *ls__widened(ls__values in, float *room, int64_t count)
{
    if (in.format == LS__F32)
        return in.at;
    ls__widen(room, in, count);
    return room;
}

/* Where to compute FP32 values that ls__store is to put into `out`: there, or in `room`. */
static inline float *ls__place(ls__values out, float *room)
{
    return out.format == LS__F32 ? out.at : room;
}

static inline void ls__store(ls__values out, const float *place, int64_t count)
{
    if (out.format != LS__F32)
        ls__narrow(out, place, count);
}

#endif
