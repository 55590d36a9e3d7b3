/* The main of an MPI test: every rank runs the same CMocka cases, rank 0 prints them. */
#ifndef LS_TESTS_SUPPORT_MPI_MAIN_H
#define LS_TESTS_SUPPORT_MPI_MAIN_H

#include <mpi.h>
#include <stdio.h>

#include "support/test.h"

/* After MPI_Init: silences what other ranks than 0 print; their failures still show. */
static inline void ls__mpi_quiet(int rank)
{
    if (rank != 0 && !freopen("/dev/null", "w", stdout))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A rank that fails ends the others, which may be waiting for it. */
static inline int ls__mpi_end(int failed)
{
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return 0;
}

/* `run` is an expression: how many cases failed. */
#define LS__MPI_MAIN(run)                     \
    int main(int argc, char **argv)           \
    {                                         \
        int rank = 0;                         \
        MPI_Init(&argc, &argv);               \
        MPI_Comm_rank(MPI_COMM_WORLD, &rank); \
        ls__mpi_quiet(rank);                  \
        return ls__mpi_end(run);              \
    }

#endif
