#include "comm/simulate.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "lockstep/collective.h"

typedef struct fleet {
    ls__sim *sim;
    int ranks;
    ls_payload payload; /* the same for all, as nobody touches it */
    ls_allreduce **sum; /* (ranks) */
    bool *started;      /* (ranks) */
} fleet;

/* ---- data that is not there ---- */

static size_t mapped_bytes(const ls_payload *payload)
{
    return (size_t)(payload->count * payload->type->size) + 1;
}

/* The engine computes addresses, so there have to be some. */
static ls_status map_data(ls_payload *payload)
{
    void *data = mmap(NULL, mapped_bytes(payload), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    LS_FAIL_IF(data == MAP_FAILED, LS_NO_MEMORY, "no address space for %lld elements of %lld bytes",
               (long long)payload->count, (long long)payload->type->size);
    payload->data = data;
    return LS_OK;
}

static void unmap_data(ls_payload *payload)
{
    if (payload->data)
        munmap(payload->data, mapped_bytes(payload));
}

/* ---- all ranks ---- */

/* Where this fails, close_fleet is still to be called. */
static ls_status open_fleet(fleet *all, const ls_algorithm *algorithm)
{
    LS_TRY(map_data(&all->payload));
    all->sum = calloc((size_t)all->ranks, sizeof all->sum[0]);
    all->started = calloc((size_t)all->ranks, sizeof all->started[0]);
    LS_FAIL_IF(!all->sum || !all->started, LS_NO_MEMORY,
               "no memory for the all-reduce of %d simulated ranks", all->ranks);
    for (int rank = 0; rank < all->ranks; rank++)
        LS_TRY(ls_allreduce_open(&all->sum[rank], ls__sim_transport(all->sim, rank), algorithm,
                                 &all->payload));
    return LS_OK;
}

static void close_fleet(fleet *all)
{
    for (int rank = 0; all->sum && rank < all->ranks; rank++)
        ls_allreduce_close(all->sum[rank]);
    free(all->started);
    free(all->sum);
    unmap_data(&all->payload);
}

static ls_status step(void *context, int rank, bool *done)
{
    fleet *all = context;

    if (!all->started[rank]) {
        all->started[rank] = true;
        LS_TRY(ls_allreduce_start(all->sum[rank]));
    }
    return ls_allreduce_advance(all->sum[rank], done);
}

static ls_traffic total_traffic(const fleet *all)
{
    ls_traffic total = {0};

    for (int rank = 0; rank < all->ranks; rank++) {
        const ls_traffic *traffic = &ls__sim_transport(all->sim, rank)->traffic;
        total.sent_bytes += traffic->sent_bytes;
        total.sent_messages += traffic->sent_messages;
        total.received_bytes += traffic->received_bytes;
        total.received_messages += traffic->received_messages;
    }
    return total;
}

ls_status ls__simulate_all_reduce(ls__sim *sim, const ls_algorithm *algorithm, int64_t count,
                                  const ls_element_type *type, ls__simulated *result)
{
    fleet all = {
        .sim = sim,
        .ranks = ls__sim_transport(sim, 0)->ranks,
        .payload = {.count = count, .type = type},
    };

    ls_status status = open_fleet(&all, algorithm);
    if (status == LS_OK)
        status = ls__sim_run(sim, step, &all);
    close_fleet(&all);
    *result = (ls__simulated){ls__sim_clock(sim), total_traffic(&all)};
    return status;
}
