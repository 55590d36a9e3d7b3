#include "comm/world.h"

#include <assert.h>
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/engine.h"
#include "comm/mpi_check.h"
#include "comm/watch.h"
#include "lockstep/transport_mpi.h"
#include "lockstep/transport_shm.h"

typedef char host_name[MPI_MAX_PROCESSOR_NAME];

/* What ls__world_agree exchanges. In the world, as MPI may write to it after a timeout. */
typedef struct verdict_record {
    int failing; /* this rank where it failed, else the number of ranks */
    int lowest;  /* the least of all `failing` */
    ls_status status;
    char text[LS_ERROR_TEXT];
} verdict_record;

struct ls__world {
    int rank;
    int ranks;
    int host_rank;
    int host_ranks;
    double timeout;
    host_name *host; /* (ranks) */
    ls_transport *data;
    ls_transport *control; /* of the gathers; apart, so that `data` counts the step's bytes only */
    MPI_Comm communicator; /* of the other control operations */
    /* The gather of blocks that was called last, kept for the next call. */
    ls_collective *gather;
    ls_payload gather_payload;
    ls_element_type gather_element;
    verdict_record verdict;
    int64_t number; /* of ls__world_lowest, here for the same reason */
    int64_t lowest_number;
};

/* ---- life cycle ---- */

static ls_status find_neighbours(ls__world *world)
{
    MPI_Comm host = MPI_COMM_NULL;

    LS__TRY_MPI(MPI_Comm_split_type(world->communicator, MPI_COMM_TYPE_SHARED, world->rank,
                                    MPI_INFO_NULL, &host),
                "finding the ranks on this host");
    LS__TRY_MPI(MPI_Comm_rank(host, &world->host_rank), "asking for the rank on this host");
    LS__TRY_MPI(MPI_Comm_size(host, &world->host_ranks), "counting the ranks on this host");
    LS__TRY_MPI(MPI_Comm_free(&host), "freeing a communicator");
    return LS_OK;
}

static ls_status gather_hosts(ls__world *world)
{
    host_name mine = "";
    int length = 0;

    LS__TRY_MPI(MPI_Get_processor_name(mine, &length), "asking for the name of this host");
    world->host = calloc((size_t)world->ranks, sizeof world->host[0]);
    LS_FAIL_IF(!world->host, LS_NO_MEMORY, "no memory for the names of %d hosts", world->ranks);
    return ls__world_all_gather(world, mine, world->host, sizeof mine);
}

/* Through shared memory where the system allows, else through MPI alone. */
static ls_status open_data(ls__world *world)
{
    int rank = 0;
    ls_status status = ls_transport_open_shm(&world->data, MPI_COMM_WORLD);

    if (status != LS_NO_MEMORY)
        return status;
    LS__TRY_MPI(MPI_Comm_rank(world->communicator, &rank), "asking MPI for the rank");
    if (rank == 0)
        ls__log_warning("%s: ranks on one node copy through MPI instead", ls_last_error()->text);
    return ls_transport_open_mpi(&world->data, MPI_COMM_WORLD, NULL);
}

static ls_status set_up(ls__world *world)
{
    LS_TRY(ls__mpi_duplicate(MPI_COMM_WORLD, &world->communicator));
    LS_TRY(open_data(world));
    LS_TRY(ls_transport_open_mpi(&world->control, MPI_COMM_WORLD, NULL));
    world->rank = world->data->rank;
    world->ranks = world->data->ranks;
    LS_TRY(find_neighbours(world));
    LS_TRY(gather_hosts(world));
    return ls__watch_start(world, world->communicator);
}

ls_status ls__world_open(ls__world **world, double timeout_seconds)
{
    ls__world *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for the world");
    opened->timeout = timeout_seconds;
    opened->communicator = MPI_COMM_NULL;
    ls_status status = set_up(opened);
    if (status != LS_OK) {
        ls__world_close(opened);
        return status;
    }
    *world = opened;
    return LS_OK;
}

static void close_gather(ls__world *world)
{
    ls_collective_close(world->gather);
    world->gather = NULL;
}

void ls__world_close(ls__world *world)
{
    if (!world)
        return;
    ls__watch_end();
    close_gather(world);
    ls_transport_close(world->control);
    ls_transport_close(world->data);
    if (world->communicator != MPI_COMM_NULL)
        MPI_Comm_free(&world->communicator);
    free(world->host);
    free(world);
}

int ls__world_rank(const ls__world *world)
{
    return world->rank;
}

int ls__world_ranks(const ls__world *world)
{
    return world->ranks;
}

int ls__world_host_rank(const ls__world *world)
{
    return world->host_rank;
}

int ls__world_host_ranks(const ls__world *world)
{
    return world->host_ranks;
}

const char *ls__world_host(const ls__world *world, int rank)
{
    assert(0 <= rank && rank < world->ranks);
    return world->host[rank];
}

double ls__world_timeout(const ls__world *world)
{
    return world->timeout;
}

void ls__world_set_timeout(ls__world *world, double seconds)
{
    world->timeout = seconds;
}

ls_transport *ls__world_transport(ls__world *world)
{
    return world->data;
}

ls_status ls__world_memory(ls__world *world, ls__arena *arena, ls__category category, int64_t count,
                           int64_t size, void *memory)
{
    int64_t bytes = 0;

    LS_TRY(ls__world_agree(world, ls__arena_book(arena, category, count, size, &bytes)));
    return ls__world_agree(world, ls_transport_memory(world->data, bytes, memory));
}

ls_transport *ls__world_control(ls__world *world)
{
    return world->control;
}

/* ---- operations of MPI's ---- */

static ls_status timed_out(const ls__world *world, const char *what)
{
    ls_fail_at(__FILE__, __LINE__, LS_TIMEOUT,
               "%s: another rank did not arrive within %g s: it is stopped, overloaded or gone",
               what, world->timeout);
    return ls__watch_call_roll(world->timeout, what);
}

/* Waits for a non-blocking operation, at most the world's timeout. */
static ls_status finish(const ls__world *world, MPI_Request *request, const char *what)
{
    double deadline = ls__clock_seconds() + world->timeout;
    int done = 0;

    for (;;) {
        LS__TRY_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE), "%s", what);
        if (done)
            return LS_OK;
        if (ls__yield_until(deadline))
            return timed_out(world, what);
    }
}

ls_status ls__world_broadcast(ls__world *world, int root, void *data, int64_t bytes)
{
    static const char what[] = "broadcast";
    char *at = data;

    while (bytes > 0) {
        MPI_Request request = MPI_REQUEST_NULL;
        int piece = bytes < INT_MAX ? (int)bytes : INT_MAX;
        LS__TRY_MPI(MPI_Ibcast(at, piece, MPI_BYTE, root, world->communicator, &request), "%s",
                    what);
        LS_TRY(finish(world, &request, what));
        at += piece;
        bytes -= piece;
    }
    return LS_OK;
}

ls_status ls__world_lowest(ls__world *world, int64_t value, int64_t *lowest)
{
    static const char what[] = "comparing numbers";
    MPI_Request request = MPI_REQUEST_NULL;

    world->number = value;
    LS__TRY_MPI(MPI_Iallreduce(&world->number, &world->lowest_number, 1, MPI_INT64_T, MPI_MIN,
                               world->communicator, &request),
                "%s", what);
    LS_TRY(finish(world, &request, what));
    *lowest = world->lowest_number;
    return LS_OK;
}

ls_status ls__world_barrier(ls__world *world)
{
    static const char what[] = "barrier";
    MPI_Request request = MPI_REQUEST_NULL;

    LS__TRY_MPI(MPI_Ibarrier(world->communicator, &request), "%s", what);
    return finish(world, &request, what);
}

ls_status ls__world_swap(ls__world *world, int to, const void *out, int64_t out_bytes, int from,
                         void *in, int64_t in_bytes)
{
    MPI_Request sending = MPI_REQUEST_NULL;
    MPI_Request receiving = MPI_REQUEST_NULL;

    assert(out_bytes <= INT_MAX && in_bytes <= INT_MAX);
    if (from != LS_NO_PEER && in_bytes > 0)
        LS__TRY_MPI(
            MPI_Irecv(in, (int)in_bytes, MPI_BYTE, from, 0, world->communicator, &receiving),
            "receiving from rank %d", from);
    if (to != LS_NO_PEER && out_bytes > 0)
        LS__TRY_MPI(MPI_Isend(out, (int)out_bytes, MPI_BYTE, to, 0, world->communicator, &sending),
                    "sending to rank %d", to);
    LS_TRY(finish(world, &receiving, "receiving from a rank"));
    return finish(world, &sending, "sending to a rank");
}

ls_status ls__world_agree(ls__world *world, ls_status status)
{
    static const char what[] = "agreeing on success";
    verdict_record *verdict = &world->verdict;
    MPI_Request request = MPI_REQUEST_NULL;

    verdict->failing = status == LS_OK ? world->ranks : world->rank;
    LS__TRY_MPI(MPI_Iallreduce(&verdict->failing, &verdict->lowest, 1, MPI_INT, MPI_MIN,
                               world->communicator, &request),
                "%s", what);
    LS_TRY(finish(world, &request, what));
    if (verdict->lowest == world->ranks)
        return LS_OK;
    if (verdict->lowest == world->rank) {
        verdict->status = status;
        memcpy(verdict->text, ls_last_error()->text, sizeof verdict->text);
    }
    LS_TRY(ls__world_broadcast(world, verdict->lowest, &verdict->status, sizeof verdict->status));
    LS_TRY(ls__world_broadcast(world, verdict->lowest, verdict->text, sizeof verdict->text));
    return ls_fail_from(verdict->lowest, verdict->status, verdict->text);
}

/* ---- gathers, by the ring's second phase ---- */

/* Keeps the gather of the call before where it is over the same data. */
static ls_status open_gather(ls__world *world, void *data, int64_t count, int64_t size)
{
    if (world->gather && data == world->gather_payload.data &&
        count == world->gather_payload.count && size == world->gather_element.size)
        return LS_OK;
    close_gather(world);
    world->gather_element = (ls_element_type){.name = "element", .size = size};
    world->gather_payload = (ls_payload){
        .data = data,
        .count = count,
        .type = &world->gather_element,
    };
    return ls_collective_open(&world->gather, world->control, ls_algorithm_ring.distribute,
                              &world->gather_payload);
}

ls_status ls__world_all_gather_blocks(ls__world *world, void *data, int64_t count, int64_t size)
{
    LS_TRY(open_gather(world, data, count, size));
    ls_status status = ls_collective_start(world->gather);
    if (status == LS_OK)
        status = ls_collective_wait(world->gather, world->timeout);
    if (status != LS_OK)
        close_gather(world);
    return status;
}

/* Pieces of equal size are the blocks of what they make up. */
ls_status ls__world_all_gather(ls__world *world, const void *mine, void *all, int64_t bytes)
{
    if (bytes == 0)
        return LS_OK;
    memcpy((char *)all + world->rank * bytes, mine, (size_t)bytes);
    return ls__world_all_gather_blocks(world, all, world->ranks * bytes, 1);
}
