#include "base/cores.h"

#include <sched.h>

ls__cores ls__cores_usable(void)
{
    ls__cores cores = {0};
    cpu_set_t set;

    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return cores;
    for (int core = 0; core < LS__CORES_MAX && core < CPU_SETSIZE; core++)
        if (CPU_ISSET((size_t)core, &set))
            cores.bits[core / 64] |= (uint64_t)1 << (core % 64);
    return cores;
}

void ls__cores_add(ls__cores *cores, const ls__cores *more)
{
    for (int i = 0; i < LS__CORES_MAX / 64; i++)
        cores->bits[i] |= more->bits[i];
}

int ls__cores_count(const ls__cores *cores)
{
    int count = 0;

    for (int i = 0; i < LS__CORES_MAX / 64; i++)
        count += __builtin_popcountll(cores->bits[i]);
    return count > 0 ? count : 1;
}
