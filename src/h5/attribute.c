/* Attributes. HDF5 keeps them in the header of the object they belong to. */
#include <assert.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "h5/internal.h"

enum { ATTRIBUTE_MAX = 60000 };

/* ---- writing ---- */

static ls_status set(ls__h5 *file, const char *object, const char *name, hid_t space,
                     hid_t disk_type, hid_t memory_type, const void *value)
{
    hid_t attribute = H5Acreate_by_name(file->id, object, name, disk_type, space, H5P_DEFAULT,
                                        H5P_DEFAULT, H5P_DEFAULT);
    bool written = attribute >= 0 && H5Awrite(attribute, memory_type, value) >= 0;

    ls_status status = written ? LS_OK : ls__h5_fail(file, "write the attribute", name);
    ls__h5_drop(attribute);
    return status;
}

static ls_status set_scalar(ls__h5 *file, const char *object, const char *name, hid_t disk_type,
                            hid_t memory_type, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    ls_status status = set(file, object, name, space, disk_type, memory_type, value);

    ls__h5_drop(space);
    return status;
}

ls_status ls__h5_set_int(ls__h5 *file, const char *object, const char *name, int64_t value)
{
    return set_scalar(file, object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

ls_status ls__h5_set_real(ls__h5 *file, const char *object, const char *name, double value)
{
    return set_scalar(file, object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

/* A string of `size` bytes, its closing zero among them, or of H5T_VARIABLE. */
static hid_t string_type(size_t size, H5T_cset_t characters)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    H5Tset_size(type, size);
    H5Tset_cset(type, characters);
    return type;
}

/* Variable length is what h5py gives back as str; fixed length comes as bytes. */
ls_status ls__h5_set_text(ls__h5 *file, const char *object, const char *name, const char *text)
{
    hid_t type = string_type(H5T_VARIABLE, H5T_CSET_UTF8);
    ls_status status = set_scalar(file, object, name, type, type, &text);

    ls__h5_drop(type);
    return status;
}

ls_status ls__h5_set_bytes(ls__h5 *file, const char *object, const char *name, const void *bytes,
                           int64_t count)
{
    hsize_t extent = (hsize_t)count;

    assert(count > 0 && count <= ATTRIBUTE_MAX);
    hid_t space = H5Screate_simple(1, &extent, NULL);
    ls_status status = set(file, object, name, space, H5T_STD_U8LE, H5T_NATIVE_UINT8, bytes);
    ls__h5_drop(space);
    return status;
}

/* ---- reading ---- */

/* An attribute that was opened, and what it holds. */
typedef struct held {
    hid_t id;
    hid_t type;
    H5T_class_t class;
    size_t size;   /* of one element, in bytes */
    int64_t count; /* of elements */
} held;

static void close_held(const held *attribute)
{
    ls__h5_drop(attribute->type);
    ls__h5_drop(attribute->id);
}

static int64_t count_elements(hid_t attribute)
{
    hid_t space = H5Aget_space(attribute);
    hssize_t count = space < 0 ? 0 : H5Sget_simple_extent_npoints(space);

    ls__h5_drop(space);
    return count < 0 ? 0 : (int64_t)count;
}

bool ls__h5_has_attribute(ls__h5 *file, const char *object, const char *name)
{
    bool there = H5Aexists_by_name(file->id, object, name, H5P_DEFAULT) > 0;

    H5Eclear2(H5E_DEFAULT);
    return there;
}

static ls_status open_held(ls__h5 *file, const char *object, const char *name, held *attribute)
{
    bool root = strcmp(object, "/") == 0;

    LS_FAIL_IF(!ls__h5_has_attribute(file, object, name), LS_BAD_INPUT,
               "%s has no attribute %s%s%s", file->path, name, root ? "" : " of ",
               root ? "" : object);
    *attribute = (held){.type = -1};
    attribute->id = H5Aopen_by_name(file->id, object, name, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute->id >= 0)
        attribute->type = H5Aget_type(attribute->id);
    if (attribute->type < 0) {
        close_held(attribute);
        return ls__h5_fail(file, "open the attribute", name);
    }
    attribute->class = H5Tget_class(attribute->type);
    attribute->size = H5Tget_size(attribute->type);
    attribute->count = count_elements(attribute->id);
    return LS_OK;
}

static ls_status get_number(ls__h5 *file, const char *object, const char *name, bool whole,
                            hid_t memory_type, void *value)
{
    held attribute;
    ls_status status = LS_OK;

    LS_TRY(open_held(file, object, name, &attribute));
    /* HDF5 1.10 overruns its stack on integers wider than 8 bytes. */
    bool number = (attribute.class == H5T_INTEGER && H5Tget_size(attribute.type) <= 8) ||
                  (!whole && attribute.class == H5T_FLOAT);
    if (!number || attribute.count != 1)
        status = LS_FAIL(LS_BAD_INPUT, "the attribute %s of %s is not %s", name, file->path,
                         whole ? "a whole number" : "a number");
    else if (H5Aread(attribute.id, memory_type, value) < 0)
        status = ls__h5_fail(file, "read the attribute", name);
    close_held(&attribute);
    return status;
}

ls_status ls__h5_get_int(ls__h5 *file, const char *object, const char *name, int64_t *value)
{
    uint64_t large = 0;

    /* As unsigned too: HDF5 would cut a number above INT64_MAX down to it, and raise one below 0.
     */
    LS_TRY(get_number(file, object, name, true, H5T_NATIVE_UINT64, &large));
    LS_TRY(get_number(file, object, name, true, H5T_NATIVE_INT64, value));
    LS_FAIL_IF(large > INT64_MAX, LS_BAD_INPUT,
               "the attribute %s of %s is %llu, which is too large", name, file->path,
               (unsigned long long)large);
    return LS_OK;
}

ls_status ls__h5_get_real(ls__h5 *file, const char *object, const char *name, double *value)
{
    return get_number(file, object, name, false, H5T_NATIVE_DOUBLE, value);
}

static ls_status too_long(const ls__h5 *file, const char *name, size_t size)
{
    return LS_FAIL(LS_BAD_INPUT, "the attribute %s of %s is longer than %zu bytes", name,
                   file->path, size);
}

static ls_status get_variable_text(ls__h5 *file, const char *name, const held *attribute,
                                   char *text, size_t size)
{
    char *read = NULL;
    hid_t type = string_type(H5T_VARIABLE, H5Tget_cset(attribute->type));
    ls_status status = LS_OK;

    if (H5Aread(attribute->id, type, &read) < 0)
        status = ls__h5_fail(file, "read the attribute", name);
    else if (read && strlen(read) >= size)
        status = too_long(file, name, size - 1);
    else
        snprintf(text, size, "%s", read ? read : "");
    if (read)
        H5free_memory(read);
    ls__h5_drop(type);
    return status;
}

/* One byte more than is stored: texts padded with blanks or zeros come without a closing zero. */
static ls_status get_fixed_text(ls__h5 *file, const char *name, const held *attribute, char *text,
                                size_t size)
{
    ls_status status = LS_OK;

    LS_FAIL_IF(attribute->size > ATTRIBUTE_MAX, LS_BAD_INPUT,
               "the attribute %s of %s is longer than %d bytes", name, file->path, ATTRIBUTE_MAX);
    char *read = calloc(1, attribute->size + 1);
    LS_FAIL_IF(!read, LS_NO_MEMORY, "no memory to read %s", file->path);
    hid_t type = string_type(attribute->size + 1, H5Tget_cset(attribute->type));
    if (H5Aread(attribute->id, type, read) < 0)
        status = ls__h5_fail(file, "read the attribute", name);
    else if (strlen(read) >= size)
        status = too_long(file, name, size - 1);
    else
        snprintf(text, size, "%s", read);
    ls__h5_drop(type);
    free(read);
    return status;
}

ls_status ls__h5_get_text(ls__h5 *file, const char *object, const char *name, char *text,
                          size_t size)
{
    held attribute;
    ls_status status = LS_OK;

    LS_TRY(open_held(file, object, name, &attribute));
    if (attribute.class != H5T_STRING || attribute.count != 1)
        status = LS_FAIL(LS_BAD_INPUT, "the attribute %s of %s is not a text", name, file->path);
    else if (H5Tis_variable_str(attribute.type) > 0)
        status = get_variable_text(file, name, &attribute, text, size);
    else
        status = get_fixed_text(file, name, &attribute, text, size);
    close_held(&attribute);
    return status;
}

ls_status ls__h5_get_bytes(ls__h5 *file, const char *object, const char *name, void *bytes,
                           int64_t size, int64_t *count)
{
    held attribute;
    ls_status status = LS_OK;

    LS_TRY(open_held(file, object, name, &attribute));
    bool is_bytes = attribute.class == H5T_INTEGER && attribute.size == 1 &&
                    H5Tget_sign(attribute.type) == H5T_SGN_NONE;
    if (!is_bytes || attribute.count > size)
        status = LS_FAIL(LS_BAD_INPUT,
                         "the attribute %s of %s is not a list of at most %lld uint8 numbers", name,
                         file->path, (long long)size);
    else if (H5Aread(attribute.id, H5T_NATIVE_UINT8, bytes) < 0)
        status = ls__h5_fail(file, "read the attribute", name);
    close_held(&attribute);
    *count = attribute.count;
    return status;
}
