#include "h5/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"

enum { SEAL_VERSION = 1, BLOCK = 1 << 20 };
static const char magic[] = "LOCKSTEP\n";

/* All of the seal follows from these two, so a verifier can make it again and compare. */
static void compose(char *seal, int64_t length, ls__digest digest)
{
    char hex[LS__DIGEST_TEXT];
    char text[LS__SEAL_SIZE];
    int used = snprintf(text, sizeof text, "%sversion %d\nlength %" PRId64 "\nxxh3-128 %s\n", magic,
                        SEAL_VERSION, length, ls__digest_format(digest, hex));

    memset(seal, ' ', LS__SEAL_SIZE);
    memcpy(seal, text, (size_t)used);
    seal[LS__SEAL_SIZE - 1] = '\n';
}

/* Reads up to `count` bytes; fewer only at the end of the file. */
static ls_status read_up_to(int fd, const char *path, void *bytes, size_t count, size_t *got)
{
    for (*got = 0; *got < count;) {
        ssize_t some = read(fd, (char *)bytes + *got, count - *got);
        if (some < 0)
            return ls__fail_errno("read", path);
        if (some == 0)
            break;
        *got += (size_t)some;
    }
    return LS_OK;
}

static ls_status digest_rest(int fd, const char *path, ls__digest *digest)
{
    ls__digest_stream *stream = NULL;
    ls_status status = LS_OK;
    size_t got = 0;
    char *block = malloc(BLOCK);

    LS_FAIL_IF(!block, LS_NO_MEMORY, "no memory to read %s", path);
    LS_TRY_TO(cleanup, ls__digest_open(&stream));
    do {
        status = read_up_to(fd, path, block, BLOCK, &got);
        ls__digest_add(stream, block, got);
    } while (status == LS_OK && got == BLOCK);
    *digest = ls__digest_finish(stream);
cleanup:
    free(block);
    return status;
}

static ls_status write_seal(int fd, const char *path)
{
    char seal[LS__SEAL_SIZE];
    struct stat info;
    ls__digest digest;

    if (lseek(fd, LS__SEAL_SIZE, SEEK_SET) < 0 || fstat(fd, &info) != 0)
        return ls__fail_errno("read", path);
    LS_TRY(digest_rest(fd, path, &digest));
    compose(seal, info.st_size, digest);
    errno = ENOSPC; /* a short write sets none */
    if (pwrite(fd, seal, sizeof seal, 0) != (ssize_t)sizeof seal)
        return ls__fail_errno("write", path);
    return LS_OK;
}

ls_status ls__seal_write(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return ls__fail_errno("open", path);
    ls_status status = write_seal(fd, path);
    /* A network file system may tell of a full disk no sooner than here. */
    if (close(fd) != 0 && status == LS_OK)
        status = ls__fail_errno("write", path);
    return status;
}

ls_status ls__seal_present(const char *path, bool *present)
{
    char start[sizeof magic - 1];
    size_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return ls__fail_errno("open", path);
    ls_status status = read_up_to(fd, path, start, sizeof start, &got);
    close(fd);
    *present = got == sizeof start && memcmp(start, magic, sizeof start) == 0;
    return status;
}

static ls_status check_length(const char *path, const char *seal, int64_t length)
{
    char text[LS__SEAL_SIZE + 1];
    int version = 0;
    int64_t sealed = 0;

    memcpy(text, seal, LS__SEAL_SIZE);
    text[LS__SEAL_SIZE] = '\0';
    LS_FAIL_IF(strncmp(text, magic, sizeof magic - 1) != 0, LS_BAD_INPUT,
               "%s was not written by lockstep, or its first bytes are damaged", path);
    LS_FAIL_IF(sscanf(text + sizeof magic - 1, "version %d length %" SCNd64, &version, &sealed) !=
                   2,
               LS_BAD_INPUT, "%s is damaged in its first 512 bytes: use another copy of it", path);
    LS_FAIL_IF(version > SEAL_VERSION, LS_BAD_INPUT,
               "%s has a seal of version %d, this program knows version %d: use a newer lockstep",
               path, version, SEAL_VERSION);
    LS_FAIL_IF(length < sealed, LS_BAD_INPUT,
               "%s is truncated: %" PRId64 " of its %" PRId64
               " bytes are there: use another copy of it",
               path, length, sealed);
    LS_FAIL_IF(length > sealed, LS_BAD_INPUT,
               "%s is damaged: it has %" PRId64 " bytes where its seal says %" PRId64
               ": use another copy of it",
               path, length, sealed);
    return LS_OK;
}

static ls_status verify(int fd, const char *path)
{
    char seal[LS__SEAL_SIZE];
    char expected[LS__SEAL_SIZE];
    struct stat info;
    ls__digest digest;
    size_t got = 0;

    if (fstat(fd, &info) != 0)
        return ls__fail_errno("read", path);
    LS_TRY(read_up_to(fd, path, seal, sizeof seal, &got));
    LS_FAIL_IF(got < sizeof seal, LS_BAD_INPUT,
               "%s is truncated, or was not written by lockstep: it has only %zu bytes", path, got);
    LS_TRY(check_length(path, seal, info.st_size));
    LS_TRY(digest_rest(fd, path, &digest));
    compose(expected, info.st_size, digest);
    LS_FAIL_IF(memcmp(seal, expected, sizeof seal) != 0, LS_BAD_INPUT,
               "%s is damaged: its checksum does not match its content: use another copy of it",
               path);
    return LS_OK;
}

ls_status ls__seal_verify(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return ls__fail_errno("open", path);
    ls_status status = verify(fd, path);
    close(fd);
    return status;
}
