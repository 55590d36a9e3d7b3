/* The conformance suite on the simulated transport, in several orders of delivery. */
#include "comm/transport_sim.h"
#include "support/conformance.h"

static ls_status run(ls__fleet *fleet, ls__fleet_step *step, void *context)
{
    return ls__sim_run(fleet->context, step, context);
}

static void conform(int ranks, uint64_t seed)
{
    ls__sim *sim = NULL;
    ls__sim_options options = {.ranks = ranks, .seed = seed, .latency = 1e-6, .jitter = 1e-3};

    assert_ok(ls__sim_open(&sim, &options));
    ls__fleet fleet = {.ranks = ranks, .end = ranks, .run = run, .context = sim};
    for (int rank = 0; rank < ranks; rank++)
        fleet.transport[rank] = ls__sim_transport(sim, rank);
    ls__conformance(&fleet);
    ls__sim_close(sim);
}

static void test_conformance(void **state)
{
    static const int ranks[] = {1, 2, 3, 5, 8};
    uint64_t seed = ls__test_seed(20240501);

    (void)state;
    for (int i = 0; i < 5; i++)
        for (uint64_t k = 0; k < 3; k++)
            conform(ranks[i], seed + k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conformance)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
