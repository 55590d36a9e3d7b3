/* lockstep data text|images|info: making dataset files and looking at them. No MPI. */
#ifndef LS_CLI_DATA_H
#define LS_CLI_DATA_H

#include "lockstep/status.h"

/* argv[0] is "data", argv[1] names what to do with it; reorders argv. */
ls_status ls__cli_data(int argc, char **argv);

#endif
