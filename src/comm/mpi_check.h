/* MPI results as status codes. */
#ifndef LS_COMM_MPI_CHECK_H
#define LS_COMM_MPI_CHECK_H

#include <mpi.h>

#include "lockstep/status.h"

/* Records LS_COMM: the formatted "what failed", then MPI's own words for `code`. */
ls_status ls__fail_mpi(const char *file, int line, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns from the function where an MPI call did not succeed. */
#define LS__TRY_MPI(call, ...)                                                 \
    do {                                                                       \
        int ls_mpi_code = (call);                                              \
        if (ls_mpi_code != MPI_SUCCESS)                                        \
            return ls__fail_mpi(__FILE__, __LINE__, ls_mpi_code, __VA_ARGS__); \
    } while (0)

/* *own = a duplicate of `communicator` whose errors come back instead of aborting. Collective,
 * blocks. Free it with MPI_Comm_free. */
ls_status ls__mpi_duplicate(MPI_Comm communicator, MPI_Comm *own);

#endif
