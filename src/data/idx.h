/* A reader of IDX files, the format of MNIST and its kin, plain or gzip (zlib tells which).
 *
 * Images: magic 0x00000803, then count, rows and cols, each 32 bits big endian, then
 * count * rows * cols bytes. Labels: magic 0x00000801, count, count bytes.
 * Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits". */
#ifndef LS_DATA_IDX_H
#define LS_DATA_IDX_H

#include <stdint.h>

#include "lockstep/status.h"

typedef enum ls__idx_kind {
    LS__IDX_LABELS = 1, /* the number of dimensions, which is the magic's last byte */
    LS__IDX_IMAGES = 3,
} ls__idx_kind;

typedef struct ls__idx ls__idx;

/* Opens and reads the header. LS_BAD_INPUT: not there, a folder, empty, another magic, no entries,
 * or a plain file whose size is not what its header says. If this succeeded you must close. `path`
 * is kept, not copied. */
ls_status ls__idx_open(ls__idx **idx, const char *path, ls__idx_kind kind);
void ls__idx_close(ls__idx *idx);

/* Entries, and what one measures; rows and cols are 1 for labels. */
int64_t ls__idx_count(const ls__idx *idx);
int64_t ls__idx_rows(const ls__idx *idx);
int64_t ls__idx_cols(const ls__idx *idx);

/* Reads the next `count` entries. LS_BAD_INPUT where the file ends before. */
ls_status ls__idx_read(ls__idx *idx, int64_t count, uint8_t *bytes);

/* After the last entry: LS_BAD_INPUT where bytes follow. */
ls_status ls__idx_finish(ls__idx *idx);

#endif
