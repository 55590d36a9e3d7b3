/* The attributes that both importers write; the contract stands in data/dataset.h. */
#ifndef LS_DATA_HEADER_H
#define LS_DATA_HEADER_H

#include <stdint.h>

#include "h5/h5.h"

#define LS__DATASET_FORMAT "lockstep-dataset"

/* `kind` is "text" or "images"; the sources are written as a list of names, cut short with "and N
 * more" where it is too long. */
ls_status ls__header_write(ls__h5 *file, const char *kind, const char *const *sources, int count,
                           int64_t source_bytes);

/* LS_BAD_USAGE where the output is one of the sources: publishing it would replace that file. */
ls_status ls__check_output(const char *out_path, const char *const *sources, int count);

/* LS_BAD_INPUT, saying why, where a source is not a regular file that can be read; its size. */
ls_status ls__check_source(const char *path, int64_t *bytes);

#endif
