/* Text, byte by byte, in two passes: which bytes occur, then the tokens. */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "data/header.h"
#include "data/import.h"

enum { BLOCK = 1 << 20, BYTE_VALUES = 256 };

typedef struct text_import {
    const char *const *files;
    int count;
    int64_t total; /* bytes of all files, by the first pass */
    int64_t train; /* of these, for training */
    int64_t done;  /* by the second pass */
    int64_t occurs[BYTE_VALUES];
    int vocabulary_size;
    uint8_t vocabulary[BYTE_VALUES]; /* the byte of a token, rising */
    uint8_t token[BYTE_VALUES];      /* the token of a byte that occurs */
    ls__h5_stream *train_tokens;
    ls__h5_stream *val_tokens;
    uint8_t block[BLOCK];
} text_import;

/* ---- reading ---- */

/* Takes the first `count` bytes of the block, which come from `path`. */
typedef ls_status consumer(text_import *import, const char *path, int64_t count);

static ls_status read_file(text_import *import, const char *path, consumer *consume)
{
    ls_status status = LS_OK;
    size_t got = 0;
    FILE *file = fopen(path, "rb");

    if (!file)
        return ls__fail_errno("open", path);
    while (status == LS_OK && (got = fread(import->block, 1, BLOCK, file)) > 0)
        status = consume(import, path, (int64_t)got);
    if (status == LS_OK && ferror(file))
        status = ls__fail_errno("read", path);
    fclose(file);
    return status;
}

static ls_status read_all(text_import *import, consumer *consume)
{
    for (int i = 0; i < import->count; i++)
        LS_TRY(read_file(import, import->files[i], consume));
    return LS_OK;
}

/* ---- the first pass ---- */

static ls_status count_bytes(text_import *import, const char *path, int64_t count)
{
    (void)path;
    for (int64_t i = 0; i < count; i++)
        import->occurs[import->block[i]]++;
    import->total += count;
    return LS_OK;
}

static void make_vocabulary(text_import *import)
{
    for (int byte = 0; byte < BYTE_VALUES; byte++) {
        if (!import->occurs[byte])
            continue;
        import->token[byte] = (uint8_t)import->vocabulary_size;
        import->vocabulary[import->vocabulary_size++] = (uint8_t)byte;
    }
}

/* ---- the second pass ---- */

static ls_status changed(const char *path)
{
    return LS_FAIL(LS_BAD_INPUT, "%s changed while it was read: import it again", path);
}

/* Bytes become tokens in place; false where one was not there in the first pass. */
static bool tokenize(text_import *import, int64_t count)
{
    bool known = true;

    for (int64_t i = 0; i < count; i++) {
        known = known && import->occurs[import->block[i]] > 0;
        import->block[i] = import->token[import->block[i]];
    }
    return known;
}

static ls_status write_tokens(text_import *import, const char *path, int64_t count)
{
    int64_t train_left = import->train > import->done ? import->train - import->done : 0;
    int64_t train = count < train_left ? count : train_left;

    if (!tokenize(import, count) || count > import->total - import->done)
        return changed(path);
    LS_TRY(ls__h5_stream_append(import->train_tokens, train, import->block));
    if (count > train)
        LS_TRY(ls__h5_stream_append(import->val_tokens, count - train, import->block + train));
    import->done += count;
    return LS_OK;
}

static ls_status close_streams(text_import *import)
{
    ls_status train = ls__h5_stream_close(import->train_tokens);
    ls_status val = ls__h5_stream_close(import->val_tokens);

    return train != LS_OK ? train : val;
}

static ls_status open_streams(text_import *import, ls__h5 *file)
{
    ls__h5_shape entry = {.rank = 0};

    LS_TRY(ls__h5_stream_open(file, "train/tokens", LS__H5_U8, &entry, &import->train_tokens));
    if (import->train == import->total)
        return LS_OK;
    return ls__h5_stream_open(file, "val/tokens", LS__H5_U8, &entry, &import->val_tokens);
}

static ls_status write_arrays(text_import *import, ls__h5 *file)
{
    ls_status status = open_streams(import, file);

    if (status == LS_OK)
        status = read_all(import, write_tokens);
    if (status == LS_OK && import->done < import->total)
        status = changed(import->files[import->count - 1]);
    ls_status closed = close_streams(import);
    return status != LS_OK ? status : closed;
}

static ls_status write_dataset(text_import *import, ls__h5 *file)
{
    LS_TRY(ls__header_write(file, "text", import->files, import->count, import->total));
    LS_TRY(ls__h5_set_int(file, "/", "vocabulary_size", import->vocabulary_size));
    LS_TRY(ls__h5_set_bytes(file, "/", "vocabulary", import->vocabulary, import->vocabulary_size));
    return write_arrays(import, file);
}

/* ---- both ---- */

static ls_status run(text_import *import, const char *out_path, double val_fraction)
{
    ls__h5 *file = NULL;
    int64_t bytes = 0;

    for (int i = 0; i < import->count; i++)
        LS_TRY(ls__check_source(import->files[i], &bytes));
    LS_TRY(ls__check_output(out_path, import->files, import->count));
    LS_TRY(read_all(import, count_bytes));
    make_vocabulary(import);
    import->train = (int64_t)((1.0 - val_fraction) * (double)import->total);
    LS_FAIL_IF(import->train == 0, LS_BAD_INPUT,
               "%s: of %lld bytes none is left for training: use more text or a smaller --val",
               import->files[0], (long long)import->total);

    LS_TRY(ls__h5_create(&file, out_path));
    ls_status status = write_dataset(import, file);
    if (status == LS_OK)
        return ls__h5_publish(file);
    ls__h5_discard(file);
    return status;
}

ls_status ls__import_text(const char *const *files, int count, const char *out_path,
                          double val_fraction)
{
    assert(count >= 1 && val_fraction >= 0 && val_fraction < 1);
    text_import *import = calloc(1, sizeof *import);

    LS_FAIL_IF(!import, LS_NO_MEMORY, "no memory to import %s", files[0]);
    import->files = files;
    import->count = count;
    ls_status status = run(import, out_path, val_fraction);
    free(import);
    return status;
}
