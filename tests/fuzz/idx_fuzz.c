/* The IDX reader. The first byte says whether images or labels are asked for, and whether the rest
 * is packed first: the fuzzer would not find gzip's checksums. */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "data/idx.h"
#include "fuzz/fuzz.h"

enum { LABELS = 1, PACK = 2, CUT = 4, HEADER_IMAGES = 16, HEADER_LABELS = 8, BLOCK = 4096 };

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const uint8_t images[] = {0, 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                     0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t labels[] = {LABELS, 0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9};
    uint8_t packed[sizeof images];

    memcpy(packed, images, sizeof images);
    packed[0] = PACK;
    ls__fuzz_seed(argc, argv, "images", images, sizeof images);
    ls__fuzz_seed(argc, argv, "labels", labels, sizeof labels);
    ls__fuzz_seed(argc, argv, "packed", packed, sizeof packed);
    packed[0] = PACK | CUT;
    ls__fuzz_seed(argc, argv, "cut", packed, sizeof packed);
    return 0;
}

/* Packs `bytes` into the file; `cut` leaves its last bytes off, as an aborted download does. */
static const char *write_packed(const uint8_t *bytes, size_t count, size_t cut)
{
    char *packed = NULL;
    size_t size = count + 4096;
    z_stream stream = {0};

    packed = malloc(size);
    assert(packed && deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_in = (z_const Bytef *)(uintptr_t)bytes;
    stream.avail_in = (uInt)count;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)size;
    assert(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&stream);
    size_t length = stream.total_out;
    const char *path = ls__fuzz_file("input", packed, cut < length ? length - cut : 0);
    free(packed);
    return path;
}

/* As an importer reads: entries in blocks, then the end. Whole is what was written, or nothing. */
static void read_all(ls__idx *idx, const uint8_t *content, size_t content_size)
{
    int64_t entry = ls__idx_rows(idx) * ls__idx_cols(idx);
    int64_t entries = entry < BLOCK ? BLOCK / entry : 1;
    uint8_t *block = malloc((size_t)(entries * entry));
    size_t at = 0;
    ls_status status = LS_OK;

    assert(block);
    for (int64_t left = ls__idx_count(idx); status == LS_OK && left > 0; left -= entries) {
        entries = entries < left ? entries : left;
        status = ls__idx_read(idx, entries, block);
        size_t bytes = (size_t)(entries * entry);
        if (status == LS_OK && content) {
            assert(at + bytes <= content_size && memcmp(content + at, block, bytes) == 0);
            at += bytes;
        }
    }
    if (status == LS_OK && ls__idx_finish(idx) == LS_OK && content)
        assert(at == content_size);
    free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    ls__idx *idx = NULL;

    if (count == 0)
        return 0;
    uint8_t mode = bytes[0];
    ls__idx_kind kind = mode & LABELS ? LS__IDX_LABELS : LS__IDX_IMAGES;
    size_t header = mode & LABELS ? HEADER_LABELS : HEADER_IMAGES;
    const char *path = mode & PACK ? write_packed(bytes + 1, count - 1, mode & CUT ? mode >> 3 : 0)
                                   : ls__fuzz_file("input", bytes + 1, count - 1);
    if (ls__idx_open(&idx, path, kind) != LS_OK)
        return 0;
    /* A magic number is not gzip's, so a plain file that opens is read as it stands. */
    bool known = mode & PACK || (count > 2 && bytes[1] == 0);
    read_all(idx, known ? bytes + 1 + header : NULL, known ? count - 1 - header : 0);
    ls__idx_close(idx);
    return 0;
}
