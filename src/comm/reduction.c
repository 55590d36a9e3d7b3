#include "comm/reduction.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "comm/engine.h"

/* What carries a phase: a schedule, or a collective of the transport's own library. One of the two
 * is NULL. */
typedef struct carrier {
    ls_collective *schedule;
    ls_operation *library;
} carrier;

/* By the library, reducing is its all-reduce or, for elements that it cannot sum, an all-to-all of
 * blocks whose copies the owner combines in the order of ranks. */
struct ls__reduction {
    ls_transport *transport;
    ls__reduction_plan plan;
    carrier carrier;
    bool copies; /* are on their way */
};

struct ls__sharing {
    ls_transport *transport;
    ls__sharing_plan plan;
    ls_element_type unit; /* it is only copied */
    carrier carrier;
};

ls_range ls__owned_units(const ls_algorithm *algorithm, ls_layout layout, int rank, int64_t units)
{
    if (algorithm->reduce)
        return ls_algorithm_owned(algorithm, layout, rank, units);
    return ls_block(units, layout.ranks, rank);
}

/* ---- either way ---- */

static ls_status open_carrier(carrier *opened, ls_transport *transport, const char *algorithm,
                              const ls_schedule *schedule, const ls_payload *payload)
{
    const ls_transport_table *table = transport->table;

    if (schedule)
        return ls_collective_open(&opened->schedule, transport, schedule, payload);
    LS_FAIL_IF(!table->all_reduce || !table->exchange_blocks || !table->gather_blocks, LS_BAD_USAGE,
               "the %s transport has no collectives of its own, as algorithm %s needs: choose "
               "another of " LS_ALGORITHM_NAMES,
               table->name, algorithm);
    return table->operation_open(transport, payload->count * payload->type->size, &opened->library);
}

static void close_carrier(carrier *opened)
{
    ls_collective_close(opened->schedule);
    if (opened->library)
        opened->library->transport->table->operation_close(opened->library);
}

static ls_status advance_carrier(const carrier *by, bool *done)
{
    if (by->schedule)
        return ls_collective_advance(by->schedule, done);
    return by->library->transport->table->test(by->library, done);
}

static ls_status carrier_timed_out(const carrier *by, double seconds, int64_t all, ls_range *units)
{
    if (by->schedule) {
        *units = ls__collective_waits_for(by->schedule);
        return ls__collective_timed_out(by->schedule, seconds);
    }
    *units = (ls_range){0, all};
    return ls__library_timed_out(by->library->transport->table->name, seconds);
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

ls_status ls__reduction_open(ls__reduction **reduction, ls_transport *transport,
                             const ls__reduction_plan *plan)
{
    ls__reduction *opened = calloc(1, sizeof *opened);
    ls_payload payload = {.data = plan->data,
                          .count = plan->units,
                          .type = plan->type,
                          .scratch = plan->scratch,
                          .channel = plan->channel};

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a reduction");
    opened->transport = transport;
    opened->plan = *plan;
    ls_status status = open_carrier(&opened->carrier, transport, plan->algorithm->name,
                                    plan->algorithm->reduce, &payload);
    if (status != LS_OK) {
        free(opened);
        return status;
    }
    *reduction = opened;
    return LS_OK;
}

void ls__reduction_close(ls__reduction *reduction)
{
    if (!reduction)
        return;
    close_carrier(&reduction->carrier);
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

static ls_status start_library(ls__reduction *reduction)
{
    const ls__reduction_plan *plan = &reduction->plan;
    const ls_transport_table *table = reduction->transport->table;
    const ls_element_type *type = plan->library_type;

    if (type)
        return table->all_reduce(reduction->carrier.library, plan->data,
                                 plan->units * (plan->type->size / type->size), type);
    reduction->copies = true;
    return table->exchange_blocks(reduction->carrier.library, plan->data, plan->scratch,
                                  plan->units, plan->type->size);
}

ls_status ls__reduction_start(ls__reduction *reduction)
{
    LS_TRY(reduction->carrier.schedule ? ls_collective_start(reduction->carrier.schedule)
                                       : start_library(reduction));
    ls__fault_here(LS__FAULT_COLLECTIVE);
    return LS_OK;
}

ls_status ls__reduction_advance(ls__reduction *reduction, bool *done)
{
    LS_TRY(advance_carrier(&reduction->carrier, done));
    if (*done && reduction->copies) {
        reduction->copies = false;
        combine_copies(reduction);
    }
    return LS_OK;
}

ls_status ls__reduction_timed_out(const ls__reduction *reduction, double seconds, ls_range *units)
{
    return carrier_timed_out(&reduction->carrier, seconds, reduction->plan.units, units);
}

ls_status ls__reduction_run(ls__reduction *reduction, double timeout_seconds)
{
    const ls_transport *transport = reduction->transport;
    double deadline = ls__clock_seconds() + timeout_seconds;
    ls_range units;
    bool done = false;
    int looks = 0;

    LS_TRY(ls__reduction_start(reduction));
    for (;;) {
        LS_TRY(ls__reduction_advance(reduction, &done));
        if (done)
            return LS_OK;
        if (ls__look_until(transport, &looks, deadline))
            return ls__reduction_timed_out(reduction, timeout_seconds, &units);
    }
}

/* ---- sharing ---- */

ls_status ls__sharing_open(ls__sharing **sharing, ls_transport *transport,
                           const ls__sharing_plan *plan)
{
    ls__sharing *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for a sharing");
    opened->transport = transport;
    opened->plan = *plan;
    opened->unit = (ls_element_type){.name = "unit", .size = plan->size};
    ls_payload payload = {
        .data = plan->data, .count = plan->units, .type = &opened->unit, .channel = plan->channel};
    ls_status status = open_carrier(&opened->carrier, transport, plan->algorithm->name,
                                    plan->algorithm->distribute, &payload);
    if (status != LS_OK) {
        free(opened);
        return status;
    }
    *sharing = opened;
    return LS_OK;
}

void ls__sharing_close(ls__sharing *sharing)
{
    if (!sharing)
        return;
    close_carrier(&sharing->carrier);
    free(sharing);
}

ls_status ls__sharing_start(ls__sharing *sharing)
{
    const ls__sharing_plan *plan = &sharing->plan;
    ls_operation *library = sharing->carrier.library;

    LS_TRY(library ? library->transport->table->gather_blocks(library, plan->data, plan->units,
                                                              plan->size)
                   : ls_collective_start(sharing->carrier.schedule));
    ls__fault_here(LS__FAULT_COLLECTIVE);
    return LS_OK;
}

ls_status ls__sharing_advance(ls__sharing *sharing, bool *done)
{
    return advance_carrier(&sharing->carrier, done);
}

ls_status ls__sharing_timed_out(const ls__sharing *sharing, double seconds, ls_range *units)
{
    return carrier_timed_out(&sharing->carrier, seconds, sharing->plan.units, units);
}

ls_status ls__sharing_run(ls__sharing *sharing, double timeout_seconds)
{
    double deadline = ls__clock_seconds() + timeout_seconds;
    ls_range units;
    bool done = false;
    int looks = 0;

    LS_TRY(ls__sharing_start(sharing));
    for (;;) {
        LS_TRY(ls__sharing_advance(sharing, &done));
        if (done)
            return LS_OK;
        if (ls__look_until(sharing->transport, &looks, deadline))
            return ls__sharing_timed_out(sharing, timeout_seconds, &units);
    }
}
