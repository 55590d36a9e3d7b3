#include "lockstep/transport.h"

#include <stddef.h>

void ls_transport_close(ls_transport *transport)
{
    if (transport)
        transport->table->close(transport);
}
