#include "comm/simulate.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lockstep/collective.h"

/* The two phases of one rank. */
typedef struct member {
    ls_collective *reduce;
    ls_collective *distribute;
    ls_collective *current; /* one of these, or NULL before the start */
} member;

typedef struct fleet {
    ls__sim *sim;
    int ranks;
    int64_t count;
    void *data; /* (count), the same for all ranks, as nobody touches it */
    ls_element_type reduced;
    ls_element_type distributed;
    member *member; /* (ranks) */
} fleet;

const ls__element_bytes ls__float_sums = {sizeof(float), sizeof(float)};
const ls__element_bytes ls__exact_sums = {sizeof(double), sizeof(float)};

/* ---- data that is not there ---- */

static size_t mapped_bytes(const fleet *all)
{
    int64_t size =
        all->reduced.size > all->distributed.size ? all->reduced.size : all->distributed.size;

    return (size_t)(all->count * size) + 1;
}

/* The engine computes addresses, so there have to be some. */
static ls_status map_data(fleet *all)
{
    void *data = mmap(NULL, mapped_bytes(all), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    LS_FAIL_IF(data == MAP_FAILED, LS_NO_MEMORY, "no address space for %lld elements",
               (long long)all->count);
    all->data = data;
    return LS_OK;
}

static void unmap_data(fleet *all)
{
    if (all->data)
        munmap(all->data, mapped_bytes(all));
}

/* ---- all ranks ---- */

/* Phase by phase, so that what the ranks use at the same time lies together. Where this fails,
 * close_fleet is still to be called. */
static ls_status open_fleet(fleet *all, const ls_algorithm *algorithm)
{
    ls_payload sums = {.count = all->count, .type = &all->reduced};
    ls_payload results = {.count = all->count, .type = &all->distributed};

    LS_TRY(map_data(all));
    sums.data = all->data;
    results.data = all->data;
    all->member = calloc((size_t)all->ranks, sizeof all->member[0]);
    LS_FAIL_IF(!all->member, LS_NO_MEMORY, "no memory for the all-reduce of %d simulated ranks",
               all->ranks);
    for (int rank = 0; rank < all->ranks; rank++)
        LS_TRY(ls_collective_open(&all->member[rank].reduce, ls__sim_transport(all->sim, rank),
                                  algorithm->reduce, &sums));
    for (int rank = 0; rank < all->ranks; rank++)
        LS_TRY(ls_collective_open(&all->member[rank].distribute, ls__sim_transport(all->sim, rank),
                                  algorithm->distribute, &results));
    return LS_OK;
}

static void close_fleet(fleet *all)
{
    for (int rank = 0; all->member && rank < all->ranks; rank++) {
        ls_collective_close(all->member[rank].reduce);
        ls_collective_close(all->member[rank].distribute);
    }
    free(all->member);
    unmap_data(all);
}

static ls_status begin(member *rank, ls_collective *phase)
{
    rank->current = phase;
    return ls_collective_start(phase);
}

static ls_status step(void *context, int rank, bool *done)
{
    member *mine = &((fleet *)context)->member[rank];

    if (!mine->current)
        LS_TRY(begin(mine, mine->reduce));
    LS_TRY(ls_collective_advance(mine->current, done));
    if (!*done || mine->current == mine->distribute)
        return LS_OK;
    LS_TRY(begin(mine, mine->distribute));
    return ls_collective_advance(mine->current, done);
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
                                  ls__element_bytes bytes, ls__simulated *result)
{
    fleet all = {
        .sim = sim,
        .ranks = ls__sim_transport(sim, 0)->ranks,
        .count = count,
        .reduced = {.name = "sum", .size = bytes.reduce},
        .distributed = {.name = "result", .size = bytes.distribute},
    };

    assert(algorithm->reduce && algorithm->distribute);
    ls_status status = open_fleet(&all, algorithm);
    if (status == LS_OK)
        status = ls__sim_run(sim, step, &all);
    close_fleet(&all);
    *result = (ls__simulated){ls__sim_clock(sim), total_traffic(&all)};
    return status;
}
