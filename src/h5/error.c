/* HDF5's error stack, folded into one sentence; and what becomes of a file that cannot be written.
 */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "h5/internal.h"

_Static_assert(sizeof(hid_t) == sizeof(int64_t), "identifiers are passed as int64_t");

enum { REASON_SIZE = 256 };

typedef struct cause {
    char reason[REASON_SIZE];
    int number; /* errno, or 0 where HDF5 does not tell one */
} cause;

void ls__h5_quiet(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void ls__h5_drop(int64_t id)
{
    /* Each call empties the error stack, and cleaning up must not lose the reason for it. */
    hid_t kept = H5Eget_num(H5E_DEFAULT) > 0 ? H5Eget_current_stack() : -1;

    if (id >= 0)
        H5Idec_ref(id);
    if (kept >= 0)
        H5Eset_current_stack(kept); /* which also closes it */
}

/* Called from the innermost record outward; the first one that says anything counts. Failed system
 * calls are described as "..., errno = 28, error message = '...', ...". */
static herr_t take_record(unsigned depth, const H5E_error2_t *record, void *into)
{
    cause *found = into;
    const char *number = record->desc ? strstr(record->desc, "errno = ") : NULL;

    (void)depth;
    if (number && !found->number)
        sscanf(number, "errno = %d", &found->number);
    if (record->desc && *record->desc && !found->reason[0])
        snprintf(found->reason, sizeof found->reason, "%s", record->desc);
    return 0;
}

static cause find_cause(void)
{
    cause found = {.number = 0};

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_record, &found);
    H5Eclear2(H5E_DEFAULT);
    if (found.number)
        snprintf(found.reason, sizeof found.reason, "%s", strerror(found.number));
    else if (!found.reason[0])
        snprintf(found.reason, sizeof found.reason, "HDF5 gives no reason");
    for (char *c = found.reason; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    return found;
}

/* HDF5 cannot give a file up: closing it, and the end of the program, try to write what is left,
 * and where that fails again it leaks, complains or crashes. So the rest goes where there is always
 * room; the temporary is removed by name afterwards. */
static void divert(const ls__h5 *file)
{
    void *handle = NULL;
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (nowhere < 0)
        return;
    if (H5Fget_vfd_handle(file->id, H5P_DEFAULT, &handle) >= 0 && handle)
        dup2(nowhere, *(int *)handle);
    close(nowhere);
}

ls_status ls__h5_fail(ls__h5 *file, const char *verb, const char *name)
{
    cause found = find_cause();

    file->failed = true;
    if (file->writing && file->id >= 0)
        divert(file);
    if (found.number == ENOSPC || found.number == EDQUOT || found.number == EFBIG) {
        errno = found.number;
        return ls__fail_errno("write", file->path);
    }
    return LS_FAIL(file->writing || found.number ? LS_IO : LS_BAD_INPUT, "cannot %s %s%s%s: %s",
                   verb, name ? name : "", name ? " in " : "", file->path, found.reason);
}
