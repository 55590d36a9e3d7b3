/* Ranks on one node pass each other letters. Every rank has a box for each of the others, in memory
 * that all of them share:
 *
 *     sender                             box: LETTERS letters, in the order of posting
 *       posts a letter, numbered n  -->  | .. | n-1 | n | free | .. |
 *                                          receiver claims it for a receive on the letter's
 * channel, may touch its data again    <--    takes what it says, and writes `taken` = n
 *
 * What a letter says depends on where the data stands:
 *     INSIDE     a short message: the data itself, so that the sender is done at once
 *     SHARED     in a window of the sender's: the receiver reads it there, once, into place or sum
 *     LIBRARY    anywhere else: the receiver is to receive it over MPI
 *
 * To ranks on other nodes everything is MPI's from the start, without letters. */
#include "lockstep/transport_shm.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/log.h"
#include "comm/mpi_check.h"
#include "comm/window.h"
#include "lockstep/transport_mpi.h"

enum { LETTERS = 16, INSIDE_MAX = 960, WINDOWS_MAX = 64, NOT_HERE = -1 };

/* Looks before the processor is given away: about as long as that takes, twice. */
enum { SPINS = 200 };

typedef enum place { INSIDE, SHARED, LIBRARY } place;

typedef struct letter {
    _Alignas(64) _Atomic int64_t posted; /* its number, from 1, once the rest is in place */
    _Atomic int64_t taken;               /* the same number, once the data is out of it */
    int64_t bytes;
    int64_t offset; /* of SHARED: in the sender's part of the window */
    int window;     /* of SHARED */
    int channel;
    place place;
    _Alignas(64) char data[INSIDE_MAX]; /* of INSIDE */
} letter;

typedef enum post_kind { SEND, RECEIVE, RECEIVE_COMBINE } post_kind;

typedef enum post_state {
    IDLE,
    QUEUED,    /* a send without a letter, or a receive that no letter was found for */
    POSTED,    /* a send: the letter is out, `number` is its */
    MATCHED,   /* a receive: `letter` is for it */
    DELEGATED, /* the operation over MPI does the rest */
    DONE,
} post_state;

typedef struct shm_operation {
    ls_operation base;
    ls_operation *library; /* the same, over MPI */
    post_kind kind;
    post_state state;
    int peer;
    int channel;
    void *data;         /* of a receive */
    const void *source; /* of a send */
    int64_t bytes;
    const ls_element_type *type; /* of RECEIVE_COMBINE */
    void *scratch;               /* of RECEIVE_COMBINE, for LIBRARY */
    letter *letter;
    int64_t number;
    struct shm_operation *next; /* in a queue */
} shm_operation;

typedef struct operation_queue {
    shm_operation *first;
    shm_operation *last;
} operation_queue;

/* What goes from this rank to another on the node, and what comes from it. */
typedef struct neighbour {
    letter *outgoing; /* (LETTERS) in the other's part */
    int64_t posted;   /* letters so far */
    operation_queue sends;
    letter *incoming;      /* (LETTERS) in the own part */
    int64_t seen;          /* letters that were claimed, all those before them too */
    bool claimed[LETTERS]; /* of those after */
    operation_queue receives;
} neighbour;

typedef struct shm_transport {
    ls_transport base;
    ls_transport *library;
    MPI_Comm node;
    int node_rank;
    int node_ranks;
    int *member;          /* (ranks) index on this node, or NOT_HERE */
    neighbour *neighbour; /* (node_ranks) */
    ls__window boxes;     /* (node_ranks, LETTERS) letters in each part, by sender */
    ls__window memory[WINDOWS_MAX];
    int windows;
    int64_t queued; /* sends without a letter, to all neighbours */
    bool warned;
} shm_transport;

static shm_transport *transport_of(const shm_operation *operation)
{
    return (shm_transport *)operation->base.transport;
}

/* NULL where the peer is on another node. */
static neighbour *neighbour_at(shm_transport *transport, int peer)
{
    int member = transport->member[peer];

    return member == NOT_HERE ? NULL : &transport->neighbour[member];
}

/* ---- queues ---- */

static void enqueue(operation_queue *queue, shm_operation *operation)
{
    operation->next = NULL;
    if (queue->first)
        queue->last->next = operation;
    else
        queue->first = operation;
    queue->last = operation;
}

static void dequeue(operation_queue *queue, shm_operation *before, shm_operation *operation)
{
    if (before)
        before->next = operation->next;
    else
        queue->first = operation->next;
    if (queue->last == operation)
        queue->last = before;
}

/* ---- life cycle of operations ---- */

static ls_status operation_open(ls_transport *base, int64_t max_bytes, ls_operation **operation)
{
    shm_transport *transport = (shm_transport *)base;
    shm_operation *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for an operation");
    ls_status status =
        transport->library->table->operation_open(transport->library, max_bytes, &opened->library);
    if (status != LS_OK) {
        free(opened);
        return status;
    }
    opened->base.transport = base;
    *operation = &opened->base;
    return LS_OK;
}

static void leave_queue(operation_queue *queue, shm_operation *operation)
{
    shm_operation *before = NULL;

    for (shm_operation *at = queue->first; at; before = at, at = at->next)
        if (at == operation) {
            dequeue(queue, before, at);
            return;
        }
}

static void operation_close(ls_operation *base)
{
    shm_operation *operation = (shm_operation *)base;

    if (operation->state == QUEUED) {
        shm_transport *transport = transport_of(operation);
        neighbour *other = neighbour_at(transport, operation->peer);
        leave_queue(operation->kind == SEND ? &other->sends : &other->receives, operation);
        transport->queued -= operation->kind == SEND;
    }
    transport_of(operation)->library->table->operation_close(operation->library);
    free(operation);
}

/* ---- sending ---- */

/* Where `bytes` bytes of this rank's stand in its windows; false: nowhere. */
static bool find_shared(const shm_transport *transport, const void *data, int64_t bytes,
                        letter *found)
{
    for (int i = 0; i < transport->windows; i++) {
        const ls__window *window = &transport->memory[i];
        int64_t offset = (int64_t)((uintptr_t)data - (uintptr_t)window->own);
        if (offset >= 0 && offset < window->bytes && bytes <= window->bytes - offset) {
            found->window = i;
            found->offset = offset;
            return true;
        }
    }
    return false;
}

static ls_status delegate_send(shm_operation *operation)
{
    operation->state = DELEGATED;
    return transport_of(operation)->library->table->send(operation->library, operation->peer,
                                                         operation->channel, operation->source,
                                                         operation->bytes);
}

static ls_status write_letter(shm_operation *operation, letter *free_letter)
{
    free_letter->bytes = operation->bytes;
    free_letter->channel = operation->channel;
    if (operation->bytes <= INSIDE_MAX) {
        free_letter->place = INSIDE;
        memcpy(free_letter->data, operation->source, (size_t)operation->bytes);
        operation->state = DONE;
    } else if (find_shared(transport_of(operation), operation->source, operation->bytes,
                           free_letter)) {
        free_letter->place = SHARED;
        operation->letter = free_letter;
        operation->state = POSTED;
    } else {
        free_letter->place = LIBRARY;
        LS_TRY(delegate_send(operation));
    }
    return LS_OK;
}

/* Gives letters to queued sends, in order, as far as there are free ones. */
static ls_status post_queued(neighbour *other)
{
    while (other->sends.first) {
        letter *next = &other->outgoing[other->posted % LETTERS];
        shm_operation *operation = other->sends.first;
        int64_t before = other->posted + 1 - LETTERS; /* whose letter it was */

        if (before > 0 && atomic_load_explicit(&next->taken, memory_order_acquire) != before)
            return LS_OK;
        dequeue(&other->sends, NULL, operation);
        transport_of(operation)->queued--;
        operation->number = ++other->posted;
        LS_TRY(write_letter(operation, next));
        atomic_store_explicit(&next->posted, operation->number, memory_order_release);
    }
    return LS_OK;
}

/* Whoever waits for whatever helps these along: the letter that a neighbour waits for may be among
 * them. */
static ls_status post_all_queued(shm_transport *transport)
{
    for (int i = 0; i < transport->node_ranks && transport->queued > 0; i++)
        LS_TRY(post_queued(&transport->neighbour[i]));
    return LS_OK;
}

static void prepare(shm_operation *operation, post_kind kind, int peer, int channel, int64_t bytes)
{
    assert(operation->state == IDLE && bytes > 0);
    operation->kind = kind;
    operation->peer = peer;
    operation->channel = channel;
    operation->bytes = bytes;
    operation->state = QUEUED;
}

static ls_status post_send(ls_operation *base, int peer, int channel, const void *data,
                           int64_t bytes)
{
    shm_operation *operation = (shm_operation *)base;
    shm_transport *transport = transport_of(operation);
    neighbour *other = neighbour_at(transport, peer);

    prepare(operation, SEND, peer, channel, bytes);
    operation->source = data;
    transport->base.traffic.sent_bytes += bytes;
    transport->base.traffic.sent_messages++;
    if (!other)
        return delegate_send(operation);
    enqueue(&other->sends, operation);
    transport->queued++;
    return post_queued(other);
}

/* ---- receiving ---- */

static ls_status delegate_receive(shm_operation *operation)
{
    const ls_transport_table *table = transport_of(operation)->library->table;

    operation->state = DELEGATED;
    if (operation->kind == RECEIVE)
        return table->receive(operation->library, operation->peer, operation->channel,
                              operation->data, operation->bytes);
    return table->receive_combine(operation->library, operation->peer, operation->channel,
                                  operation->data, operation->bytes / operation->type->size,
                                  operation->type, operation->scratch);
}

static ls_status post_receive_as(shm_operation *operation)
{
    neighbour *other = neighbour_at(transport_of(operation), operation->peer);

    if (!other)
        return delegate_receive(operation);
    enqueue(&other->receives, operation);
    return LS_OK;
}

static ls_status post_receive(ls_operation *base, int peer, int channel, void *data, int64_t bytes)
{
    shm_operation *operation = (shm_operation *)base;

    prepare(operation, RECEIVE, peer, channel, bytes);
    operation->data = data;
    return post_receive_as(operation);
}

static ls_status post_receive_combine(ls_operation *base, int peer, int channel, void *into,
                                      int64_t count, const ls_element_type *type, void *scratch)
{
    shm_operation *operation = (shm_operation *)base;

    prepare(operation, RECEIVE_COMBINE, peer, channel, count * type->size);
    operation->data = into;
    operation->type = type;
    operation->scratch = scratch;
    return post_receive_as(operation);
}

static void take(shm_operation *operation, const void *from)
{
    if (operation->kind == RECEIVE_COMBINE)
        operation->type->combine(operation->type->context, operation->data, from,
                                 operation->bytes / operation->type->size);
    else
        memcpy(operation->data, from, (size_t)operation->bytes);
    operation->state = DONE;
}

/* Does what the letter says and gives it back. */
static ls_status read_letter(shm_operation *operation)
{
    const shm_transport *transport = transport_of(operation);
    letter *matched = operation->letter;
    ls_status status = LS_OK;

    if (matched->bytes != operation->bytes)
        status = LS_FAIL(LS_COMM,
                         "rank %d sent %lld bytes where %lld were expected of it: every rank must "
                         "use the same count and algorithm",
                         operation->peer, (long long)matched->bytes, (long long)operation->bytes);
    else if (matched->place == INSIDE)
        take(operation, matched->data);
    else if (matched->place == SHARED)
        take(operation,
             transport->memory[matched->window].part[transport->member[operation->peer]] +
                 matched->offset);
    else
        status = delegate_receive(operation);
    atomic_store_explicit(&matched->taken, operation->number, memory_order_release);
    return status;
}

/* The first receive that waits on the letter's channel takes it. What is to come over MPI is asked
 * for at once, as MPI matches in the order of asking. */
static ls_status claim(neighbour *other, letter *arrived, int64_t number, bool *claimed)
{
    shm_operation *before = NULL;
    shm_operation *at = other->receives.first;

    for (; at && at->channel != arrived->channel; at = at->next)
        before = at;
    *claimed = at != NULL;
    if (!at)
        return LS_OK;
    dequeue(&other->receives, before, at);
    at->letter = arrived;
    at->number = number;
    at->state = MATCHED;
    return arrived->place == LIBRARY && arrived->bytes == at->bytes ? read_letter(at) : LS_OK;
}

/* Claims letters in their order. Those on channels on which nothing waits yet stay in the box. A
 * letter that was claimed may be in use again for a later number: it is passed over unread. */
static ls_status match(neighbour *other)
{
    for (int64_t number = other->seen + 1; other->receives.first; number++) {
        letter *next = &other->incoming[(number - 1) % LETTERS];
        bool *claimed = &other->claimed[(number - 1) % LETTERS];

        if (number - other->seen > LETTERS)
            return LS_OK;
        if (!*claimed && atomic_load_explicit(&next->posted, memory_order_acquire) != number)
            return LS_OK;
        if (!*claimed)
            LS_TRY(claim(other, next, number, claimed));
        if (*claimed && number == other->seen + 1) {
            *claimed = false;
            other->seen = number;
        }
    }
    return LS_OK;
}

/* ---- completion ---- */

static ls_status test_delegated(shm_operation *operation)
{
    bool done = false;

    LS_TRY(operation->library->transport->table->test(operation->library, &done));
    if (done)
        operation->state = DONE;
    return LS_OK;
}

static ls_status advance(shm_operation *operation)
{
    shm_transport *transport = transport_of(operation);

    LS_TRY(post_all_queued(transport));
    if (operation->state == QUEUED && operation->kind != SEND)
        LS_TRY(match(neighbour_at(transport, operation->peer)));
    if (operation->state == MATCHED)
        LS_TRY(read_letter(operation));
    if (operation->state == POSTED &&
        atomic_load_explicit(&operation->letter->taken, memory_order_acquire) >= operation->number)
        operation->state = DONE;
    if (operation->state == DELEGATED)
        LS_TRY(test_delegated(operation));
    return LS_OK;
}

static ls_status test(ls_operation *base, bool *done)
{
    shm_operation *operation = (shm_operation *)base;
    ls_traffic *traffic = &base->transport->traffic;

    LS_TRY(advance(operation));
    *done = operation->state == DONE || operation->state == IDLE;
    if (operation->state == DONE && operation->kind != SEND) {
        traffic->received_bytes += operation->bytes;
        traffic->received_messages++;
    }
    if (*done)
        operation->state = IDLE;
    return LS_OK;
}

/* ---- the library's own collectives ---- */

static void prepare_library(shm_operation *operation)
{
    prepare(operation, SEND, NOT_HERE, 0, 1);
    operation->state = DELEGATED;
}

static ls_status post_all_reduce(ls_operation *base, void *data, int64_t count,
                                 const ls_element_type *type)
{
    shm_operation *operation = (shm_operation *)base;

    prepare_library(operation);
    return operation->library->transport->table->all_reduce(operation->library, data, count, type);
}

static ls_status post_exchange_blocks(ls_operation *base, const void *data, void *received,
                                      int64_t count, int64_t size)
{
    shm_operation *operation = (shm_operation *)base;

    prepare_library(operation);
    return operation->library->transport->table->exchange_blocks(operation->library, data, received,
                                                                 count, size);
}

static ls_status post_gather_blocks(ls_operation *base, void *data, int64_t count, int64_t size)
{
    shm_operation *operation = (shm_operation *)base;

    prepare_library(operation);
    return operation->library->transport->table->gather_blocks(operation->library, data, count,
                                                               size);
}

/* ---- the transport ---- */

/* Where a window is refused any memory will do; what is sent from it goes through MPI. */
static ls_status take_memory(ls_transport *base, int64_t bytes, void **memory)
{
    shm_transport *transport = (shm_transport *)base;
    ls__window *window = &transport->memory[transport->windows];
    ls_status status = LS_NO_MEMORY;

    if (transport->node_ranks == 1)
        return ls_transport_memory(transport->library, bytes, memory);
    if (transport->windows < WINDOWS_MAX)
        status = ls__window_open(window, transport->node, bytes);
    if (status == LS_OK) {
        transport->windows++;
        *memory = window->own;
        return LS_OK;
    }
    if (status != LS_NO_MEMORY)
        return status;
    if (transport->node_rank == 0 && !transport->warned)
        ls__log_warning("%s: these ranks copy through MPI instead", ls_last_error()->text);
    transport->warned = true;
    return ls_transport_memory(transport->library, bytes, memory);
}

static void close_transport(ls_transport *base)
{
    shm_transport *transport = (shm_transport *)base;

    for (int i = 0; i < transport->windows; i++)
        ls__window_close(&transport->memory[i]);
    ls__window_close(&transport->boxes);
    ls_transport_close(transport->library);
    if (transport->node != MPI_COMM_NULL)
        MPI_Comm_free(&transport->node);
    free(transport->neighbour);
    free(transport->member);
    free(transport);
}

static const ls_transport_table table = {
    .name = "shared memory",
    .operation_open = operation_open,
    .operation_close = operation_close,
    .send = post_send,
    .receive = post_receive,
    .receive_combine = post_receive_combine,
    .test = test,
    .all_reduce = post_all_reduce,
    .exchange_blocks = post_exchange_blocks,
    .gather_blocks = post_gather_blocks,
    .memory = take_memory,
    .close = close_transport,
};

/* ---- opening ---- */

static ls_status find_node(shm_transport *transport, MPI_Comm communicator)
{
    MPI_Comm shared = MPI_COMM_NULL;

    LS__TRY_MPI(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, transport->base.rank,
                                    MPI_INFO_NULL, &shared),
                "finding the ranks on this node");
    ls_status status = ls__mpi_duplicate(shared, &transport->node);
    MPI_Comm_free(&shared);
    LS_TRY(status);
    LS__TRY_MPI(MPI_Comm_rank(transport->node, &transport->node_rank), "asking for the rank");
    LS__TRY_MPI(MPI_Comm_size(transport->node, &transport->node_ranks), "counting ranks");
    return LS_OK;
}

/* member[rank] for all ranks. */
static ls_status find_members(shm_transport *transport)
{
    int ranks = transport->base.ranks;
    int *here = calloc((size_t)transport->node_ranks, sizeof *here);

    transport->member = calloc((size_t)ranks, sizeof transport->member[0]);
    transport->neighbour = calloc((size_t)transport->node_ranks, sizeof transport->neighbour[0]);
    if (!here || !transport->member || !transport->neighbour) {
        free(here);
        return LS_FAIL(LS_NO_MEMORY, "no memory for the neighbours among %d ranks", ranks);
    }
    int code = MPI_Allgather(&transport->base.rank, 1, MPI_INT, here, 1, MPI_INT, transport->node);
    for (int rank = 0; rank < ranks; rank++)
        transport->member[rank] = NOT_HERE;
    for (int i = 0; code == MPI_SUCCESS && i < transport->node_ranks; i++)
        transport->member[here[i]] = i;
    free(here);
    LS__TRY_MPI(code, "asking the ranks on this node for their numbers");
    return LS_OK;
}

/* per_node where nodes are as ls_layout wants them, else 1. */
static ls_status find_layout(shm_transport *transport, MPI_Comm communicator)
{
    int size = transport->node_ranks;
    int first = transport->base.rank - transport->node_rank;
    bool in_order = first >= 0 && first % size == 0 && transport->member[first] == 0 &&
                    transport->member[first + size - 1] == size - 1;
    int wanted = in_order ? size : 1;
    int mine[2] = {wanted, -wanted};
    int least[2] = {0};

    LS__TRY_MPI(MPI_Allreduce(mine, least, 2, MPI_INT, MPI_MIN, communicator),
                "comparing the nodes");
    transport->base.per_node = least[0] == -least[1] ? wanted : 1;
    return LS_OK;
}

/* Looking again and again pays only where who is waited for can run at the same time. */
static ls_status find_spins(shm_transport *transport)
{
    ls__cores mine = ls__cores_usable();
    ls__cores all = {0};

    LS__TRY_MPI(MPI_Allreduce(mine.bits, all.bits, (int)(sizeof all.bits / sizeof all.bits[0]),
                              MPI_UINT64_T, MPI_BOR, transport->node),
                "counting the cores of this node");
    transport->base.spins = transport->node_ranks <= ls__cores_count(&all) ? SPINS : 0;
    return LS_OK;
}

static ls_status open_boxes(shm_transport *transport)
{
    int ranks = transport->node_ranks;
    int own = transport->node_rank;

    if (ranks == 1)
        return LS_OK;
    LS_TRY(ls__window_open(&transport->boxes, transport->node,
                           (int64_t)sizeof(letter) * LETTERS * ranks));
    for (int i = 0; i < ranks; i++) {
        transport->neighbour[i].outgoing =
            (letter *)(void *)transport->boxes.part[i] + own * LETTERS;
        transport->neighbour[i].incoming = (letter *)(void *)transport->boxes.own + i * LETTERS;
    }
    return LS_OK;
}

static ls_status set_up(shm_transport *transport, MPI_Comm communicator)
{
    LS_TRY(ls_transport_open_mpi(&transport->library, communicator, NULL));
    transport->base.rank = transport->library->rank;
    transport->base.ranks = transport->library->ranks;
    LS_TRY(find_node(transport, communicator));
    LS_TRY(find_members(transport));
    LS_TRY(find_layout(transport, communicator));
    LS_TRY(find_spins(transport));
    return open_boxes(transport);
}

/* The same outcome on all ranks, as some nodes may have room and others not. */
static ls_status agree(MPI_Comm communicator, ls_status status)
{
    int mine = status;
    int worst = 0;

    LS__TRY_MPI(MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, communicator),
                "agreeing on shared memory");
    LS_FAIL_IF(status == LS_OK && worst != LS_OK, (ls_status)worst,
               "another node has no memory for its ranks to share");
    return status;
}

ls_status ls_transport_open_shm(ls_transport **transport, MPI_Comm communicator)
{
    shm_transport *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the shared-memory transport");
    opened->base.table = &table;
    opened->node = MPI_COMM_NULL;
    ls_status status = agree(communicator, set_up(opened, communicator));
    if (status != LS_OK) {
        close_transport(&opened->base);
        return status;
    }
    *transport = &opened->base;
    return LS_OK;
}
