/* The conformance suite on the MPI transport, with messages whole and split. */
#include "base/clock.h"
#include "comm/engine.h"
#include "lockstep/transport_mpi.h"
#include "lockstep/transport_shm.h"
#include "support/conformance.h"
#include "support/mpi_main.h"

/* How many nodes the ranks seem to stand on. */
static int nodes = 1;

/* Whether they stand there as ls_layout wants them, else in turns: rank r on node r modulo nodes.
 */
static bool in_order;

/* Takes the place of MPI's, which sees one node here. */
int MPI_Comm_split_type(MPI_Comm communicator, int type, int key, MPI_Info info, MPI_Comm *node)
{
    int rank = 0;
    int ranks = 0;

    (void)type;
    (void)info;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    return MPI_Comm_split(communicator, in_order ? rank * nodes / ranks : rank % nodes, key, node);
}

static ls_status run(ls__fleet *fleet, ls__fleet_step *step, void *context)
{
    double deadline = ls__clock_seconds() + 30;
    bool done = false;

    for (;;) {
        LS_TRY(step(context, fleet->first, &done));
        if (done)
            return LS_OK;
        LS_FAIL_IF(ls__yield_until(deadline), LS_TIMEOUT, "rank %d is not done after 30 s",
                   fleet->first);
    }
}

static void conform(ls_transport *transport, ls__fleet_memory memory)
{
    ls__fleet fleet = {
        .memory = memory,
        .ranks = transport->ranks,
        .first = transport->rank,
        .end = transport->rank + 1,
        .run = run,
    };
    fleet.transport[transport->rank] = transport;
    ls__conformance(&fleet);
    ls_transport_close(transport);
}

static void conform_mpi(int64_t longest_message)
{
    ls_mpi_options options = {.longest_message = longest_message};
    ls_transport *transport = NULL;

    assert_ok(ls_transport_open_mpi(&transport, MPI_COMM_WORLD, &options));
    conform(transport, LS__MEMORY_OF_CALLER);
}

static void test_whole_messages(void **state)
{
    (void)state;
    conform_mpi(0);
}

static void test_messages_split_at_1000_bytes(void **state)
{
    (void)state;
    conform_mpi(1000);
}

static void conform_shm(ls__fleet_memory memory)
{
    ls_transport *transport = NULL;

    assert_ok(ls_transport_open_shm(&transport, MPI_COMM_WORLD));
    assert_int_equal(transport->per_node, transport->ranks);
    conform(transport, memory);
}

static void test_shared_memory(void **state)
{
    (void)state;
    conform_shm(LS__MEMORY_OF_TRANSPORT);
}

/* Messages from elsewhere go over MPI, in order with those that do not. */
static void test_memory_that_is_not_shared(void **state)
{
    (void)state;
    conform_shm(LS__MEMORY_OF_CALLER);
}

/* On several nodes: per_node is what the layout allows. */
static void conform_nodes(int count, bool ordered)
{
    ls_transport *transport = NULL;

    nodes = count;
    in_order = ordered;
    assert_ok(ls_transport_open_shm(&transport, MPI_COMM_WORLD));
    assert_int_equal(transport->per_node,
                     ordered && transport->ranks % count == 0 ? transport->ranks / count : 1);
    conform(transport, LS__MEMORY_OF_TRANSPORT);
    nodes = 1;
}

static void test_two_nodes(void **state)
{
    (void)state;
    conform_nodes(2, true);
}

/* As `mpirun --map-by node` places ranks. */
static void test_two_nodes_in_turns(void **state)
{
    (void)state;
    conform_nodes(2, false);
}

static void test_unusable_options(void **state)
{
    ls_mpi_options options = {.longest_message = 7};
    ls_transport *transport = NULL;

    (void)state;
    assert_fails(ls_transport_open_mpi(&transport, MPI_COMM_WORLD, &options), LS_BAD_USAGE,
                 "not 7");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_whole_messages),   cmocka_unit_test(test_messages_split_at_1000_bytes),
    cmocka_unit_test(test_shared_memory),    cmocka_unit_test(test_memory_that_is_not_shared),
    cmocka_unit_test(test_two_nodes),        cmocka_unit_test(test_two_nodes_in_turns),
    cmocka_unit_test(test_unusable_options),
};

LS__MPI_MAIN(cmocka_run_group_tests(tests, NULL, NULL))
