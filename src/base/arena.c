#include "base/arena.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

ls_status ls__arena_take(ls__arena *arena, ls__category category, int64_t count, int64_t size,
                         void *out)
{
    char needed[32];
    char left[32];
    int64_t bytes = 0;
    int64_t padded = 0;

    assert(!arena->sealed && count >= 0 && size > 0);
    LS_FAIL_IF(__builtin_mul_overflow(count, size, &bytes) ||
                   __builtin_add_overflow(bytes, 2 * LS__ARENA_ALIGNMENT - 1, &padded),
               LS_NO_MEMORY,
               "%s need %lld times %lld bytes, more than any machine has: use a smaller model, "
               "--context or --micro-batch",
               ls__category_name(category), (long long)count, (long long)size);
    LS_FAIL_IF(arena->limit > 0 && bytes > arena->limit - ls__arena_total(arena), LS_NO_MEMORY,
               "%s need %s (%lld bytes), %s are left for this rank: use a smaller model, "
               "--context or --micro-batch, or fewer ranks on this machine",
               ls__category_name(category), ls__format_bytes(needed, sizeof needed, bytes),
               (long long)bytes,
               ls__format_bytes(left, sizeof left, arena->limit - ls__arena_total(arena)));

    padded -= padded % LS__ARENA_ALIGNMENT;
    piece *held = aligned_alloc(LS__ARENA_ALIGNMENT, (size_t)padded);
    LS_FAIL_IF(!held, LS_NO_MEMORY, "the system refused %s for %s",
               ls__format_bytes(needed, sizeof needed, bytes), ls__category_name(category));
    /* Zeroing also makes the pages resident now, so that no step pays for it. */
    memset(held, 0, (size_t)padded);
    held->before = arena->last;
    arena->last = held;
    arena->booked[category] += bytes;
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
int64_t ls__memory_available(void)
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
