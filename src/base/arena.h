/* The start-up arena: all memory a run holds, taken at start, given back together at the end.
 *
 * Each piece is booked under a category; the ledger of categories is what a memory plan is checked
 * against. Pieces are zeroed, aligned to LS__ARENA_ALIGNMENT bytes and live until the arena is
 * closed. After ls__arena_seal() a further request is a bug of ours: Lockstep allocates nothing
 * inside a step. Not thread-safe: one thread sets a run up. */
#ifndef LS_BASE_ARENA_H
#define LS_BASE_ARENA_H

#include <stdint.h>

#include "lockstep/status.h"

enum { LS__ARENA_ALIGNMENT = 64 };

#define LS__ARENA_CATEGORIES(X)           \
    X(LS__PARAMETERS, "parameters")       \
    X(LS__GRADIENTS, "gradients")         \
    X(LS__LANES, "lanes")                 \
    X(LS__OPTIMIZER, "optimizer")         \
    X(LS__WEIGHTS, "weights")             \
    X(LS__ACTIVATIONS, "activations")     \
    X(LS__SCRATCH, "scratch")             \
    X(LS__COMMUNICATION, "communication") \
    X(LS__DATA, "data")

typedef enum ls__category {
#define LS__CATEGORY_ENUM(code, name) code,
    LS__ARENA_CATEGORIES(LS__CATEGORY_ENUM)
#undef LS__CATEGORY_ENUM
        LS__CATEGORY_COUNT
} ls__category;

typedef struct ls__arena ls__arena;

/* Opens an arena that gives out at most `limit` bytes; 0: no limit. If this succeeded you must
 * close it; if it failed there is nothing to do. */
ls_status ls__arena_open(ls__arena **arena, int64_t limit);
void ls__arena_close(ls__arena *arena);

/* Takes `count` pieces of `size` bytes. *piece is never NULL on success, whatever the count.
 * LS_NO_MEMORY, with the bytes needed and the bytes left, where the product is over the limit or
 * over what an int64_t holds: found before anything is allocated. */
ls_status ls__arena_take(ls__arena *arena, ls__category category, int64_t count, int64_t size,
                         void *piece);

/* Books memory that comes from elsewhere and lives at least as long as the arena: *bytes = count
 * times size. Refuses as ls__arena_take does. */
ls_status ls__arena_book(ls__arena *arena, ls__category category, int64_t count, int64_t size,
                         int64_t *bytes);

/* From here on a request is a bug. */
void ls__arena_seal(ls__arena *arena);

/* Bytes booked under one category, and in all. */
int64_t ls__arena_booked(const ls__arena *arena, ls__category category);
int64_t ls__arena_total(const ls__arena *arena);
const char *ls__category_name(ls__category category);

/* Bytes of memory that this machine, and the control group of this process (version 2), could still
 * give out now; 0 where the machine does not tell. */
int64_t ls__memory_available(void);

/* Bytes of memory, files aside, that this process holds now; what it shares with others counts in
 * equal parts. 0 where the machine does not tell. */
int64_t ls__memory_resident(void);

/* The control group's part of it, from a file like /proc/self/cgroup and the folder of all groups;
 * INT64_MAX where no limit is set. */
int64_t ls__cgroup_available(const char *self, const char *root);

#endif
