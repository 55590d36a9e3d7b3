/* The simulated network. What a message goes through:
 *
 *     posted by both   ->   matched        ->   travelling   ->   arrived   ->   taken
 *     (waiting list)        (link's queue)      (heap)            (clock)        (receiver's test)
 *
 * A post looks for its counterpart in a hash table of waiting posts, keyed by (sender, receiver,
 * channel); each bucket is a list in order of posting, which keeps messages of one key in order.
 * What is matched queues at the link that it leaves by. Arrivals, and the moments at which a link
 * with a queue is free again, stand in a heap by time.
 *
 * ls__sim_run works off one instant after the other: all that happens at it, then the ranks to
 * which something happened, then the links that may start a message. So what ranks do at the same
 * instant does not depend on which of them is moved first. */
#include "comm/transport_sim.h"

#include <assert.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef enum post_kind { SEND, RECEIVE, RECEIVE_COMBINE } post_kind;
typedef enum post_state { IDLE, WAITING, MATCHED, TRAVELLING, ARRIVED, TAKEN } post_state;

/* A cache line: with 16,384 ranks nearly all time goes into reaching memory. */
typedef struct sim_operation {
    ls_operation base;
    int peer;
    int16_t channel;
    uint8_t kind;  /* post_kind */
    uint8_t state; /* post_state */
    int64_t bytes;
    struct sim_operation *partner; /* once matched */
    struct sim_operation *next;    /* in a list: waiting, a link's queue, or free ones */
    union {
        struct {
            const void *source;
            double matched_at;
            int64_t order; /* among its rank's sends */
        } send;
        struct {
            void *data;
            const ls_element_type *type; /* of RECEIVE_COMBINE */
        } receive;
    };
} sim_operation;

static_assert(sizeof(sim_operation) == 64, "an operation fills a cache line");

enum { SLAB = 1024 };

/* Operations are taken in slabs, which live as long as the network. */
typedef struct slab {
    alignas(sizeof(sim_operation)) sim_operation operation[SLAB];
    struct slab *next;
} slab;

typedef struct operation_list {
    sim_operation *first;
    sim_operation *last;
} operation_list;

/* The way out of a rank or a node, and the way in. */
typedef struct sim_link {
    double out_free_at; /* when the way out has carried what it was given */
    double in_free_at;
    operation_list queue;  /* sends that are matched, for the way out */
    bool awaited;          /* stands in the heap */
    bool touched;          /* stands in the list of sim->touched */
    struct sim_link *next; /* in it */
} sim_link;

typedef struct sim_rank {
    ls_transport base;
    ls__sim *sim;
    sim_link within;  /* to and from the ranks of its node */
    sim_link *across; /* its node's, to and from all others */
    double slowness;
    bool ready; /* stands in sim->ready */
    bool done;
} sim_rank;

enum { OF_A_LINK = -1 };

/* A message arrives at `rank`, or a link is free. Of those at the same time ranks come in order:
 * neighbours' memory is near each other. */
typedef struct sim_event {
    double at;
    int rank; /* or OF_A_LINK */
    union {
        sim_operation *receive;
        sim_link *link;
    };
} sim_event;

struct ls__sim {
    ls__sim_options options;
    uint64_t draws;
    double clock;
    sim_rank *rank; /* (ranks) */
    int *ready;     /* (ranks), the first ready_count hold ranks to move */
    int ready_count;
    sim_link *node;          /* (nodes) */
    sim_link *touched;       /* links to look at when all ranks have moved */
    operation_list *waiting; /* (buckets) */
    uint64_t buckets;        /* a power of two */
    sim_event *event;        /* (event_room), a heap, the earliest first */
    int64_t event_count;
    int64_t event_room; /* an event for each operation, and one for each link */
    slab *slabs;
    sim_operation *free; /* operations that nobody has opened */
};

static sim_rank *rank_of(const sim_operation *operation)
{
    return (sim_rank *)operation->base.transport;
}

static int sender_of(const sim_operation *operation)
{
    return operation->kind == SEND ? operation->base.transport->rank : operation->peer;
}

static int receiver_of(const sim_operation *operation)
{
    return operation->kind == SEND ? operation->peer : operation->base.transport->rank;
}

static ls__random4 draw(ls__sim *sim)
{
    return ls__random(sim->options.seed, LS__STREAM_ORDER, 0, sim->draws++);
}

/* ---- ranks that may move ---- */

static void make_ready(sim_rank *rank)
{
    ls__sim *sim = rank->sim;

    if (rank->ready || rank->done)
        return;
    rank->ready = true;
    sim->ready[sim->ready_count++] = rank->base.rank;
}

/* The latest without jitter, which is cheap and in the ring moves a rank after the one it sends to,
 * so that it finds its message taken. */
static sim_rank *take_ready(ls__sim *sim)
{
    int at = sim->ready_count - 1;

    if (sim->options.jitter > 0)
        at = (int)ls__bounded(draw(sim), (uint64_t)sim->ready_count);
    sim_rank *rank = &sim->rank[sim->ready[at]];

    sim->ready[at] = sim->ready[--sim->ready_count];
    rank->ready = false;
    return rank;
}

/* ---- the heap of events ---- */

/* Children of a node: wider than two, so that a heap of many ranks is less deep. */
enum { HEAP_WIDTH = 4 };

static bool happens_before(const sim_event *a, const sim_event *b)
{
    return a->at < b->at || (a->at == b->at && a->rank < b->rank);
}

static void push_event(ls__sim *sim, sim_event event)
{
    int64_t at = sim->event_count++;

    assert(sim->event_count <= sim->event_room);
    while (at > 0 && happens_before(&event, &sim->event[(at - 1) / HEAP_WIDTH])) {
        sim->event[at] = sim->event[(at - 1) / HEAP_WIDTH];
        at = (at - 1) / HEAP_WIDTH;
    }
    sim->event[at] = event;
}

/* The earliest of the children of `at`; event_count or above where it has none. */
static int64_t earliest_child(const ls__sim *sim, int64_t at)
{
    int64_t earliest = HEAP_WIDTH * at + 1;
    int64_t end = earliest + HEAP_WIDTH;

    if (end > sim->event_count)
        end = sim->event_count;
    for (int64_t child = earliest + 1; child < end; child++)
        if (happens_before(&sim->event[child], &sim->event[earliest]))
            earliest = child;
    return earliest;
}

static sim_event pop_event(ls__sim *sim)
{
    sim_event first = sim->event[0];
    sim_event last = sim->event[--sim->event_count];
    int64_t at = 0;

    for (int64_t child = earliest_child(sim, at);
         child < sim->event_count && happens_before(&sim->event[child], &last);
         child = earliest_child(sim, at)) {
        sim->event[at] = sim->event[child];
        at = child;
    }
    sim->event[at] = last;
    return first;
}

/* ---- links ---- */

/* To be looked at when all ranks have moved. */
static void touch(ls__sim *sim, sim_link *link)
{
    if (link->touched)
        return;
    link->touched = true;
    link->next = sim->touched;
    sim->touched = link;
}

static void append(operation_list *list, sim_operation *operation)
{
    operation->next = NULL;
    if (list->last)
        list->last->next = operation;
    else
        list->first = operation;
    list->last = operation;
}

/* Whether `a` leaves before `b` by the same link: the one that was matched first; of those that
 * were at the same instant, in the order in which their ranks posted them. */
static bool leaves_before(const sim_operation *a, const sim_operation *b)
{
    return a->send.matched_at < b->send.matched_at ||
           (a->send.matched_at == b->send.matched_at && a->send.order <= b->send.order);
}

static void enqueue(operation_list *queue, sim_operation *send)
{
    sim_operation **place = &queue->first;

    if (!queue->last || leaves_before(queue->last, send)) {
        append(queue, send);
        return;
    }
    while (leaves_before(*place, send))
        place = &(*place)->next;
    send->next = *place;
    *place = send;
}

static sim_operation *dequeue(operation_list *queue)
{
    sim_operation *send = queue->first;

    queue->first = send->next;
    if (!queue->first)
        queue->last = NULL;
    return send;
}

/* Across nodes, or within one. */
typedef struct route {
    sim_link *from;
    sim_link *to;
    double latency;
    double seconds_per_byte;
} route;

static route route_of(sim_rank *sender, sim_rank *receiver)
{
    const ls__sim_options *options = &sender->sim->options;
    double slowness = sender->slowness > receiver->slowness ? sender->slowness : receiver->slowness;

    if (sender->across == receiver->across)
        return (route){&sender->within, &receiver->within, slowness * options->node_latency,
                       slowness * options->node_seconds_per_byte};
    return (route){sender->across, receiver->across, slowness * options->latency,
                   slowness * options->seconds_per_byte};
}

/* Late in order to overtake, where messages are to. */
static double jitter(ls__sim *sim)
{
    if (sim->options.jitter == 0)
        return 0;
    ls__random4 words = draw(sim);
    return sim->options.jitter * ls__uniform(words.word[0], words.word[1]);
}

/* The message's first byte leaves now and reaches the other link after the latency; there it may
 * have to wait, in the network, for those that came before it. */
static void depart(ls__sim *sim, sim_operation *send)
{
    sim_operation *receive = send->partner;
    route way = route_of(rank_of(send), rank_of(receive));
    double duration = (double)send->bytes * way.seconds_per_byte;
    double reaches_at = sim->clock + way.latency;
    double enters_at = reaches_at > way.to->in_free_at ? reaches_at : way.to->in_free_at;

    way.from->out_free_at = sim->clock + duration;
    way.to->in_free_at = enters_at + duration;
    send->state = TRAVELLING;
    receive->state = TRAVELLING;
    push_event(sim, (sim_event){.at = way.to->in_free_at + jitter(sim),
                                .rank = receive->base.transport->rank,
                                .receive = receive});
}

/* Sends what the link is free for, and comes back when it is free for the next. */
static void work_link(ls__sim *sim, sim_link *link)
{
    while (link->queue.first && link->out_free_at <= sim->clock)
        depart(sim, dequeue(&link->queue));
    if (link->queue.first && !link->awaited) {
        link->awaited = true;
        push_event(sim, (sim_event){.at = link->out_free_at, .rank = OF_A_LINK, .link = link});
    }
}

static void work_touched_links(ls__sim *sim)
{
    while (sim->touched) {
        sim_link *link = sim->touched;
        sim->touched = link->next;
        link->touched = false;
        work_link(sim, link);
    }
}

/* ---- matching ---- */

static operation_list *bucket_of(ls__sim *sim, const sim_operation *operation)
{
    uint64_t receiver = (uint64_t)receiver_of(operation);
    uint64_t key = ((uint64_t)sender_of(operation) - receiver) << 16 ^ (uint64_t)operation->channel;

    /* Fibonacci hashing, D. Knuth, TAOCP volume 3, 6.4, of the distance: where all ranks send as
     * far, as they do in most schedules, the buckets of neighbours are neighbours. */
    return &sim->waiting[((key * 0x9e3779b97f4a7c15u >> 32) ^ receiver) & (sim->buckets - 1)];
}

static bool are_counterparts(const sim_operation *a, const sim_operation *b)
{
    return (a->kind == SEND) != (b->kind == SEND) && sender_of(a) == sender_of(b) &&
           receiver_of(a) == receiver_of(b) && a->channel == b->channel;
}

static void unlink_waiting(operation_list *list, sim_operation *before, sim_operation *operation)
{
    if (before)
        before->next = operation->next;
    else
        list->first = operation->next;
    if (list->last == operation)
        list->last = before;
    operation->next = NULL;
}

/* Takes the first counterpart off the list; NULL where none waits. */
static sim_operation *take_counterpart(operation_list *list, const sim_operation *operation)
{
    sim_operation *before = NULL;

    for (sim_operation *at = list->first; at; before = at, at = at->next) {
        if (!are_counterparts(at, operation))
            continue;
        unlink_waiting(list, before, at);
        return at;
    }
    return NULL;
}

static void match(ls__sim *sim, sim_operation *send, sim_operation *receive)
{
    sim_link *link = route_of(rank_of(send), rank_of(receive)).from;

    send->partner = receive;
    receive->partner = send;
    send->state = MATCHED;
    receive->state = MATCHED;
    send->send.matched_at = sim->clock;
    enqueue(&link->queue, send);
    touch(sim, link);
}

static void post(sim_operation *operation, post_kind kind, int peer, int channel, int64_t bytes)
{
    ls__sim *sim = rank_of(operation)->sim;

    assert(operation->state == IDLE && bytes > 0 && 0 <= peer && peer < sim->options.ranks);
    assert(0 <= channel && channel <= INT16_MAX);
    operation->kind = (uint8_t)kind;
    operation->peer = peer;
    operation->channel = (int16_t)channel;
    operation->bytes = bytes;
    operation_list *list = bucket_of(sim, operation);
    sim_operation *counterpart = take_counterpart(list, operation);
    if (counterpart) {
        match(sim, kind == SEND ? operation : counterpart, kind == SEND ? counterpart : operation);
        return;
    }
    operation->state = WAITING;
    append(list, operation);
}

/* ---- the table ---- */

static ls_status make_room_for_events(ls__sim *sim, int64_t more)
{
    int64_t room = sim->event_room + more;
    void *larger = realloc(sim->event, (size_t)room * sizeof sim->event[0]);

    LS_FAIL_IF(!larger, LS_NO_MEMORY, "no memory for %lld simulated events", (long long)room);
    sim->event = larger;
    sim->event_room = room;
    return LS_OK;
}

static ls_status add_slab(ls__sim *sim)
{
    LS_TRY(make_room_for_events(sim, SLAB));
    slab *added = aligned_alloc(alignof(slab), sizeof *added);
    LS_FAIL_IF(!added, LS_NO_MEMORY, "no memory for %d simulated operations", SLAB);
    memset(added, 0, sizeof *added);
    added->next = sim->slabs;
    sim->slabs = added;
    for (int i = SLAB - 1; i >= 0; i--) {
        added->operation[i].next = sim->free;
        sim->free = &added->operation[i];
    }
    return LS_OK;
}

static ls_status operation_open(ls_transport *base, int64_t max_bytes, ls_operation **operation)
{
    ls__sim *sim = ((sim_rank *)base)->sim;

    (void)max_bytes;
    if (!sim->free)
        LS_TRY(add_slab(sim));
    sim_operation *opened = sim->free;
    sim->free = opened->next;
    opened->base.transport = base;
    *operation = &opened->base;
    return LS_OK;
}

/* One that is in flight is never used again: the network still knows it. */
static void operation_close(ls_operation *base)
{
    sim_operation *operation = (sim_operation *)base;
    ls__sim *sim = rank_of(operation)->sim;

    if (operation->state != IDLE)
        return;
    operation->next = sim->free;
    sim->free = operation;
}

static ls_status post_send(ls_operation *base, int peer, int channel, const void *data,
                           int64_t bytes)
{
    sim_operation *operation = (sim_operation *)base;

    operation->send.source = data;
    operation->send.order = base->transport->traffic.sent_messages;
    post(operation, SEND, peer, channel, bytes);
    base->transport->traffic.sent_bytes += bytes;
    base->transport->traffic.sent_messages++;
    return LS_OK;
}

static ls_status post_receive(ls_operation *base, int peer, int channel, void *data, int64_t bytes)
{
    sim_operation *operation = (sim_operation *)base;

    operation->receive.data = data;
    post(operation, RECEIVE, peer, channel, bytes);
    return LS_OK;
}

static ls_status post_receive_combine(ls_operation *base, int peer, int channel, void *into,
                                      int64_t count, const ls_element_type *type, void *scratch)
{
    sim_operation *operation = (sim_operation *)base;

    (void)scratch; /* combined straight from the sender's memory */
    operation->receive.data = into;
    operation->receive.type = type;
    post(operation, RECEIVE_COMBINE, peer, channel, count * type->size);
    return LS_OK;
}

static void move_data(sim_operation *receive)
{
    const void *source = receive->partner->send.source;
    const ls_element_type *type = receive->receive.type;
    void *data = receive->receive.data;

    if (receive->kind == RECEIVE_COMBINE)
        type->combine(type->context, data, source, receive->bytes / type->size);
    else
        memcpy(data, source, (size_t)receive->bytes);
}

static ls_status take(sim_operation *receive)
{
    sim_operation *send = receive->partner;
    ls_traffic *traffic = &receive->base.transport->traffic;

    LS_FAIL_IF(send->bytes != receive->bytes, LS_COMM,
               "rank %d sent %lld bytes where %lld were expected of it: every rank must use the "
               "same count and algorithm",
               receive->peer, (long long)send->bytes, (long long)receive->bytes);
    if (!rank_of(receive)->sim->options.time_only)
        move_data(receive);
    receive->state = IDLE;
    send->state = TAKEN;
    make_ready(rank_of(send));
    traffic->received_bytes += receive->bytes;
    traffic->received_messages++;
    return LS_OK;
}

static ls_status test(ls_operation *base, bool *done)
{
    sim_operation *operation = (sim_operation *)base;

    if (operation->state == ARRIVED)
        LS_TRY(take(operation));
    else if (operation->state == TAKEN)
        operation->state = IDLE;
    *done = operation->state == IDLE;
    return LS_OK;
}

/* The ranks' transports are parts of the network, and closed with it. */
static void close_transport(ls_transport *base)
{
    (void)base;
}

static const ls_transport_table table = {
    .name = "simulated",
    .operation_open = operation_open,
    .operation_close = operation_close,
    .send = post_send,
    .receive = post_receive,
    .receive_combine = post_receive_combine,
    .test = test,
    .close = close_transport,
};

/* ---- the network ---- */

static int node_size(const ls__sim_options *options)
{
    return options->per_node > 0 ? options->per_node : 1;
}

static ls_status allocate(ls__sim *sim)
{
    size_t ranks = (size_t)sim->options.ranks;
    size_t nodes = ranks / (size_t)node_size(&sim->options);

    for (sim->buckets = 16; sim->buckets < 4 * ranks;)
        sim->buckets *= 2;
    sim->rank = calloc(ranks, sizeof sim->rank[0]);
    sim->ready = calloc(ranks, sizeof sim->ready[0]);
    sim->node = calloc(nodes, sizeof sim->node[0]);
    sim->waiting = calloc(sim->buckets, sizeof sim->waiting[0]);
    LS_FAIL_IF(!sim->rank || !sim->ready || !sim->node || !sim->waiting, LS_NO_MEMORY,
               "no memory for a network of %d simulated ranks", sim->options.ranks);
    return make_room_for_events(sim, (int64_t)(ranks + nodes));
}

static void set_up_rank(ls__sim *sim, int index)
{
    int per_node = node_size(&sim->options);
    sim_rank *rank = &sim->rank[index];

    rank->sim = sim;
    rank->across = &sim->node[index / per_node];
    rank->slowness = 1;
    rank->base = (ls_transport){
        .table = &table,
        .rank = index,
        .ranks = sim->options.ranks,
        .per_node = per_node,
    };
}

ls_status ls__sim_open(ls__sim **sim, const ls__sim_options *options)
{
    ls__sim *opened = calloc(1, sizeof *opened);

    assert(options->ranks > 0 && options->ranks % node_size(options) == 0);
    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a simulated network");
    opened->options = *options;
    ls_status status = allocate(opened);
    if (status != LS_OK) {
        ls__sim_close(opened);
        return status;
    }
    for (int i = 0; i < options->ranks; i++)
        set_up_rank(opened, i);
    *sim = opened;
    return LS_OK;
}

void ls__sim_close(ls__sim *sim)
{
    if (!sim)
        return;
    for (int i = 0; sim->rank && i < sim->options.ranks; i++)
        if (sim->rank[i].base.table)
            ls_transport_close(&sim->rank[i].base);
    while (sim->slabs) {
        slab *closed = sim->slabs;
        sim->slabs = closed->next;
        free(closed);
    }
    free(sim->event);
    free(sim->waiting);
    free(sim->node);
    free(sim->ready);
    free(sim->rank);
    free(sim);
}

ls_transport *ls__sim_transport(ls__sim *sim, int rank)
{
    assert(0 <= rank && rank < sim->options.ranks);
    return &sim->rank[rank].base;
}

void ls__sim_slow_down(ls__sim *sim, int rank, double factor)
{
    assert(0 <= rank && rank < sim->options.ranks && factor >= 1);
    sim->rank[rank].slowness = factor;
}

double ls__sim_clock(const ls__sim *sim)
{
    return sim->clock;
}

/* ---- running ---- */

static ls_status report_deadlock(const ls__sim *sim)
{
    for (uint64_t i = 0; i < sim->buckets; i++) {
        const sim_operation *stuck = sim->waiting[i].first;
        if (stuck)
            return LS_FAIL(LS_COMM,
                           "deadlock: rank %d waits to %s %lld bytes %s rank %d, which never %s",
                           stuck->base.transport->rank, stuck->kind == SEND ? "send" : "receive",
                           (long long)stuck->bytes, stuck->kind == SEND ? "to" : "from",
                           stuck->peer, stuck->kind == SEND ? "receives them" : "sends them");
    }
    return LS_FAIL(LS_COMM, "deadlock: ranks are left that are not done and wait for nothing");
}

static ls_status move_rank(sim_rank *rank, ls__sim_step *step, void *context)
{
    char text[LS_ERROR_TEXT];
    ls_status status = step(context, rank->base.rank, &rank->done);

    if (status == LS_OK)
        return LS_OK;
    snprintf(text, sizeof text, "%s", ls_last_error()->text);
    return ls_fail_from(rank->base.rank, status, text);
}

static void happen(ls__sim *sim, const sim_event *event)
{
    if (event->rank == OF_A_LINK) {
        event->link->awaited = false;
        touch(sim, event->link);
        return;
    }
    event->receive->state = ARRIVED;
    make_ready(rank_of(event->receive));
}

/* Sets the clock to the next event, and lets all happen that does so then. */
static void next_instant(ls__sim *sim)
{
    sim->clock = sim->event[0].at;
    while (sim->event_count > 0 && sim->event[0].at <= sim->clock) {
        sim_event event = pop_event(sim);
        happen(sim, &event);
    }
}

ls_status ls__sim_run(ls__sim *sim, ls__sim_step *step, void *context)
{
    int left = sim->options.ranks;

    for (int i = 0; i < sim->options.ranks; i++) {
        sim->rank[i].done = false;
        make_ready(&sim->rank[i]);
    }
    while (left > 0) {
        if (sim->ready_count > 0) {
            sim_rank *rank = take_ready(sim);
            LS_TRY(move_rank(rank, step, context));
            left -= rank->done;
        } else if (sim->touched) {
            work_touched_links(sim);
        } else if (sim->event_count > 0) {
            next_instant(sim);
        } else {
            return report_deadlock(sim);
        }
    }
    return LS_OK;
}
