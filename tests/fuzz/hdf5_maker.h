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

enum { LS__CHANGES = 8, LS__CHANGED_BYTES = LS__CHANGES * sizeof(ls__change) };

/* Types of elements, and what can stand in an array's place. */
enum {
    LS__MADE_AS_EXPECTED,
    /* The six types of ls__h5_type, little and big endian: */
    LS__MADE_LITTLE,
    LS__MADE_BIG = LS__MADE_LITTLE + 6,
    LS__MADE_FIXED_TEXT = LS__MADE_BIG + 6,
    LS__MADE_LONG_TEXT,
    LS__MADE_VARIABLE_TEXT,
    LS__MADE_NO_TEXT, /* a variable-length text that is a null pointer */
    LS__MADE_SIGNED_BYTE,
    LS__MADE_WIDE_INTEGER, /* of 16 bytes */
    LS__MADE_NARROW_INTEGER,
    LS__MADE_COMPOUND,
    LS__MADE_ENUMERATION,
    LS__MADE_OPAQUE,
    LS__MADE_LISTS,
    LS__MADE_ARRAY,
    LS__MADE_REFERENCE,
    LS__MADE_BITS,
    LS__MADE_LEFT_OUT,
    LS__MADE_SOFT_LINK,
    LS__MADE_DANGLING_LINK,
    LS__MADE_SELF_LINK,
    LS__MADE_GROUP,
    LS__MADE_TYPE_COUNT
};

/* The index in a list. */
uint8_t ls__object(const ls__made *list, int length, const char *name);

/* A seed: changes that change nothing, of the objects from `first` on. */
void ls__no_changes(uint8_t bytes[LS__CHANGED_BYTES], int first);

/* Writes the file, with changes read from `bytes`, at most LS__CHANGES, the first of two for one
 * object counting. With a seal, or without the block for it. */
void ls__make_hdf5(const char *path, const ls__made *list, int length, const uint8_t *bytes,
                   size_t count, bool sealed);

#endif
