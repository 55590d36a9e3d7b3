/* HDF5 files that are valid and not what is expected: a list of the objects that are expected, some
 * of them replaced as the fuzzer chooses.
 *
 * HDF5 1.10 crashes on damaged files, so a fuzzer that damages them finds its bugs, not ours. These
 * files HDF5 itself writes, so what crashes on them is ours: no reading of a file written by
 * somebody else relies on more than its being HDF5. */
#ifndef LS_TESTS_FUZZ_HDF5_MAKER_H
#define LS_TESTS_FUZZ_HDF5_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "h5/h5.h"

/* An array, or an attribute of the root. */
typedef struct ls__made {
    const char *name;
    bool is_attribute;
    bool is_text; /* `values` is a text: no type, no shape */
    ls__h5_type type;
    ls__h5_shape shape;
    const void *values;
} ls__made;

/* What the fuzzer says of one object, each member a byte of the input. */
typedef struct ls__change {
    uint8_t object; /* which of the list */
    uint8_t type;   /* of its elements; or that it is left out, or is a link or a group */
    uint8_t rank;
    uint8_t extent[5];
    uint8_t layout;
    uint8_t word; /* where it is a text */
    uint8_t values[2];
} ls__change;

/* The type that leaves the list's own, so that a seed can be one change that changes nothing. */
enum { LS__TYPE_AS_EXPECTED = 0 };

/* Writes the file, with changes read from `bytes`, the first of two for one object counting. With
 * a seal, or without the block for it. */
void ls__make_hdf5(const char *path, const ls__made *list, int length, const uint8_t *bytes,
                   size_t count, bool sealed);

#endif
