#include "comm/reduction.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "comm/engine.h"

/* Either a schedule, or the transport's own collectives (`library`): then reducing is its
 * all-reduce or, for elements that it cannot sum, an all-to-all of blocks whose copies the owner
 * combines in the order of ranks. */
struct ls__reduction {
    ls_transport *transport;
    ls__reduction_plan plan;
    ls_collective *schedule;
    ls_operation *library;
};

struct ls__sharing {
    ls_transport *transport;
    ls_payload payload;
    ls_element_type unit; /* it is only copied */
    ls_collective *schedule;
    ls_operation *library;
};

ls_range ls__owned_units(const ls_algorithm *algorithm, ls_layout layout, int rank, int64_t units)
{
    if (algorithm->reduce)
        return ls_algorithm_owned(algorithm, layout, rank, units);
    return ls_block(units, layout.ranks, rank);
}

/* ---- either way ---- */

static ls_status run_schedule(ls_collective *collective, double timeout_seconds)
{
    LS_TRY(ls_collective_start(collective));
    ls__fault_here(LS__FAULT_COLLECTIVE);
    return ls_collective_wait(collective, timeout_seconds);
}

static ls_status open_library(ls_transport *transport, const ls_algorithm *algorithm, int64_t bytes,
                              ls_operation **library)
{
    const ls_transport_table *table = transport->table;

    LS_FAIL_IF(!table->all_reduce || !table->exchange_blocks || !table->gather_blocks, LS_BAD_USAGE,
               "the %s transport has no collectives of its own, as algorithm %s needs: choose "
               "another of " LS_ALGORITHM_NAMES,
               table->name, algorithm->name);
    return table->operation_open(transport, bytes, library);
}

static ls_status wait_library(ls_operation *library, double timeout_seconds)
{
    double deadline = ls__clock_seconds() + timeout_seconds;
    const ls_transport_table *table = library->transport->table;
    bool done = false;

    ls__fault_here(LS__FAULT_COLLECTIVE);
    for (;;) {
        LS_TRY(table->test(library, &done));
        if (done)
            return LS_OK;
        if (ls__yield_until(deadline))
            return ls__library_timed_out(table->name, timeout_seconds);
    }
}

/* ---- reduction ---- */

int64_t ls__reduction_scratch(const ls_algorithm *algorithm, ls_layout layout, int64_t units,
                              const ls_element_type *type)
{
    int64_t bytes = algorithm->reduce
                        ? ls_collective_scratch(algorithm->reduce, layout, units, type)
                        : ls_block(units, layout.ranks, 0).count * layout.ranks * type->size;

    return bytes > 0 ? bytes : 1;
}

static ls_status open_reduction(ls__reduction *reduction)
{
    const ls__reduction_plan *plan = &reduction->plan;
    ls_payload payload = {
        .data = plan->data, .count = plan->units, .type = plan->type, .scratch = plan->scratch};

    if (plan->algorithm->reduce)
        return ls_collective_open(&reduction->schedule, reduction->transport,
                                  plan->algorithm->reduce, &payload);
    return open_library(reduction->transport, plan->algorithm, plan->units * plan->type->size,
                        &reduction->library);
}

ls_status ls__reduction_open(ls__reduction **reduction, ls_transport *transport,
                             const ls__reduction_plan *plan)
{
    ls__reduction *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a reduction");
    opened->transport = transport;
    opened->plan = *plan;
    ls_status status = open_reduction(opened);
    if (status != LS_OK) {
        ls__reduction_close(opened);
        return status;
    }
    *reduction = opened;
    return LS_OK;
}

void ls__reduction_close(ls__reduction *reduction)
{
    if (!reduction)
        return;
    ls_collective_close(reduction->schedule);
    if (reduction->library)
        reduction->transport->table->operation_close(reduction->library);
    free(reduction);
}

/* Adds the other ranks' copies of the own block to it. */
static void combine_copies(const ls__reduction *reduction)
{
    const ls__reduction_plan *plan = &reduction->plan;
    const ls_transport *transport = reduction->transport;
    ls_range own = ls_block(plan->units, transport->ranks, transport->rank);
    char *into = (char *)plan->data + own.offset * plan->type->size;
    const char *copy = plan->scratch;

    for (int rank = 0; rank < transport->ranks; rank++) {
        if (rank != transport->rank)
            plan->type->combine(plan->type->context, into, copy, own.count);
        copy += own.count * plan->type->size;
    }
}

static ls_status reduce_by_library(const ls__reduction *reduction, double timeout_seconds)
{
    const ls__reduction_plan *plan = &reduction->plan;
    const ls_transport_table *table = reduction->transport->table;
    const ls_element_type *type = plan->library_type;

    if (type) {
        LS_TRY(table->all_reduce(reduction->library, plan->data,
                                 plan->units * (plan->type->size / type->size), type));
        return wait_library(reduction->library, timeout_seconds);
    }
    LS_TRY(table->exchange_blocks(reduction->library, plan->data, plan->scratch, plan->units,
                                  plan->type->size));
    LS_TRY(wait_library(reduction->library, timeout_seconds));
    combine_copies(reduction);
    return LS_OK;
}

ls_range ls__reduction_waits_for(const ls__reduction *reduction)
{
    if (reduction->schedule)
        return ls__collective_waits_for(reduction->schedule);
    return (ls_range){0, reduction->plan.units};
}

ls_status ls__reduction_run(ls__reduction *reduction, double timeout_seconds)
{
    if (reduction->schedule)
        return run_schedule(reduction->schedule, timeout_seconds);
    return reduce_by_library(reduction, timeout_seconds);
}

/* ---- sharing ---- */

static ls_status open_sharing(ls__sharing *sharing, const ls_algorithm *algorithm)
{
    if (algorithm->distribute)
        return ls_collective_open(&sharing->schedule, sharing->transport, algorithm->distribute,
                                  &sharing->payload);
    return open_library(sharing->transport, algorithm, 1, &sharing->library);
}

ls_status ls__sharing_open(ls__sharing **sharing, ls_transport *transport,
                           const ls_algorithm *algorithm, void *data, int64_t units, int64_t size)
{
    ls__sharing *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a sharing");
    opened->transport = transport;
    opened->unit = (ls_element_type){.name = "unit", .size = size};
    opened->payload = (ls_payload){.data = data, .count = units, .type = &opened->unit};
    ls_status status = open_sharing(opened, algorithm);
    if (status != LS_OK) {
        ls__sharing_close(opened);
        return status;
    }
    *sharing = opened;
    return LS_OK;
}

void ls__sharing_close(ls__sharing *sharing)
{
    if (!sharing)
        return;
    ls_collective_close(sharing->schedule);
    if (sharing->library)
        sharing->transport->table->operation_close(sharing->library);
    free(sharing);
}

ls_range ls__sharing_waits_for(const ls__sharing *sharing)
{
    if (sharing->schedule)
        return ls__collective_waits_for(sharing->schedule);
    return (ls_range){0, sharing->payload.count};
}

ls_status ls__sharing_run(ls__sharing *sharing, double timeout_seconds)
{
    const ls_payload *payload = &sharing->payload;

    if (sharing->schedule)
        return run_schedule(sharing->schedule, timeout_seconds);
    LS_TRY(sharing->transport->table->gather_blocks(sharing->library, payload->data, payload->count,
                                                    payload->type->size));
    return wait_library(sharing->library, timeout_seconds);
}
