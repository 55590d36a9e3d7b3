#include "support/conformance.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lockstep/collective.h"

enum { COUNT_MAX = 10007, SCRATCH_BYTES = COUNT_MAX * 8 + 16 * 64 };

/* What one local rank works with. */
typedef struct test_party {
    bool begun;
    double wide[COUNT_MAX];
    float data[COUNT_MAX];
    float other[COUNT_MAX];
    _Alignas(64) char scratch[SCRATCH_BYTES];
    _Alignas(64) char other_scratch[SCRATCH_BYTES];
    ls_allreduce *sum;
    ls_allreduce *other_sum;
    ls_collective *phase;
    ls_status status;
    char text[LS_ERROR_TEXT];
} test_party;

/* One case under way. */
typedef struct test_scene {
    ls__fleet *fleet;
    test_party *party[LS__FLEET_MAX]; /* by rank; NULL for ranks elsewhere */
    const ls_algorithm *algorithm;
    int64_t count;
    int step;
} test_scene;

static test_party *party_of(test_scene *scene, int rank)
{
    return scene->party[rank];
}

static ls_transport *transport_of(const test_scene *scene, int rank)
{
    return scene->fleet->transport[rank];
}

/* Small whole numbers: their float sum is exact in any order. */
static float addend(int rank, int64_t index, int step)
{
    return (float)((index * 5 + rank * 3 + step) % 17 - 8);
}

static float exact_sum(int ranks, int64_t index, int step)
{
    float sum = 0;

    for (int rank = 0; rank < ranks; rank++)
        sum += addend(rank, index, step);
    return sum;
}

static ls_layout layout_of(const test_scene *scene)
{
    return ls_transport_layout(transport_of(scene, scene->fleet->first));
}

/* ---- all-reduces ---- */

static ls_payload payload_of(test_scene *scene, int rank)
{
    return (ls_payload){
        .data = party_of(scene, rank)->data,
        .count = scene->count,
        .type = &ls_sum_f32,
        .scratch = party_of(scene, rank)->scratch,
        .channel = 1,
    };
}

static void open_sums(test_scene *scene)
{
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++) {
        test_party *party = party_of(scene, rank);
        ls_payload payload = payload_of(scene, rank);
        assert_true(ls_allreduce_scratch(scene->algorithm, layout_of(scene), payload.count,
                                         payload.type) <= SCRATCH_BYTES);
        assert_ok(
            ls_allreduce_open(&party->sum, transport_of(scene, rank), scene->algorithm, &payload));
        payload.data = party->other;
        payload.scratch = party->other_scratch;
        payload.channel = 2;
        assert_ok(ls_allreduce_open(&party->other_sum, transport_of(scene, rank), scene->algorithm,
                                    &payload));
    }
}

static void close_sums(test_scene *scene)
{
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++) {
        ls_allreduce_close(party_of(scene, rank)->sum);
        ls_allreduce_close(party_of(scene, rank)->other_sum);
    }
}

static ls_status step_check(void *context, int rank, bool *done)
{
    test_party *party = party_of(context, rank);

    if (!party->begun) {
        party->begun = true;
        LS_TRY(ls_allreduce_start_check(party->sum));
    }
    return ls_allreduce_advance(party->sum, done);
}

/* Two at once, on two channels, the second over other addends. */
static ls_status step_sums(void *context, int rank, bool *done)
{
    test_scene *scene = context;
    test_party *party = party_of(scene, rank);
    bool other_done = false;

    if (!party->begun) {
        party->begun = true;
        for (int64_t i = 0; i < scene->count; i++) {
            party->data[i] = addend(rank, i, scene->step);
            party->other[i] = addend(rank, i, scene->step + 5);
        }
        LS_TRY(ls_allreduce_start(party->sum));
        LS_TRY(ls_allreduce_start(party->other_sum));
    }
    LS_TRY(ls_allreduce_advance(party->other_sum, &other_done));
    LS_TRY(ls_allreduce_advance(party->sum, done));
    *done = *done && other_done;
    return LS_OK;
}

static void begin(test_scene *scene)
{
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
        party_of(scene, rank)->begun = false;
}

static void check_sums(test_scene *scene)
{
    ls__fleet *fleet = scene->fleet;

    open_sums(scene);
    begin(scene);
    assert_ok(fleet->run(fleet, step_check, scene));
    for (scene->step = 0; scene->step < 3; scene->step++) {
        begin(scene);
        assert_ok(fleet->run(fleet, step_sums, scene));
        for (int rank = fleet->first; rank < fleet->end; rank++)
            for (int64_t i = 0; i < scene->count; i++) {
                assert_true(party_of(scene, rank)->data[i] ==
                            exact_sum(fleet->ranks, i, scene->step));
                assert_true(party_of(scene, rank)->other[i] ==
                            exact_sum(fleet->ranks, i, scene->step + 5));
            }
    }
    close_sums(scene);
}

static bool can_run(const test_scene *scene, const ls_algorithm *algorithm)
{
    return algorithm->reduce || transport_of(scene, scene->fleet->first)->table->all_reduce;
}

static void check_all_reduces(test_scene *scene)
{
    int64_t ranks = scene->fleet->ranks;
    const int64_t counts[] = {0, 1, ranks - 1, ranks, ranks + 1, 1000, COUNT_MAX};

    for (int a = 0; a < LS_ALGORITHM_COUNT; a++) {
        scene->algorithm = ls_algorithm_at(a);
        if (!can_run(scene, scene->algorithm))
            continue;
        for (int i = 0; i < 7; i++) {
            scene->count = counts[i];
            check_sums(scene);
        }
    }
}

/* ---- the same bits whatever the timing ---- */

static float rough(int rank, int64_t index)
{
    return (float)ls__normal(7, LS__STREAM_INIT, (uint64_t)(rank * COUNT_MAX + index));
}

/* As src/comm/ring.c draws it: a block's sum begins one rank after its owner. */
static float ring_sum(int ranks, int owner, int64_t index)
{
    float sum = rough((owner + 1) % ranks, index);

    for (int i = 2; i <= ranks; i++)
        sum = rough((owner + i) % ranks, index) + sum;
    return sum;
}

static ls_status step_rough(void *context, int rank, bool *done)
{
    test_scene *scene = context;
    test_party *party = party_of(scene, rank);

    if (!party->begun) {
        party->begun = true;
        for (int64_t i = 0; i < scene->count; i++)
            party->data[i] = rough(rank, i);
        LS_TRY(ls_allreduce_start(party->sum));
    }
    return ls_allreduce_advance(party->sum, done);
}

static void check_order_of_sums(test_scene *scene)
{
    int ranks = scene->fleet->ranks;

    scene->algorithm = &ls_algorithm_ring;
    scene->count = 1009;
    open_sums(scene);
    begin(scene);
    assert_ok(scene->fleet->run(scene->fleet, step_rough, scene));
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
        for (int owner = 0; owner < ranks; owner++) {
            ls_range block = ls_block(scene->count, ranks, owner);
            for (int64_t i = block.offset; i < block.offset + block.count; i++)
                assert_true(party_of(scene, rank)->data[i] == ring_sum(ranks, owner, i));
        }
    close_sums(scene);
}

/* ---- the two phases apart: lanes of 8 bytes, then floats of 4 ---- */

static ls_status step_phase(void *context, int rank, bool *done)
{
    test_party *party = party_of(context, rank);

    if (!party->begun) {
        party->begun = true;
        LS_TRY(ls_collective_start(party->phase));
    }
    return ls_collective_advance(party->phase, done);
}

static void run_phase(test_scene *scene, const ls_schedule *schedule, bool wide)
{
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++) {
        test_party *party = party_of(scene, rank);
        ls_payload payload = payload_of(scene, rank);
        if (wide) {
            payload.data = party->wide;
            payload.type = &ls_sum_f64;
        }
        assert_ok(ls_collective_open(&party->phase, transport_of(scene, rank), schedule, &payload));
    }
    begin(scene);
    assert_ok(scene->fleet->run(scene->fleet, step_phase, scene));
    for (int rank = scene->fleet->first; rank < scene->fleet->end; rank++)
        ls_collective_close(party_of(scene, rank)->phase);
}

/* What is not a rank's own is spoilt between the phases, so that it must come from its owner. */
static void round_owned(test_scene *scene, int rank)
{
    test_party *party = party_of(scene, rank);
    ls_range own = ls_algorithm_owned(scene->algorithm, layout_of(scene), rank, scene->count);

    for (int64_t i = 0; i < scene->count; i++)
        party->data[i] = -1;
    for (int64_t i = own.offset; i < own.offset + own.count; i++)
        party->data[i] = (float)party->wide[i];
}

static void check_phases_apart(test_scene *scene)
{
    ls__fleet *fleet = scene->fleet;

    scene->count = 1009;
    for (int a = 0; a < LS_ALGORITHM_COUNT; a++) {
        const ls_algorithm *algorithm = ls_algorithm_at(a);
        if (!algorithm->reduce)
            continue;
        scene->algorithm = algorithm;
        for (int rank = fleet->first; rank < fleet->end; rank++)
            for (int64_t i = 0; i < scene->count; i++)
                party_of(scene, rank)->wide[i] = (double)addend(rank, i, 0);
        run_phase(scene, algorithm->reduce, true);
        for (int rank = fleet->first; rank < fleet->end; rank++)
            round_owned(scene, rank);
        run_phase(scene, algorithm->distribute, false);
        for (int rank = fleet->first; rank < fleet->end; rank++)
            for (int64_t i = 0; i < scene->count; i++)
                assert_true(party_of(scene, rank)->data[i] == exact_sum(fleet->ranks, i, 0));
    }
}

/* ---- counters ---- */

static int64_t messages_of(const ls_schedule *schedule, ls_layout layout, int rank, int64_t count)
{
    int64_t messages = 0;

    for (int64_t i = 0; i < schedule->rounds(layout); i++) {
        ls_span span = schedule->round(layout, rank, i).send;
        messages += ls_span_range(count, schedule->blocks(layout), span).count > 0;
    }
    return messages;
}

/* Short data may be gathered whole by every rank. */
static int64_t expected_bytes(const test_scene *scene, int rank, int64_t count)
{
    const ls_algorithm *algorithm = scene->algorithm;
    ls_layout layout = layout_of(scene);

    if (layout.per_node == layout.ranks && count * 4 <= algorithm->whole)
        return (layout.ranks - 1) * count * 4;
    return ls_schedule_sent_bytes(algorithm->reduce, layout, rank, count, 4) +
           ls_schedule_sent_bytes(algorithm->distribute, layout, rank, count, 4);
}

static void check_counters_of(test_scene *scene)
{
    ls__fleet *fleet = scene->fleet;
    const ls_algorithm *algorithm = scene->algorithm;
    ls_traffic before[LS__FLEET_MAX];

    open_sums(scene);
    for (int rank = fleet->first; rank < fleet->end; rank++)
        before[rank] = fleet->transport[rank]->traffic;
    begin(scene);
    assert_ok(fleet->run(fleet, step_rough, scene));
    for (int rank = fleet->first; rank < fleet->end; rank++) {
        ls_traffic after = fleet->transport[rank]->traffic;
        int64_t sent = after.sent_bytes - before[rank].sent_bytes;
        int64_t count = scene->count;
        assert_true(sent == expected_bytes(scene, rank, count));
        assert_true(after.received_bytes - before[rank].received_bytes == sent ||
                    count % fleet->ranks != 0);
        /* Empty blocks send nothing; long ones may be split. */
        assert_true(after.sent_messages - before[rank].sent_messages >=
                    messages_of(algorithm->reduce, layout_of(scene), rank, count) +
                        messages_of(algorithm->distribute, layout_of(scene), rank, count));
        assert_true(count > 0 || after.sent_messages == before[rank].sent_messages);
    }
    close_sums(scene);
}

static void check_counters(test_scene *scene)
{
    int64_t ranks = scene->fleet->ranks;
    const int64_t counts[] = {0, 1, ranks * 1000, 1009};

    scene->algorithm = &ls_algorithm_ring;
    for (int i = 0; i < 4; i++) {
        scene->count = counts[i];
        check_counters_of(scene);
    }
}

/* ---- ranks that do not mean the same ---- */

static ls_status step_disagree(void *context, int rank, bool *done)
{
    test_party *party = party_of(context, rank);

    party->status = step_check(context, rank, done);
    if (party->status != LS_OK) {
        snprintf(party->text, sizeof party->text, "%s", ls_last_error()->text);
        *done = true;
    }
    return LS_OK;
}

typedef enum difference { OTHER_COUNT, OTHER_TYPE, OTHER_ALGORITHM } difference;

/* The last rank differs from the others in one thing; all are told so. */
static void check_disagreement(test_scene *scene, difference odd, const ls_algorithm *other,
                               const char *says)
{
    ls__fleet *fleet = scene->fleet;

    for (int rank = fleet->first; rank < fleet->end; rank++) {
        bool odd_one = rank == fleet->ranks - 1;
        ls_payload payload = payload_of(scene, rank);
        const ls_algorithm *algorithm = scene->algorithm;
        if (odd_one && odd == OTHER_COUNT)
            payload.count++;
        if (odd_one && odd == OTHER_TYPE)
            payload.type = &ls_sum_f64;
        if (odd_one && odd == OTHER_ALGORITHM)
            algorithm = other;
        assert_ok(ls_allreduce_open(&party_of(scene, rank)->sum, fleet->transport[rank], algorithm,
                                    &payload));
    }
    begin(scene);
    assert_ok(fleet->run(fleet, step_disagree, scene));
    for (int rank = fleet->first; rank < fleet->end; rank++) {
        assert_int_equal(party_of(scene, rank)->status, LS_BAD_USAGE);
        assert_non_null(strstr(party_of(scene, rank)->text, says));
        ls_allreduce_close(party_of(scene, rank)->sum);
    }
}

static void check_disagreements_of(test_scene *scene, const ls_algorithm *other)
{
    char says[80];
    int odd_one = scene->fleet->ranks - 1;

    snprintf(says, sizeof says, "count is 100 on rank 0 but 101 on rank %d", odd_one);
    check_disagreement(scene, OTHER_COUNT, NULL, says);
    snprintf(says, sizeof says, "element type is f32 on rank 0 but f64 on rank %d", odd_one);
    check_disagreement(scene, OTHER_TYPE, NULL, says);
    /* Names are compared as numbers: either may be told first. */
    snprintf(says, sizeof says, "%s on rank 0", scene->algorithm->name);
    check_disagreement(scene, OTHER_ALGORITHM, other, says);
    snprintf(says, sizeof says, "%s on rank %d", other->name, odd_one);
    check_disagreement(scene, OTHER_ALGORITHM, other, says);
}

/* Each algorithm, beside the one before it in the table. */
static void check_disagreements(test_scene *scene)
{
    const ls_algorithm *before = &ls_algorithm_naive;

    if (scene->fleet->ranks == 1)
        return;
    scene->count = 100;
    for (int a = 0; a < LS_ALGORITHM_COUNT; a++) {
        scene->algorithm = ls_algorithm_at(a);
        if (!can_run(scene, scene->algorithm))
            continue;
        check_disagreements_of(scene, before);
        before = scene->algorithm;
    }
}

/* ---- the suite ---- */

void *ls__fleet_take(const ls__fleet *fleet, int rank, int64_t bytes, void **own)
{
    void *memory = NULL;

    *own = NULL;
    if (fleet->memory == LS__MEMORY_OF_TRANSPORT) {
        assert_ok(ls_transport_memory(fleet->transport[rank], bytes, &memory));
        return memory;
    }
    memory = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
    assert_non_null(memory);
    memset(memory, 0, (size_t)bytes);
    *own = memory;
    return memory;
}

void ls__conformance(ls__fleet *fleet)
{
    static void (*const checks[])(test_scene *) = {
        check_all_reduces, check_order_of_sums, check_phases_apart,
        check_counters,    check_disagreements,
    };
    test_scene scene = {.fleet = fleet};
    void *own[LS__FLEET_MAX] = {0};

    ls__conformance_of_messages(fleet);
    for (int rank = fleet->first; rank < fleet->end; rank++)
        scene.party[rank] = ls__fleet_take(fleet, rank, sizeof(test_party), &own[rank]);
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        for (int rank = fleet->first; rank < fleet->end; rank++)
            memset(scene.party[rank], 0, sizeof(test_party));
        checks[i](&scene);
    }
    for (int rank = 0; rank < LS__FLEET_MAX; rank++)
        free(own[rank]);
}
