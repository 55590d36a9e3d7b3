/* Counts above 2^31 through the whole engine, rounds and segments, over a transport that carries
 * nothing: it only notes which bytes it was asked to move, so no memory has to hold them. Every
 * algorithm's two sides must speak of the same bytes, and between them of all. */
#include <stdlib.h>
#include <sys/mman.h>

#include "lockstep/collective.h"
#include "support/test.h"

enum { RANKS_MAX = 6, SIZE = 8 };

/* What one rank was asked to send to another, or the other to receive from it. */
typedef struct messages {
    int64_t count;
    int64_t bytes;
    uint64_t digest; /* of offsets and lengths, in order */
} messages;

typedef struct ledger {
    messages sent[RANKS_MAX][RANKS_MAX];     /* [from][to] */
    messages received[RANKS_MAX][RANKS_MAX]; /* [from][to] */
} ledger;

typedef struct noting_transport {
    ls_transport base;
    const char *data;
    int64_t data_bytes;
    ledger *ledger;
} noting_transport;

/* ---- the transport ---- */

static noting_transport *transport_of(ls_operation *operation)
{
    return (noting_transport *)operation->transport;
}

static ls_status operation_open(ls_transport *transport, int64_t max_bytes,
                                ls_operation **operation)
{
    assert_true(max_bytes > 0);
    *operation = calloc(1, sizeof **operation);
    assert_non_null(*operation);
    (*operation)->transport = transport;
    return LS_OK;
}

static void operation_close(ls_operation *operation)
{
    free(operation);
}

/* FNV-1a, a word at a time. */
static void mix(uint64_t *digest, int64_t word)
{
    *digest = (*digest ^ (uint64_t)word) * UINT64_C(1099511628211);
}

static void note(const noting_transport *transport, messages *to, const void *at, int64_t bytes)
{
    int64_t offset = (const char *)at - transport->data;

    assert_true(bytes > 0 && offset >= 0 && offset <= transport->data_bytes - bytes);
    to->count++;
    to->bytes += bytes;
    mix(&to->digest, offset);
    mix(&to->digest, bytes);
}

static ls_status post_send(ls_operation *operation, int peer, int channel, const void *data,
                           int64_t bytes)
{
    noting_transport *transport = transport_of(operation);

    (void)channel;
    note(transport, &transport->ledger->sent[transport->base.rank][peer], data, bytes);
    return LS_OK;
}

static ls_status post_receive(ls_operation *operation, int peer, int channel, void *data,
                              int64_t bytes)
{
    noting_transport *transport = transport_of(operation);

    (void)channel;
    note(transport, &transport->ledger->received[peer][transport->base.rank], data, bytes);
    return LS_OK;
}

static ls_status post_receive_combine(ls_operation *operation, int peer, int channel, void *into,
                                      int64_t count, const ls_element_type *type, void *scratch)
{
    (void)scratch;
    return post_receive(operation, peer, channel, into, count * type->size);
}

static ls_status test(ls_operation *operation, bool *done)
{
    (void)operation;
    *done = true;
    return LS_OK;
}

static const ls_transport_table table = {
    .name = "noting",
    .operation_open = operation_open,
    .operation_close = operation_close,
    .send = post_send,
    .receive = post_receive,
    .receive_combine = post_receive_combine,
    .test = test,
};

/* ---- one schedule on all ranks ---- */

static void run_rank(noting_transport *transport, const ls_schedule *schedule, char *data,
                     int64_t count)
{
    ls_payload payload = {.data = data, .count = count, .type = &ls_sum_f64};
    ls_collective *collective = NULL;
    bool done = false;

    assert_ok(ls_collective_open(&collective, &transport->base, schedule, &payload));
    assert_ok(ls_collective_start(collective));
    while (!done)
        assert_ok(ls_collective_advance(collective, &done));
    ls_collective_close(collective);
}

static void run_ranks(const ls_schedule *schedule, ls_layout layout, char *data, int64_t count,
                      ledger *notes)
{
    *notes = (ledger){0};
    for (int rank = 0; rank < layout.ranks; rank++) {
        noting_transport transport = {
            .base = {.table = &table,
                     .rank = rank,
                     .ranks = layout.ranks,
                     .per_node = layout.per_node},
            .data = data,
            .data_bytes = count * SIZE,
            .ledger = notes,
        };
        run_rank(&transport, schedule, data, count);
    }
}

static int64_t sent_by(const ledger *notes, int rank)
{
    int64_t bytes = 0;

    for (int to = 0; to < RANKS_MAX; to++)
        bytes += notes->sent[rank][to].bytes;
    return bytes;
}

static int64_t received_by(const ledger *notes, int rank)
{
    int64_t bytes = 0;

    for (int from = 0; from < RANKS_MAX; from++)
        bytes += notes->received[from][rank].bytes;
    return bytes;
}

static void check_schedule(const ls_schedule *schedule, ls_layout layout, int64_t count,
                           const ledger *notes)
{
    for (int a = 0; a < layout.ranks; a++) {
        assert_true(sent_by(notes, a) == ls_schedule_sent_bytes(schedule, layout, a, count, SIZE));
        for (int b = 0; b < layout.ranks; b++)
            assert_memory_equal(&notes->sent[a][b], &notes->received[a][b], sizeof(messages));
    }
}

static void check_algorithm(const ls_algorithm *algorithm, ls_layout layout, char *data,
                            int64_t count)
{
    static ledger notes;

    run_ranks(algorithm->reduce, layout, data, count, &notes);
    check_schedule(algorithm->reduce, layout, count, &notes);
    run_ranks(algorithm->distribute, layout, data, count, &notes);
    check_schedule(algorithm->distribute, layout, count, &notes);
    for (int rank = 0; rank < layout.ranks; rank++) {
        ls_range own = ls_algorithm_owned(algorithm, layout, rank, count);
        assert_true(received_by(&notes, rank) == (count - own.count) * SIZE);
    }
}

static void test_every_algorithm(void **state)
{
    static const int64_t counts[] = {(INT64_C(1) << 31) - 1, (INT64_C(1) << 31) + 1,
                                     3 * (INT64_C(1) << 32) + 5};
    static const ls_layout layouts[] = {{1, 1}, {2, 1}, {3, 1}, {5, 1}, {6, 2}};
    size_t most = (size_t)counts[2] * SIZE;
    char *data = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)state;
    assert_true(data != MAP_FAILED);
    for (int a = 0; a < LS_ALGORITHM_COUNT; a++)
        for (int c = 0; c < 3; c++)
            for (int l = 0; l < 5; l++)
                if (ls_algorithm_at(a)->reduce)
                    check_algorithm(ls_algorithm_at(a), layouts[l], data, counts[c]);
    munmap(data, most);
}

/* A whole message for those that send everything at once, a few segments for those that cut. */
static void test_scratch(void **state)
{
    int64_t count = (INT64_C(1) << 40) + 1;
    ls_layout layout = {4, 1};

    (void)state;
    assert_true(ls_allreduce_scratch(&ls_algorithm_naive, layout, count, &ls_sum_f64) >=
                count * SIZE);
    assert_true(ls_allreduce_scratch(&ls_algorithm_ring, layout, count, &ls_sum_f64) >=
                count / 4 * SIZE);
    assert_true(ls_allreduce_scratch(&ls_algorithm_ring_seg, layout, count, &ls_sum_f64) < 1 << 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm),
        cmocka_unit_test(test_scratch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
