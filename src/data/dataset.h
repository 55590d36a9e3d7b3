/* A dataset file: what training and evaluation read.
 *
 *     attributes of the root          text                          images
 *       format           text         "lockstep-dataset"            the same
 *       format_version   int          1                             1
 *       kind             text         "text"                        "images"
 *       source           text         names of the files            the same      optional
 *       source_bytes     int          their size                    the same      optional
 *       vocabulary_size  int          tokens are below it
 *       vocabulary       uint8 list   the byte of each token                      optional
 *       classes          int                                        labels are below it
 *     arrays
 *       /train/tokens    (n)          uint8 or uint16
 *       /val/tokens      (n)          the same type; may be absent
 *       /train/images    (n, r, c)                                  uint8
 *       /train/labels    (n)                                        uint8
 *       /test/images, /test/labels                                  the same; may be absent
 *
 * Users write such files with other programs too, so everything is checked: LS_BAD_INPUT, one
 * sentence with the file's name, for whatever is wrong. */
#ifndef LS_DATA_DATASET_H
#define LS_DATA_DATASET_H

#include <stdint.h>

#include "base/arena.h"
#include "base/digest.h"
#include "lockstep/status.h"

enum { LS__DATASET_VERSION = 1, LS__DATASET_SOURCE = 1024, LS__DATASET_VOCABULARY = 256 };

typedef struct ls__dataset ls__dataset;

typedef enum ls__dataset_kind { LS__DATASET_TEXT, LS__DATASET_IMAGES } ls__dataset_kind;

/* The held-out split is called "val" for text and "test" for images. */
typedef enum ls__split { LS__SPLIT_TRAIN, LS__SPLIT_HELD_OUT, LS__SPLIT_COUNT } ls__split;

/* The header. Sizes are in tokens or images; what belongs to the other kind is 0. */
typedef struct ls__dataset_info {
    ls__dataset_kind kind;
    int64_t count[LS__SPLIT_COUNT]; /* the held-out split may be 0 */
    int64_t vocabulary_size;        /* 1 .. 65536 */
    int64_t vocabulary_bytes;       /* entries of `vocabulary`: vocabulary_size, or 0 for unknown */
    int64_t token_bytes;            /* on disk and in memory: 1 or 2 */
    int64_t rows, cols, classes;
    int64_t source_bytes;
    int64_t file_bytes; /* on disk */
    char source[LS__DATASET_SOURCE];
    uint8_t vocabulary[LS__DATASET_VOCABULARY];
} ls__dataset_info;

/* ---- life cycle ---- */

/* Checks the file's seal, where it has one, and reads the header. If this succeeded you must
 * close. */
ls_status ls__dataset_open(ls__dataset **dataset, const char *path);
void ls__dataset_close(ls__dataset *dataset);

/* Reads both splits into memory of the arena (LS__DATA), held once and as stored, and checks every
 * token and label against the header. Once, before anything below "after loading". The arena must
 * outlive the dataset's use. */
ls_status ls__dataset_load(ls__dataset *dataset, ls__arena *arena);

/* ---- after opening ---- */

/* Valid until close. */
const ls__dataset_info *ls__dataset_about(const ls__dataset *dataset);
const char *ls__dataset_path(const ls__dataset *dataset);

/* "train", "val" or "test". */
const char *ls__split_name(ls__dataset_kind kind, ls__split split);

/* LS_BAD_INPUT, saying how many tokens are needed and how many there are, where a split of a text
 * holds not one window of `context` tokens and their targets. */
ls_status ls__dataset_check_context(const ls__dataset *dataset, ls__split split, int64_t context);

/* ---- after loading ---- */

/* A fingerprint of header and data (not of the file: compression and source names do not count):
 * equal where two ranks or runs train on the same. */
ls__digest ls__dataset_digest(const ls__dataset *dataset);

/* Tokens start .. start+context-1 of a text as inputs, and start+1 .. start+context as targets;
 * 0 <= start < ls__window_population(count, context). */
void ls__dataset_window(const ls__dataset *dataset, ls__split split, int64_t start, int64_t context,
                        int32_t *inputs, int32_t *targets);

/* One image: rows * cols pixels, value / 255, and its label. */
void ls__dataset_image(const ls__dataset *dataset, ls__split split, int64_t index, float *pixels,
                       int32_t *label);

#endif
