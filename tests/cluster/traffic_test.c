/* What the ring sends, counted by the hosts' network interfaces: 2(N-1)/N of the data, as our own
 * counter says. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/cluster.h"
#include "support/process.h"
#include "support/test.h"

enum { BYTES = 2 << 20, FEW = 2, MANY = 10, HOSTS_MAX = 8 };
static const double bar = 0.01;

/* What one run has counted. */
typedef struct counted {
    ls__interface interface[HOSTS_MAX];
    double factor; /* from the bench's own counter */
} counted;

static double read_factor(const char *path)
{
    static const char key[] = "\"factor\": ";
    char text[4096];

    assert_ok(ls__file_read_text(path, text, sizeof text));
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtod(at + sizeof key - 1, NULL);
}

static void run_bench(int hosts, int slots, int repeats, counted *c)
{
    const char *bytes = ls__test_path("bytes");
    const char *json = ls__test_path("rows.json");
    char host_count[16];
    char slot_count[16];
    char repeat_count[16];
    const char *words[] = {"scripts/virtual-cluster",
                           "--slots",
                           slot_count,
                           "--bytes",
                           bytes,
                           host_count,
                           "1gbit",
                           "mpirun",
                           ls__lockstep(),
                           "bench",
                           "allreduce",
                           "--algorithm",
                           "ring",
                           "--min-bytes",
                           "2M",
                           "--max-bytes",
                           "2M",
                           "--warmup",
                           "0",
                           "--repeats",
                           repeat_count,
                           "--json",
                           json,
                           NULL};
    ls__process p;

    snprintf(host_count, sizeof host_count, "%d", hosts);
    snprintf(slot_count, sizeof slot_count, "%d", slots);
    snprintf(repeat_count, sizeof repeat_count, "%d", repeats);
    ls__process_run(&(ls__command){.argv = words}, &p);
    assert_exit(p, 0);
    ls__process_free(&p);
    ls__cluster_read_bytes(bytes, c->interface, hosts);
    c->factor = read_factor(json);
}

/* Data in units of one all-reduce's, from the difference of two runs, in which start-up, the
 * reference sum and the end have cancelled out. */
static double factor_of(int64_t bytes, int64_t packets)
{
    return (double)(bytes - LS__PACKET_HEADERS * packets) / ((double)BYTES * (MANY - FEW));
}

static void assert_close(double factor, double expected, int hosts, int host, const char *what)
{
    if (fabs(factor / expected - 1) > bar)
        fail_msg("%d hosts, host%d has %s %.4f times the data instead of %.4f", hosts, host, what,
                 factor, expected);
}

/* Each host's factor is within the bar; shows the mean, and the mean with headers. */
static void compare(int hosts, int slots, double expected)
{
    counted few;
    counted many;
    double sum = 0;
    double with_headers = 0;

    run_bench(hosts, slots, FEW, &few);
    run_bench(hosts, slots, MANY, &many);
    assert_float_equal(few.factor, expected, 1e-6);
    assert_float_equal(many.factor, expected, 1e-6);
    for (int i = 0; i < hosts; i++) {
        const ls__interface *a = &few.interface[i];
        const ls__interface *b = &many.interface[i];
        double sent = factor_of(b->sent_bytes - a->sent_bytes, b->sent_packets - a->sent_packets);
        double received = factor_of(b->received_bytes - a->received_bytes,
                                    b->received_packets - a->received_packets);
        assert_close(sent, expected, hosts, i + 1, "sent");
        assert_close(received, expected, hosts, i + 1, "received");
        sum += sent / hosts;
        with_headers += factor_of(b->sent_bytes - a->sent_bytes, 0) / hosts;
    }
    ls__figure("%d hosts of %d: the interfaces sent %.4f of the data (with headers %.4f), our own "
               "counter says %.4f",
               hosts, slots, sum, with_headers, many.factor);
}

static void test_factor(void **state)
{
    (void)state;
    ls__cluster_require();
    for (int hosts = 2; hosts <= HOSTS_MAX; hosts++)
        compare(hosts, 1, 2.0 * (hosts - 1) / hosts);
}

/* Of two ranks on a host, each sends its all to the next rank, but only one of these is elsewhere:
 * the other's data goes through memory. */
static void test_neighbours_use_no_network(void **state)
{
    (void)state;
    ls__cluster_require();
    compare(2, 2, 2.0 * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factor),
        cmocka_unit_test(test_neighbours_use_no_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
