/* MPI point to point. MPI counts in int, so a message travels in pieces:
 *
 *     | longest | longest | rest |      all posted at once, in order, with the same tag
 *
 * MPI matches messages between two ranks in the order of posting, which is what keeps the pieces of
 * one message, and messages that follow each other, apart. Every piece but the last has `longest`
 * bytes, the last has fewer (perhaps none): so a short piece always ends a message, and a sender
 * and a receiver who differ about a length find out, wherever the boundary falls. */
#include "lockstep/transport_mpi.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

#include "comm/mpi_check.h"
#include "lockstep/schedule.h"

typedef struct mpi_transport {
    ls_transport base;
    MPI_Comm communicator;
    int64_t longest; /* bytes of a piece, a multiple of 8: elements are never split */
} mpi_transport;

typedef enum post_kind { SEND, RECEIVE, RECEIVE_COMBINE, LIBRARY } post_kind;

typedef struct mpi_operation {
    ls_operation base;
    post_kind kind;
    int peer;
    int64_t bytes;
    int64_t pieces;
    int64_t pieces_done; /* in order */
    int64_t pieces_max;
    /* of RECEIVE_COMBINE */
    void *into;
    const void *scratch;
    const ls_element_type *type;
    /* Of blocks: counts and offsets of what is sent, then of what is received, as MPI wants them.
     */
    int *layout;           /* (4, ranks) */
    MPI_Request request[]; /* (pieces_max) */
} mpi_operation;

static mpi_transport *transport_of(mpi_operation *operation)
{
    return (mpi_transport *)operation->base.transport;
}

static int64_t piece_count(const mpi_transport *transport, int64_t bytes)
{
    return bytes / transport->longest + 1;
}

/* Where MPI's int counts are met: a piece is at most INT_MAX bytes. */
static int piece_bytes(mpi_operation *operation, int64_t piece)
{
    int64_t longest = transport_of(operation)->longest;
    int64_t left = operation->bytes - piece * longest;

    return (int)(left < longest ? left : longest);
}

/* ---- life cycle ---- */

static ls_status operation_open(ls_transport *base, int64_t max_bytes, ls_operation **operation)
{
    int64_t pieces = piece_count((mpi_transport *)base, max_bytes);
    mpi_operation *opened = calloc(1, sizeof *opened + (size_t)pieces * sizeof opened->request[0]);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a message of %lld bytes in %lld pieces",
               (long long)max_bytes, (long long)pieces);
    opened->base.transport = base;
    opened->pieces_max = pieces;
    opened->layout = calloc(4 * (size_t)base->ranks, sizeof *opened->layout);
    if (!opened->layout) {
        free(opened);
        return LS_FAIL(LS_NO_MEMORY, "no memory for the blocks of %d ranks", base->ranks);
    }
    *operation = &opened->base;
    return LS_OK;
}

/* MPI has no way to withdraw a send, nor a collective: the first is left to complete by itself, the
 * second cannot even be freed. */
static void abandon(mpi_operation *operation)
{
    for (int64_t i = operation->pieces_done; i < operation->pieces; i++) {
        if (operation->request[i] == MPI_REQUEST_NULL || operation->kind == LIBRARY)
            continue;
        if (operation->kind != SEND)
            MPI_Cancel(&operation->request[i]);
        MPI_Request_free(&operation->request[i]);
    }
}

static void operation_close(ls_operation *base)
{
    mpi_operation *operation = (mpi_operation *)base;

    abandon(operation);
    free(operation->layout);
    free(operation);
}

/* ---- posts ---- */

static void prepare(mpi_operation *operation, post_kind kind, int peer, int64_t bytes)
{
    assert(operation->pieces_done == operation->pieces && bytes > 0);
    operation->kind = kind;
    operation->peer = peer;
    operation->bytes = bytes;
    operation->pieces = piece_count(transport_of(operation), bytes);
    operation->pieces_done = 0;
    assert(operation->pieces <= operation->pieces_max);
    for (int64_t i = 0; i < operation->pieces; i++)
        operation->request[i] = MPI_REQUEST_NULL;
}

static ls_status post_send(ls_operation *base, int peer, int channel, const void *data,
                           int64_t bytes)
{
    mpi_operation *operation = (mpi_operation *)base;
    mpi_transport *transport = transport_of(operation);

    prepare(operation, SEND, peer, bytes);
    for (int64_t i = 0; i < operation->pieces; i++)
        LS__TRY_MPI(MPI_Isend((const char *)data + i * transport->longest,
                              piece_bytes(operation, i), MPI_BYTE, peer, channel,
                              transport->communicator, &operation->request[i]),
                    "sending %lld bytes to rank %d", (long long)bytes, peer);
    transport->base.traffic.sent_bytes += bytes;
    transport->base.traffic.sent_messages += operation->pieces;
    return LS_OK;
}

static ls_status post_receive_as(post_kind kind, mpi_operation *operation, int peer, int channel,
                                 void *data, int64_t bytes)
{
    mpi_transport *transport = transport_of(operation);

    prepare(operation, kind, peer, bytes);
    for (int64_t i = 0; i < operation->pieces; i++)
        LS__TRY_MPI(MPI_Irecv((char *)data + i * transport->longest, piece_bytes(operation, i),
                              MPI_BYTE, peer, channel, transport->communicator,
                              &operation->request[i]),
                    "receiving %lld bytes from rank %d", (long long)bytes, peer);
    return LS_OK;
}

static ls_status post_receive(ls_operation *base, int peer, int channel, void *data, int64_t bytes)
{
    return post_receive_as(RECEIVE, (mpi_operation *)base, peer, channel, data, bytes);
}

static ls_status post_receive_combine(ls_operation *base, int peer, int channel, void *into,
                                      int64_t count, const ls_element_type *type, void *scratch)
{
    mpi_operation *operation = (mpi_operation *)base;

    assert(scratch);
    operation->into = into;
    operation->scratch = scratch;
    operation->type = type;
    return post_receive_as(RECEIVE_COMBINE, operation, peer, channel, scratch, count * type->size);
}

static ls_status library_type(const ls_element_type *type, MPI_Datatype *datatype)
{
    if (type->combine == ls_sum_f32.combine)
        *datatype = MPI_FLOAT;
    else if (type->combine == ls_sum_f64.combine)
        *datatype = MPI_DOUBLE;
    else
        return LS_FAIL(LS_BAD_USAGE,
                       "MPI_Allreduce cannot sum elements of type %s: use the ring for them",
                       type->name);
    return LS_OK;
}

static ls_status post_all_reduce(ls_operation *base, void *data, int64_t count,
                                 const ls_element_type *type)
{
    mpi_operation *operation = (mpi_operation *)base;
    mpi_transport *transport = transport_of(operation);
    MPI_Datatype datatype = MPI_DATATYPE_NULL;

    LS_TRY(library_type(type, &datatype));
    prepare(operation, LIBRARY, MPI_PROC_NULL, count * type->size);
    for (int64_t i = 0; i < operation->pieces; i++)
        LS__TRY_MPI(MPI_Iallreduce(MPI_IN_PLACE, (char *)data + i * transport->longest,
                                   (int)(piece_bytes(operation, i) / type->size), datatype, MPI_SUM,
                                   transport->communicator, &operation->request[i]),
                    "starting MPI_Iallreduce of %lld elements", (long long)count);
    return LS_OK;
}

/* Sizes that MPI counts in int; the element becomes a type, so that only their number must fit. */
static ls_status prepare_blocks(mpi_operation *operation, int64_t count, int64_t size,
                                MPI_Datatype *element)
{
    LS_FAIL_IF(count > INT_MAX || size > INT_MAX, LS_BAD_USAGE,
               "MPI's own collectives cannot count %lld elements of %lld bytes: use the ring",
               (long long)count, (long long)size);
    prepare(operation, LIBRARY, MPI_PROC_NULL, 1); /* one request, whatever the size */
    operation->bytes = count * size;
    LS__TRY_MPI(MPI_Type_contiguous((int)size, MPI_BYTE, element), "making a type");
    LS__TRY_MPI(MPI_Type_commit(element), "making a type");
    return LS_OK;
}

static ls_status post_exchange_blocks(ls_operation *base, const void *data, void *received,
                                      int64_t count, int64_t size)
{
    mpi_operation *operation = (mpi_operation *)base;
    int ranks = base->transport->ranks;
    int own = (int)ls_block(count, ranks, base->transport->rank).count;
    MPI_Datatype element = MPI_DATATYPE_NULL;
    int *layout = operation->layout;

    LS_TRY(prepare_blocks(operation, count, size, &element));
    LS_FAIL_IF((int64_t)own * ranks > INT_MAX, LS_BAD_USAGE,
               "MPI's own collectives cannot count %lld elements: use the ring",
               (long long)own * ranks);
    for (int rank = 0; rank < ranks; rank++) {
        ls_range block = ls_block(count, ranks, rank);
        layout[rank] = (int)block.count;
        layout[ranks + rank] = (int)block.offset;
        layout[2 * ranks + rank] = own;
        layout[3 * ranks + rank] = own * rank;
    }
    LS__TRY_MPI(MPI_Ialltoallv(data, layout, layout + ranks, element, received, layout + 2 * ranks,
                               layout + 3 * ranks, element, transport_of(operation)->communicator,
                               &operation->request[0]),
                "starting MPI_Ialltoallv of %lld elements", (long long)count);
    LS__TRY_MPI(MPI_Type_free(&element), "freeing a type");
    return LS_OK;
}

static ls_status post_gather_blocks(ls_operation *base, void *data, int64_t count, int64_t size)
{
    mpi_operation *operation = (mpi_operation *)base;
    int ranks = base->transport->ranks;
    MPI_Datatype element = MPI_DATATYPE_NULL;
    int *layout = operation->layout;

    LS_TRY(prepare_blocks(operation, count, size, &element));
    for (int rank = 0; rank < ranks; rank++) {
        ls_range block = ls_block(count, ranks, rank);
        layout[rank] = (int)block.count;
        layout[ranks + rank] = (int)block.offset;
    }
    LS__TRY_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, layout, layout + ranks,
                                element, transport_of(operation)->communicator,
                                &operation->request[0]),
                "starting MPI_Iallgatherv of %lld elements", (long long)count);
    LS__TRY_MPI(MPI_Type_free(&element), "freeing a type");
    return LS_OK;
}

/* ---- completion ---- */

/* A message longer than expected is MPI's own error; a shorter one is found by its length. */
static ls_status check_received(mpi_operation *operation, int code, int expected,
                                const MPI_Status *status)
{
    int class = MPI_SUCCESS;
    int received = 0;

    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    LS_FAIL_IF(class == MPI_ERR_TRUNCATE, LS_COMM,
               "rank %d sent more than the %lld bytes expected of it: every rank must use the same "
               "count and algorithm",
               operation->peer, (long long)operation->bytes);
    LS__TRY_MPI(code, "receiving %lld bytes from rank %d", (long long)operation->bytes,
                operation->peer);
    LS__TRY_MPI(MPI_Get_count(status, MPI_BYTE, &received), "reading the length of a message");
    LS_FAIL_IF(received != expected, LS_COMM,
               "rank %d sent less than the %lld bytes expected of it: every rank must use the same "
               "count and algorithm",
               operation->peer, (long long)operation->bytes);
    return LS_OK;
}

static ls_status test_piece(mpi_operation *operation, int64_t piece, int *done)
{
    MPI_Status status;
    int code = MPI_Test(&operation->request[piece], done, &status);

    switch (operation->kind) {
    case SEND:
        LS__TRY_MPI(code, "sending %lld bytes to rank %d", (long long)operation->bytes,
                    operation->peer);
        return LS_OK;
    case LIBRARY:
        LS__TRY_MPI(code, "a collective of MPI's over %lld bytes", (long long)operation->bytes);
        return LS_OK;
    case RECEIVE:
    case RECEIVE_COMBINE:
        break;
    }
    if (code == MPI_SUCCESS && !*done)
        return LS_OK;
    return check_received(operation, code, piece_bytes(operation, piece), &status);
}

static void finish(mpi_operation *operation)
{
    ls_traffic *traffic = &operation->base.transport->traffic;

    if (operation->kind == RECEIVE_COMBINE)
        operation->type->combine(operation->type->context, operation->into, operation->scratch,
                                 operation->bytes / operation->type->size);
    if (operation->kind == RECEIVE || operation->kind == RECEIVE_COMBINE) {
        traffic->received_bytes += operation->bytes;
        traffic->received_messages += operation->pieces;
    }
}

static ls_status test(ls_operation *base, bool *done)
{
    mpi_operation *operation = (mpi_operation *)base;

    *done = false;
    while (operation->pieces_done < operation->pieces) {
        int piece_done = 0;
        LS_TRY(test_piece(operation, operation->pieces_done, &piece_done));
        if (!piece_done)
            return LS_OK;
        operation->pieces_done++;
    }
    finish(operation);
    *done = true;
    return LS_OK;
}

/* ---- the transport ---- */

static void close_transport(ls_transport *base)
{
    mpi_transport *transport = (mpi_transport *)base;

    MPI_Comm_free(&transport->communicator);
    free(transport);
}

static const ls_transport_table table = {
    .name = "MPI",
    .operation_open = operation_open,
    .operation_close = operation_close,
    .send = post_send,
    .receive = post_receive,
    .receive_combine = post_receive_combine,
    .test = test,
    .all_reduce = post_all_reduce,
    .exchange_blocks = post_exchange_blocks,
    .gather_blocks = post_gather_blocks,
    .close = close_transport,
};

static ls_status set_up(mpi_transport *transport, MPI_Comm communicator, int64_t longest)
{
    if (longest == 0)
        longest = INT_MAX;
    LS_FAIL_IF(longest < 8 || longest > INT_MAX, LS_BAD_USAGE,
               "an MPI message holds 8 to %d bytes, not %lld", INT_MAX, (long long)longest);
    transport->base.table = &table;
    transport->longest = longest / 8 * 8;
    LS__TRY_MPI(MPI_Comm_rank(communicator, &transport->base.rank), "asking MPI for the rank");
    LS__TRY_MPI(MPI_Comm_size(communicator, &transport->base.ranks), "asking MPI for the ranks");
    transport->base.per_node = 1;
    return ls__mpi_duplicate(communicator, &transport->communicator);
}

ls_status ls_transport_open_mpi(ls_transport **transport, MPI_Comm communicator,
                                const ls_mpi_options *options)
{
    mpi_transport *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the MPI transport");
    ls_status status = set_up(opened, communicator, options ? options->longest_message : 0);
    if (status != LS_OK) {
        free(opened);
        return status;
    }
    *transport = &opened->base;
    return LS_OK;
}

ls_status ls_mpi_all_reduce(ls_transport *base, void *data, int64_t count,
                            const ls_element_type *type)
{
    mpi_transport *transport = (mpi_transport *)base;
    int64_t piece = transport->longest / type->size; /* elements, in MPI's int */
    MPI_Datatype datatype = MPI_DATATYPE_NULL;

    assert(base->table == &table);
    LS_TRY(library_type(type, &datatype));
    for (int64_t at = 0; at < count; at += piece) {
        int64_t left = count - at;
        LS__TRY_MPI(MPI_Allreduce(MPI_IN_PLACE, (char *)data + at * type->size,
                                  (int)(left < piece ? left : piece), datatype, MPI_SUM,
                                  transport->communicator),
                    "MPI_Allreduce of %lld elements", (long long)count);
    }
    return LS_OK;
}
