/* Life cycle of a file. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "h5/internal.h"
#include "h5/seal.h"

static ls_status allocate(ls__h5 **file, const char *path)
{
    static const char ending[] = ".tmp";

    LS_FAIL_IF(!*path || strlen(path) + sizeof ending > LS__PATH_SIZE, LS_BAD_USAGE,
               "'%.64s' cannot be the path of a file: it is empty or longer than %d characters",
               path, LS__PATH_SIZE - (int)sizeof ending);
    ls__h5 *made = calloc(1, sizeof *made);
    LS_FAIL_IF(!made, LS_NO_MEMORY, "no memory to open %s", path);
    made->id = -1;
    snprintf(made->path, sizeof made->path, "%s", path);
    snprintf(made->temporary, sizeof made->temporary, "%.*s%s", (int)strlen(path), path, ending);
    ls__h5_quiet();
    *file = made;
    return LS_OK;
}

/* Closing the file closes what is still open in it. Locks are left out: they fail on some network
 * file systems, and files that appear whole need none. */
static hid_t access_properties(void)
{
    hid_t properties = H5Pcreate(H5P_FILE_ACCESS);

    if (properties < 0)
        return properties;
    H5Pset_fclose_degree(properties, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7)
    H5Pset_file_locking(properties, false, true);
#endif
    return properties;
}

/* ---- writing ---- */

static hid_t create_with_user_block(const char *path)
{
    hid_t access = access_properties();
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    hid_t id = H5Pset_userblock(creation, LS__SEAL_SIZE) < 0
                   ? -1
                   : H5Fcreate(path, H5F_ACC_TRUNC, creation, access);

    ls__h5_drop(creation);
    ls__h5_drop(access);
    return id;
}

/* Finds out what HDF5 would say less clearly: whether a file can be made there at all, and has room
 * for more than HDF5 writes on creating one, since what it then fails to write it leaks. */
static ls_status claim(const ls__h5 *file)
{
    static const char block[4096];
    int fd = open(file->temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    LS_FAIL_IF(fd < 0 && errno == ENOENT, LS_BAD_USAGE,
               "cannot write %s: its folder is not there: make the folder first", file->path);
    LS_FAIL_IF(fd < 0 && (errno == EACCES || errno == EROFS || errno == ENOTDIR), LS_BAD_USAGE,
               "cannot write %s: %s: choose another place", file->path, strerror(errno));
    if (fd < 0)
        return ls__fail_errno("write", file->path);
    errno = ENOSPC; /* a short write sets none */
    ls_status status = write(fd, block, sizeof block) == (ssize_t)sizeof block
                           ? LS_OK
                           : ls__fail_errno("write", file->path);
    close(fd);
    return status;
}

static ls_status begin(ls__h5 *file)
{
    LS_TRY(claim(file));
    file->writing = true;
    file->id = create_with_user_block(file->temporary);
    return file->id < 0 ? ls__h5_fail(file, "create", NULL) : LS_OK;
}

ls_status ls__h5_create(ls__h5 **file, const char *path)
{
    struct stat info;
    ls__h5 *made = NULL;

    LS_FAIL_IF(stat(path, &info) == 0 && !S_ISREG(info.st_mode), LS_BAD_USAGE,
               "cannot write %s: something that is no file stands there: choose another name",
               path);
    LS_TRY(allocate(&made, path));
    ls_status status = begin(made);
    if (status == LS_OK)
        *file = made;
    else
        ls__h5_discard(made);
    return status;
}

void ls__h5_discard(ls__h5 *file)
{
    if (!file)
        return;
    if (file->id >= 0 && H5Fclose(file->id) < 0)
        H5Eclear2(H5E_DEFAULT);
    unlink(file->temporary);
    free(file);
}

/* Where tests make writing fail. */
static ls_status pass(const ls__h5 *file, ls__fault_place place)
{
    ls__fault_here(place);
    return ls__fault_full(place) ? ls__fail_errno("write", file->path) : LS_OK;
}

/* Flushing comes first: where the disk is full, a file that still is open can be diverted. */
static ls_status complete(ls__h5 *file)
{
    LS_FAIL_IF(file->failed, LS_IO, "cannot write %s: an earlier write to it failed", file->path);
    LS_TRY(pass(file, LS__FAULT_WRITE));
    if (H5Fflush(file->id, H5F_SCOPE_LOCAL) < 0)
        return ls__h5_fail(file, "write", NULL);
    hid_t id = file->id;
    file->id = -1;
    if (H5Fclose(id) < 0)
        return ls__h5_fail(file, "write", NULL);
    LS_TRY(pass(file, LS__FAULT_SEAL));
    LS_TRY(ls__seal_write(file->temporary));
    LS_TRY(pass(file, LS__FAULT_RENAME));
    LS_TRY(ls__file_publish(file->temporary, file->path));
    ls__fault_file(file->path);
    return LS_OK;
}

ls_status ls__h5_publish(ls__h5 *file)
{
    ls_status status = complete(file);

    /* Once it is in place there is no temporary, and discarding only frees. */
    ls__h5_discard(file);
    return status;
}

/* ---- reading ---- */

static ls_status check_regular(const char *path)
{
    struct stat info;

    LS_FAIL_IF(stat(path, &info) != 0, LS_BAD_INPUT, "cannot open %s: %s", path, strerror(errno));
    LS_FAIL_IF(S_ISDIR(info.st_mode), LS_BAD_INPUT, "%s is a folder, not an HDF5 file", path);
    LS_FAIL_IF(!S_ISREG(info.st_mode), LS_BAD_INPUT, "%s is not a regular file", path);
    LS_FAIL_IF(info.st_size == 0, LS_BAD_INPUT, "%s is empty, not an HDF5 file", path);
    LS_FAIL_IF(access(path, R_OK) != 0, LS_BAD_INPUT, "cannot open %s: %s", path, strerror(errno));
    return LS_OK;
}

/* Nothing is left to HDF5's parser that has not passed here. */
static ls_status check_content(const char *path, ls__h5_trust trust)
{
    bool sealed = trust == LS__H5_SEALED;

    if (!sealed)
        LS_TRY(ls__seal_present(path, &sealed));
    if (sealed)
        return ls__seal_verify(path);
    /* Looks for a signature of eight bytes and no further. */
    LS_FAIL_IF(H5Fis_hdf5(path) <= 0, LS_BAD_INPUT, "%s is not an HDF5 file", path);
    return ls__h5_probe(path);
}

static ls_status open_for_reading(ls__h5 *file, ls__h5_trust trust)
{
    LS_TRY(check_regular(file->path));
    LS_TRY(check_content(file->path, trust));
    hid_t access = access_properties();
    file->id = H5Fopen(file->path, H5F_ACC_RDONLY, access);
    ls__h5_drop(access);
    return file->id < 0 ? ls__h5_fail(file, "open", NULL) : LS_OK;
}

ls_status ls__h5_open(ls__h5 **file, const char *path, ls__h5_trust trust)
{
    ls__h5 *made = NULL;

    LS_TRY(allocate(&made, path));
    ls_status status = open_for_reading(made, trust);
    if (status == LS_OK)
        *file = made;
    else
        ls__h5_close(made);
    return status;
}

void ls__h5_close(ls__h5 *file)
{
    if (!file)
        return;
    ls__h5_drop(file->id);
    free(file);
}
