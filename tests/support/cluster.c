#include "support/cluster.h"

#include <inttypes.h>
#include <string.h>

#include "support/process.h"
#include "support/test.h"

enum { NOT_PERMITTED = 77 };

void ls__cluster_require(void)
{
    static const char *const words[] = {"scripts/virtual-cluster", "1", "1gbit", "true", NULL};
    ls__process p;

    ls__process_run(&(ls__command){.argv = words}, &p);
    bool permitted = p.exit_code != NOT_PERMITTED;
    if (permitted)
        assert_exit(p, 0);
    else
        printf("skipped: %s", p.err);
    ls__process_free(&p);
    if (!permitted)
        skip();
}

void ls__cluster_read_bytes(const char *path, ls__interface *interface, int hosts)
{
    char line[256];
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file)); /* the columns' names */
    for (int i = 0; i < hosts; i++) {
        ls__interface *to = &interface[i];
        int host = 0;
        assert_non_null(fgets(line, sizeof line, file));
        assert_int_equal(sscanf(line, "host%d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &host,
                                &to->received_bytes, &to->received_packets, &to->sent_bytes,
                                &to->sent_packets),
                         5);
        assert_int_equal(host, i + 1);
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}
