/* What the files of this layer share. HDF5's hid_t is an int64_t (since 1.10), and written so here
 * to keep hdf5.h out of headers. */
#ifndef LS_H5_INTERNAL_H
#define LS_H5_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"
#include "h5/h5.h"

struct ls__h5 {
    int64_t id;
    bool writing;
    bool failed;                   /* a write failed: the file cannot be published */
    char path[LS__PATH_SIZE];      /* as the user named it */
    char temporary[LS__PATH_SIZE]; /* where it is written */
};

/* Keeps HDF5 from printing its own errors. */
void ls__h5_quiet(void);

/* Records the failure of an HDF5 call: "cannot <verb> <name> in <path>: <HDF5's innermost
 * message>". LS_NO_SPACE where that says so; else LS_IO for a file being written, LS_BAD_INPUT for
 * one being read. `name` may be NULL: the file itself. A file being written is past saving after
 * this: its remaining bytes are led into /dev/null (see error.c). */
ls_status ls__h5_fail(ls__h5 *file, const char *verb, const char *name);

/* Closes an identifier of any class; negative ones are fine. Keeps HDF5's recorded errors. */
void ls__h5_drop(int64_t id);

/* In a child process: opens the file and reads every attribute and array that we would read, to
 * the end. LS_BAD_INPUT where HDF5 fails, crashes or stops answering. */
ls_status ls__h5_probe(const char *path);

#endif
