/* Named arrays and attributes in one file: HDF5 underneath, and no HDF5 type above.
 *
 * A file is made under a temporary name beside its place and put there when it is complete, so a
 * path holds a whole file or none. A file made here is sealed: its first 512 bytes (HDF5's user
 * block) hold, as text, its length and an XXH3-128 of all that follows (see h5/seal.h). Opening
 * checks the seal before HDF5, which can crash on damaged metadata, parses anything.
 *
 * Names are paths inside the file, "parameters/wte.weight"; "/" is the root. Errors: LS_BAD_INPUT
 * where a file is missing, damaged or holds something else than what is asked for; LS_NO_SPACE
 * where the disk (or the quota, or the limit on file sizes) is full; else LS_IO. Each is one
 * sentence that names the file. Not thread-safe: one thread uses HDF5. */
#ifndef LS_H5_H5_H
#define LS_H5_H5_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LS__H5_RANK_MAX = 4, LS__H5_NAME_SIZE = 256 };

typedef struct ls__h5 ls__h5;

/* An element: little endian on disk, native in memory. */
typedef enum ls__h5_type {
    LS__H5_U8,
    LS__H5_U16,
    LS__H5_I32,
    LS__H5_I64,
    LS__H5_F32,
    LS__H5_F64,
} ls__h5_type;

/* Row-major; rank from 1 to LS__H5_RANK_MAX; an extent may be 0. */
typedef struct ls__h5_shape {
    int rank;
    int64_t extent[LS__H5_RANK_MAX];
} ls__h5_shape;

/* Whom opening believes. */
typedef enum ls__h5_trust {
    LS__H5_SEALED,  /* only files made here, whole and unchanged */
    LS__H5_FOREIGN, /* other programs' files as well: these are first read to the end by a child
                       process, so that what makes HDF5 crash does not crash us */
} ls__h5_trust;

/* ---- life cycle ---- */

/* Begins a file that will stand at `path`, in a folder that is there; writes to "PATH.tmp". If
 * this succeeded you must publish or discard. LS_BAD_USAGE where `path` cannot be a file. */
ls_status ls__h5_create(ls__h5 **file, const char *path);

/* Seals the file, makes it durable and puts it in place, over an older one. Whether it succeeds or
 * not, the file is closed and no temporary is left. Streams are closed before. */
ls_status ls__h5_publish(ls__h5 *file);

/* Gives up a file that was begun: what to do after any failure. NULL is fine. */
void ls__h5_discard(ls__h5 *file);

/* Opens for reading. If this succeeded you must close. */
ls_status ls__h5_open(ls__h5 **file, const char *path, ls__h5_trust trust);
void ls__h5_close(ls__h5 *file);

/* ---- arrays ---- */

/* Writes a whole array, chunked and with a checksum a chunk; groups on the way are made. */
ls_status ls__h5_write(ls__h5 *file, const char *name, ls__h5_type type, const ls__h5_shape *shape,
                       const void *values);

/* Reads a whole array into `values`, which has room for it. LS_BAD_INPUT, naming both, where the
 * file's type or shape is not the one given: nothing is converted. */
ls_status ls__h5_read(ls__h5 *file, const char *name, ls__h5_type type, const ls__h5_shape *shape,
                      void *values);

/* What an array holds; LS_BAD_INPUT where there is none of that name, or none of these types. */
ls_status ls__h5_describe(ls__h5 *file, const char *name, ls__h5_type *type, ls__h5_shape *shape);

/* Whether an array or a group of that name is there. */
bool ls__h5_has(ls__h5 *file, const char *name);

/* How many arrays and groups a group holds, and the name of the one at `index`, in order of names,
 * into `text` of LS__H5_NAME_SIZE characters. */
ls_status ls__h5_count(ls__h5 *file, const char *group, int64_t *count);
ls_status ls__h5_name_at(ls__h5 *file, const char *group, int64_t index, char *text);

/* "uint8", "float32" and so on; bytes of one element; elements of a shape; "(100, 28, 28)" into
 * `text` of LS__H5_NAME_SIZE characters. */
const char *ls__h5_type_name(ls__h5_type type);
int64_t ls__h5_type_size(ls__h5_type type);
const char *ls__h5_format_shape(char *text, const ls__h5_shape *shape);

/* ---- arrays of unknown length ---- */

typedef struct ls__h5_stream ls__h5_stream;

/* Begins an array that grows along its first dimension, compressed; `entry` is the shape without
 * it: rank 0 for a list of numbers, {2, {28, 28}} for images. If this succeeded you must close. */
ls_status ls__h5_stream_open(ls__h5 *file, const char *name, ls__h5_type type,
                             const ls__h5_shape *entry, ls__h5_stream **stream);
ls_status ls__h5_stream_append(ls__h5_stream *stream, int64_t count, const void *values);

/* Closes, whatever it returns; NULL is fine. */
ls_status ls__h5_stream_close(ls__h5_stream *stream);

/* ---- attributes, of the root ("/") or of an array or a group ---- */

ls_status ls__h5_set_int(ls__h5 *file, const char *object, const char *name, int64_t value);
ls_status ls__h5_set_real(ls__h5 *file, const char *object, const char *name, double value);
ls_status ls__h5_set_text(ls__h5 *file, const char *object, const char *name, const char *text);
/* At most 60,000 bytes (HDF5 keeps attributes in the object's header); at least 1. */
ls_status ls__h5_set_bytes(ls__h5 *file, const char *object, const char *name, const void *bytes,
                           int64_t count);

/* Whether it is there. */
bool ls__h5_has_attribute(ls__h5 *file, const char *object, const char *name);

/* A whole number of any width that fits; a number of any width; a text of fixed or variable length
 * and at most size - 1 bytes, closed with a zero; a list of uint8 of at most `size` entries. */
ls_status ls__h5_get_int(ls__h5 *file, const char *object, const char *name, int64_t *value);
ls_status ls__h5_get_real(ls__h5 *file, const char *object, const char *name, double *value);
ls_status ls__h5_get_text(ls__h5 *file, const char *object, const char *name, char *text,
                          size_t size);
ls_status ls__h5_get_bytes(ls__h5 *file, const char *object, const char *name, void *bytes,
                           int64_t size, int64_t *count);

#endif
