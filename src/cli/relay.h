/* What mpirun and its ranks print, handed on line by line without what mpirun says about the end of
 * a rank, which is taken note of instead. */
#ifndef LS_CLI_RELAY_H
#define LS_CLI_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/status.h"

enum { LS__RELAY_BLOCK = 8192 };

typedef struct ls__relay {
    int out; /* to read from; -1 once the other end is closed */
    int err;
    int to_out; /* to write to */
    int to_err;
    int log; /* the file behind both, or -1 */
    char *line;
    size_t length, room;
    bool in_block; /* of mpirun's own words, between rules of dashes */
    char block[LS__RELAY_BLOCK];
    size_t block_length;
    int aborted; /* the exit code with which a rank has had mpirun end all; 0: none has */
    /* The first rank that mpirun said was lost. */
    bool lost;
    int lost_rank;
    int lost_signal; /* 0: none that is known */
    char lost_host[256];
} ls__relay;

/* Makes two pipes, with *out and *err for the child to write to, which the caller closes. What
 * comes out of them goes to the file `log`, or, where that is NULL, to our own output. If this
 * succeeded you must close. */
ls_status ls__relay_open(ls__relay *relay, const char *log, int *out, int *err);
void ls__relay_close(ls__relay *relay);

/* Hands on what is there to read in each of them that is ready. */
ls_status ls__relay_take(ls__relay *relay, bool out_ready, bool err_ready);

#endif
