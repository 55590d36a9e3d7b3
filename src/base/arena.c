#include "base/arena.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"

/* Each piece stands behind a header that links it to the piece before. */
typedef struct piece {
    struct piece *before;
} piece;

struct ls__arena {
    piece *last;
    int64_t limit;
    int64_t booked[LS__CATEGORY_COUNT];
    bool sealed;
};

ls_status ls__arena_open(ls__arena **arena, int64_t limit)
{
    ls__arena *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the arena itself");
    opened->limit = limit;
    *arena = opened;
    return LS_OK;
}

void ls__arena_close(ls__arena *arena)
{
    if (!arena)
        return;
    for (piece *held = arena->last; held;) {
        piece *before = held->before;
        free(held);
        held = before;
    }
    free(arena);
}

ls_status ls__arena_book(ls__arena *arena, ls__category category, int64_t count, int64_t size,
                         int64_t *bytes)
{
    char needed[32];
    char left[32];
    int64_t padded = 0;

    assert(!arena->sealed && count >= 0 && size > 0);
    LS_FAIL_IF(__builtin_mul_overflow(count, size, bytes) ||
                   __builtin_add_overflow(*bytes, 2 * LS__ARENA_ALIGNMENT - 1, &padded),
               LS_NO_MEMORY,
               "%s need %lld times %lld bytes, more than any machine has: use a smaller model, "
               "--context or --micro-batch",
               ls__category_name(category), (long long)count, (long long)size);
    LS_FAIL_IF(arena->limit > 0 && *bytes > arena->limit - ls__arena_total(arena), LS_NO_MEMORY,
               "%s need %s (%lld bytes), %s are left for this rank: use a smaller model, "
               "--context or --micro-batch, or fewer ranks on this machine",
               ls__category_name(category), ls__format_bytes(needed, sizeof needed, *bytes),
               (long long)*bytes,
               ls__format_bytes(left, sizeof left, arena->limit - ls__arena_total(arena)));
    arena->booked[category] += *bytes;
    return LS_OK;
}

ls_status ls__arena_take(ls__arena *arena, ls__category category, int64_t count, int64_t size,
                         void *out)
{
    char needed[32];
    int64_t bytes = 0;

    LS_TRY(ls__arena_book(arena, category, count, size, &bytes));
    int64_t padded = bytes + 2 * LS__ARENA_ALIGNMENT - 1;
    padded -= padded % LS__ARENA_ALIGNMENT;
    piece *held = aligned_alloc(LS__ARENA_ALIGNMENT, (size_t)padded);
    LS_FAIL_IF(!held, LS_NO_MEMORY, "the system refused %s for %s",
               ls__format_bytes(needed, sizeof needed, bytes), ls__category_name(category));
    /* Zeroing also makes the pages resident now, so that no step pays for it. */
    memset(held, 0, (size_t)padded);
    held->before = arena->last;
    arena->last = held;
    *(void **)out = (char *)held + LS__ARENA_ALIGNMENT;
    return LS_OK;
}

void ls__arena_seal(ls__arena *arena)
{
    arena->sealed = true;
}

int64_t ls__arena_booked(const ls__arena *arena, ls__category category)
{
    return arena->booked[category];
}

int64_t ls__arena_total(const ls__arena *arena)
{
    int64_t total = 0;

    for (int category = 0; category < LS__CATEGORY_COUNT; category++)
        total += arena->booked[category];
    return total;
}

const char *ls__category_name(ls__category category)
{
    switch (category) {
#define CASE(code, name) \
    case code:           \
        return name;
        LS__ARENA_CATEGORIES(CASE)
#undef CASE
    case LS__CATEGORY_COUNT:
        break;
    }
    return "unknown category";
}

/* MemAvailable counts what the kernel could free, which _SC_AVPHYS_PAGES does not. */
static int64_t machine_available(void)
{
    char line[128];
    long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");

    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
            break;
    fclose(file);
    return kib * 1024;
}

/* The number in a file of the kernel's, in the line that begins with `key`; -1 where there is none.
 */
static int64_t value_of(const char *folder, const char *name, const char *key)
{
    char path[LS__PATH_SIZE];
    char line[128];
    long long value = -1;
    size_t length = strlen(key);

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, key, length) == 0 && sscanf(line + length, " %lld", &value) == 1)
            break;
    fclose(file);
    return value;
}

/* What a group's limit leaves, counting what the kernel could free: cached files, which fill a
 * container up to its limit soon. INT64_MAX where it has no limit. */
static int64_t group_available(const char *folder)
{
    int64_t limit = value_of(folder, "memory.max", "");
    int64_t used = value_of(folder, "memory.current", "");
    int64_t active = value_of(folder, "memory.stat", "active_file ");
    int64_t inactive = value_of(folder, "memory.stat", "inactive_file ");

    if (limit < 0 || used < 0) /* "max" is no number */
        return INT64_MAX;
    int64_t left = limit - used + (active > 0 ? active : 0) + (inactive > 0 ? inactive : 0);
    return left < 0 ? 0 : left < limit ? left : limit;
}

/* The least that the groups above a folder leave: it and its parents, up to the root. */
static int64_t groups_available(const char *root, char *folder)
{
    int64_t least = INT64_MAX;

    for (;;) {
        int64_t left = group_available(folder);
        least = left < least ? left : least;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(root))
            return least;
        *slash = '\0';
    }
}

int64_t ls__cgroup_available(const char *self, const char *root)
{
    char line[LS__PATH_SIZE];
    char folder[2 * LS__PATH_SIZE];
    int64_t left = INT64_MAX;
    FILE *file = fopen(self, "r");

    if (!file)
        return left;
    while (left == INT64_MAX && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        /* "0::/path" is the line of version 2. */
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        snprintf(folder, sizeof folder, "%s%s", root, line[4] ? line + 3 : "");
        left = groups_available(root, folder);
    }
    fclose(file);
    return left;
}

int64_t ls__memory_available(void)
{
    int64_t machine = machine_available();
    int64_t group = ls__cgroup_available("/proc/self/cgroup", "/sys/fs/cgroup");

    if (machine == 0 || group == INT64_MAX)
        return machine;
    /* 0 would mean that the machine does not tell. */
    int64_t least = group < machine ? group : machine;
    return least > 0 ? least : 1;
}

int64_t ls__memory_resident(void)
{
    int64_t own = value_of("/proc/self", "smaps_rollup", "Pss_Anon:");
    int64_t shared = value_of("/proc/self", "smaps_rollup", "Pss_Shmem:");

    return own < 0 || shared < 0 ? 0 : (own + shared) * 1024;
}
