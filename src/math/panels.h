/* How operations cut their work into tasks for ls__threads_run, and elementwise operations on
 * values of any format. The cuts depend on shapes alone. */
#ifndef LS_MATH_PANELS_H
#define LS_MATH_PANELS_H

#include "math/format.h"
#include "math/scratch.h"

/* Values that a task works on in one go: they stay in a near cache. */
enum { LS__CHUNK = 8192 };

/* Rows of a panel whose values make up a chunk; at least 1. */
static inline int64_t ls__panel_rows(int64_t width)
{
    return width < LS__CHUNK ? LS__CHUNK / width : 1;
}

static inline int64_t ls__panels(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

/* Of `count` rows, how many panel `index` has. */
static inline int64_t ls__panel_size(int64_t index, int64_t count, int64_t size)
{
    return count - index * size < size ? count - index * size : size;
}

/* Floats of scratch that `arrays` chunks or rows need. */
static inline int64_t ls__chunks_scratch(int64_t arrays, int64_t width)
{
    return arrays * (width < LS__CHUNK ? LS__CHUNK : width);
}

/* out[i] = f(a[i], b[i]); out may be a or b. `b` is NULL where the operation has none. */
typedef void ls__kernel(float *out, const float *a, const float *b, int64_t count);

/* Applies the kernel to all of `count` values. All values have one format; b.at may be NULL.
 * Scratch: ls__chunks_scratch(3, 1), unused for FP32. */
void ls__elementwise(ls__kernel *kernel, ls__values out, ls__values a, ls__values b, int64_t count,
                     ls__scratch scratch);

#endif
