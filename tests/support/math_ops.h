/* Every operation of math/ops.h and its FP64 reference behind one interface, so that a test is
 * written once and runs on all of them. */
#ifndef LS_TESTS_SUPPORT_MATH_OPS_H
#define LS_TESTS_SUPPORT_MATH_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "math/scratch.h"

/* What the sizes mean is the operation's business: see the table in math_ops.c. */
typedef struct ls__op_shape {
    int64_t rows, width, out_width, T, heads;
    double rate; /* of dropout */
} ls__op_shape;

enum { LS__OP_INPUTS = 3, LS__OP_SAVED = 2 };

/* Elements of each tensor; 0: the operation has no such tensor. */
typedef struct ls__op_sizes {
    int64_t out;
    int64_t in[LS__OP_INPUTS];
    int64_t saved[LS__OP_SAVED]; /* from forward to backward */
    int64_t tokens;              /* token or target indices */
    int64_t bound;               /* of those indices */
} ls__op_sizes;

typedef struct ls__op64 {
    ls__op_shape shape;
    double *out, *d_out;
    double *in[LS__OP_INPUTS], *d_in[LS__OP_INPUTS];
    double *saved[LS__OP_SAVED];
    const int32_t *tokens;
} ls__op64;

typedef struct ls__op32 {
    ls__op_shape shape;
    float *out, *d_out;
    float *in[LS__OP_INPUTS], *d_in[LS__OP_INPUTS];
    float *saved[LS__OP_SAVED];
    ls__scratch room;
    const int32_t *tokens;
} ls__op32;

/* A backward finds d_in zeroed. The loss whose gradient it gives is sum(d_out out). */
typedef struct ls__math_op {
    const char *name;
    void (*sizes)(ls__op_sizes *sizes, const ls__op_shape *shape);
    void (*forward64)(ls__op64 *op);
    void (*backward64)(ls__op64 *op);
    void (*forward32)(ls__op32 *op);
    void (*backward32)(ls__op32 *op);
    const ls__op_shape *shapes; /* small and odd ones to test with; the last has no rows */
    ls__op_shape large;         /* as in a GPT */
    bool by_row;                /* row r of a batch is row 0 of a batch of one, bit for bit */
} ls__math_op;

extern const ls__math_op ls__math_ops[];
extern const int ls__math_op_count;

/* Scratch for any operation on such a shape in FP32, from the pool. */
ls__scratch ls__test_scratch(const ls__op_shape *shape);

/* The operation's sizes for a shape, all others zero. */
ls__op_sizes ls__op_sizes_of(const ls__math_op *op, const ls__op_shape *shape);

/* Tensors from the pool: inputs and d_out at random, the rest zero. */
ls__op64 ls__op_random(const ls__math_op *op, const ls__op_shape *shape);

/* The same in FP32, each tensor `offset` floats after an aligned address. */
ls__op32 ls__op_in_fp32(const ls__math_op *op, const ls__op64 *reference, int64_t offset);

#endif
