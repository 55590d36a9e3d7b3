/* The transport over MPI point-to-point messages. Open MPI, MPICH and their kin at MPI 3.0. */
#ifndef LOCKSTEP_TRANSPORT_MPI_H
#define LOCKSTEP_TRANSPORT_MPI_H

#include <mpi.h>

#include "lockstep/transport.h"

typedef struct ls_mpi_options {
    /* Bytes of the longest single MPI message; longer ones are split. Rounded down to a multiple
     * of 8. 0: INT_MAX, the most that MPI's counts hold. The same on all ranks. */
    int64_t longest_message;
} ls_mpi_options;

/* Opens a transport between the ranks of `communicator`, on a duplicate of its own, whose errors
 * come back as status codes. Collective over `communicator`; blocks; MPI must be initialised. With
 * ls_transport_close (collective too) before MPI_Finalize. `options` NULL: defaults. LS_COMM,
 * LS_NO_MEMORY. If this succeeded you must close it; if it failed there is nothing to do. */
ls_status ls_transport_open_mpi(ls_transport **transport, MPI_Comm communicator,
                                const ls_mpi_options *options);

/* For comparison: MPI_Allreduce itself, in place, over the ranks of a transport that
 * ls_transport_open_mpi opened. Collective; blocks, without a timeout. Faster in Open MPI than the
 * MPI_Iallreduce behind the transport's own all_reduce. LS_BAD_USAGE for a type that MPI cannot
 * sum, LS_COMM. */
ls_status ls_mpi_all_reduce(ls_transport *transport, void *data, int64_t count,
                            const ls_element_type *type);

#endif
