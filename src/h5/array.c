/* Whole arrays, and the names of what a group holds. */
#include <hdf5.h>
#include <stdio.h>
#include <string.h>

#include "h5/array.h"
#include "h5/internal.h"

enum { CHUNK_BYTES = 1 << 20, PACKED_MOST = 4096 };

typedef struct type_row {
    const char *name;
    int64_t size;
} type_row;

static const type_row types[] = {
    [LS__H5_U8] = {"uint8", 1},  [LS__H5_U16] = {"uint16", 2},  [LS__H5_I32] = {"int32", 4},
    [LS__H5_I64] = {"int64", 8}, [LS__H5_F32] = {"float32", 4}, [LS__H5_F64] = {"float64", 8},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *ls__h5_type_name(ls__h5_type type)
{
    return types[type].name;
}

int64_t ls__h5_type_size(ls__h5_type type)
{
    return types[type].size;
}

const char *ls__h5_format_shape(char *text, const ls__h5_shape *shape)
{
    int used = 0;

    for (int i = 0; i < shape->rank; i++)
        used += snprintf(text + used, (size_t)(LS__H5_NAME_SIZE - used), "%s%lld", i ? ", " : "(",
                         (long long)shape->extent[i]);
    snprintf(text + used, (size_t)(LS__H5_NAME_SIZE - used), used ? ")" : "()");
    return text;
}

/* HDF5's names are macros that open the library, so there is no table of them. */
static hid_t disk_type(ls__h5_type type, bool big_endian)
{
    switch (type) {
    case LS__H5_U8:
        return big_endian ? H5T_STD_U8BE : H5T_STD_U8LE;
    case LS__H5_U16:
        return big_endian ? H5T_STD_U16BE : H5T_STD_U16LE;
    case LS__H5_I32:
        return big_endian ? H5T_STD_I32BE : H5T_STD_I32LE;
    case LS__H5_I64:
        return big_endian ? H5T_STD_I64BE : H5T_STD_I64LE;
    case LS__H5_F32:
        return big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE;
    case LS__H5_F64:
        return big_endian ? H5T_IEEE_F64BE : H5T_IEEE_F64LE;
    }
    return -1;
}

int64_t ls__h5_disk_type(ls__h5_type type)
{
    return disk_type(type, false);
}

int64_t ls__h5_memory_type(ls__h5_type type)
{
    switch (type) {
    case LS__H5_U8:
        return H5T_NATIVE_UINT8;
    case LS__H5_U16:
        return H5T_NATIVE_UINT16;
    case LS__H5_I32:
        return H5T_NATIVE_INT32;
    case LS__H5_I64:
        return H5T_NATIVE_INT64;
    case LS__H5_F32:
        return H5T_NATIVE_FLOAT;
    case LS__H5_F64:
        return H5T_NATIVE_DOUBLE;
    }
    return -1;
}

/* ---- writing ---- */

int64_t ls__h5_create_array(const ls__h5 *file, const char *name, ls__h5_type type, int64_t space,
                            int64_t creation)
{
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    hid_t dataset = -1;

    /* Without times, the same content gives the same bytes; and every element is written, so
     * filling first would be for nothing. */
    if (H5Pset_create_intermediate_group(links, 1) >= 0 &&
        H5Pset_obj_track_times(creation, false) >= 0 &&
        H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0)
        dataset =
            H5Dcreate2(file->id, name, ls__h5_disk_type(type), space, links, creation, H5P_DEFAULT);
    ls__h5_drop(links);
    return dataset;
}

/* Halves the first dimension that can be halved until a chunk is small enough. */
static hid_t chunked(ls__h5_type type, const ls__h5_shape *shape)
{
    hsize_t chunk[LS__H5_RANK_MAX];
    hsize_t bytes = (hsize_t)types[type].size;
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);

    for (int i = 0; i < shape->rank; i++) {
        chunk[i] = shape->extent[i] > 0 ? (hsize_t)shape->extent[i] : 1;
        bytes *= chunk[i];
    }
    for (int i = 0; i < shape->rank && bytes > CHUNK_BYTES; i++) {
        bytes /= chunk[i];
        while (chunk[i] > 1 && bytes * chunk[i] > CHUNK_BYTES)
            chunk[i] = (chunk[i] + 1) / 2;
        bytes *= chunk[i];
    }
    if (H5Pset_chunk(creation, shape->rank, chunk) >= 0 && H5Pset_fletcher32(creation) >= 0)
        return creation;
    ls__h5_drop(creation);
    return -1;
}

static hid_t simple_space(const ls__h5_shape *shape)
{
    hsize_t extent[LS__H5_RANK_MAX];

    for (int i = 0; i < shape->rank; i++)
        extent[i] = (hsize_t)shape->extent[i];
    return H5Screate_simple(shape->rank, extent, NULL);
}

ls_status ls__h5_close_array(ls__h5 *file, const char *name, int64_t dataset)
{
    /* While it is open, a failure can still be diverted; closing would fail for good. */
    ls_status status = H5Dflush(dataset) < 0 ? ls__h5_fail(file, "write", name) : LS_OK;

    if (H5Dclose(dataset) < 0 && status == LS_OK)
        status = ls__h5_fail(file, "write", name);
    return status;
}

ls_status ls__h5_write(ls__h5 *file, const char *name, ls__h5_type type, const ls__h5_shape *shape,
                       const void *values)
{
    hid_t space = simple_space(shape);
    hid_t creation = chunked(type, shape);
    hid_t dataset = ls__h5_create_array(file, name, type, space, creation);

    ls__h5_drop(creation);
    ls__h5_drop(space);
    if (dataset < 0)
        return ls__h5_fail(file, "make", name);
    ls_status status = LS_OK;
    if (H5Dwrite(dataset, ls__h5_memory_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        status = ls__h5_fail(file, "write", name);
    ls_status closed = ls__h5_close_array(file, name, dataset);
    return status != LS_OK ? status : closed;
}

/* ---- reading ---- */

/* H5Lexists fails, rather than says no, where a group on the way is missing: so each in turn. */
bool ls__h5_has(ls__h5 *file, const char *name)
{
    char part[LS__H5_NAME_SIZE];
    size_t length = strlen(name);

    if (length == 0 || length >= sizeof part)
        return false;
    memcpy(part, name, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (name[i] != '/' && name[i] != '\0')
            continue;
        part[i] = '\0';
        if (H5Lexists(file->id, part, H5P_DEFAULT) <= 0) {
            H5Eclear2(H5E_DEFAULT);
            return false;
        }
        part[i] = name[i];
    }
    return true;
}

static ls_status find_type(ls__h5 *file, const char *name, hid_t dataset, ls__h5_type *type)
{
    hid_t held = H5Dget_type(dataset);
    int index = 0;

    while (index < TYPE_COUNT && held >= 0 &&
           H5Tequal(held, disk_type((ls__h5_type)index, false)) <= 0 &&
           H5Tequal(held, disk_type((ls__h5_type)index, true)) <= 0)
        index++;
    size_t size = held < 0 ? 0 : H5Tget_size(held);
    ls__h5_drop(held);
    LS_FAIL_IF(held < 0 || index == TYPE_COUNT, LS_BAD_INPUT,
               "%s in %s has elements of %zu bytes of a kind that lockstep does not read: write "
               "uint8, uint16, int32, int64, float32 or float64",
               name, file->path, size);
    *type = (ls__h5_type)index;
    return LS_OK;
}

static ls_status find_shape(ls__h5 *file, const char *name, hid_t dataset, ls__h5_shape *shape)
{
    hsize_t extent[LS__H5_RANK_MAX];
    hid_t space = H5Dget_space(dataset);
    bool simple = H5Sget_simple_extent_type(space) == H5S_SIMPLE;
    int rank = H5Sget_simple_extent_ndims(space);
    bool read = simple && rank >= 1 && rank <= LS__H5_RANK_MAX &&
                H5Sget_simple_extent_dims(space, extent, NULL) == rank;

    ls__h5_drop(space);
    LS_FAIL_IF(!read, LS_BAD_INPUT, "%s in %s has %d dimensions; lockstep reads 1 to %d", name,
               file->path, rank < 0 ? 0 : rank, LS__H5_RANK_MAX);
    *shape = (ls__h5_shape){.rank = rank};
    for (int i = 0; i < rank; i++) {
        LS_FAIL_IF(extent[i] > INT64_MAX, LS_BAD_INPUT, "%s in %s has an impossible size", name,
                   file->path);
        shape->extent[i] = (int64_t)extent[i];
    }
    return LS_OK;
}

/* No compression that HDF5 comes with packs better than 1 : 1032. A file that claims far more than
 * it can hold has a damaged header, and would have us fill memory with nothing. */
static ls_status check_claim(ls__h5 *file, const char *name, ls__h5_type type,
                             const ls__h5_shape *shape)
{
    hsize_t file_bytes = 0;
    int64_t bytes = types[type].size;
    int64_t most = 0;
    bool fits = H5Fget_filesize(file->id, &file_bytes) >= 0;

    for (int i = 0; fits && i < shape->rank; i++)
        fits = !__builtin_mul_overflow(bytes, shape->extent[i], &bytes);
    fits = fits && (__builtin_mul_overflow(file_bytes, PACKED_MOST, &most) || bytes <= most);
    LS_FAIL_IF(!fits, LS_BAD_INPUT,
               "%s is damaged: %s claims more elements than a file of %lld bytes can hold",
               file->path, name, (long long)file_bytes);
    return LS_OK;
}

static ls_status open_array(ls__h5 *file, const char *name, int64_t *dataset)
{
    LS_FAIL_IF(!ls__h5_has(file, name), LS_BAD_INPUT, "%s holds no array %s", file->path, name);
    *dataset = H5Dopen2(file->id, name, H5P_DEFAULT);
    return *dataset < 0 ? ls__h5_fail(file, "open", name) : LS_OK;
}

static ls_status describe(ls__h5 *file, const char *name, hid_t dataset, ls__h5_type *type,
                          ls__h5_shape *shape)
{
    LS_TRY(find_type(file, name, dataset, type));
    LS_TRY(find_shape(file, name, dataset, shape));
    return check_claim(file, name, *type, shape);
}

ls_status ls__h5_describe(ls__h5 *file, const char *name, ls__h5_type *type, ls__h5_shape *shape)
{
    int64_t dataset = -1;

    LS_TRY(open_array(file, name, &dataset));
    ls_status status = describe(file, name, dataset, type, shape);
    ls__h5_drop(dataset);
    return status;
}

static bool same_shape(const ls__h5_shape *a, const ls__h5_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->extent, b->extent, (size_t)a->rank * sizeof a->extent[0]) == 0;
}

static ls_status read_array(ls__h5 *file, const char *name, hid_t dataset, ls__h5_type type,
                            const ls__h5_shape *shape, void *values)
{
    ls__h5_type held = LS__H5_U8;
    ls__h5_shape held_shape;
    char there[LS__H5_NAME_SIZE];
    char wanted[LS__H5_NAME_SIZE];

    LS_TRY(describe(file, name, dataset, &held, &held_shape));
    LS_FAIL_IF(held != type || !same_shape(&held_shape, shape), LS_BAD_INPUT,
               "%s in %s is %s %s where %s %s is expected", name, file->path,
               ls__h5_type_name(held), ls__h5_format_shape(there, &held_shape),
               ls__h5_type_name(type), ls__h5_format_shape(wanted, shape));
    if (H5Dread(dataset, ls__h5_memory_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        return ls__h5_fail(file, "read", name);
    return LS_OK;
}

ls_status ls__h5_read(ls__h5 *file, const char *name, ls__h5_type type, const ls__h5_shape *shape,
                      void *values)
{
    int64_t dataset = -1;

    LS_TRY(open_array(file, name, &dataset));
    ls_status status = read_array(file, name, dataset, type, shape, values);
    ls__h5_drop(dataset);
    return status;
}

/* ---- names ---- */

ls_status ls__h5_count(ls__h5 *file, const char *group, int64_t *count)
{
    H5G_info_t info;

    if (H5Gget_info_by_name(file->id, group, &info, H5P_DEFAULT) < 0)
        return ls__h5_fail(file, "list", group);
    *count = (int64_t)info.nlinks;
    return LS_OK;
}

ls_status ls__h5_name_at(ls__h5 *file, const char *group, int64_t index, char *text)
{
    ssize_t length = H5Lget_name_by_idx(file->id, group, H5_INDEX_NAME, H5_ITER_INC, (hsize_t)index,
                                        text, LS__H5_NAME_SIZE, H5P_DEFAULT);

    if (length < 0)
        return ls__h5_fail(file, "list", group);
    LS_FAIL_IF(length >= LS__H5_NAME_SIZE, LS_BAD_INPUT,
               "%s holds a name in %s longer than %d characters", file->path, group,
               LS__H5_NAME_SIZE - 1);
    return LS_OK;
}
