/* How many processor cores this process may run on: its affinity, which cgroups, taskset and MPI's
 * binding narrow down, not what the machine has. */
#ifndef LS_BASE_CORES_H
#define LS_BASE_CORES_H

#include <stdint.h>

enum { LS__CORES_MAX = 1024 };

/* A set of cores, a bit a core; plain data, so that it can be sent to other ranks. */
typedef struct ls__cores {
    uint64_t bits[LS__CORES_MAX / 64];
} ls__cores;

/* The cores that this process may use; none where the system does not say. */
ls__cores ls__cores_usable(void);

/* Adds those of `more`. */
void ls__cores_add(ls__cores *cores, const ls__cores *more);

/* How many there are; at least 1. */
int ls__cores_count(const ls__cores *cores);

#endif
