/* Importers: other people's files into dataset files (their layout: data/dataset.h).
 *
 * Both stream through buffers of fixed size, so a source may be larger than memory; the output
 * appears complete or not at all. LS_BAD_INPUT, one sentence, where a source is unusable. */
#ifndef LS_DATA_IMPORT_H
#define LS_DATA_IMPORT_H

#include "lockstep/status.h"

/* Text, byte by byte: `count` files one after another. The vocabulary is the sorted list of the
 * bytes that occur, a token an index into it. The first (int64_t)((1 - val_fraction) * n) of n
 * bytes are for training (nanoGPT's split), the rest for validation; 0 <= val_fraction < 1. The
 * files are read twice. */
ls_status ls__import_text(const char *const *files, int count, const char *out_path,
                          double val_fraction);

/* The four files of an image set in IDX format (see data/idx.h), plain or gzip. */
typedef struct ls__image_files {
    const char *train_images;
    const char *train_labels;
    const char *test_images;
    const char *test_labels;
} ls__image_files;

/* Classes are 0 .. the largest label of both splits. */
ls_status ls__import_images(const ls__image_files *files, const char *out_path);

#endif
