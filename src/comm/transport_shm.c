/* Ranks on one node pass each other letters. Every rank has a box for each of the others, in memory
 * that all of them share; one writes, one reads:
 *
 *     sender                             box: LETTERS letters, in the order of posting
 *       writes a letter             -->  | .. | n-1 | n | free | .. |
 *                                          receiver moves it to the first receive that waits on its
 *                                          channel, or keeps it for one that is yet to come
 *       may touch its data again    <--    takes the data, and marks the sender's cell
 *
 * What a letter says depends on where the data stands:
 *     INSIDE     a short message: the data itself, so that the sender is done at once
 *     SHARED     in a window of the sender's: the receiver reads it there, once, into place or sum
 *     LIBRARY    anywhere else: the receiver is to receive it over MPI
 *
 * So a box empties whichever operations are tested, and no channel holds up another. What is kept
 * stands in a pool that grows where a letter finds it empty, which only the first steps see.
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

enum { LETTERS = 16, INSIDE_MAX = 960, WINDOWS_MAX = 64, CELLS = 4096, NOT_HERE = -1 };

/* Looks before the processor is given away: about as long as that takes, twice. */
enum { SPINS = 200 };

typedef enum place { INSIDE, SHARED, LIBRARY } place;

typedef struct letter {
    int64_t bytes;
    int64_t offset; /* of SHARED: in the sender's part of the window */
    int window;     /* of SHARED */
    int cell;       /* of SHARED: to be marked when the data was taken */
    int channel;
    place place;
    char data[INSIDE_MAX]; /* of INSIDE */
} letter;

typedef struct letter_slot {
    _Alignas(64) _Atomic int64_t posted; /* the number of the letter, from 1, once it is in place */
    letter letter;
} letter_slot;

typedef struct letter_box {
    _Alignas(64) _Atomic int64_t read; /* letters that the receiver has moved out */
    letter_slot slot[LETTERS];         /* letter n is in slot n % LETTERS */
} letter_box;

/* What a sender waits for: 0, then 1 when its data was taken. A cache line each. */
typedef struct cell {
    _Alignas(64) _Atomic int taken;
} cell;

/* A rank's part of the window: its cells, then a box for each rank of the node. */
typedef struct mail_part {
    cell cell[CELLS];
    letter_box box[];
} mail_part;

/* A letter that no receive was waiting for. */
typedef struct kept_letter {
    letter letter;
    struct kept_letter *next;
} kept_letter;

typedef enum post_kind { SEND, RECEIVE, RECEIVE_COMBINE } post_kind;

typedef enum post_state {
    IDLE,
    QUEUED,    /* a send that found the box full, or a receive without its letter */
    POSTED,    /* a send of SHARED: its cell will tell */
    MATCHED,   /* a receive: `letter` is its */
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
    int cell;           /* NOT_HERE: there was none left, so what is not INSIDE is LIBRARY */
    void *data;         /* of a receive */
    const void *source; /* of a send */
    int64_t bytes;
    const ls_element_type *type; /* of RECEIVE_COMBINE */
    void *scratch;               /* of RECEIVE_COMBINE, for LIBRARY */
    letter letter;               /* of MATCHED */
    struct shm_operation *next;  /* in a queue */
} shm_operation;

typedef struct operation_queue {
    shm_operation *first;
    shm_operation *last;
} operation_queue;

/* What goes from this rank to another on the node, and what comes from it. */
typedef struct neighbour {
    letter_box *outgoing; /* in the other's part */
    int64_t posted;       /* letters so far */
    int64_t read_there;   /* of those, known to be read */
    operation_queue sends;
    letter_box *incoming; /* in the own part */
    int64_t read;         /* letters so far */
    operation_queue receives;
    kept_letter *first_kept; /* in the order of posting */
    kept_letter *last_kept;
} neighbour;

typedef struct shm_transport {
    ls_transport base;
    ls_transport *library;
    MPI_Comm node;
    int node_rank;
    int node_ranks;
    int *member;          /* (ranks) index on this node, or NOT_HERE */
    neighbour *neighbour; /* (node_ranks) */
    ls__window mail;      /* of mail_part */
    ls__window memory[WINDOWS_MAX];
    int windows;
    bool warned;
    int free_cell[CELLS]; /* a stack */
    int free_cells;
    kept_letter *spare; /* the pool */
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

static mail_part *part_of(const shm_transport *transport, int member)
{
    return (mail_part *)(void *)transport->mail.part[member];
}

static _Atomic int *own_cell(const shm_operation *operation)
{
    const shm_transport *transport = (const shm_transport *)operation->base.transport;

    return &part_of(transport, transport->node_rank)->cell[operation->cell].taken;
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
    opened->cell = NOT_HERE;
    if (transport->free_cells > 0)
        opened->cell = transport->free_cell[--transport->free_cells];
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

/* A cell that a receiver may still mark is not given to another operation. */
static void operation_close(ls_operation *base)
{
    shm_operation *operation = (shm_operation *)base;
    shm_transport *transport = transport_of(operation);

    if (operation->state == QUEUED) {
        neighbour *other = neighbour_at(transport, operation->peer);
        leave_queue(operation->kind == SEND ? &other->sends : &other->receives, operation);
    }
    if (operation->cell != NOT_HERE && operation->state != POSTED)
        transport->free_cell[transport->free_cells++] = operation->cell;
    transport->library->table->operation_close(operation->library);
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

static ls_status write_letter(shm_operation *operation, letter *written)
{
    written->bytes = operation->bytes;
    written->channel = operation->channel;
    if (operation->bytes <= INSIDE_MAX) {
        written->place = INSIDE;
        memcpy(written->data, operation->source, (size_t)operation->bytes);
        operation->state = DONE;
    } else if (operation->cell != NOT_HERE &&
               find_shared(transport_of(operation), operation->source, operation->bytes, written)) {
        written->place = SHARED;
        written->cell = operation->cell;
        atomic_store_explicit(own_cell(operation), 0, memory_order_relaxed);
        operation->state = POSTED;
    } else {
        written->place = LIBRARY;
        LS_TRY(delegate_send(operation));
    }
    return LS_OK;
}

/* Asks how far the receiver has read only where the box seems full: its answer is a cache miss. */
static bool box_is_full(neighbour *other)
{
    if (other->posted - other->read_there == LETTERS)
        other->read_there = atomic_load_explicit(&other->outgoing->read, memory_order_acquire);
    return other->posted - other->read_there == LETTERS;
}

/* Writes the letters of queued sends, in order, as far as the box has room. */
static ls_status post_queued(neighbour *other)
{
    while (other->sends.first && !box_is_full(other)) {
        shm_operation *operation = other->sends.first;
        letter_slot *slot = &other->outgoing->slot[other->posted % LETTERS];

        dequeue(&other->sends, NULL, operation);
        LS_TRY(write_letter(operation, &slot->letter));
        atomic_store_explicit(&slot->posted, ++other->posted, memory_order_release);
    }
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

/* Copies what there is of a letter. */
static void copy_letter(letter *to, const letter *from)
{
    size_t used = from->place == INSIDE ? (size_t)from->bytes : 0;

    memcpy(to, from, offsetof(letter, data) + used);
}

/* Gives a receive its letter. What is to come over MPI is asked for at once, as MPI matches in the
 * order of asking. */
static ls_status hand_over(shm_operation *receive, const letter *arrived)
{
    copy_letter(&receive->letter, arrived);
    receive->state = MATCHED;
    if (arrived->place == LIBRARY && arrived->bytes == receive->bytes)
        return delegate_receive(receive);
    return LS_OK;
}

/* The first receive that waits on a channel leaves the queue; NULL where none does. */
static shm_operation *take_receive(neighbour *other, int channel)
{
    shm_operation *before = NULL;
    shm_operation *at = other->receives.first;

    for (; at && at->channel != channel; at = at->next)
        before = at;
    if (at)
        dequeue(&other->receives, before, at);
    return at;
}

static kept_letter *take_spare(shm_transport *transport)
{
    kept_letter *spare = transport->spare;

    if (!spare)
        return malloc(sizeof *spare);
    transport->spare = spare->next;
    return spare;
}

static ls_status keep_letter(shm_transport *transport, neighbour *other, const letter *arrived)
{
    kept_letter *kept = take_spare(transport);

    LS_FAIL_IF(!kept, LS_NO_MEMORY, "no memory to keep a message for later");
    copy_letter(&kept->letter, arrived);
    kept->next = NULL;
    if (other->first_kept)
        other->last_kept->next = kept;
    else
        other->first_kept = kept;
    other->last_kept = kept;
    return LS_OK;
}

/* Empties the box, in order: to receives that wait, and what is left into what is kept. */
static ls_status empty_box(shm_transport *transport, neighbour *other)
{
    for (;;) {
        letter_slot *slot = &other->incoming->slot[other->read % LETTERS];
        if (atomic_load_explicit(&slot->posted, memory_order_acquire) != other->read + 1)
            return LS_OK;
        shm_operation *receive = take_receive(other, slot->letter.channel);
        LS_TRY(receive ? hand_over(receive, &slot->letter)
                       : keep_letter(transport, other, &slot->letter));
        atomic_store_explicit(&other->incoming->read, ++other->read, memory_order_release);
    }
}

/* The first letter kept for a channel leaves; NULL where there is none. */
static kept_letter *take_kept(neighbour *other, int channel)
{
    kept_letter *before = NULL;
    kept_letter *at = other->first_kept;

    for (; at && at->letter.channel != channel; at = at->next)
        before = at;
    if (!at)
        return NULL;
    if (before)
        before->next = at->next;
    else
        other->first_kept = at->next;
    if (other->last_kept == at)
        other->last_kept = before;
    return at;
}

static ls_status post_receive_as(shm_operation *operation)
{
    shm_transport *transport = transport_of(operation);
    neighbour *other = neighbour_at(transport, operation->peer);

    if (!other)
        return delegate_receive(operation);
    kept_letter *kept = take_kept(other, operation->channel);
    if (!kept) {
        enqueue(&other->receives, operation);
        return LS_OK;
    }
    ls_status status = hand_over(operation, &kept->letter);
    kept->next = transport->spare;
    transport->spare = kept;
    return status;
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

static void take_shared(shm_operation *operation)
{
    const shm_transport *transport = transport_of(operation);
    const letter *from = &operation->letter;
    int member = transport->member[operation->peer];

    take(operation, transport->memory[from->window].part[member] + from->offset);
    atomic_store_explicit(&part_of(transport, member)->cell[from->cell].taken, 1,
                          memory_order_release);
}

/* Does what the letter says. */
static ls_status read_letter(shm_operation *operation)
{
    const letter *from = &operation->letter;

    LS_FAIL_IF(from->bytes != operation->bytes, LS_COMM,
               "rank %d sent %lld bytes where %lld were expected of it: every rank must use the "
               "same count and algorithm",
               operation->peer, (long long)from->bytes, (long long)operation->bytes);
    if (from->place == INSIDE)
        take(operation, from->data);
    else
        take_shared(operation);
    return LS_OK;
}

/* ---- completion ---- */

/* Everything that can move between this rank and the others on the node, whoever waits for it. */
static ls_status move_letters(shm_transport *transport)
{
    for (int i = 0; i < transport->node_ranks; i++) {
        neighbour *other = &transport->neighbour[i];
        if (i == transport->node_rank)
            continue;
        LS_TRY(post_queued(other));
        LS_TRY(empty_box(transport, other));
    }
    return LS_OK;
}

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
    if (operation->state == POSTED &&
        atomic_load_explicit(own_cell(operation), memory_order_acquire))
        operation->state = DONE;
    if (operation->state == QUEUED || operation->state == POSTED)
        LS_TRY(move_letters(transport_of(operation)));
    if (operation->state == MATCHED)
        LS_TRY(read_letter(operation));
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

static void free_letters(kept_letter *first)
{
    while (first) {
        kept_letter *next = first->next;
        free(first);
        first = next;
    }
}

static void close_transport(ls_transport *base)
{
    shm_transport *transport = (shm_transport *)base;

    for (int i = 0; i < transport->windows; i++)
        ls__window_close(&transport->memory[i]);
    ls__window_close(&transport->mail);
    ls_transport_close(transport->library);
    if (transport->node != MPI_COMM_NULL)
        MPI_Comm_free(&transport->node);
    for (int i = 0; transport->neighbour && i < transport->node_ranks; i++)
        free_letters(transport->neighbour[i].first_kept);
    free_letters(transport->spare);
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

static ls_status open_mail(shm_transport *transport)
{
    int ranks = transport->node_ranks;
    int own = transport->node_rank;

    if (ranks == 1)
        return LS_OK;
    LS_TRY(ls__window_open(&transport->mail, transport->node,
                           (int64_t)(sizeof(mail_part) + (size_t)ranks * sizeof(letter_box))));
    for (int i = 0; i < ranks; i++) {
        transport->neighbour[i].outgoing = &part_of(transport, i)->box[own];
        transport->neighbour[i].incoming = &part_of(transport, own)->box[i];
    }
    for (int i = 0; i < CELLS; i++)
        transport->free_cell[transport->free_cells++] = i;
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
    return open_mail(transport);
}

/* The same outcome on all ranks, as some nodes may have room and others not. */
static ls_status agree(MPI_Comm communicator, ls_status status)
{
    int mine = (int)status;
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
