#include "base/tensors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"

void ls__tensors_free(ls__tensors *tensors)
{
    free(tensors->tensor);
    *tensors = (ls__tensors){0};
}

static ls_status add(ls__tensors *tensors, ls__tensor tensor, int64_t *offset)
{
    LS_FAIL_IF(__builtin_mul_overflow(tensor.rows, tensor.columns, &tensor.count) ||
                   tensor.count > INT64_MAX / 16 - tensors->total,
               LS_BAD_USAGE, "%s would have %lld x %lld elements: more than any machine holds",
               tensor.name, (long long)tensor.rows, (long long)tensor.columns);
    if (tensors->count == tensors->capacity) {
        int capacity = tensors->capacity ? 2 * tensors->capacity : 32;
        ls__tensor *grown = realloc(tensors->tensor, (size_t)capacity * sizeof *grown);
        LS_FAIL_IF(!grown, LS_NO_MEMORY, "no memory for a table of %d tensors", capacity);
        tensors->tensor = grown;
        tensors->capacity = capacity;
    }
    tensor.offset = tensors->total;
    tensors->total += tensor.count;
    tensors->tensor[tensors->count++] = tensor;
    *offset = tensor.offset;
    return LS_OK;
}

ls_status ls__tensors_add_matrix(ls__tensors *tensors, const char *name, int64_t rows,
                                 int64_t columns, double initial_std, int64_t *offset)
{
    ls__tensor tensor = {
        .rows = rows, .columns = columns, .dimensions = 2, .initial_std = initial_std};

    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    return add(tensors, tensor, offset);
}

ls_status ls__tensors_add_vector(ls__tensors *tensors, const char *name, int64_t count,
                                 double initial_value, int64_t *offset)
{
    ls__tensor tensor = {
        .rows = count, .columns = 1, .dimensions = 1, .initial_value = initial_value};

    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    return add(tensors, tensor, offset);
}

static void initialise_one(const ls__tensor *tensor, uint64_t seed, float *flat)
{
    for (int64_t i = tensor->offset; i < tensor->offset + tensor->count; i++) {
        double normal =
            tensor->initial_std > 0 ? ls__normal(seed, LS__STREAM_INIT, (uint64_t)i) : 0;
        flat[i] = (float)(tensor->initial_value + tensor->initial_std * normal);
    }
}

void ls__tensors_initialise(const ls__tensors *tensors, uint64_t seed, float *flat)
{
    for (int i = 0; i < tensors->count; i++)
        initialise_one(&tensors->tensor[i], seed, flat);
}

const ls__tensor *ls__tensors_at(const ls__tensors *tensors, int64_t element)
{
    for (int i = 0; i < tensors->count; i++)
        if (element >= tensors->tensor[i].offset &&
            element < tensors->tensor[i].offset + tensors->tensor[i].count)
            return &tensors->tensor[i];
    return NULL;
}
