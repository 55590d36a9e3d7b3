/* Threads that compute together inside one rank: one pool a process, as BLAS has one.
 *
 * Work is dealt out in tasks, whose number and bounds the caller chooses from the shapes alone, so
 * that results do not depend on how many threads there are. Which thread does which task is not
 * fixed. */
#ifndef LS_BASE_THREADS_H
#define LS_BASE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/status.h"

enum { LS__THREADS_MAX = 256 };

/* Makes the pool `count` threads strong, the calling one included: 1 .. LS__THREADS_MAX. Call it
 * again to change that; 1 ends all others. The new threads inherit the calling one's rounding and
 * its handling of subnormal numbers, and take no signals. LS_NO_MEMORY where the system gives no
 * more threads: there are no others then. */
ls_status ls__threads_start(int count);

/* Whether threads that wait look for work for a while before they sleep, as they do from the start:
 * what pays where each has a core to itself, and takes time from others where not. */
void ls__threads_look(bool first);

/* 1 until somebody starts more. */
int ls__threads_count(void);

/* The calling thread's index: 0 for the one that started the pool. */
int ls__threads_index(void);

/* `thread` is the index of the thread that does it, below ls__threads_count(). */
typedef void ls__task(void *context, int64_t task, int thread);

/* Does tasks 0 .. count - 1, each once, and returns when all are done. Called by the thread that
 * started the pool, and not from within a task. */
void ls__threads_run(int64_t count, ls__task *task, void *context);

/* Elements of a flat array that one thread takes at a time, some ten microseconds of work: whole
 * blocks of exact sums and of the gradient's norm. */
enum { LS__THREADS_PIECE = 16384 };

/* Does elements offset .. offset + count - 1, on any thread. */
typedef void ls__range_task(void *context, int64_t offset, int64_t count);

/* Hands out [offset, offset + count) in pieces, cut at multiples of LS__THREADS_PIECE, or whole to
 * the calling thread where there is no other: so for work whose result does not depend on where it
 * is cut there. Otherwise as ls__threads_run. */
void ls__threads_over(int64_t offset, int64_t count, ls__range_task *task, void *context);

#endif
