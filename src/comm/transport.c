#include "lockstep/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* Memory of a transport that shares none: each piece stands behind a link to the one before. */
typedef struct ls_transport_piece {
    struct ls_transport_piece *before;
} piece;

static_assert(sizeof(piece) <= ALIGNMENT, "a piece begins aligned behind its link");

ls_layout ls_transport_layout(const ls_transport *transport)
{
    return (ls_layout){transport->ranks, transport->per_node};
}

static ls_status take_private(ls_transport *transport, int64_t bytes, void **memory)
{
    int64_t padded = 0;

    LS_FAIL_IF(__builtin_add_overflow(bytes, 2 * ALIGNMENT - 1, &padded), LS_NO_MEMORY,
               "a payload of %lld bytes: no machine has as much", (long long)bytes);
    padded -= padded % ALIGNMENT;
    piece *taken = aligned_alloc(ALIGNMENT, (size_t)padded);
    LS_FAIL_IF(!taken, LS_NO_MEMORY, "the system refused %lld bytes for a payload",
               (long long)bytes);
    memset(taken, 0, (size_t)padded);
    taken->before = transport->pieces;
    transport->pieces = taken;
    *memory = (char *)taken + ALIGNMENT;
    return LS_OK;
}

ls_status ls_transport_memory(ls_transport *transport, int64_t bytes, void **memory)
{
    if (transport->table->memory)
        return transport->table->memory(transport, bytes, memory);
    return take_private(transport, bytes, memory);
}

void ls_transport_close(ls_transport *transport)
{
    if (!transport)
        return;
    for (piece *held = transport->pieces; held;) {
        piece *before = held->before;
        free(held);
        held = before;
    }
    transport->table->close(transport);
}
