#include "fuzz/hdf5_maker.h"

#include <assert.h>
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

#include "h5/seal.h"

/* Larger ones are made, but nothing is written to them: HDF5 takes room for them only then. */
enum { WRITTEN_MOST = 1 << 16, RANK_MAX = 5, ATTRIBUTE_MOST = 60000 };

/* ---- types ---- */

static hid_t number_type(ls__h5_type type, bool big)
{
    switch (type) {
    case LS__H5_U8:
        return big ? H5T_STD_U8BE : H5T_STD_U8LE;
    case LS__H5_U16:
        return big ? H5T_STD_U16BE : H5T_STD_U16LE;
    case LS__H5_I32:
        return big ? H5T_STD_I32BE : H5T_STD_I32LE;
    case LS__H5_I64:
        return big ? H5T_STD_I64BE : H5T_STD_I64LE;
    case LS__H5_F32:
        return big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE;
    default:
        return big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE;
    }
}

static hid_t text_type(size_t size)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, size);
    return type;
}

static hid_t compound_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, 12);

    H5Tinsert(type, "whole", 0, H5T_STD_I32LE);
    H5Tinsert(type, "real", 4, H5T_IEEE_F64LE);
    return type;
}

static hid_t integer_type(size_t bytes, size_t bits)
{
    hid_t type = H5Tcopy(H5T_STD_U8LE);

    H5Tset_size(type, bytes);
    H5Tset_precision(type, bits);
    return type;
}

static hid_t made_type(int type, uint8_t detail)
{
    static const hsize_t three = 3;
    static const uint8_t one = 1;
    hid_t made = -1;

    switch (type) {
    case LS__MADE_FIXED_TEXT:
        return text_type(1U + detail);
    case LS__MADE_LONG_TEXT:
        return text_type((size_t)ATTRIBUTE_MOST + detail);
    case LS__MADE_VARIABLE_TEXT:
    case LS__MADE_NO_TEXT:
        return text_type(H5T_VARIABLE);
    case LS__MADE_SIGNED_BYTE:
        return H5Tcopy(H5T_STD_I8LE);
    case LS__MADE_WIDE_INTEGER:
        return integer_type(16, 128);
    case LS__MADE_NARROW_INTEGER:
        return integer_type(1 + detail % 9U, 1 + detail % 8U);
    case LS__MADE_COMPOUND:
        return compound_type();
    case LS__MADE_ENUMERATION:
        made = H5Tenum_create(H5T_STD_U8LE);
        H5Tenum_insert(made, "one", &one);
        return made;
    case LS__MADE_OPAQUE:
        return H5Tcreate(H5T_OPAQUE, 1U + detail);
    case LS__MADE_LISTS:
        return H5Tvlen_create(H5T_STD_U8LE);
    case LS__MADE_ARRAY:
        return H5Tarray_create2(H5T_STD_U8LE, 1, &three);
    case LS__MADE_REFERENCE:
        return H5Tcopy(H5T_STD_REF_OBJ);
    case LS__MADE_BITS:
        return H5Tcopy(H5T_STD_B8LE);
    default:
        return H5Tcopy(type < LS__MADE_BIG
                           ? number_type((ls__h5_type)(type - LS__MADE_LITTLE), false)
                           : number_type((ls__h5_type)(type - LS__MADE_BIG), true));
    }
}

/* ---- shapes ---- */

static hsize_t made_extent(uint8_t byte)
{
    static const hsize_t large[] = {
        1000, 1 << 16, (hsize_t)1 << 31, (hsize_t)1 << 40, (hsize_t)1 << 62, UINT64_MAX - 1};
    enum { LARGE = sizeof large / sizeof large[0] };

    return byte < UINT8_MAX + 1 - LARGE ? byte : large[byte - (UINT8_MAX + 1 - LARGE)];
}

/* Attributes beyond what a header holds are refused by HDF5; far beyond, it miscounts them. */
static hid_t made_space(const ls__change *change, bool small)
{
    hsize_t extent[RANK_MAX];
    int rank = change->rank % (RANK_MAX + 3);

    if (rank > RANK_MAX)
        return H5Screate(rank == RANK_MAX + 1 ? H5S_SCALAR : H5S_NULL);
    for (int i = 0; i < rank; i++)
        extent[i] = small ? change->extent[i] % 8U : made_extent(change->extent[i]);
    if (small && rank == 1)
        extent[0] = 2 * (hsize_t)change->extent[0];
    return H5Screate_simple(rank, extent, NULL);
}

/* Their product with the size of an element, or more than WRITTEN_MOST. */
static size_t bytes_of(hid_t space, hid_t type)
{
    hsize_t extent[RANK_MAX];
    int rank = H5Sget_simple_extent_dims(space, extent, NULL);
    size_t bytes = H5Tget_size(type);

    if (H5Sget_simple_extent_type(space) == H5S_NULL)
        return 0;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, extent[i], &bytes))
            return SIZE_MAX;
    return bytes;
}

enum { CONTIGUOUS, COMPACT, CHUNKED, PACKED, UNWRITTEN, UNWRITTEN_CHUNKS, MAPPED, LAYOUT_COUNT };

/* Chunks of 3 in each direction: whole ones, and one that is not. */
static hid_t made_layout(int layout, hid_t space, const char *mapped)
{
    hsize_t chunk[RANK_MAX] = {3, 3, 3, 3, 3};
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    int rank = H5Sget_simple_extent_ndims(space);

    if (layout == COMPACT)
        H5Pset_layout(creation, H5D_COMPACT);
    if (layout == CHUNKED || layout == PACKED || layout == UNWRITTEN_CHUNKS)
        H5Pset_chunk(creation, rank, chunk);
    if (layout == PACKED) {
        H5Pset_shuffle(creation);
        H5Pset_deflate(creation, 1);
        H5Pset_fletcher32(creation);
    }
    /* Read from another array of this file, which may be of another shape, or itself. */
    if (layout == MAPPED)
        H5Pset_virtual(creation, space, ".", mapped, space);
    return creation;
}

/* ---- values ---- */

static const char *const words[] = {
    "lockstep-dataset",
    "text",
    "images",
    "lockstep-checkpoint",
    "gpt",
    "mlp",
    "",
    "0123456789abcdef0123456789abcdef",
    "\xff\xfe%s%n",
    "0123456789ABCDEF0123456789abcdeg",
};
enum { WORD_COUNT = sizeof words / sizeof words[0], VERY_LONG = 1 << 20 };

/* A word; or one repeated character, up to far more than fits anywhere. */
static char *made_word(const ls__change *change)
{
    static const size_t lengths[] = {15, 32, 33, 63, 64, 255, 256, 1023, 1024, 16383, 16384};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
    size_t kind = change->word % (WORD_COUNT + LENGTHS + 1);

    if (kind < WORD_COUNT)
        return strdup(words[kind]);
    size_t length = kind < WORD_COUNT + LENGTHS ? lengths[kind - WORD_COUNT] : VERY_LONG;
    char *word = calloc(1, length + 1);
    assert(word);
    memset(word, change->values[0] ? change->values[0] : 'a', length);
    return word;
}

/* The values of an object in the type that it has on disk; NULL: nothing is written. */
static void *made_values(const ls__change *change, int type, size_t bytes, char **word)
{
    uint8_t *values = bytes > WRITTEN_MOST ? NULL : calloc(1, bytes + 1);

    if (!values || type == LS__MADE_REFERENCE || type == LS__MADE_LISTS || type == LS__MADE_NO_TEXT)
        return values;
    *word = made_word(change);
    if (type == LS__MADE_VARIABLE_TEXT)
        for (size_t i = 0; i + sizeof *word <= bytes; i += sizeof *word)
            memcpy(values + i, word, sizeof *word);
    else if (type == LS__MADE_FIXED_TEXT || type == LS__MADE_LONG_TEXT)
        memcpy(values, *word, strlen(*word) < bytes ? strlen(*word) : bytes);
    else
        for (size_t i = 0; i < bytes; i++)
            values[i] = change->values[i % 8 ? 1 : 0];
    return values;
}

/* ---- objects ---- */

static void write_object(hid_t file, const ls__made *object, hid_t type, hid_t space,
                         hid_t creation, const void *values)
{
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    hid_t made = -1;

    H5Pset_create_intermediate_group(links, 1);
    if (object->is_attribute)
        made = H5Acreate2(file, object->name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    else
        made = H5Dcreate2(file, object->name, type, space, links, creation, H5P_DEFAULT);
    if (made >= 0 && values && object->is_attribute)
        H5Awrite(made, type, values);
    else if (made >= 0 && values)
        H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    if (made >= 0)
        H5Idec_ref(made);
    H5Pclose(links);
}

static void make_expected(hid_t file, const ls__made *object)
{
    hsize_t extent[RANK_MAX] = {0};
    const void *values = object->is_text ? &object->values : object->values;

    for (int i = 0; i < object->shape.rank; i++)
        extent[i] = (hsize_t)object->shape.extent[i];
    hid_t type =
        object->is_text ? text_type(H5T_VARIABLE) : H5Tcopy(number_type(object->type, false));
    hid_t space = object->shape.rank ? H5Screate_simple(object->shape.rank, extent, NULL)
                                     : H5Screate(H5S_SCALAR);
    write_object(file, object, type, space, H5P_DEFAULT, values);
    H5Sclose(space);
    H5Tclose(type);
}

static void make_link(hid_t file, const ls__made *object, int type, const char *target)
{
    hid_t links = H5Pcreate(H5P_LINK_CREATE);

    H5Pset_create_intermediate_group(links, 1);
    if (type == LS__MADE_GROUP) {
        hid_t group = H5Gcreate2(file, object->name, links, H5P_DEFAULT, H5P_DEFAULT);
        if (group >= 0)
            H5Gclose(group);
    } else {
        const char *to = type == LS__MADE_SOFT_LINK   ? target
                         : type == LS__MADE_SELF_LINK ? object->name
                                                      : "nowhere";
        H5Lcreate_soft(to, file, object->name, links, H5P_DEFAULT);
    }
    H5Pclose(links);
}

static void make_changed(hid_t file, const ls__made *object, const ls__change *change,
                         const char *other)
{
    int kind = change->type % LS__MADE_TYPE_COUNT;
    char *word = NULL;

    if (kind == LS__MADE_LEFT_OUT || (kind > LS__MADE_LEFT_OUT && object->is_attribute))
        return;
    if (kind > LS__MADE_LEFT_OUT) {
        make_link(file, object, kind, other);
        return;
    }
    hid_t type = made_type(kind, change->values[1]);
    hid_t space = made_space(change, object->is_attribute);
    int layout = change->layout % LAYOUT_COUNT;
    hid_t creation = made_layout(layout, space, other);
    bool written = layout != UNWRITTEN && layout != UNWRITTEN_CHUNKS && layout != MAPPED;
    void *values = written ? made_values(change, kind, bytes_of(space, type), &word) : NULL;
    write_object(file, object, type, space, creation, values);
    free(values);
    free(word);
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
}

/* ---- the file ---- */

static const ls__change *change_of(const ls__change *changes, int count, int object, int length)
{
    for (int i = 0; i < count; i++)
        if (changes[i].object % length == object &&
            changes[i].type % LS__MADE_TYPE_COUNT != LS__MADE_AS_EXPECTED)
            return &changes[i];
    return NULL;
}

uint8_t ls__object(const ls__made *list, int length, const char *name)
{
    int i = 0;

    while (i < length && strcmp(list[i].name, name) != 0)
        i++;
    assert(i < length);
    return (uint8_t)i;
}

void ls__no_changes(uint8_t bytes[LS__CHANGED_BYTES], int first)
{
    ls__change changes[LS__CHANGES] = {{0}};

    for (int i = 0; i < LS__CHANGES; i++)
        changes[i] = (ls__change){.object = (uint8_t)(first + i), .type = LS__MADE_AS_EXPECTED};
    memcpy(bytes, changes, sizeof changes);
}

void ls__make_hdf5(const char *path, const ls__made *list, int length, const uint8_t *bytes,
                   size_t count, bool sealed)
{
    ls__change changes[LS__CHANGES];
    size_t most = count / sizeof changes[0];
    int used = (int)(most < LS__CHANGES ? most : LS__CHANGES);
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);

    if (used > 0)
        memcpy(changes, bytes, (size_t)used * sizeof changes[0]);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (sealed)
        H5Pset_userblock(creation, LS__SEAL_SIZE);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, creation, H5P_DEFAULT);
    assert(file >= 0);
    for (int i = 0; i < length; i++) {
        const ls__change *change = change_of(changes, used, i, length);
        if (change)
            make_changed(file, &list[i], change, list[change->word % length].name);
        else
            make_expected(file, &list[i]);
    }
    H5Pclose(creation);
    ls_status status = H5Fclose(file) < 0 ? LS_IO : LS_OK;
    H5Eclear2(H5E_DEFAULT);
    assert(status == LS_OK);
    if (sealed)
        status = ls__seal_write(path);
    assert(status == LS_OK);
}
