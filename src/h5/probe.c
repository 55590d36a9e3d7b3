/* HDF5 1.10 reads past its buffers, and runs in circles, on some damaged files. Files made here are
 * sealed and never get that far; other programs' files are tried out in a child process first. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "h5/array.h"
#include "h5/internal.h"

enum { SLAB_BYTES = 4 << 20, ATTRIBUTE_MAX = 1 << 20, STEP_SECONDS = 15, DEPTH_MAX = 4 };
enum { PASSED = 0, FAILED = 10 };

/* ---- in the child ---- */

/* Each step of the walk has its time; SIGALRM ends the child. */
static void next_step(void)
{
    alarm(STEP_SECONDS);
}

static bool read_slab(hid_t dataset, hid_t type, int rank, const hsize_t *start,
                      const hsize_t *count, void *values)
{
    hid_t memory = H5Screate_simple(rank, count, NULL);
    hid_t disk = H5Dget_space(dataset);
    bool read = H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dread(dataset, type, memory, disk, H5P_DEFAULT, values) >= 0;

    ls__h5_drop(disk);
    ls__h5_drop(memory);
    return read;
}

/* Reads an array to the end, some entries of its first dimension at a time. */
static bool read_to_the_end(hid_t dataset, ls__h5_type type, const ls__h5_shape *shape)
{
    hsize_t start[LS__H5_RANK_MAX] = {0};
    hsize_t count[LS__H5_RANK_MAX];
    size_t entry_bytes = (size_t)ls__h5_type_size(type);
    bool read = true;

    for (int i = 1; i < shape->rank; i++) {
        count[i] = (hsize_t)shape->extent[i];
        if (__builtin_mul_overflow(entry_bytes, (size_t)count[i], &entry_bytes))
            return false;
    }
    if (entry_bytes == 0)
        return true;
    hsize_t entries = entry_bytes < SLAB_BYTES ? SLAB_BYTES / entry_bytes : 1;
    void *slab = malloc(entries * entry_bytes);
    for (; slab && read && start[0] < (hsize_t)shape->extent[0]; start[0] += count[0]) {
        hsize_t left = (hsize_t)shape->extent[0] - start[0];
        count[0] = entries < left ? entries : left;
        next_step();
        read = read_slab(dataset, ls__h5_memory_type(type), shape->rank, start, count, slab);
    }
    free(slab);
    return slab && read;
}

/* An array that we would not read is left alone: the parent refuses it too, and says why. */
static bool try_array(ls__h5 *file, const char *name, hid_t dataset)
{
    ls__h5_type type = LS__H5_U8;
    ls__h5_shape shape;

    return ls__h5_describe(file, name, &type, &shape) != LS_OK ||
           read_to_the_end(dataset, type, &shape);
}

static bool try_group(ls__h5 *file, const char *group, int depth);

static bool try_object(ls__h5 *file, const char *name, int depth)
{
    hid_t object = H5Oopen(file->id, name, H5P_DEFAULT);
    H5I_type_t class = object < 0 ? H5I_BADID : H5Iget_type(object);
    bool read = class != H5I_BADID;

    next_step();
    if (class == H5I_DATASET)
        read = try_array(file, name, object);
    else if (class == H5I_GROUP && depth < DEPTH_MAX)
        read = try_group(file, name, depth + 1);
    ls__h5_drop(object);
    return read;
}

static bool try_group(ls__h5 *file, const char *group, int depth)
{
    char part[LS__H5_NAME_SIZE] = "";
    char name[LS__H5_NAME_SIZE * (DEPTH_MAX + 2)];
    int64_t count = 0;
    bool read = ls__h5_count(file, group, &count) == LS_OK;

    for (int64_t i = 0; read && i < count; i++) {
        read = ls__h5_name_at(file, group, i, part) == LS_OK;
        snprintf(name, sizeof name, "%s%s%s", group, depth ? "/" : "", part);
        read = read && try_object(file, name, depth);
    }
    return read;
}

static herr_t try_attribute(hid_t root, const char *name, const H5A_info_t *info, void *context)
{
    static char text[ATTRIBUTE_MAX];
    ls__h5 *file = context;
    int64_t whole = 0;
    double real = 0;

    (void)root;
    (void)info;
    next_step();
    /* Whichever of these suits; a mismatch is no damage. */
    if (ls__h5_get_int(file, "/", name, &whole) != LS_OK &&
        ls__h5_get_real(file, "/", name, &real) != LS_OK &&
        ls__h5_get_text(file, "/", name, text, sizeof text) != LS_OK)
        ls__h5_get_bytes(file, "/", name, text, sizeof text, &whole);
    return 0;
}

static bool walk(const char *path)
{
    ls__h5 file = {.id = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT)};

    return file.id >= 0 &&
           H5Aiterate2(file.id, H5_INDEX_NAME, H5_ITER_INC, NULL, try_attribute, &file) >= 0 &&
           try_group(&file, "/", 0);
}

/* Dies quietly: without a core file, without a backtrace from the handlers that MPI installs. */
static _Noreturn void be_the_child(const char *path)
{
    static const int deaths[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    struct rlimit no_core = {0, 0};
    int nowhere = open("/dev/null", O_WRONLY);

    for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++)
        signal(deaths[i], SIG_DFL);
    setrlimit(RLIMIT_CORE, &no_core);
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    next_step();
    _exit(walk(path) ? PASSED : FAILED);
}

/* ---- in the parent ---- */

ls_status ls__h5_probe(const char *path)
{
    int how = 0;
    pid_t child = fork();

    if (child == 0)
        be_the_child(path);
    LS_FAIL_IF(child < 0, LS_IO, "cannot start a process to try out %s: %s", path, strerror(errno));
    while (waitpid(child, &how, 0) < 0)
        LS_FAIL_IF(errno != EINTR, LS_IO, "cannot wait for the process that tries out %s: %s", path,
                   strerror(errno));
    LS_FAIL_IF(WIFSIGNALED(how), LS_BAD_INPUT,
               "%s is damaged: HDF5 %s on it: write it again with the program that made it", path,
               WTERMSIG(how) == SIGALRM ? "hangs" : "crashes");
    LS_FAIL_IF(WEXITSTATUS(how) != PASSED, LS_BAD_INPUT,
               "%s is truncated or damaged: HDF5 cannot read it to the end: write it again with "
               "the program that made it",
               path);
    return LS_OK;
}
