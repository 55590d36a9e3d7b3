#include "data/idx.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/file.h"
#include "data/header.h"

/* No picture is larger; a damaged header may say so. */
enum { IMAGE_BYTES_MAX = 1 << 26, MAGIC = 0x0800, READ_MAX = 1 << 20, BUFFER = 1 << 17 };

struct ls__idx {
    gzFile file;
    const char *path;
    ls__idx_kind kind;
    int64_t count, rows, cols;
    int64_t next; /* the entry that is read next */
    bool cut;     /* the compressed stream ended too early */
};

static const char *entries_name(ls__idx_kind kind)
{
    return kind == LS__IDX_IMAGES ? "images" : "labels";
}

/* Reads `count` bytes, or fewer at the end of the file. */
static ls_status read_up_to(ls__idx *idx, void *bytes, int64_t count, int64_t *got)
{
    int code = Z_OK;

    for (*got = 0; *got < count;) {
        int64_t left = count - *got;
        int some =
            gzread(idx->file, (char *)bytes + *got, (unsigned)(left < READ_MAX ? left : READ_MAX));
        if (some <= 0)
            break;
        *got += some;
    }
    const char *reason = gzerror(idx->file, &code);
    if (code == Z_ERRNO)
        return ls__fail_errno("read", idx->path);
    idx->cut = code == Z_BUF_ERROR; /* the caller knows how much is missing */
    LS_FAIL_IF(code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR, LS_BAD_INPUT,
               "%s is damaged: gzip says: %.200s", idx->path, reason);
    return LS_OK;
}

static int64_t big_endian(const uint8_t *bytes)
{
    return (int64_t)bytes[0] << 24 | (int64_t)bytes[1] << 16 | (int64_t)bytes[2] << 8 | bytes[3];
}

static ls_status check_magic(const ls__idx *idx, const uint8_t *header, int64_t got)
{
    int64_t expected = MAGIC + (int64_t)idx->kind;

    LS_FAIL_IF(got < 4 || big_endian(header) != expected, LS_BAD_INPUT,
               "%s is no IDX file of %s: it begins with 0x%08llx where 0x%08llx is expected",
               idx->path, entries_name(idx->kind), (long long)(got < 4 ? 0 : big_endian(header)),
               (long long)expected);
    return LS_OK;
}

static ls_status read_header(ls__idx *idx)
{
    uint8_t header[16] = {0};
    int64_t length = 4 + 4 * (int64_t)idx->kind;
    int64_t got = 0;

    LS_TRY(read_up_to(idx, header, length, &got));
    LS_TRY(check_magic(idx, header, got));
    LS_FAIL_IF(got < length, LS_BAD_INPUT, "%s is truncated: its header is not complete",
               idx->path);
    idx->count = big_endian(header + 4);
    idx->rows = idx->kind == LS__IDX_IMAGES ? big_endian(header + 8) : 1;
    idx->cols = idx->kind == LS__IDX_IMAGES ? big_endian(header + 12) : 1;
    LS_FAIL_IF(idx->count == 0, LS_BAD_INPUT, "%s holds no %s", idx->path, entries_name(idx->kind));
    LS_FAIL_IF(idx->rows == 0 || idx->cols == 0 || idx->rows > IMAGE_BYTES_MAX / idx->cols,
               LS_BAD_INPUT, "%s has images of %lld x %lld pixels: its header is damaged",
               idx->path, (long long)idx->rows, (long long)idx->cols);
    return LS_OK;
}

static ls_status wrong_length(const ls__idx *idx, const char *kind, int64_t bytes)
{
    return LS_FAIL(LS_BAD_INPUT,
                   "%s is %s: its header promises %lld %s (%lld bytes), %lld bytes follow it",
                   idx->path, kind, (long long)idx->count, entries_name(idx->kind),
                   (long long)(idx->count * idx->rows * idx->cols), (long long)bytes);
}

/* A plain file tells its size at once; a compressed one only when it has been read. */
static ls_status check_size(const ls__idx *idx)
{
    struct stat info;
    int64_t expected = idx->count * idx->rows * idx->cols;

    if (!gzdirect(idx->file))
        return LS_OK;
    if (stat(idx->path, &info) != 0)
        return ls__fail_errno("read", idx->path);
    int64_t bytes = info.st_size - (4 + 4 * (int64_t)idx->kind);
    if (bytes < expected)
        return wrong_length(idx, "truncated", bytes);
    if (bytes > expected)
        return wrong_length(idx, "too long", bytes);
    return LS_OK;
}

static ls_status open_file(ls__idx *idx)
{
    int64_t bytes = 0;

    LS_TRY(ls__check_source(idx->path, &bytes));
    idx->file = gzopen(idx->path, "rb");
    LS_FAIL_IF(!idx->file, LS_BAD_INPUT, "cannot open %s: %s", idx->path, strerror(errno));
    LS_FAIL_IF(gzbuffer(idx->file, BUFFER) != 0, LS_NO_MEMORY, "no memory to read %s", idx->path);
    return LS_OK;
}

ls_status ls__idx_open(ls__idx **idx, const char *path, ls__idx_kind kind)
{
    ls__idx *made = calloc(1, sizeof *made);
    ls_status status = LS_OK;

    LS_FAIL_IF(!made, LS_NO_MEMORY, "no memory to read %s", path);
    made->path = path;
    made->kind = kind;
    LS_TRY_TO(cleanup, open_file(made));
    LS_TRY_TO(cleanup, read_header(made));
    LS_TRY_TO(cleanup, check_size(made));
    *idx = made;
    return LS_OK;
cleanup:
    ls__idx_close(made);
    return status;
}

void ls__idx_close(ls__idx *idx)
{
    if (!idx)
        return;
    if (idx->file)
        gzclose(idx->file);
    free(idx);
}

int64_t ls__idx_count(const ls__idx *idx)
{
    return idx->count;
}

int64_t ls__idx_rows(const ls__idx *idx)
{
    return idx->rows;
}

int64_t ls__idx_cols(const ls__idx *idx)
{
    return idx->cols;
}

ls_status ls__idx_read(ls__idx *idx, int64_t count, uint8_t *bytes)
{
    int64_t entry = idx->rows * idx->cols;
    int64_t got = 0;

    assert(count >= 0 && count <= idx->count - idx->next);
    LS_TRY(read_up_to(idx, bytes, count * entry, &got));
    if (got < count * entry)
        return wrong_length(idx, "truncated", idx->next * entry + got);
    idx->next += count;
    return LS_OK;
}

/* Reading past the end is also what makes zlib check the checksum of a compressed file. */
ls_status ls__idx_finish(ls__idx *idx)
{
    uint8_t byte = 0;
    int64_t got = 0;

    assert(idx->next == idx->count);
    LS_TRY(read_up_to(idx, &byte, 1, &got));
    LS_FAIL_IF(idx->cut, LS_BAD_INPUT, "%s is truncated: its gzip checksum is not complete",
               idx->path);
    LS_FAIL_IF(got > 0, LS_BAD_INPUT,
               "%s is too long: bytes follow the %lld %s that its header promises", idx->path,
               (long long)idx->count, entries_name(idx->kind));
    return LS_OK;
}
