/* Virtual clusters (scripts/virtual-cluster), for tests that need several hosts. */
#ifndef LS_TESTS_SUPPORT_CLUSTER_H
#define LS_TESTS_SUPPORT_CLUSTER_H

#include <stdint.h>

/* Skips the test, with a reason for the test runner, where no virtual cluster can be made here. */
void ls__cluster_require(void);

/* What a host's interface has received and sent: of that, headers are 66 bytes a packet (Ethernet
 * 14, IP 20, TCP 32 with time stamps), and the rest is data. */
typedef struct ls__interface {
    int64_t received_bytes;
    int64_t received_packets;
    int64_t sent_bytes;
    int64_t sent_packets;
} ls__interface;

enum { LS__PACKET_HEADERS = 66 };

/* Reads what `--bytes FILE` has written of so many hosts. */
void ls__cluster_read_bytes(const char *path, ls__interface *interface, int hosts);

#endif
