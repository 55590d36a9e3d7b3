/* The transport for ranks that share memory: blocks pass from one rank to another on the same node
 * through MPI-3 shared windows, read straight from where they stand, with no copy through the MPI
 * library. To ranks on other nodes, and for what does not stand in memory that
 * ls_transport_memory gave, it is the MPI transport (lockstep/transport_mpi.h). */
#ifndef LOCKSTEP_TRANSPORT_SHM_H
#define LOCKSTEP_TRANSPORT_SHM_H

#include <mpi.h>

#include "lockstep/transport.h"

/* Opens a transport between the ranks of `communicator`; everything is as in
 * ls_transport_open_mpi. LS_NO_MEMORY, on all ranks, where a node cannot give the ranks on it
 * memory to share, saying why: use the MPI transport then. Where it can give too little for what
 * ls_transport_memory asks later, that memory is not shared, and messages from it go through MPI.
 */
ls_status ls_transport_open_shm(ls_transport **transport, MPI_Comm communicator);

#endif
