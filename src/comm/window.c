#include "comm/window.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/units.h"
#include "comm/mpi_check.h"

/* Where Open MPI and MPICH put shared windows on Linux. Open MPI does not look whether they fit:
 * the first touch of what does not would end the process by a signal. */
static const char folder[] = "/dev/shm";

/* What the libraries add to a window, and more. */
static const int64_t spare = 1 << 20;

/* Of parts, which Open MPI gives any. Mappings begin on pages, so it is the same in all processes.
 */
enum { ALIGNMENT = 64 };

static char *aligned(char *part)
{
    return part + (ALIGNMENT - (uintptr_t)part % ALIGNMENT) % ALIGNMENT;
}

/* Whether all ranks of the node bring true. */
static ls_status all_true(MPI_Comm node, bool mine, bool *all)
{
    int value = mine;
    int lowest = 0;

    LS__TRY_MPI(MPI_Allreduce(&value, &lowest, 1, MPI_INT, MPI_LAND, node),
                "agreeing with the ranks on this node");
    *all = lowest;
    return LS_OK;
}

/* Also what `ulimit -f` allows a file, which a window is. */
static int64_t room(void)
{
    struct statvfs found;
    struct rlimit file;
    int64_t left = INT64_MAX; /* another system, with another place */

    if (statvfs(folder, &found) == 0)
        left = (int64_t)found.f_bavail * (int64_t)found.f_frsize;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur < (rlim_t)left)
        left = (int64_t)file.rlim_cur;
    return left;
}

static ls_status too_small(int64_t needed, int64_t left)
{
    char text[2][32];

    return LS_FAIL(
        LS_NO_MEMORY,
        "the ranks on this node need %s of shared memory, of which %s and `ulimit -f` leave %s",
        ls__format_bytes(text[0], sizeof text[0], needed), folder,
        ls__format_bytes(text[1], sizeof text[1], left));
}

/* Rank 0 looks, before any rank takes something. */
static ls_status check_room(MPI_Comm node, int ranks, int64_t bytes)
{
    int64_t left = room();
    int64_t needed = 0;

    LS_FAIL_IF(__builtin_mul_overflow(bytes, ranks, &needed) || needed > INT64_MAX - spare,
               LS_NO_MEMORY, "%d ranks of %lld bytes: no machine has as much", ranks,
               (long long)bytes);
    needed += spare;
    LS__TRY_MPI(MPI_Bcast(&left, 1, MPI_INT64_T, 0, node), "telling the ranks on this node");
    return needed > left ? too_small(needed, left) : LS_OK;
}

static ls_status find_parts(ls__window *window, int ranks)
{
    MPI_Aint bytes = 0;
    int unit = 0;

    window->part = calloc((size_t)ranks, sizeof window->part[0]);
    LS_FAIL_IF(!window->part, LS_NO_MEMORY, "no memory for a window of %d ranks", ranks);
    for (int rank = 0; rank < ranks; rank++) {
        LS__TRY_MPI(MPI_Win_shared_query(window->window, rank, &bytes, &unit, &window->part[rank]),
                    "asking where another rank's shared memory stands");
        window->part[rank] = aligned(window->part[rank]);
    }
    return LS_OK;
}

/* Makes the part resident where the system can say that it does not fit, else by touching it. */
static bool populate(char *part, int64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t within = (int64_t)((uintptr_t)part % (uintptr_t)page);

    if (bytes == 0 || madvise(part - within, (size_t)(bytes + within), MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL)
        return false;
#endif
    memset(part, 0, (size_t)bytes);
    return true;
}

static ls_status allocate(MPI_Comm node, int64_t bytes, MPI_Win *window, char **own)
{
    MPI_Info info = MPI_INFO_NULL;

    LS__TRY_MPI(MPI_Info_create(&info), "preparing a shared window");
    LS__TRY_MPI(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "preparing a shared window");
    int code = MPI_Win_allocate_shared((MPI_Aint)bytes, 1, info, node, own, window);
    MPI_Info_free(&info);
    LS_FAIL_IF(code != MPI_SUCCESS, LS_NO_MEMORY,
               "MPI refuses a shared window of %lld bytes a rank on this node", (long long)bytes);
    return LS_OK;
}

ls_status ls__window_open(ls__window *window, MPI_Comm node, int64_t bytes)
{
    ls__window opened = {.window = MPI_WIN_NULL, .bytes = bytes};
    bool all = false;
    int ranks = 0;

    LS__TRY_MPI(MPI_Comm_size(node, &ranks), "counting the ranks on this node");
    LS_TRY(check_room(node, ranks, bytes));
    LS_TRY(allocate(node, bytes + ALIGNMENT, &opened.window, &opened.own));
    opened.own = aligned(opened.own);
    opened.open = true;
    ls_status status = find_parts(&opened, ranks);
    bool mine = status == LS_OK && populate(opened.own, bytes);
    ls_status agreed = all_true(node, mine, &all);
    if (agreed != LS_OK || !all) {
        ls__window_close(&opened);
        LS_TRY(agreed);
        return status != LS_OK ? status : too_small(bytes * ranks, room());
    }
    *window = opened;
    return LS_OK;
}

void ls__window_close(ls__window *window)
{
    if (window->open)
        MPI_Win_free(&window->window);
    free(window->part);
    *window = (ls__window){0};
}
