/* The conformance suite's half on single messages. */
#include <stdlib.h>
#include <string.h>

#include "support/conformance.h"

enum { OPERATIONS = 4, ROOM = 5000, FLOATS = 1000 };

/* What one local rank works with. */
typedef struct test_party {
    ls_operation *send[OPERATIONS];
    ls_operation *receive[OPERATIONS];
    bool sent[OPERATIONS];
    bool received[OPERATIONS];
    bool begun;
    char leaving[OPERATIONS][ROOM];
    char arriving[OPERATIONS][ROOM];
    float addend[FLOATS];
    float sum[FLOATS];
    float scratch[FLOATS];
    ls_status status;
} test_party;

/* One case under way. */
typedef struct test_scene {
    ls__fleet *fleet;
    int64_t expected; /* bytes, of step_wrong_length */
    int channel;
    test_party *party[LS__FLEET_MAX]; /* by rank; NULL for ranks elsewhere */
} test_scene;

static test_party *party_of(test_scene *scene, int rank)
{
    return scene->party[rank];
}

static ls_transport *transport_of(const test_scene *scene, int rank)
{
    return scene->fleet->transport[rank];
}

/* Every rank sends to the next and receives from the one before. */
static int next(const test_scene *scene, int rank)
{
    return (rank + 1) % scene->fleet->ranks;
}

static int before(const test_scene *scene, int rank)
{
    return (rank + scene->fleet->ranks - 1) % scene->fleet->ranks;
}

/* ---- messages ---- */

static const int64_t lengths[OPERATIONS] = {8, 4000, 12, 2500};

static char letter(int rank, int message, int64_t index)
{
    return (char)(rank * 31 + message * 7 + index);
}

static void open_operations(test_scene *scene, int rank)
{
    ls_transport *transport = transport_of(scene, rank);
    test_party *party = party_of(scene, rank);

    for (int i = 0; i < OPERATIONS; i++) {
        assert_ok(transport->table->operation_open(transport, 8192, &party->send[i]));
        assert_ok(transport->table->operation_open(transport, 8192, &party->receive[i]));
        party->sent[i] = false;
        party->received[i] = false;
    }
}

static void close_operations(test_scene *scene)
{
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++) {
        const ls_transport_table *table = transport_of(scene, rank)->table;
        for (int i = 0; i < OPERATIONS; i++) {
            table->operation_close(party_of(scene, rank)->send[i]);
            table->operation_close(party_of(scene, rank)->receive[i]);
        }
    }
}

static ls_status test_operations(test_scene *scene, int rank, int count, bool *done)
{
    const ls_transport_table *table = transport_of(scene, rank)->table;
    test_party *party = party_of(scene, rank);

    *done = true;
    for (int i = 0; i < count; i++) {
        if (!party->received[i])
            LS_TRY(table->test(party->receive[i], &party->received[i]));
        if (!party->sent[i])
            LS_TRY(table->test(party->send[i], &party->sent[i]));
        *done = *done && party->received[i] && party->sent[i];
    }
    return LS_OK;
}

/* Messages 0 to 2 go in order on channel 5; message 3 on channel 6, whose receive is posted
 * first. */
static ls_status step_messages(void *context, int rank, bool *done)
{
    test_scene *scene = context;
    test_party *party = party_of(scene, rank);
    const ls_transport_table *table = transport_of(scene, rank)->table;

    if (!party->begun) {
        party->begun = true;
        open_operations(scene, rank);
        for (int i = 0; i < OPERATIONS; i++)
            for (int64_t k = 0; k < lengths[i]; k++)
                party->leaving[i][k] = letter(rank, i, k);
        for (int i = 0; i < OPERATIONS; i++)
            LS_TRY(table->send(party->send[i], next(scene, rank), i == 3 ? 6 : 5, party->leaving[i],
                               lengths[i]));
        for (int j = 0; j < OPERATIONS; j++) {
            int i = (j + 3) % OPERATIONS;
            LS_TRY(table->receive(party->receive[i], before(scene, rank), i == 3 ? 6 : 5,
                                  party->arriving[i], lengths[i]));
        }
    }
    return test_operations(scene, rank, OPERATIONS, done);
}

static void check_messages(test_scene *scene)
{
    assert_ok(scene->fleet->run(scene->fleet, step_messages, scene));
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
        for (int i = 0; i < OPERATIONS; i++)
            for (int64_t k = 0; k < lengths[i]; k++)
                assert_int_equal(party_of(scene, rank)->arriving[i][k],
                                 letter(before(scene, rank), i, k));
    close_operations(scene);
}

/* ---- combining, and only within test ---- */

static float addend(int rank, int64_t index)
{
    return (float)(index % 17 + rank);
}

static ls_status step_combine(void *context, int rank, bool *done)
{
    test_scene *scene = context;
    test_party *party = party_of(scene, rank);
    const ls_transport_table *table = transport_of(scene, rank)->table;

    if (!party->begun) {
        party->begun = true;
        open_operations(scene, rank);
        for (int64_t i = 0; i < FLOATS; i++) {
            party->addend[i] = addend(rank, i);
            party->sum[i] = 100;
        }
        LS_TRY(table->receive_combine(party->receive[0], before(scene, rank), 5, party->sum, FLOATS,
                                      &ls_sum_f32, party->scratch));
        LS_TRY(table->send(party->send[0], next(scene, rank), 5, party->addend, FLOATS * 4));
    }
    for (int64_t i = 0; i < FLOATS && !party->received[0]; i++)
        assert_true(party->sum[i] == 100);
    return test_operations(scene, rank, 1, done);
}

static void check_combining(test_scene *scene)
{
    assert_ok(scene->fleet->run(scene->fleet, step_combine, scene));
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
        for (int64_t i = 0; i < FLOATS; i++)
            assert_true(party_of(scene, rank)->sum[i] == 100 + addend(before(scene, rank), i));
    close_operations(scene);
}

/* ---- lengths that do not fit ---- */

/* Receives scene->expected bytes where 4000 are sent. What the receiver gets is its status. */
static ls_status step_wrong_length(void *context, int rank, bool *done)
{
    test_scene *scene = context;
    test_party *party = party_of(scene, rank);
    const ls_transport_table *table = transport_of(scene, rank)->table;

    if (!party->begun) {
        party->begun = true;
        open_operations(scene, rank);
        LS_TRY(table->receive(party->receive[0], before(scene, rank), scene->channel,
                              party->arriving[0], scene->expected));
        LS_TRY(table->send(party->send[0], next(scene, rank), scene->channel, party->addend,
                           FLOATS * 4));
    }
    party->status = table->test(party->receive[0], done);
    if (party->status != LS_OK) {
        assert_non_null(strstr(ls_last_error()->text, "expected of it"));
        *done = true;
    }
    return LS_OK;
}

static void check_wrong_lengths(test_scene *scene)
{
    static const int64_t expected[] = {3996, 4004, 2000, 8, 4996};

    for (int i = 0; i < 5; i++) {
        scene->expected = expected[i];
        scene->channel = 10 + i;
        for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
            party_of(scene, rank)->begun = false;
        assert_ok(scene->fleet->run(scene->fleet, step_wrong_length, scene));
        for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
            assert_int_equal(party_of(scene, rank)->status, LS_COMM);
        close_operations(scene);
    }
}

void ls__conformance_of_messages(ls__fleet *fleet)
{
    static void (*const checks[])(test_scene *) = {
        check_messages,
        check_combining,
        check_wrong_lengths,
    };
    test_scene scene = {.fleet = fleet};
    void *own[LS__FLEET_MAX] = {0};

    for (int rank = fleet->first; rank < fleet->end; rank++)
        scene.party[rank] = ls__fleet_take(fleet, rank, sizeof(test_party), &own[rank]);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && fleet->ranks > 1; i++) {
        for (int rank = fleet->first; rank < fleet->end; rank++)
            memset(scene.party[rank], 0, sizeof(test_party));
        checks[i](&scene);
    }
    for (int rank = 0; rank < LS__FLEET_MAX; rank++)
        free(own[rank]);
}
