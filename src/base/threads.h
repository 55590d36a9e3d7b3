/* Threads that compute together inside one rank: one pool a process, as BLAS has one.
 *
 * Work is dealt out in tasks, whose number and bounds the caller chooses from the shapes alone, so
 * that results do not depend on how many threads there are. Which thread does which task is not
 * fixed. */
#ifndef LS_BASE_THREADS_H
#define LS_BASE_THREADS_H

#include <stdint.h>

#include "lockstep/status.h"

enum { LS__THREADS_MAX = 256 };

/* Makes the pool `count` threads strong, the calling one included: 1 .. LS__THREADS_MAX. Call it
 * again to change that; 1 ends all others. LS_NO_MEMORY where the system gives no more threads. */
ls_status ls__threads_start(int count);

/* 1 until somebody starts more. */
int ls__threads_count(void);

/* The calling thread's index: 0 for the one that started the pool. */
int ls__threads_index(void);

/* `thread` is the index of the thread that does it, below ls__threads_count(). */
typedef void ls__task(void *context, int64_t task, int thread);

/* Does tasks 0 .. count - 1, each once, and returns when all are done. Called by the thread that
 * started the pool, and not from within a task. */
void ls__threads_run(int64_t count, ls__task *task, void *context);

#endif
