#include "train/bucket.h"

#include <stdlib.h>

#include "base/clock.h"
#include "train/reduce.h"

enum { REPEATS = 3 };

static const int64_t least = INT64_C(1) << 18;
static const int64_t most = INT64_C(1) << 26;
static const int64_t longest = INT64_C(1) << 22; /* that is timed */

/* What a message costs whatever its length may be this share of what its bytes cost. */
static const double overhead = 0.05;

int64_t ls__bucket_choose(double short_seconds, int64_t short_bytes, double long_seconds,
                          int64_t long_bytes)
{
    double per_byte = (long_seconds - short_seconds) / (double)(long_bytes - short_bytes);
    double fixed = short_seconds - per_byte * (double)short_bytes;
    int64_t bytes = least;

    while (bytes < most && fixed > overhead * per_byte * (double)bytes)
        bytes *= 2;
    return bytes;
}

static ls_status best_of(ls__world *world, ls__reduction *reduction, double *best)
{
    for (int i = 0; i < REPEATS; i++) {
        LS_TRY(ls__world_barrier(world));
        double started = ls__clock_seconds();
        LS_TRY(ls__reduction_run(reduction, ls__world_timeout(world)));
        double seconds = ls__clock_seconds() - started;
        *best = i == 0 || seconds < *best ? seconds : *best;
    }
    return LS_OK;
}

/* The best time of a reduction of the first `units` units. */
static ls_status measure(ls__world *world, const ls__reduction_plan *plan, double *best)
{
    ls__reduction *reduction = NULL;

    LS_TRY(ls__reduction_open(&reduction, ls__world_transport(world), plan));
    ls_status status = best_of(world, reduction, best);
    ls__reduction_close(reduction);
    return status;
}

static ls_status measure_both(ls__world *world, ls__reduction_plan *plan, int64_t units,
                              int64_t *bytes)
{
    const int64_t unit_bytes = LS__REDUCE_UNIT * (int64_t)sizeof(float);
    const int64_t length[2] = {units / 16, units};
    double seconds[2] = {0};

    for (int i = 0; i < 2; i++) {
        plan->units = length[i];
        LS_TRY(measure(world, plan, &seconds[i]));
    }
    *bytes =
        ls__bucket_choose(seconds[0], length[0] * unit_bytes, seconds[1], length[1] * unit_bytes);
    return ls__world_broadcast(world, 0, bytes, sizeof *bytes);
}

ls_status ls__bucket_measure(ls__world *world, const ls_algorithm *algorithm,
                             const ls_element_type *unit, char *sums, int64_t units, int64_t *bytes)
{
    const int64_t unit_bytes = LS__REDUCE_UNIT * (int64_t)sizeof(float);
    ls_layout layout = ls_transport_layout(ls__world_transport(world));
    ls__reduction_plan plan = {.algorithm = algorithm, .data = sums, .type = unit};

    *bytes = least;
    if (units * unit_bytes <= least || layout.ranks == 1)
        return LS_OK;
    if (units * unit_bytes > longest)
        units = longest / unit_bytes;
    plan.scratch = malloc((size_t)ls__reduction_scratch(algorithm, layout, units, unit));
    ls_status status = plan.scratch ? LS_OK : LS_FAIL(LS_NO_MEMORY, "no memory for a trial");
    status = ls__world_agree(world, status);
    if (status == LS_OK)
        status = measure_both(world, &plan, units, bytes);
    free(plan.scratch);
    return status;
}
