/* The boxes of letters between ranks on one node: letters that are taken out of order, boxes that
 * are full, and long random exchanges on several channels. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "comm/engine.h"
#include "lockstep/collective.h"
#include "lockstep/transport_shm.h"
#include "support/mpi_main.h"

enum { LETTERS = 16, CHANNELS = 4, LONGEST = 4000, MESSAGES = 3000, AHEAD = 12 };

static const double timeout = 20;

static ls_transport *transport;

static int open_transport(void **state)
{
    (void)state;
    return ls_transport_open_shm(&transport, MPI_COMM_WORLD) != LS_OK;
}

static int close_transport(void **state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
    ls_transport_close(transport);
    return 0;
}

static void wait_for(ls_operation *operation)
{
    double deadline = ls__clock_seconds() + timeout;
    bool done = false;

    for (;;) {
        assert_ok(transport->table->test(operation, &done));
        if (done)
            return;
        if (ls__yield_until(deadline))
            fail_msg("rank %d waited in vain", transport->rank);
    }
}

/* ---- out of order ---- */

static void give(int to, int channel, char text)
{
    ls_operation *send = NULL;

    assert_ok(transport->table->operation_open(transport, 1, &send));
    assert_ok(transport->table->send(send, to, channel, &text, 1));
    wait_for(send);
    transport->table->operation_close(send);
}

static void get(int from, int channel, char text)
{
    ls_operation *receive = NULL;
    char found = 0;

    assert_ok(transport->table->operation_open(transport, 1, &receive));
    assert_ok(transport->table->receive(receive, from, channel, &found, 1));
    wait_for(receive);
    transport->table->operation_close(receive);
    assert_int_equal(found, text);
}

/* The second letter is taken before the first; then the sender uses both again, before the receiver
 * looks. */
static void test_a_letter_taken_early_is_used_again(void **state)
{
    (void)state;
    if (transport->rank == 0) {
        give(1, 0, 'a');
        give(1, 1, 'b');
    }
    if (transport->rank == 1) {
        get(0, 1, 'b');
        get(0, 0, 'a');
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; transport->rank == 0 && i < LETTERS; i++)
        give(1, 0, (char)i);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; transport->rank == 1 && i < LETTERS; i++)
        get(0, 0, (char)i);
}

/* A send that nobody has asked about since its letter came back, and went out again. */
static void test_a_letter_comes_back_twice(void **state)
{
    ls_operation *operation = NULL;
    void *memory = NULL;

    (void)state;
    assert_ok(ls_transport_memory(transport, LONGEST, &memory));
    assert_ok(transport->table->operation_open(transport, LONGEST, &operation));
    if (transport->rank == 0)
        assert_ok(transport->table->send(operation, 1, 0, memory, LONGEST));
    if (transport->rank == 1) {
        assert_ok(transport->table->receive(operation, 0, 0, memory, LONGEST));
        wait_for(operation);
    }
    for (int i = 0; transport->rank == 0 && i < LETTERS; i++)
        give(1, 0, (char)i);
    for (int i = 0; transport->rank == 1 && i < LETTERS; i++)
        get(0, 0, (char)i);
    MPI_Barrier(MPI_COMM_WORLD);
    wait_for(operation);
    transport->table->operation_close(operation);
}

/* Who waits for an answer alone still sends what there was no letter for: else no answer comes. */
static void test_a_send_that_waits_for_a_letter_is_not_forgotten(void **state)
{
    static const char text[LETTERS + 1];
    ls_operation *send[LETTERS + 1] = {NULL};

    (void)state;
    for (int i = 0; transport->rank == 0 && i <= LETTERS; i++) {
        assert_ok(transport->table->operation_open(transport, 1, &send[i]));
        assert_ok(transport->table->send(send[i], 1, 0, &text[i], 1));
    }
    for (int i = 0; transport->rank == 1 && i <= LETTERS; i++)
        get(0, 0, 0);
    if (transport->rank == 1)
        give(0, 1, 'a');
    if (transport->rank == 0)
        get(1, 1, 'a');
    for (int i = 0; transport->rank == 0 && i <= LETTERS; i++) {
        wait_for(send[i]);
        transport->table->operation_close(send[i]);
    }
}

/* ---- random exchanges ---- */

/* What one rank sends to the next: the same for both, from the seed. */
typedef struct message {
    int channel;
    int64_t bytes;
    bool shared; /* stands in memory of the transport */
} message;

static uint64_t seed;

static message message_at(int sender, int64_t index)
{
    ls__random4 words = ls__random(seed, 0, (uint32_t)sender, (uint64_t)index);

    return (message){
        .channel = (int)(words.word[0] % CHANNELS),
        .bytes = 1 + (int64_t)(words.word[1] % (words.word[2] % 2 ? 100 : LONGEST)),
        .shared = words.word[3] % 3 > 0,
    };
}

static char content(int sender, int64_t index, int64_t at)
{
    return (char)(sender * 17 + index * 7 + at);
}

/* One direction of an exchange. */
typedef struct flow {
    int sender;
    int peer;
    bool receives;
    ls_operation *operation[AHEAD]; /* message i uses the i-th, modulo AHEAD */
    bool posted[AHEAD];
    bool done[AHEAD];
    char *shared;  /* (AHEAD, LONGEST) */
    char *private; /* (AHEAD, LONGEST) */
    int64_t first; /* all messages before are done */
    uint64_t draws;
} flow;

static void open_flow(flow *f, int sender, int peer, bool receives)
{
    void *memory = NULL;

    *f = (flow){.sender = sender, .peer = peer, .receives = receives};
    assert_ok(ls_transport_memory(transport, AHEAD * LONGEST, &memory));
    f->shared = memory;
    f->private = calloc(AHEAD, LONGEST);
    assert_non_null(f->private);
    for (int i = 0; i < AHEAD; i++)
        assert_ok(transport->table->operation_open(transport, LONGEST, &f->operation[i]));
}

static void close_flow(flow *f)
{
    for (int i = 0; i < AHEAD; i++)
        transport->table->operation_close(f->operation[i]);
    free(f->private);
}

static uint32_t draw(flow *f)
{
    return ls__random(seed, 1, (uint32_t)(f->sender * 2 + f->receives), f->draws++).word[0];
}

static char *room_of(const flow *f, int64_t index)
{
    return (message_at(f->sender, index).shared ? f->shared : f->private) + index % AHEAD * LONGEST;
}

static void post(flow *f, int64_t index)
{
    message m = message_at(f->sender, index);
    ls_operation *operation = f->operation[index % AHEAD];
    char *room = room_of(f, index);

    for (int64_t i = 0; i < m.bytes; i++)
        room[i] = f->receives ? 0 : content(f->sender, index, i);
    if (f->receives)
        assert_ok(transport->table->receive(operation, f->peer, m.channel, room, m.bytes));
    else
        assert_ok(transport->table->send(operation, f->peer, m.channel, room, m.bytes));
    f->posted[index % AHEAD] = true;
}

/* Posts the next message of a channel, where one is near enough. */
static void post_on(flow *f, int channel)
{
    for (int64_t i = f->first; i < f->first + AHEAD && i < MESSAGES; i++)
        if (!f->posted[i % AHEAD] && message_at(f->sender, i).channel == channel) {
            post(f, i);
            return;
        }
}

static void look_at(flow *f, int64_t index)
{
    int64_t slot = index % AHEAD;
    message m = message_at(f->sender, index);

    if (!f->posted[slot] || f->done[slot])
        return;
    assert_ok(transport->table->test(f->operation[slot], &f->done[slot]));
    for (int64_t i = 0; f->done[slot] && f->receives && i < m.bytes; i++)
        assert_int_equal(room_of(f, index)[i], content(f->sender, index, i));
}

static void move_on(flow *f)
{
    for (; f->first < MESSAGES && f->done[f->first % AHEAD]; f->first++) {
        f->done[f->first % AHEAD] = false;
        f->posted[f->first % AHEAD] = false;
    }
}

/* Does a few things in a random order. */
static bool step_flow(flow *f)
{
    for (uint32_t turns = draw(f) % 8; turns > 0; turns--) {
        post_on(f, (int)(draw(f) % CHANNELS));
        look_at(f, f->first + draw(f) % AHEAD);
        look_at(f, f->first);
    }
    move_on(f);
    return f->first == MESSAGES;
}

static void test_random_exchanges(void **state)
{
    int ranks = transport->ranks;
    int rank = transport->rank;
    double deadline = ls__clock_seconds() + timeout;
    int from = (rank + ranks - 1) % ranks;
    bool sent = false;
    bool received = false;
    flow out;
    flow in;

    (void)state;
    seed = ls__test_seed(7);
    open_flow(&out, rank, (rank + 1) % ranks, false);
    open_flow(&in, from, from, true);
    while (!sent || !received) {
        sent = step_flow(&out);
        received = step_flow(&in);
        if (ls__yield_until(deadline))
            fail_msg("rank %d sent %lld and received %lld messages", rank, (long long)out.first,
                     (long long)in.first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    close_flow(&out);
    close_flow(&in);
}

/* ---- collectives ---- */

enum { SUMS = 4, COUNT = 600000 };

/* As buckets of a gradient: more segments in flight than there are letters. */
static void open_sum(ls_allreduce **sum, void **scratch, float **data, int channel)
{
    int64_t bytes = ls_allreduce_scratch(&ls_algorithm_ring_seg, ls_transport_layout(transport),
                                         COUNT, &ls_sum_f32);
    void *memory = NULL;

    assert_ok(ls_transport_memory(transport, COUNT * (int64_t)sizeof(float), &memory));
    *scratch = malloc((size_t)bytes + 1);
    assert_non_null(*scratch);
    *data = memory;
    ls_payload payload = {.data = memory,
                          .count = COUNT,
                          .type = &ls_sum_f32,
                          .scratch = *scratch,
                          .channel = channel};
    assert_ok(ls_allreduce_open(sum, transport, &ls_algorithm_ring_seg, &payload));
}

static void advance_all(ls_allreduce *const *sum)
{
    double deadline = ls__clock_seconds() + timeout;
    bool all = false;

    while (!all) {
        all = true;
        for (int i = 0; i < SUMS; i++) {
            bool done = false;
            assert_ok(ls_allreduce_advance(sum[i], &done));
            all = all && done;
        }
        if (ls__yield_until(deadline))
            fail_msg("rank %d waited in vain", transport->rank);
    }
}

static void test_sums_in_segments_at_the_same_time(void **state)
{
    ls_allreduce *sum[SUMS];
    void *scratch[SUMS];
    float *data[SUMS];

    (void)state;
    for (int i = 0; i < SUMS; i++)
        open_sum(&sum[i], &scratch[i], &data[i], i);
    for (int turn = 0; turn < 10; turn++) {
        for (int i = 0; i < SUMS; i++) {
            for (int64_t at = 0; at < COUNT; at++)
                data[i][at] = (float)(transport->rank + i);
            assert_ok(ls_allreduce_start(sum[i]));
        }
        advance_all(sum);
        for (int i = 0; i < SUMS; i++)
            for (int64_t at = 0; at < COUNT; at++)
                assert_true(data[i][at] == (float)(transport->ranks * (transport->ranks - 1) / 2 +
                                                   transport->ranks * i));
    }
    for (int i = 0; i < SUMS; i++) {
        ls_allreduce_close(sum[i]);
        free(scratch[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_a_letter_taken_early_is_used_again, open_transport,
                                    close_transport),
    cmocka_unit_test_setup_teardown(test_a_letter_comes_back_twice, open_transport,
                                    close_transport),
    cmocka_unit_test_setup_teardown(test_a_send_that_waits_for_a_letter_is_not_forgotten,
                                    open_transport, close_transport),
    cmocka_unit_test_setup_teardown(test_random_exchanges, open_transport, close_transport),
    cmocka_unit_test_setup_teardown(test_sums_in_segments_at_the_same_time, open_transport,
                                    close_transport),
};

LS__MPI_MAIN(cmocka_run_group_tests(tests, NULL, NULL))
