#include "lockstep/transport.h"

#include <stddef.h>

ls_layout ls_transport_layout(const ls_transport *transport)
{
    return (ls_layout){transport->ranks, transport->per_node};
}

void ls_transport_close(ls_transport *transport)
{
    if (transport)
        transport->table->close(transport);
}
