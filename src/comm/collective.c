/* The engine: runs one rank's side of any schedule over any transport.
 *
 * A window of `depth` rounds is in flight. Rounds are posted in order and completed in order:
 *
 *     rounds   0 . . . . completed . . . . posted . . . . rounds
 *              | done   |  in flight      | not started  |
 *                          at most depth
 *
 * Only the oldest round in flight is tested, and a transport combines inside the test that says
 * done: so sums are formed in the order of the rounds whatever the order of arrival. */
#include "lockstep/collective.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/engine.h"
#include "comm/watch.h"

/* Slots of scratch begin on cache lines, so that combining loads whole ones. */
enum { SCRATCH_ALIGNMENT = 64, WHERE = 128 };

typedef struct round_slot {
    ls_round round;
    ls_operation *send;
    ls_operation *receive;
    void *scratch;
    bool sending;
    bool receiving;
} round_slot;

struct ls_collective {
    ls_transport *transport;
    const ls_schedule *schedule;
    ls_payload payload;
    int64_t blocks;
    int64_t rounds;
    int64_t posted;      /* rounds that were started */
    int64_t completed;   /* rounds that are done, all those before it too */
    round_slot window[]; /* (depth); round i is in window[i % depth] */
};

/* The first blocks are the largest. */
static int64_t longest_message(const ls_schedule *schedule, int ranks, int64_t count, int64_t size)
{
    ls_span widest = {0, schedule->widest(ranks)};

    return ls_span_range(count, schedule->blocks(ranks), widest).count * size;
}

static int64_t scratch_slot(const ls_schedule *schedule, int ranks, int64_t count, int64_t size)
{
    int64_t bytes = longest_message(schedule, ranks, count, size);

    return (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

int64_t ls_collective_scratch(const ls_schedule *schedule, int ranks, int64_t count,
                              const ls_element_type *type)
{
    if (!schedule->combines || schedule->rounds(ranks) == 0)
        return 0;
    return schedule->depth * scratch_slot(schedule, ranks, count, type->size);
}

/* ---- life cycle ---- */

static ls_status open_window(ls_collective *collective)
{
    const ls_schedule *schedule = collective->schedule;
    const ls_payload *payload = &collective->payload;
    ls_transport *transport = collective->transport;
    int ranks = transport->ranks;
    int64_t bytes = longest_message(schedule, ranks, payload->count, payload->type->size);
    int64_t slot_bytes = scratch_slot(schedule, ranks, payload->count, payload->type->size);

    for (int i = 0; i < schedule->depth; i++) {
        round_slot *slot = &collective->window[i];
        LS_TRY(transport->table->operation_open(transport, bytes, &slot->send));
        LS_TRY(transport->table->operation_open(transport, bytes, &slot->receive));
        if (schedule->combines && payload->scratch)
            slot->scratch = (char *)payload->scratch + i * slot_bytes;
    }
    return LS_OK;
}

ls_status ls_collective_open(ls_collective **collective, ls_transport *transport,
                             const ls_schedule *schedule, const ls_payload *payload)
{
    size_t window = (size_t)schedule->depth * sizeof(round_slot);
    ls_collective *opened = calloc(1, sizeof *opened + window);

    assert(payload->count >= 0 && payload->channel >= 0);
    LS_FAIL_IF(!opened, LS_NO_MEMORY, "%s: no memory for its %d rounds in flight", schedule->name,
               schedule->depth);
    opened->transport = transport;
    opened->schedule = schedule;
    opened->payload = *payload;
    opened->blocks = schedule->blocks(transport->ranks);
    opened->rounds = schedule->rounds(transport->ranks);
    opened->posted = opened->rounds;
    opened->completed = opened->rounds;
    ls_status status = open_window(opened);
    if (status != LS_OK) {
        ls_collective_close(opened);
        return status;
    }
    *collective = opened;
    return LS_OK;
}

void ls_collective_close(ls_collective *collective)
{
    if (!collective)
        return;
    const ls_transport_table *table = collective->transport->table;

    for (int i = 0; i < collective->schedule->depth; i++) {
        if (collective->window[i].send)
            table->operation_close(collective->window[i].send);
        if (collective->window[i].receive)
            table->operation_close(collective->window[i].receive);
    }
    free(collective);
}

/* ---- rounds ---- */

static ls_range elements_of(const ls_collective *collective, ls_span span)
{
    return ls_span_range(collective->payload.count, collective->blocks, span);
}

static ls_status post_receive(ls_collective *collective, round_slot *slot)
{
    const ls_payload *payload = &collective->payload;
    const ls_transport_table *table = collective->transport->table;
    ls_range range = elements_of(collective, slot->round.receive);
    int peer = slot->round.receive_from;

    slot->receiving = peer != LS_NO_PEER && range.count > 0;
    if (!slot->receiving)
        return LS_OK;
    char *at = (char *)payload->data + range.offset * payload->type->size;
    if (slot->round.combine)
        return table->receive_combine(slot->receive, peer, payload->channel, at, range.count,
                                      payload->type, slot->scratch);
    return table->receive(slot->receive, peer, payload->channel, at,
                          range.count * payload->type->size);
}

static ls_status post_send(ls_collective *collective, round_slot *slot)
{
    const ls_payload *payload = &collective->payload;
    ls_range range = elements_of(collective, slot->round.send);
    int peer = slot->round.send_to;

    slot->sending = peer != LS_NO_PEER && range.count > 0;
    if (!slot->sending)
        return LS_OK;
    const char *at = (const char *)payload->data + range.offset * payload->type->size;
    return collective->transport->table->send(slot->send, peer, payload->channel, at,
                                              range.count * payload->type->size);
}

static ls_status post_round(ls_collective *collective, int64_t index)
{
    const ls_schedule *schedule = collective->schedule;
    const ls_transport *transport = collective->transport;
    round_slot *slot = &collective->window[index % schedule->depth];

    slot->round = schedule->round(transport->ranks, transport->rank, index);
    LS_TRY(post_receive(collective, slot));
    return post_send(collective, slot);
}

/* Tests one side of a round; it is done where there is nothing in flight any more. */
static ls_status test_side(ls_operation *operation, bool *in_flight)
{
    bool done = false;

    if (!*in_flight)
        return LS_OK;
    LS_TRY(operation->transport->table->test(operation, &done));
    *in_flight = !done;
    return LS_OK;
}

ls_status ls_collective_start(ls_collective *collective)
{
    bool done = false;

    assert(collective->completed == collective->rounds);
    collective->posted = 0;
    collective->completed = 0;
    return ls_collective_advance(collective, &done);
}

ls_status ls_collective_advance(ls_collective *collective, bool *done)
{
    int depth = collective->schedule->depth;

    for (;;) {
        while (collective->posted < collective->rounds &&
               collective->posted < collective->completed + depth)
            LS_TRY(post_round(collective, collective->posted++));
        *done = collective->completed == collective->rounds;
        if (*done)
            return LS_OK;
        round_slot *oldest = &collective->window[collective->completed % depth];
        LS_TRY(test_side(oldest->receive, &oldest->receiving));
        LS_TRY(test_side(oldest->send, &oldest->sending));
        if (oldest->receiving || oldest->sending)
            return LS_OK;
        collective->completed++;
    }
}

bool ls__yield_until(double deadline)
{
    sched_yield();
    double now = ls__clock_seconds();
    return now > deadline || ls__watch_alarmed(now);
}

ls_status ls_collective_wait(ls_collective *collective, double timeout_seconds)
{
    double deadline = ls__clock_seconds() + timeout_seconds;
    bool done = false;

    for (;;) {
        LS_TRY(ls_collective_advance(collective, &done));
        if (done)
            return LS_OK;
        if (ls__yield_until(deadline))
            return ls__collective_timed_out(collective, timeout_seconds);
    }
}

ls_range ls__collective_waits_for(const ls_collective *collective)
{
    const round_slot *oldest =
        &collective->window[collective->completed % collective->schedule->depth];

    return elements_of(collective, oldest->receiving ? oldest->round.receive : oldest->round.send);
}

ls_status ls__collective_timed_out(const ls_collective *collective, double timeout_seconds)
{
    const round_slot *oldest =
        &collective->window[collective->completed % collective->schedule->depth];
    bool receiving = oldest->receiving;
    int peer = receiving ? oldest->round.receive_from : oldest->round.send_to;
    ls_range range = ls__collective_waits_for(collective);
    char where[WHERE];

    snprintf(where, sizeof where, "%s, round %lld of %lld", collective->schedule->name,
             (long long)collective->completed + 1, (long long)collective->rounds);
    ls_fail_at(__FILE__, __LINE__, LS_TIMEOUT,
               "%s: rank %d %s elements %lld to %lld within %g s: it is stopped, overloaded or "
               "gone, or waits for one that is",
               where, peer, receiving ? "did not send" : "did not take", (long long)range.offset,
               (long long)(range.offset + range.count - 1), timeout_seconds);
    return ls__watch_call_roll(timeout_seconds, where);
}

ls_status ls__library_timed_out(const char *name, double timeout_seconds)
{
    char where[WHERE];

    snprintf(where, sizeof where, "a collective of the %s library", name);
    ls_fail_at(__FILE__, __LINE__, LS_TIMEOUT,
               "%s did not end within %g s: a rank is stopped, overloaded or gone; the library "
               "does not tell which",
               where, timeout_seconds);
    return ls__watch_call_roll(timeout_seconds, where);
}
