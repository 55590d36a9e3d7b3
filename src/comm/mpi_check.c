#include "comm/mpi_check.h"

#include <stdarg.h>
#include <stdio.h>

ls_status ls__fail_mpi(const char *file, int line, int code, const char *format, ...)
{
    char what[LS_ERROR_TEXT / 2];
    char why[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (MPI_Error_string(code, why, &length) != MPI_SUCCESS)
        snprintf(why, sizeof why, "MPI error %d", code);
    return ls_fail_at(file, line, LS_COMM, "%s: %s", what, why);
}

ls_status ls__mpi_duplicate(MPI_Comm communicator, MPI_Comm *own)
{
    LS__TRY_MPI(MPI_Comm_dup(communicator, own), "duplicating the communicator");
    int code = MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) {
        MPI_Comm_free(own);
        return ls__fail_mpi(__FILE__, __LINE__, code, "asking MPI to return its errors");
    }
    return LS_OK;
}
