/* Collectives: ls_collective runs one schedule, ls_allreduce runs a whole all-reduce.
 *
 * Both live the same way. Open them once, at start; then, once a step: start, advance between other
 * work as often as you like (it never blocks), wait. All ranks of the transport open with the same
 * algorithm, count, type and channel, and start in the same order on each channel. Nothing is
 * allocated after open. Collectives on different channels may be in flight together.
 *
 *     ls_allreduce *sum;
 *     ls_payload gradients = {.data = g, .count = n, .type = &ls_sum_f32, .scratch = s};
 *
 *     ls_allreduce_open(&sum, transport, &ls_algorithm_ring, &gradients);
 *     ls_allreduce_check(sum, 60);          once: do all ranks mean the same?
 *     for each step:
 *         ls_allreduce_start(sum);
 *         ls_allreduce_wait(sum, 60);
 *     ls_allreduce_close(sum);
 *
 * The sums' bits depend on the number of ranks and the algorithm, never on timing (for
 * ls_algorithm_mpi that is up to the library).
 *
 * Errors of start, advance and wait: LS_COMM where a message failed or had an unexpected length,
 * LS_TIMEOUT. After one the collective is of no more use: close it. */
#ifndef LOCKSTEP_COLLECTIVE_H
#define LOCKSTEP_COLLECTIVE_H

#include "lockstep/schedule.h"
#include "lockstep/transport.h"

/* What a collective works on. Data and scratch are the caller's, aligned as the elements, and stay
 * in place until the collective is closed. */
typedef struct ls_payload {
    void *data;                  /* (count) */
    int64_t count;               /* of elements; 0 is fine */
    const ls_element_type *type; /* stays valid as long as the collective */
    void *scratch;               /* NULL where the matching ..._scratch() says 0 */
    int channel;                 /* 0 .. 32767 */
} ls_payload;

/* ---- one schedule ---- */

typedef struct ls_collective ls_collective;

/* Bytes of scratch that a collective needs, not less for a larger count; 0 for a schedule that only
 * copies. */
int64_t ls_collective_scratch(const ls_schedule *schedule, ls_layout layout, int64_t count,
                              const ls_element_type *type);

/* LS_NO_MEMORY. If this succeeded you must close it; if it failed there is nothing to do. */
ls_status ls_collective_open(ls_collective **collective, ls_transport *transport,
                             const ls_schedule *schedule, const ls_payload *payload);
void ls_collective_close(ls_collective *collective); /* NULL is fine */

/* Posts the first rounds. A bug of ours where the one before has not ended. Never blocks. */
ls_status ls_collective_start(ls_collective *collective);

/* Completes what can be completed and posts what may then start. Never blocks. */
ls_status ls_collective_advance(ls_collective *collective, bool *done);

/* Advances until done, giving the processor away while there is nothing to do. LS_TIMEOUT after
 * `timeout_seconds`, naming the rank that was waited for, the round and the elements. */
ls_status ls_collective_wait(ls_collective *collective, double timeout_seconds);

/* ---- all-reduce ---- */

typedef struct ls_allreduce ls_allreduce;

/* Bytes of scratch that an all-reduce needs; not less for a larger count. */
int64_t ls_allreduce_scratch(const ls_algorithm *algorithm, ls_layout layout, int64_t count,
                             const ls_element_type *type);

/* Opens an all-reduce, in place, of payload->data. LS_NO_MEMORY; LS_BAD_USAGE where the algorithm
 * is the transport's own and it has none. Lifetime as above. Sends nothing. */
ls_status ls_allreduce_open(ls_allreduce **allreduce, ls_transport *transport,
                            const ls_algorithm *algorithm, const ls_payload *payload);
void ls_allreduce_close(ls_allreduce *allreduce); /* NULL is fine */

/* Compares algorithm, element type and count over all ranks, through rank 0. Where they differ:
 * LS_BAD_USAGE on every rank, naming two ranks and what each has. Call it once after opening; a
 * start without it still ends in an error where messages do not fit, but perhaps only on the ranks
 * that notice. The first form starts it, for those who advance themselves; the second waits too.
 * Both may allocate. */
ls_status ls_allreduce_start_check(ls_allreduce *allreduce);
ls_status ls_allreduce_check(ls_allreduce *allreduce, double timeout_seconds);

/* As ls_collective_start, _advance and _wait. */
ls_status ls_allreduce_start(ls_allreduce *allreduce);
ls_status ls_allreduce_advance(ls_allreduce *allreduce, bool *done);
ls_status ls_allreduce_wait(ls_allreduce *allreduce, double timeout_seconds);

#endif
