/* The table of a model's tensors: named views into flat parameters.
 *
 * All parameters stand in one array of floats, tensor after tensor, without gaps; so do their
 * gradients and each part of the optimizer's state. The table says which stretch is which. Models
 * make it; the optimizer, checkpoints and comparisons read it. */
#ifndef LS_BASE_TENSORS_H
#define LS_BASE_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LS__TENSOR_NAME = 48 };

typedef struct ls__tensor {
    char name[LS__TENSOR_NAME]; /* "h.0.attn.c_attn.weight" */
    int64_t offset;             /* of the first element in the flat array */
    int64_t count;              /* rows * columns */
    int64_t rows;               /* a vector of n elements is (n, 1) with dimensions == 1 */
    int64_t columns;
    int dimensions;       /* 1 or 2: matrices take weight decay, vectors do not */
    double initial_std;   /* initial values are normal with this deviation ... */
    double initial_value; /* ... around this value */
} ls__tensor;

typedef struct ls__tensors {
    ls__tensor *tensor;
    int count;
    int capacity;
    int64_t total; /* elements of all tensors */
} ls__tensors;

/* A table starts as {0}. If an add fails what was added before is still there to be freed. */
void ls__tensors_free(ls__tensors *tensors);

/* Adds a matrix (rows, columns) or a vector at the end; *offset is where it stands. LS_NO_MEMORY.
 */
ls_status ls__tensors_add_matrix(ls__tensors *tensors, const char *name, int64_t rows,
                                 int64_t columns, double initial_std, int64_t *offset);
ls_status ls__tensors_add_vector(ls__tensors *tensors, const char *name, int64_t count,
                                 double initial_value, int64_t *offset);

/* Fills `flat` with initial values: each a pure function of the seed and the element's index. */
void ls__tensors_initialise(const ls__tensors *tensors, uint64_t seed, float *flat);

/* The tensor that holds a flat element, or NULL. */
const ls__tensor *ls__tensors_at(const ls__tensors *tensors, int64_t element);

#endif
