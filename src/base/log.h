/* Lines for people, on standard error: information from rank 0 only, warnings and errors from any
 * rank, each with the rank in front where there is more than one. A line is one write, so lines of
 * several ranks do not mix. */
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include "lockstep/status.h"

/* Tells the log which rank of how many this process is; 0 of 1 until then. */
void ls__log_set_rank(int rank, int ranks);

void ls__log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ls__log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints ls_last_error() as `lockstep: what, where, what to do`, on the rank where it happened and
 * nowhere else. */
void ls__log_error(void);

#endif
