/* The simulated network. What a message goes through:
 *
 *     posted by both   ->   matched: a transfer begins   ->   arrived   ->   taken
 *     (waiting list)        (heap of arrivals)                (clock)        (receiver's test)
 *
 * A post looks for its counterpart in a hash table of waiting posts, keyed by (sender, receiver,
 * channel); each bucket is a list in order of posting, which keeps messages of one key in order.
 * Arrivals stand in a binary heap by time. ls__sim_run moves ranks to which something happened, in
 * random order; when none is left it takes the next arrival. */
#include "comm/transport_sim.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

typedef enum post_kind { SEND, RECEIVE, RECEIVE_COMBINE } post_kind;
typedef enum post_state { IDLE, WAITING, TRAVELLING, ARRIVED, TAKEN } post_state;

typedef struct sim_operation {
    ls_operation base;
    post_kind kind;
    post_state state;
    int peer;
    int channel;
    void *data;         /* of a receive */
    const void *source; /* of a send */
    int64_t bytes;
    const ls_element_type *type;   /* of RECEIVE_COMBINE */
    double arrives_at;             /* of a matched receive */
    struct sim_operation *partner; /* once matched */
    struct sim_operation *next;    /* in the waiting list */
    struct sim_operation *next_abandoned;
} sim_operation;

typedef struct sim_rank {
    ls_transport base;
    ls__sim *sim;
    double link_free_at; /* when its outgoing link has carried what it was given */
    bool ready;          /* stands in sim->ready */
    bool done;
} sim_rank;

typedef struct waiting_list {
    sim_operation *first;
    sim_operation *last;
} waiting_list;

struct ls__sim {
    ls__sim_options options;
    uint64_t draws;
    double clock;
    sim_rank *rank; /* (ranks) */
    int *ready;     /* (ranks), the first ready_count hold ranks to move */
    int ready_count;
    waiting_list *waiting;   /* (buckets) */
    uint64_t buckets;        /* a power of two */
    sim_operation **arrival; /* (arrival_room), a heap, the earliest first */
    int64_t arrival_count;
    int64_t arrival_room;
    int64_t open_operations;
    sim_operation *abandoned; /* closed in flight */
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

static sim_rank *take_ready(ls__sim *sim)
{
    int at = (int)ls__bounded(draw(sim), (uint64_t)sim->ready_count);
    sim_rank *rank = &sim->rank[sim->ready[at]];

    sim->ready[at] = sim->ready[--sim->ready_count];
    rank->ready = false;
    return rank;
}

/* ---- the heap of arrivals ---- */

static void swap_arrivals(ls__sim *sim, int64_t a, int64_t b)
{
    sim_operation *kept = sim->arrival[a];

    sim->arrival[a] = sim->arrival[b];
    sim->arrival[b] = kept;
}

static bool earlier(const ls__sim *sim, int64_t a, int64_t b)
{
    return sim->arrival[a]->arrives_at < sim->arrival[b]->arrives_at;
}

static void push_arrival(ls__sim *sim, sim_operation *receive)
{
    int64_t at = sim->arrival_count++;

    assert(sim->arrival_count <= sim->arrival_room);
    sim->arrival[at] = receive;
    for (; at > 0 && earlier(sim, at, (at - 1) / 2); at = (at - 1) / 2)
        swap_arrivals(sim, at, (at - 1) / 2);
}

static sim_operation *pop_arrival(ls__sim *sim)
{
    sim_operation *first = sim->arrival[0];
    int64_t at = 0;

    sim->arrival[0] = sim->arrival[--sim->arrival_count];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child + 1 < sim->arrival_count && earlier(sim, child + 1, child))
            child++;
        if (child >= sim->arrival_count || !earlier(sim, child, at))
            return first;
        swap_arrivals(sim, at, child);
        at = child;
    }
}

/* ---- matching ---- */

static waiting_list *bucket_of(ls__sim *sim, const sim_operation *operation)
{
    uint64_t key = (uint64_t)sender_of(operation) << 40 ^ (uint64_t)receiver_of(operation) << 16 ^
                   (uint64_t)operation->channel;

    /* Fibonacci hashing, D. Knuth, TAOCP volume 3, 6.4. */
    return &sim->waiting[key * 0x9e3779b97f4a7c15u >> 32 & (sim->buckets - 1)];
}

static bool are_counterparts(const sim_operation *a, const sim_operation *b)
{
    return (a->kind == SEND) != (b->kind == SEND) && sender_of(a) == sender_of(b) &&
           receiver_of(a) == receiver_of(b) && a->channel == b->channel;
}

static void unlink_waiting(waiting_list *list, sim_operation *before, sim_operation *operation)
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
static sim_operation *take_counterpart(waiting_list *list, const sim_operation *operation)
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

static void begin_transfer(ls__sim *sim, sim_operation *send, sim_operation *receive)
{
    sim_rank *sender = rank_of(send);
    double begin = sender->link_free_at > sim->clock ? sender->link_free_at : sim->clock;
    ls__random4 words = draw(sim);

    sender->link_free_at = begin + (double)send->bytes * sim->options.seconds_per_byte;
    receive->arrives_at = sender->link_free_at + sim->options.latency +
                          sim->options.jitter * ls__uniform(words.word[0], words.word[1]);
    send->partner = receive;
    receive->partner = send;
    send->state = TRAVELLING;
    receive->state = TRAVELLING;
    push_arrival(sim, receive);
}

static void post(sim_operation *operation, post_kind kind, int peer, int channel, int64_t bytes)
{
    ls__sim *sim = rank_of(operation)->sim;

    assert(operation->state == IDLE && bytes > 0 && 0 <= peer && peer < sim->options.ranks);
    operation->kind = kind;
    operation->peer = peer;
    operation->channel = channel;
    operation->bytes = bytes;
    waiting_list *list = bucket_of(sim, operation);
    sim_operation *counterpart = take_counterpart(list, operation);
    if (counterpart) {
        begin_transfer(sim, kind == SEND ? operation : counterpart,
                       kind == SEND ? counterpart : operation);
        return;
    }
    operation->state = WAITING;
    if (list->last)
        list->last->next = operation;
    else
        list->first = operation;
    list->last = operation;
}

/* ---- the table ---- */

static ls_status operation_open(ls_transport *base, int64_t max_bytes, ls_operation **operation)
{
    ls__sim *sim = ((sim_rank *)base)->sim;
    sim_operation *opened = calloc(1, sizeof *opened);

    (void)max_bytes;
    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a simulated operation");
    if (sim->open_operations == sim->arrival_room) {
        int64_t room = 2 * sim->arrival_room + 16;
        void *larger = realloc(sim->arrival, (size_t)room * sizeof sim->arrival[0]);
        if (!larger) {
            free(opened);
            return LS_FAIL(LS_NO_MEMORY, "no memory for %lld simulated operations",
                           (long long)room);
        }
        sim->arrival = larger;
        sim->arrival_room = room;
    }
    sim->open_operations++;
    opened->base.transport = base;
    *operation = &opened->base;
    return LS_OK;
}

/* One that is in flight stays with the network, which still knows it, until that is closed too. */
static void operation_close(ls_operation *base)
{
    sim_operation *operation = (sim_operation *)base;
    ls__sim *sim = rank_of(operation)->sim;

    if (operation->state != IDLE) {
        operation->next_abandoned = sim->abandoned;
        sim->abandoned = operation;
        return;
    }
    sim->open_operations--;
    free(operation);
}

static ls_status post_send(ls_operation *base, int peer, int channel, const void *data,
                           int64_t bytes)
{
    sim_operation *operation = (sim_operation *)base;

    operation->source = data;
    post(operation, SEND, peer, channel, bytes);
    base->transport->traffic.sent_bytes += bytes;
    base->transport->traffic.sent_messages++;
    return LS_OK;
}

static ls_status post_receive(ls_operation *base, int peer, int channel, void *data, int64_t bytes)
{
    sim_operation *operation = (sim_operation *)base;

    operation->data = data;
    post(operation, RECEIVE, peer, channel, bytes);
    return LS_OK;
}

static ls_status post_receive_combine(ls_operation *base, int peer, int channel, void *into,
                                      int64_t count, const ls_element_type *type, void *scratch)
{
    sim_operation *operation = (sim_operation *)base;

    (void)scratch; /* combined straight from the sender's memory */
    operation->data = into;
    operation->type = type;
    post(operation, RECEIVE_COMBINE, peer, channel, count * type->size);
    return LS_OK;
}

static ls_status take(sim_operation *receive)
{
    sim_operation *send = receive->partner;
    const ls_element_type *type = receive->type;
    ls_traffic *traffic = &receive->base.transport->traffic;

    LS_FAIL_IF(send->bytes != receive->bytes, LS_COMM,
               "rank %d sent %lld bytes where %lld were expected of it: every rank must use the "
               "same count and algorithm",
               receive->peer, (long long)send->bytes, (long long)receive->bytes);
    if (receive->kind == RECEIVE_COMBINE)
        type->combine(type->context, receive->data, send->source, receive->bytes / type->size);
    else
        memcpy(receive->data, send->source, (size_t)receive->bytes);
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

static ls_status allocate(ls__sim *sim)
{
    size_t ranks = (size_t)sim->options.ranks;

    for (sim->buckets = 16; sim->buckets < 4 * ranks;)
        sim->buckets *= 2;
    sim->rank = calloc(ranks, sizeof sim->rank[0]);
    sim->ready = calloc(ranks, sizeof sim->ready[0]);
    sim->waiting = calloc(sim->buckets, sizeof sim->waiting[0]);
    LS_FAIL_IF(!sim->rank || !sim->ready || !sim->waiting, LS_NO_MEMORY,
               "no memory for a network of %d simulated ranks", sim->options.ranks);
    return LS_OK;
}

ls_status ls__sim_open(ls__sim **sim, const ls__sim_options *options)
{
    ls__sim *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a simulated network");
    opened->options = *options;
    ls_status status = allocate(opened);
    if (status != LS_OK) {
        ls__sim_close(opened);
        return status;
    }
    for (int i = 0; i < options->ranks; i++) {
        sim_rank *rank = &opened->rank[i];
        rank->sim = opened;
        rank->base = (ls_transport){
            .table = &table,
            .rank = i,
            .ranks = options->ranks,
            .per_node = options->per_node > 0 ? options->per_node : 1,
        };
    }
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
    while (sim->abandoned) {
        sim_operation *operation = sim->abandoned;
        sim->abandoned = operation->next_abandoned;
        free(operation);
    }
    free(sim->arrival);
    free(sim->waiting);
    free(sim->ready);
    free(sim->rank);
    free(sim);
}

ls_transport *ls__sim_transport(ls__sim *sim, int rank)
{
    assert(0 <= rank && rank < sim->options.ranks);
    return &sim->rank[rank].base;
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

static void deliver_next(ls__sim *sim)
{
    sim_operation *receive = pop_arrival(sim);

    if (receive->arrives_at > sim->clock)
        sim->clock = receive->arrives_at;
    receive->state = ARRIVED;
    make_ready(rank_of(receive));
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
        } else if (sim->arrival_count > 0) {
            deliver_next(sim);
        } else {
            return report_deadlock(sim);
        }
    }
    return LS_OK;
}
