/* The whole all-reduce: two schedules one after the other, or the transport's own. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/engine.h"
#include "lockstep/collective.h"

/* ---- two schedules in a row, over the same payload, piece by piece ---- */

typedef struct two_phases {
    ls_collective *reduce;
    ls_collective *distribute;
    bool reducing;  /* else distributing */
    int64_t count;  /* of elements */
    int64_t piece;  /* elements of a piece, but the last, which may be shorter */
    int64_t offset; /* of the piece under way */
} two_phases;

/* Ranks that share memory go through long data a piece at a time, so that what one rank has summed
 * is still in a cache when another reads it. Else the whole is one piece. */
static int64_t piece_of(const ls_transport *transport, const ls_algorithm *algorithm,
                        const ls_payload *payload)
{
    int64_t elements = algorithm->piece / payload->type->size;

    if (elements == 0 || elements >= payload->count || transport->per_node < transport->ranks)
        return payload->count;
    return elements;
}

static void close_phases(two_phases *phases)
{
    ls_collective_close(phases->reduce);
    ls_collective_close(phases->distribute);
    phases->reduce = NULL;
    phases->distribute = NULL;
}

/* Where this fails, close_phases is still to be called. */
static ls_status open_phases(two_phases *phases, ls_transport *transport,
                             const ls_algorithm *algorithm, const ls_payload *payload)
{
    phases->count = payload->count;
    phases->piece = piece_of(transport, algorithm, payload);
    LS_TRY(ls_collective_open(&phases->reduce, transport, algorithm->reduce, payload));
    return ls_collective_open(&phases->distribute, transport, algorithm->distribute, payload);
}

static ls_status start_piece(two_phases *phases, int64_t offset)
{
    int64_t left = phases->count - offset;
    ls_range range = {offset, left < phases->piece ? left : phases->piece};

    phases->offset = offset;
    phases->reducing = true;
    ls__collective_aim(phases->reduce, range);
    ls__collective_aim(phases->distribute, range);
    return ls_collective_start(phases->reduce);
}

static ls_status advance_piece(two_phases *phases, bool *done)
{
    if (phases->reducing) {
        LS_TRY(ls_collective_advance(phases->reduce, done));
        if (!*done)
            return LS_OK;
        phases->reducing = false;
        LS_TRY(ls_collective_start(phases->distribute));
    }
    return ls_collective_advance(phases->distribute, done);
}

static ls_status start_phases(two_phases *phases)
{
    return start_piece(phases, 0);
}

static ls_status advance_phases(two_phases *phases, bool *done)
{
    for (;;) {
        LS_TRY(advance_piece(phases, done));
        if (!*done || phases->count - phases->offset <= phases->piece)
            return LS_OK;
        LS_TRY(start_piece(phases, phases->offset + phases->piece));
    }
}

static const ls_collective *waiting_phase(const two_phases *phases)
{
    return phases->reducing ? phases->reduce : phases->distribute;
}

/* ---- short data: gathered whole by every rank ---- */

static bool is_gathered(const ls_algorithm *algorithm, ls_layout layout, int64_t bytes)
{
    return layout.per_node == layout.ranks && bytes <= algorithm->whole;
}

/* Not less for more bytes, so that who has room for the most has room for all. */
static int64_t gather_scratch(const ls_algorithm *algorithm, ls_layout layout, int64_t bytes)
{
    if (layout.per_node < layout.ranks)
        return 0;
    return layout.ranks * (bytes < algorithm->whole ? bytes : algorithm->whole);
}

/* The gathered copies stand in the scratch, in the order of ranks. */
static ls_status open_gather(ls_collective **gather, ls_transport *transport,
                             const ls_algorithm *algorithm, const ls_payload *payload)
{
    ls_payload copies = *payload;

    copies.data = payload->scratch;
    copies.count = payload->count * transport->ranks;
    copies.scratch = NULL;
    return ls_collective_open(gather, transport, algorithm->distribute, &copies);
}

static ls_status start_gather(ls_collective *gather, const ls_transport *transport,
                              const ls_payload *payload)
{
    int64_t bytes = payload->count * payload->type->size;

    if (bytes > 0)
        memcpy((char *)payload->scratch + transport->rank * bytes, payload->data, (size_t)bytes);
    return ls_collective_start(gather);
}

/* The same order on every rank, so the same bits. */
static void sum_copies(int ranks, const ls_payload *payload)
{
    int64_t bytes = payload->count * payload->type->size;
    const char *copy = payload->scratch;

    if (bytes > 0)
        memcpy(payload->data, copy, (size_t)bytes);
    for (int rank = 1; rank < ranks; rank++)
        payload->type->combine(payload->type->context, payload->data, copy + rank * bytes,
                               payload->count);
}

/* ---- what the ranks say that they are about to do, compared ---- */

/* The least and the most that any rank has; both the same where all agree. */
typedef struct claim {
    int64_t least;
    int64_t most;
    int64_t least_rank;
    int64_t most_rank;
} claim;

enum { CLAIM_COUNT, CLAIM_TYPE, CLAIM_ALGORITHM, CLAIMS };

static void combine_claims(void *context, void *into, const void *from, int64_t count)
{
    claim *widest = into;
    const claim *other = from;

    (void)context;
    for (int64_t i = 0; i < count; i++) {
        if (other[i].least < widest[i].least) {
            widest[i].least = other[i].least;
            widest[i].least_rank = other[i].least_rank;
        }
        if (other[i].most > widest[i].most) {
            widest[i].most = other[i].most;
            widest[i].most_rank = other[i].most_rank;
        }
    }
}

static const ls_element_type claim_type = {
    .name = "claim",
    .size = sizeof(claim),
    .combine = combine_claims,
};

/* A short name as a number, so that it can be compared and printed again. */
static int64_t number_of(const char *name)
{
    int64_t number = 0;

    assert(strlen(name) <= sizeof number);
    memcpy(&number, name, strlen(name));
    return number;
}

static claim claim_of(int rank, int64_t value)
{
    return (claim){.least = value, .most = value, .least_rank = rank, .most_rank = rank};
}

static ls_status names_differ(const char *what, const claim *disputed)
{
    char least[sizeof(int64_t) + 1] = "";
    char most[sizeof(int64_t) + 1] = "";

    memcpy(least, &disputed->least, sizeof disputed->least);
    memcpy(most, &disputed->most, sizeof disputed->most);
    return LS_FAIL(LS_BAD_USAGE,
                   "all-reduce: %s is %s on rank %d but %s on rank %d: give every rank the same",
                   what, least, (int)disputed->least_rank, most, (int)disputed->most_rank);
}

static ls_status compare_claims(const claim *claims)
{
    const claim *count = &claims[CLAIM_COUNT];

    if (claims[CLAIM_ALGORITHM].least != claims[CLAIM_ALGORITHM].most)
        return names_differ("the algorithm", &claims[CLAIM_ALGORITHM]);
    if (claims[CLAIM_TYPE].least != claims[CLAIM_TYPE].most)
        return names_differ("the element type", &claims[CLAIM_TYPE]);
    LS_FAIL_IF(count->least != count->most, LS_BAD_USAGE,
               "all-reduce: the count is %lld on rank %d but %lld on rank %d: give every rank the "
               "same",
               (long long)count->least, (int)count->least_rank, (long long)count->most,
               (int)count->most_rank);
    return LS_OK;
}

/* ---- the all-reduce ---- */

/* What is under way. */
typedef enum activity { NOTHING, CHECKING, SUMMING, GATHERING, SUMMING_IN_LIBRARY } activity;

struct ls_allreduce {
    ls_transport *transport;
    const ls_algorithm *algorithm;
    ls_payload payload;
    activity activity;
    two_phases sum;
    ls_collective *gather; /* of short data, in place of `sum` */
    ls_operation *library; /* of an algorithm without schedules */
    two_phases check;
    claim claims[CLAIMS];
    claim claims_scratch[CLAIMS + 1]; /* as the engine rounds up */
};

int64_t ls_allreduce_scratch(const ls_algorithm *algorithm, ls_layout layout, int64_t count,
                             const ls_element_type *type)
{
    if (!algorithm->reduce)
        return 0;
    int64_t phases = ls_collective_scratch(algorithm->reduce, layout, count, type);
    int64_t gather = gather_scratch(algorithm, layout, count * type->size);
    return gather > phases ? gather : phases;
}

static ls_status open_library(ls_allreduce *allreduce)
{
    ls_transport *transport = allreduce->transport;
    const ls_payload *payload = &allreduce->payload;

    LS_FAIL_IF(!transport->table->all_reduce, LS_BAD_USAGE,
               "the %s transport has no all-reduce of its own, as algorithm %s needs: choose "
               "another of " LS_ALGORITHM_NAMES,
               transport->table->name, allreduce->algorithm->name);
    return transport->table->operation_open(transport, payload->count * payload->type->size,
                                            &allreduce->library);
}

static ls_status open_sum(ls_allreduce *allreduce)
{
    const ls_payload *payload = &allreduce->payload;

    if (!allreduce->algorithm->reduce)
        return open_library(allreduce);
    if (is_gathered(allreduce->algorithm, ls_transport_layout(allreduce->transport),
                    payload->count * payload->type->size))
        return open_gather(&allreduce->gather, allreduce->transport, allreduce->algorithm, payload);
    return open_phases(&allreduce->sum, allreduce->transport, allreduce->algorithm, payload);
}

ls_status ls_allreduce_open(ls_allreduce **allreduce, ls_transport *transport,
                            const ls_algorithm *algorithm, const ls_payload *payload)
{
    ls_allreduce *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for an all-reduce");
    opened->transport = transport;
    opened->algorithm = algorithm;
    opened->payload = *payload;
    ls_status status = open_sum(opened);
    if (status != LS_OK) {
        ls_allreduce_close(opened);
        return status;
    }
    *allreduce = opened;
    return LS_OK;
}

void ls_allreduce_close(ls_allreduce *allreduce)
{
    if (!allreduce)
        return;
    close_phases(&allreduce->sum);
    close_phases(&allreduce->check);
    ls_collective_close(allreduce->gather);
    if (allreduce->library)
        allreduce->transport->table->operation_close(allreduce->library);
    free(allreduce);
}

ls_status ls_allreduce_start_check(ls_allreduce *allreduce)
{
    int rank = allreduce->transport->rank;
    ls_payload payload = {
        .data = allreduce->claims,
        .count = CLAIMS,
        .type = &claim_type,
        .scratch = allreduce->claims_scratch,
        .channel = allreduce->payload.channel,
    };

    assert(allreduce->activity == NOTHING);
    assert(ls_allreduce_scratch(&ls_algorithm_naive, ls_transport_layout(allreduce->transport),
                                CLAIMS, &claim_type) <= (int64_t)sizeof allreduce->claims_scratch);
    allreduce->claims[CLAIM_COUNT] = claim_of(rank, allreduce->payload.count);
    allreduce->claims[CLAIM_TYPE] = claim_of(rank, number_of(allreduce->payload.type->name));
    allreduce->claims[CLAIM_ALGORITHM] = claim_of(rank, number_of(allreduce->algorithm->name));
    LS_TRY(open_phases(&allreduce->check, allreduce->transport, &ls_algorithm_naive, &payload));
    allreduce->activity = CHECKING;
    return start_phases(&allreduce->check);
}

ls_status ls_allreduce_check(ls_allreduce *allreduce, double timeout_seconds)
{
    LS_TRY(ls_allreduce_start_check(allreduce));
    return ls_allreduce_wait(allreduce, timeout_seconds);
}

/* MPI has nothing to do for no elements. */
static ls_status start_library(ls_allreduce *allreduce)
{
    const ls_payload *payload = &allreduce->payload;

    if (payload->count == 0)
        return LS_OK;
    allreduce->activity = SUMMING_IN_LIBRARY;
    return allreduce->transport->table->all_reduce(allreduce->library, payload->data,
                                                   payload->count, payload->type);
}

ls_status ls_allreduce_start(ls_allreduce *allreduce)
{
    assert(allreduce->activity == NOTHING);
    if (!allreduce->algorithm->reduce)
        return start_library(allreduce);
    if (allreduce->gather) {
        allreduce->activity = GATHERING;
        return start_gather(allreduce->gather, allreduce->transport, &allreduce->payload);
    }
    allreduce->activity = SUMMING;
    return start_phases(&allreduce->sum);
}

static ls_status advance_check(ls_allreduce *allreduce, bool *done)
{
    LS_TRY(advance_phases(&allreduce->check, done));
    if (!*done)
        return LS_OK;
    close_phases(&allreduce->check);
    return compare_claims(allreduce->claims);
}

static ls_status advance_gather(ls_allreduce *allreduce, bool *done)
{
    LS_TRY(ls_collective_advance(allreduce->gather, done));
    if (*done)
        sum_copies(allreduce->transport->ranks, &allreduce->payload);
    return LS_OK;
}

static ls_status advance_activity(ls_allreduce *allreduce, bool *done)
{
    switch (allreduce->activity) {
    case NOTHING:
        *done = true;
        return LS_OK;
    case CHECKING:
        return advance_check(allreduce, done);
    case SUMMING:
        return advance_phases(&allreduce->sum, done);
    case GATHERING:
        return advance_gather(allreduce, done);
    case SUMMING_IN_LIBRARY:
        return allreduce->transport->table->test(allreduce->library, done);
    }
    return LS_OK;
}

ls_status ls_allreduce_advance(ls_allreduce *allreduce, bool *done)
{
    LS_TRY(advance_activity(allreduce, done));
    if (*done)
        allreduce->activity = NOTHING;
    return LS_OK;
}

static ls_status timed_out(const ls_allreduce *allreduce, double timeout_seconds)
{
    if (allreduce->activity == SUMMING_IN_LIBRARY)
        return ls__library_timed_out(allreduce->transport->table->name, timeout_seconds);
    if (allreduce->activity == GATHERING)
        return ls__collective_timed_out(allreduce->gather, timeout_seconds);
    const two_phases *phases =
        allreduce->activity == CHECKING ? &allreduce->check : &allreduce->sum;
    return ls__collective_timed_out(waiting_phase(phases), timeout_seconds);
}

ls_status ls_allreduce_wait(ls_allreduce *allreduce, double timeout_seconds)
{
    double deadline = ls__clock_seconds() + timeout_seconds;
    bool done = false;
    int looks = 0;

    for (;;) {
        LS_TRY(ls_allreduce_advance(allreduce, &done));
        if (done)
            return LS_OK;
        if (ls__look_until(allreduce->transport, &looks, deadline))
            return timed_out(allreduce, timeout_seconds);
    }
}
