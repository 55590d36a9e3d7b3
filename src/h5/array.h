/* What whole arrays and growing ones share inside this layer; identifiers are HDF5's. */
#ifndef LS_H5_ARRAY_H
#define LS_H5_ARRAY_H

#include <stdint.h>

#include "h5/h5.h"

/* The types on disk (little endian) and in memory. */
int64_t ls__h5_disk_type(ls__h5_type type);
int64_t ls__h5_memory_type(ls__h5_type type);

/* Makes an array and the groups above it; negative where HDF5 fails. The caller keeps `space` and
 * `creation`. */
int64_t ls__h5_create_array(const ls__h5 *file, const char *name, ls__h5_type type, int64_t space,
                            int64_t creation);

/* Flushes, then closes an array that was written. */
ls_status ls__h5_close_array(ls__h5 *file, const char *name, int64_t dataset);

#endif
