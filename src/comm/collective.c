/* The engine: runs one rank's side of any schedule over any transport.
 *
 * What it posts, tests and completes are steps: a round, or a segment of one. They are posted and
 * completed in order:
 *
 *     steps    0 . . . . completed . . arrived . . posted . . . . steps
 *              | done   |       in flight         | not started  |
 *                           at most `window`
 *
 * Of what is to arrive only the oldest is tested, and a transport combines inside the test that
 * says done: so sums are formed in the order of the steps whatever the order of arrival. */
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

/* Segments in flight: enough that a rank which looks only now and then, between two parts of
 * backward, finds some more arrived. Rounds of a wave in flight: more than pays. */
enum { SEGMENTS_IN_FLIGHT = 8, ROUNDS_IN_FLIGHT = 16 };

typedef struct step_slot {
    ls_round round;
    ls_range send_range; /* elements */
    ls_range receive_range;
    ls_operation *send;
    ls_operation *receive;
    void *scratch;
    bool sending;
    bool receiving;
} step_slot;

struct ls_collective {
    ls_transport *transport;
    const ls_schedule *schedule;
    ls_payload payload;
    ls_range range; /* elements of the payload that are worked on */
    ls_layout layout;
    int64_t blocks;
    int64_t segments; /* of each message */
    int64_t wave;     /* rounds */
    int64_t steps;    /* rounds * segments */
    int64_t posted;   /* steps that were started */
    int64_t arrived;  /* steps whose receive is done, all those before them too */
    int64_t completed;
    int64_t window;
    step_slot slot[]; /* (window); step i is in slot[i % window] */
};

static int64_t segments_of(const ls_schedule *schedule, ls_layout layout, int64_t count,
                           int64_t size)
{
    int64_t bytes = ls_block(count, schedule->blocks(layout), 0).count * size;

    if (schedule->segment == 0 || bytes <= schedule->segment)
        return 1;
    return (bytes + schedule->segment - 1) / schedule->segment;
}

static int64_t window_of(const ls_schedule *schedule, ls_layout layout, int64_t segments)
{
    int64_t wave = schedule->wave(layout);

    if (segments > 1)
        return SEGMENTS_IN_FLIGHT;
    return wave < ROUNDS_IN_FLIGHT ? wave : ROUNDS_IN_FLIGHT;
}

/* The first blocks and segments are the largest. */
static int64_t longest_message(const ls_schedule *schedule, ls_layout layout, int64_t count,
                               int64_t size)
{
    ls_span widest = {0, schedule->widest(layout)};
    int64_t elements = ls_span_range(count, schedule->blocks(layout), widest).count;

    return ls_block(elements, segments_of(schedule, layout, count, size), 0).count * size;
}

/* Of segments, which are about as long as they may be, the longest that there can be: so a larger
 * count never needs less scratch, and whoever has room for the most has room for all. */
static int64_t scratch_slot(const ls_schedule *schedule, ls_layout layout, int64_t count,
                            int64_t size)
{
    bool segmented = segments_of(schedule, layout, count, size) > 1;
    int64_t bytes =
        segmented ? schedule->segment + size : longest_message(schedule, layout, count, size);

    return (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

int64_t ls_collective_scratch(const ls_schedule *schedule, ls_layout layout, int64_t count,
                              const ls_element_type *type)
{
    if (!schedule->combines || schedule->rounds(layout) == 0)
        return 0;
    return window_of(schedule, layout, segments_of(schedule, layout, count, type->size)) *
           scratch_slot(schedule, layout, count, type->size);
}

/* ---- life cycle ---- */

static ls_status open_window(ls_collective *collective)
{
    const ls_schedule *schedule = collective->schedule;
    const ls_payload *payload = &collective->payload;
    ls_transport *transport = collective->transport;
    int64_t size = payload->type->size;
    int64_t bytes = longest_message(schedule, collective->layout, payload->count, size);
    int64_t slot_bytes = scratch_slot(schedule, collective->layout, payload->count, size);

    for (int64_t i = 0; i < collective->window; i++) {
        step_slot *slot = &collective->slot[i];
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
    ls_layout layout = ls_transport_layout(transport);
    int64_t segments = segments_of(schedule, layout, payload->count, payload->type->size);
    int64_t window = window_of(schedule, layout, segments);
    ls_collective *opened = calloc(1, sizeof *opened + (size_t)window * sizeof(step_slot));

    assert(payload->count >= 0 && payload->channel >= 0);
    LS_FAIL_IF(!opened, LS_NO_MEMORY, "%s: no memory for its %lld steps in flight", schedule->name,
               (long long)window);
    opened->transport = transport;
    opened->schedule = schedule;
    opened->payload = *payload;
    opened->range = (ls_range){0, payload->count};
    opened->layout = layout;
    opened->blocks = schedule->blocks(layout);
    opened->segments = segments;
    opened->wave = schedule->wave(layout);
    opened->steps = schedule->rounds(layout) * segments;
    opened->posted = opened->steps;
    opened->arrived = opened->steps;
    opened->completed = opened->steps;
    opened->window = window;
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

    for (int64_t i = 0; i < collective->window; i++) {
        if (collective->slot[i].send)
            table->operation_close(collective->slot[i].send);
        if (collective->slot[i].receive)
            table->operation_close(collective->slot[i].receive);
    }
    free(collective);
}

/* ---- steps ---- */

static step_slot *slot_of(ls_collective *collective, int64_t step)
{
    return &collective->slot[step % collective->window];
}

static int64_t first_step_of_wave(const ls_collective *collective, int64_t step)
{
    int64_t round = step / collective->segments;

    return (round - round % collective->wave) * collective->segments;
}

/* The waves before the step's own must be complete; of segments, the same one of the round before,
 * as the following rounds' touch other elements. */
static bool may_start(const ls_collective *collective, int64_t step)
{
    int64_t first = first_step_of_wave(collective, step);
    int64_t needed = first - collective->segments + step % collective->segments + 1;

    return step < collective->steps && step - collective->completed < collective->window &&
           (first == 0 || collective->completed >= needed);
}

/* The elements of one segment of a span. */
static ls_range elements_of(const ls_collective *collective, ls_span span, int64_t segment)
{
    ls_range whole = ls_span_range(collective->range.count, collective->blocks, span);
    ls_range part = ls_block(whole.count, collective->segments, segment);

    return (ls_range){collective->range.offset + whole.offset + part.offset, part.count};
}

static ls_status post_receive(ls_collective *collective, step_slot *slot)
{
    const ls_payload *payload = &collective->payload;
    const ls_transport_table *table = collective->transport->table;
    ls_range range = slot->receive_range;
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

static ls_status post_send(ls_collective *collective, step_slot *slot)
{
    const ls_payload *payload = &collective->payload;
    ls_range range = slot->send_range;
    int peer = slot->round.send_to;

    slot->sending = peer != LS_NO_PEER && range.count > 0;
    if (!slot->sending)
        return LS_OK;
    const char *at = (const char *)payload->data + range.offset * payload->type->size;
    return collective->transport->table->send(slot->send, peer, payload->channel, at,
                                              range.count * payload->type->size);
}

static ls_status post_step(ls_collective *collective, int64_t step)
{
    int64_t round = step / collective->segments;
    int64_t segment = step % collective->segments;
    step_slot *slot = slot_of(collective, step);

    slot->round =
        collective->schedule->round(collective->layout, collective->transport->rank, round);
    slot->send_range = elements_of(collective, slot->round.send, segment);
    slot->receive_range = elements_of(collective, slot->round.receive, segment);
    LS_TRY(post_receive(collective, slot));
    return post_send(collective, slot);
}

/* Tests one side of a step; it is done where there is nothing in flight any more. */
static ls_status test_side(ls_operation *operation, bool *in_flight)
{
    bool done = false;

    if (!*in_flight)
        return LS_OK;
    LS_TRY(operation->transport->table->test(operation, &done));
    *in_flight = !done;
    return LS_OK;
}

static ls_status take_arrivals(ls_collective *collective)
{
    while (collective->arrived < collective->posted) {
        step_slot *slot = slot_of(collective, collective->arrived);
        LS_TRY(test_side(slot->receive, &slot->receiving));
        if (slot->receiving)
            return LS_OK;
        collective->arrived++;
    }
    return LS_OK;
}

static ls_status complete_steps(ls_collective *collective)
{
    while (collective->completed < collective->arrived) {
        step_slot *slot = slot_of(collective, collective->completed);
        LS_TRY(test_side(slot->send, &slot->sending));
        if (slot->sending)
            return LS_OK;
        collective->completed++;
    }
    return LS_OK;
}

void ls__collective_aim(ls_collective *collective, ls_range range)
{
    assert(collective->completed == collective->steps && range.count <= collective->payload.count);
    collective->range = range;
}

ls_status ls_collective_start(ls_collective *collective)
{
    bool done = false;

    assert(collective->completed == collective->steps);
    collective->posted = 0;
    collective->arrived = 0;
    collective->completed = 0;
    return ls_collective_advance(collective, &done);
}

ls_status ls_collective_advance(ls_collective *collective, bool *done)
{
    int64_t before = 0;

    do {
        while (may_start(collective, collective->posted))
            LS_TRY(post_step(collective, collective->posted++));
        before = collective->completed;
        LS_TRY(take_arrivals(collective));
        LS_TRY(complete_steps(collective));
    } while (collective->completed > before);
    *done = collective->completed == collective->steps;
    return LS_OK;
}

bool ls__yield_until(double deadline)
{
    sched_yield();
    double now = ls__clock_seconds();
    return now > deadline || ls__watch_alarmed(now);
}

/* Tells the processor that this is a loop that waits. */
static void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#endif
}

bool ls__look_until(const ls_transport *transport, int *looks, double deadline)
{
    if ((*looks)++ < transport->spins) {
        relax();
        return false;
    }
    *looks = 0;
    return ls__yield_until(deadline);
}

ls_status ls_collective_wait(ls_collective *collective, double timeout_seconds)
{
    double deadline = ls__clock_seconds() + timeout_seconds;
    bool done = false;
    int looks = 0;

    for (;;) {
        LS_TRY(ls_collective_advance(collective, &done));
        if (done)
            return LS_OK;
        if (ls__look_until(collective->transport, &looks, deadline))
            return ls__collective_timed_out(collective, timeout_seconds);
    }
}

static const step_slot *oldest(const ls_collective *collective)
{
    return &collective->slot[collective->completed % collective->window];
}

ls_range ls__collective_waits_for(const ls_collective *collective)
{
    const step_slot *slot = oldest(collective);

    return slot->receiving ? slot->receive_range : slot->send_range;
}

ls_status ls__collective_timed_out(const ls_collective *collective, double timeout_seconds)
{
    bool receiving = oldest(collective)->receiving;
    const ls_round *round = &oldest(collective)->round;
    ls_range range = ls__collective_waits_for(collective);
    char where[WHERE];

    snprintf(where, sizeof where, "%s, round %lld of %lld", collective->schedule->name,
             (long long)(collective->completed / collective->segments) + 1,
             (long long)(collective->steps / collective->segments));
    ls_fail_at(__FILE__, __LINE__, LS_TIMEOUT,
               "%s: rank %d %s elements %lld to %lld within %g s: it is stopped, overloaded or "
               "gone, or waits for one that is",
               where, receiving ? round->receive_from : round->send_to,
               receiving ? "did not send" : "did not take", (long long)range.offset,
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
