/* Transports: how bytes get from one rank to another.
 *
 * A transport is a table of functions; lockstep/collective.h is its user. There are the MPI one
 * (lockstep/transport_mpi.h), one for ranks that share memory (lockstep/transport_shm.h) and a
 * simulated one (src/comm/transport_sim.h). tests/sim and tests/mpi run one conformance suite on
 * all of them.
 *
 * Rules for all of them:
 * - No function blocks, but for opening and closing a transport.
 * - An operation is a slot: opened once, posted again and again, one message at a time.
 * - Memory handed to a post stays the caller's. It must stay valid, what is sent unchanged and what
 *   is received untouched, until test says done.
 * - Between two ranks, messages on one channel match in the order in which they were posted, on
 *   both sides. Channels are independent of each other.
 * - A message of another length than the receiver expects is LS_COMM at the receiver, never a
 *   partly filled buffer taken for a full one.
 * - Lengths are 64-bit; a transport whose messages are shorter splits them itself.
 * - Used by one thread at a time. */
#ifndef LOCKSTEP_TRANSPORT_H
#define LOCKSTEP_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/schedule.h"
#include "lockstep/status.h"

/* What a collective is made of. `combine` adds: into[i] = into[i] + from[i] for 0 <= i < count; the
 * two do not overlap. `context` is handed to it and is otherwise not looked at. */
typedef struct ls_element_type {
    const char *name; /* at most 8 characters */
    int64_t size;     /* bytes */
    void (*combine)(void *context, void *into, const void *from, int64_t count);
    void *context;
} ls_element_type;

extern const ls_element_type ls_sum_f32; /* float */
extern const ls_element_type ls_sum_f64; /* double */

/* What a transport has carried since it was opened. A message that was split counts once a piece.
 * Sent is counted when posted, received when complete. What the library's own collectives move is
 * not visible. */
typedef struct ls_traffic {
    int64_t sent_bytes;
    int64_t sent_messages;
    int64_t received_bytes;
    int64_t received_messages;
} ls_traffic;

typedef struct ls_transport ls_transport;

/* What every transport's operation begins with. */
typedef struct ls_operation {
    ls_transport *transport;
} ls_operation;

typedef struct ls_transport_table {
    const char *name;

    /* Opens a slot for messages of at most `max_bytes`. LS_NO_MEMORY. Close it before the
     * transport. Nothing else in this table allocates, but to keep messages that come before anyone
     * asks for them. */
    ls_status (*operation_open)(ls_transport *transport, int64_t max_bytes,
                                ls_operation **operation);

    /* Gives a slot back. Where a message is still in flight it is abandoned, and its memory must
     * stay valid until the transport is closed: only a run that failed does that. */
    void (*operation_close)(ls_operation *operation);

    /* Starts to send `bytes` > 0 bytes to `peer`. */
    ls_status (*send)(ls_operation *operation, int peer, int channel, const void *data,
                      int64_t bytes);

    /* Starts to receive exactly `bytes` > 0 bytes from `peer`. */
    ls_status (*receive)(ls_operation *operation, int peer, int channel, void *data, int64_t bytes);

    /* Starts to receive `count` > 0 elements and to combine them into `into`. The combining
     * happens inside the call of `test` that says done, so whoever tests in a fixed order gets
     * sums in a fixed order. `scratch` has room for the message; a transport that can combine
     * straight from the peer's memory leaves it alone. */
    ls_status (*receive_combine)(ls_operation *operation, int peer, int channel, void *into,
                                 int64_t count, const ls_element_type *type, void *scratch);

    /* Moves what is in flight forward and says whether this operation is done. A message arrives
     * when both its sides are tested; it needs no other. A failure is final for the operation. */
    ls_status (*test)(ls_operation *operation, bool *done);

    /* The library's own all-reduce, in place; NULL where there is none. Collective: all ranks post
     * theirs in the same order. LS_BAD_USAGE for a type that the library cannot sum. */
    ls_status (*all_reduce)(ls_operation *operation, void *data, int64_t count,
                            const ls_element_type *type);

    /* The library's own way to bring every block to its owner and back, for `count` elements of
     * `size` bytes cut by ls_block into one block a rank; NULL where there is none. Collective, as
     * all_reduce is. Exchange: received (ranks, own block) = what each rank has in this rank's
     * block, in rank order; `data` is left as it was. Gather: each rank's own block of `data` is
     * copied to all, in place. LS_BAD_USAGE above INT_MAX elements. */
    ls_status (*exchange_blocks)(ls_operation *operation, const void *data, void *received,
                                 int64_t count, int64_t size);
    ls_status (*gather_blocks)(ls_operation *operation, void *data, int64_t count, int64_t size);

    /* ls_transport_memory; NULL: any memory will do. */
    ls_status (*memory)(ls_transport *transport, int64_t bytes, void **memory);

    void (*close)(ls_transport *transport);
} ls_transport_table;

/* What every transport begins with. Read only, but for the transport itself. */
struct ls_transport {
    const ls_transport_table *table;
    int rank;
    int ranks;
    int per_node; /* ranks on each node, as ls_layout has it */
    int spins;    /* looks at what is in flight that pay before the processor is given away */
    ls_traffic traffic;
    struct ls_transport_piece *pieces; /* of ls_transport_memory, where no table does it */
};

ls_layout ls_transport_layout(const ls_transport *transport);

/* Memory for payloads which ranks on one node can read straight from each other, where the
 * transport has such; messages to and from other memory work as well. Zeroed, aligned to 64 bytes,
 * resident; given back when the transport is closed. Collective over the transport, blocks: all
 * ranks ask for the same number of bytes >= 0 in the same order. LS_NO_MEMORY, LS_COMM. */
ls_status ls_transport_memory(ls_transport *transport, int64_t bytes, void **memory);

/* NULL is fine. All operations must be closed. Collective where the transport's opening is. */
void ls_transport_close(ls_transport *transport);

#endif
