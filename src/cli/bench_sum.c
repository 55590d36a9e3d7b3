#include "cli/bench_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/reduction.h"
#include "comm/spills.h"
#include "lockstep/collective.h"
#include "lockstep/exact.h"
#include "lockstep/transport_mpi.h"

/* Element i of rank r is (7 i + 13 r) mod PERIOD: float sums of that are exact in any order up to
 * 60,000 ranks. PERIOD is a prime, so a block in a wrong place shows. Every SPILL_STRIDE-th element
 * of an input with spills has addends near 2^SPILL_EXPONENT beside: 53 bits are too few for both.
 */
enum { PERIOD = 251, SPILL_STRIDE = 4099, SPILL_EXPONENT = 83, FLOAT_DIGITS = 24 };

struct ls__bench_sum {
    ls__world *world;
    const ls_algorithm *algorithm;
    int64_t count;
    float *data;
    float expected[PERIOD]; /* of element i: expected[i mod PERIOD] */
    bool far;               /* whether this run has far addends */
    /* f32 */
    ls_allreduce *allreduce;
    /* exact */
    ls_exact *exact; /* NULL: f32 */
    ls_element_type lane;
    ls__reduction *reduction;
    ls__spill_range *owners; /* (ranks) */
    ls__spill_post *post;
    ls__sharing *sharing;
    ls_range own;
    int64_t spills;
};

/* ---- inputs and their sums ---- */

static int64_t addend(int64_t index, int rank)
{
    return (7 * index + 13 * (int64_t)rank) % PERIOD;
}

static void expect_sums(ls__bench_sum *sum)
{
    for (int64_t i = 0; i < PERIOD; i++) {
        int64_t whole = 0;
        for (int rank = 0; rank < ls__world_ranks(sum->world); rank++)
            whole += addend(i, rank);
        sum->expected[i] = (float)whole;
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void fill_data(ls__bench_sum *sum)
{
    int rank = ls__world_rank(sum->world);
    float *data = sum->data;

    for (int64_t i = 0; i < least(sum->count, PERIOD); i++)
        data[i] = (float)addend(i, rank);
    for (int64_t i = PERIOD; i < sum->count; i++)
        data[i] = data[i - PERIOD];
}

/* A float with all its digits in use, another one on each rank. */
static float far_addend(int64_t index, int rank)
{
    int64_t digits = (index / SPILL_STRIDE * 31 + (int64_t)rank * 97) % (1 << (FLOAT_DIGITS - 1));

    return ldexpf((float)((1 << (FLOAT_DIGITS - 1)) + digits), SPILL_EXPONENT - FLOAT_DIGITS);
}

static bool has_far_addends(int64_t index)
{
    return index % SPILL_STRIDE == 0;
}

/* What a rank takes away again: of every other such element what the rank after it adds, so that
 * only the small addends are left, and a spill that is lost shows. */
static float far_subtrahend(int64_t index, int rank, int ranks)
{
    return index / SPILL_STRIDE % 2 == 0 ? far_addend(index, (rank + 1) % ranks) : 0;
}

static void add_far(ls__bench_sum *sum)
{
    int rank = ls__world_rank(sum->world);

    for (int64_t i = 0; i < sum->count; i += SPILL_STRIDE) {
        float more = far_addend(i, rank);
        float less = -far_subtrahend(i, rank, ls__world_ranks(sum->world));
        ls_exact_add(sum->exact, i, &more, 1);
        ls_exact_add(sum->exact, i, &less, 1);
    }
}

/* The slow reference: all addends of all ranks as 128-bit integers, rounded as lockstep/exact.h
 * says for a divisor of one. */
static float slow_exact_sum(int64_t index, int ranks)
{
    __extension__ typedef __int128 wide;
    wide whole = 0;

    for (int rank = 0; rank < ranks; rank++)
        whole += (wide)addend(index, rank) + (wide)far_addend(index, rank) -
                 (wide)far_subtrahend(index, rank, ranks);
    return (float)(double)whole;
}

void ls__bench_sum_fill(ls__bench_sum *sum, bool spills)
{
    sum->far = spills;
    fill_data(sum);
    if (!sum->exact)
        return;
    ls_exact_reset(sum->exact);
    ls_exact_add(sum->exact, 0, sum->data, sum->count);
    if (spills)
        add_far(sum);
}

static bool same_bits(const float *a, const float *b, int64_t count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static float expected_at(const ls__bench_sum *sum, int64_t index)
{
    if (sum->far && has_far_addends(index))
        return slow_exact_sum(index, ls__world_ranks(sum->world));
    return sum->expected[index % PERIOD];
}

int64_t ls__bench_sum_wrong(const ls__bench_sum *sum)
{
    int64_t wrong = 0;

    for (int64_t at = 0; at < sum->count; at += PERIOD) {
        int64_t end = least(sum->count, at + PERIOD);
        if (!sum->far && same_bits(sum->data + at, sum->expected, end - at))
            continue;
        for (int64_t i = at; i < end; i++) {
            float expected = expected_at(sum, i);
            wrong += !same_bits(&sum->data[i], &expected, 1);
        }
    }
    return wrong;
}

int64_t ls__bench_sum_spills(const ls__bench_sum *sum)
{
    return sum->spills;
}

/* ---- life cycle ---- */

static const ls_element_type lanes_alike = {.name = "exact", .size = sizeof(double)};

int64_t ls__bench_scratch(const ls_algorithm *algorithm, bool exact, ls_layout layout,
                          int64_t count)
{
    if (exact)
        return ls__reduction_scratch(algorithm, layout, count, &lanes_alike);
    return ls_allreduce_scratch(algorithm, layout, count, &ls_sum_f32);
}

static bool is_library(const ls__bench_sum *sum)
{
    return !sum->algorithm->reduce;
}

static ls_status open_f32(ls__bench_sum *sum, const ls__bench_memory *memory)
{
    ls_payload payload = {
        .data = memory->data,
        .count = sum->count,
        .type = &ls_sum_f32,
        .scratch = memory->scratch,
    };

    if (is_library(sum))
        return LS_OK;
    return ls_allreduce_open(&sum->allreduce, ls__world_transport(sum->world), sum->algorithm,
                             &payload);
}

/* Who rounds what. */
static ls_status open_post(ls__bench_sum *sum, ls_layout layout)
{
    sum->owners = calloc((size_t)layout.ranks, sizeof *sum->owners);
    LS_FAIL_IF(!sum->owners, LS_NO_MEMORY, "no memory for the blocks of %d ranks", layout.ranks);
    for (int rank = 0; rank < layout.ranks; rank++)
        sum->owners[rank] =
            (ls__spill_range){ls__owned_units(sum->algorithm, layout, rank, sum->count), rank};
    sum->own = sum->owners[ls__world_rank(sum->world)].range;
    return ls__spill_post_open(&sum->post, sum->exact, sum->owners, layout.ranks, sum->world);
}

static ls_status open_exact(ls__bench_sum *sum, const ls__bench_memory *memory)
{
    ls_transport *transport = ls__world_transport(sum->world);
    ls__reduction_plan plan = {
        .algorithm = sum->algorithm,
        .units = sum->count,
        .data = memory->lanes,
        .type = &sum->lane,
        .scratch = memory->scratch,
    };
    ls__sharing_plan sharing = {
        .algorithm = sum->algorithm,
        .units = sum->count,
        .data = memory->data,
        .size = sizeof(float),
    };

    LS_TRY(ls_exact_check_machine());
    LS_TRY(ls_exact_open(&sum->exact, sum->count, memory->lanes));
    sum->lane = lanes_alike;
    sum->lane.combine = ls_exact_combine_into;
    sum->lane.context = sum->exact;
    LS_TRY(ls__reduction_open(&sum->reduction, transport, &plan));
    LS_TRY(ls__sharing_open(&sum->sharing, transport, &sharing));
    return open_post(sum, ls_transport_layout(transport));
}

static ls_status open_either(ls__bench_sum *sum, bool exact, const ls__bench_memory *memory)
{
    LS_TRY(ls__world_agree(sum->world, exact ? open_exact(sum, memory) : open_f32(sum, memory)));
    if (!sum->allreduce)
        return LS_OK;
    return ls_allreduce_check(sum->allreduce, ls__world_timeout(sum->world));
}

ls_status ls__bench_sum_open(ls__bench_sum **sum, ls__world *world, const ls_algorithm *algorithm,
                             bool exact, int64_t count, const ls__bench_memory *memory)
{
    ls__bench_sum *opened = calloc(1, sizeof *opened);

    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for an all-reduce");
    opened->world = world;
    opened->algorithm = algorithm;
    opened->count = count;
    opened->data = memory->data;
    expect_sums(opened);
    ls_status status = open_either(opened, exact, memory);
    if (status != LS_OK) {
        ls__bench_sum_close(opened);
        return status;
    }
    *sum = opened;
    return LS_OK;
}

void ls__bench_sum_close(ls__bench_sum *sum)
{
    if (!sum)
        return;
    ls_allreduce_close(sum->allreduce);
    ls__sharing_close(sum->sharing);
    ls__spill_post_close(sum->post);
    free(sum->owners);
    ls__reduction_close(sum->reduction);
    ls_exact_close(sum->exact);
    free(sum);
}

/* ---- a run ---- */

static ls_status run_exact(ls__bench_sum *sum)
{
    double timeout = ls__world_timeout(sum->world);

    ls_exact_settle(sum->exact, 0, sum->count);
    LS_TRY(ls__reduction_run(sum->reduction, timeout));
    LS_TRY(ls__spill_post_deliver(sum->post, &sum->spills));
    ls_exact_round(sum->exact, sum->own.offset, sum->own.count, 1, sum->data + sum->own.offset);
    return ls__sharing_run(sum->sharing, timeout);
}

ls_status ls__bench_sum_run(ls__bench_sum *sum)
{
    if (sum->exact)
        return run_exact(sum);
    /* The control transport is MPI's, whatever carries the data. */
    if (is_library(sum))
        return ls_mpi_all_reduce(ls__world_control(sum->world), sum->data, sum->count, &ls_sum_f32);
    LS_TRY(ls_allreduce_start(sum->allreduce));
    return ls_allreduce_wait(sum->allreduce, ls__world_timeout(sum->world));
}
