/* Memory that the ranks on one node share: an MPI-3 shared window with a part for each rank. */
#ifndef LS_COMM_WINDOW_H
#define LS_COMM_WINDOW_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef struct ls__window {
    MPI_Win window;
    bool open;
    int64_t bytes; /* of a part */
    char **part;   /* (ranks of the node) where each rank's part stands in this process */
    char *own;
} ls__window;

/* Opens a window with `bytes` for each rank of `node`, zeroed, resident and aligned to 64 bytes.
 * Collective over `node`, blocks; the outcome is the same on all of it. LS_NO_MEMORY where
 * the system cannot give so much. `node` returns its errors and outlives the window. */
ls_status ls__window_open(ls__window *window, MPI_Comm node, int64_t bytes);

/* Collective over the node. An unopened one (all zero) is fine. */
void ls__window_close(ls__window *window);

#endif
