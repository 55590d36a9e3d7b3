/* Simulated time against closed formulas: without contention, with links that ranks share, with
 * slow ranks; and what it takes to simulate many. */
#include <math.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "comm/simulate.h"
#include "plan/collectives.h"
#include "support/test.h"

/* 2 us and 12.5 GB/s between nodes, 0.5 us and 100 GB/s within one. */
static ls__sim_options network_of(int ranks, int per_node)
{
    return (ls__sim_options){
        .ranks = ranks,
        .per_node = per_node,
        .latency = 2e-6,
        .seconds_per_byte = 1 / 12.5e9,
        .node_latency = 0.5e-6,
        .node_seconds_per_byte = 1 / 100e9,
        .time_only = true,
    };
}

/* Bytes that all ranks send, from the schedules alone. */
static int64_t scheduled_bytes(const ls_algorithm *algorithm, ls_layout layout, int64_t count)
{
    int64_t bytes = 0;

    for (int rank = 0; rank < layout.ranks; rank++)
        bytes += ls_schedule_sent_bytes(algorithm->reduce, layout, rank, count, sizeof(float)) +
                 ls_schedule_sent_bytes(algorithm->distribute, layout, rank, count, sizeof(float));
    return bytes;
}

/* One all-reduce; nothing gets lost on the way, and nothing is sent that no schedule says. */
static double simulate(const ls__sim_options *options, const ls_algorithm *algorithm, int64_t count)
{
    ls_layout layout = {options->ranks, options->per_node};
    ls__sim *sim = NULL;
    ls__simulated result;

    assert_ok(ls__sim_open(&sim, options));
    assert_ok(ls__simulate_all_reduce(sim, algorithm, count, ls__float_sums, &result));
    ls__sim_close(sim);
    assert_int_equal(result.total.sent_messages, result.total.received_messages);
    assert_int_equal(result.total.sent_bytes, result.total.received_bytes);
    assert_int_equal(result.total.sent_bytes, scheduled_bytes(algorithm, layout, count));
    return result.seconds;
}

static void assert_ratio(const char *name, const ls__sim_options *options, int64_t count,
                         double seconds, double expected, double tolerance)
{
    if (!(fabs(seconds / expected - 1) <= tolerance))
        fail_msg("%s, %d ranks, %d a node, %lld elements: %.9g s simulated, %.9g s expected", name,
                 options->ranks, options->per_node, (long long)count, seconds, expected);
}

/* ---- without contention ---- */

/* Elements in about so many bytes, the same in each rank's block. */
static int64_t even_count(int64_t bytes, int ranks)
{
    int64_t each = bytes / (int64_t)sizeof(float) / ranks;

    return ranks * (each > 0 ? each : 1);
}

/* Returns by how much the ratio is off 1. */
static double compare_with_formula(const ls_algorithm *algorithm, int ranks, int64_t bytes)
{
    ls__sim_options options = network_of(ranks, 1);
    ls__network network = {
        .ranks = ranks, .per_node = 1, .across = {options.latency, options.seconds_per_byte}};
    int64_t count = even_count(bytes, ranks);
    double formula =
        ls__all_reduce_seconds(algorithm->name, &network, (double)count * sizeof(float));
    double seconds = simulate(&options, algorithm, count);

    assert_ratio(algorithm->name, &options, count, seconds, formula, 0.01);
    return fabs(seconds / formula - 1);
}

static void test_time_is_the_closed_formula(void **state)
{
    static const int ranks[] = {2, 3, 4, 5, 7, 8, 16, 17, 64, 256};
    static const int64_t bytes[] = {1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30};

    (void)state;
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++) {
        const ls_algorithm *algorithm = ls_algorithm_at(i);
        double worst = 0;
        if (!algorithm->reduce)
            continue;
        for (size_t n = 0; n < sizeof ranks / sizeof ranks[0]; n++)
            for (size_t b = 0; b < sizeof bytes / sizeof bytes[0]; b++)
                worst = fmax(worst, compare_with_formula(algorithm, ranks[n], bytes[b]));
        ls__figure("%s, N = 2..256, 1 KB to 1 GB: simulated time within %.2g of the formula",
                   algorithm->name, worst);
    }
}

/* Lanes of 8 bytes in the first phase, floats in the second: 12 (N-1)/N bytes an element. */
static void test_exact_sums_on_the_ring(void **state)
{
    enum { RANKS = 16, COUNT = RANKS * 1000 };
    ls__sim_options options = network_of(RANKS, 1);
    ls__sim *sim = NULL;
    ls__simulated result;

    (void)state;
    assert_ok(ls__sim_open(&sim, &options));
    assert_ok(ls__simulate_all_reduce(sim, &ls_algorithm_ring, COUNT, ls__exact_sums, &result));
    ls__sim_close(sim);
    assert_int_equal(result.total.sent_bytes, 12 * (RANKS - 1) * COUNT);
    assert_ratio(
        "ring", &options, COUNT, result.seconds,
        (RANKS - 1) * (2 * options.latency + 12 * COUNT / RANKS * options.seconds_per_byte), 1e-9);
}

/* ---- links that ranks share ---- */

static const int shared_layouts[][2] = {{8, 2}, {12, 3}, {16, 4}, {64, 8}, {64, 32}};
static const int64_t shared_counts[] = {64 * 3, 64 * 300, 64 * 30000};

static void for_all_shared(double (*expected)(const ls__sim_options *, double bytes),
                           const ls_algorithm *algorithm, double node_seconds_per_byte)
{
    for (size_t i = 0; i < sizeof shared_layouts / sizeof shared_layouts[0]; i++)
        for (size_t k = 0; k < sizeof shared_counts / sizeof shared_counts[0]; k++) {
            ls__sim_options options = network_of(shared_layouts[i][0], shared_layouts[i][1]);
            int64_t count = even_count(shared_counts[k] * (int64_t)sizeof(float), options.ranks);
            options.node_seconds_per_byte = node_seconds_per_byte;
            assert_ratio(algorithm->name, &options, count, simulate(&options, algorithm, count),
                         expected(&options, (double)count * sizeof(float)), 1e-6);
        }
}

/* A node's last rank alone sends across, so nobody competes for a link. But a rank starts a round
 * when it has ended the one before, so each round waits for the slowest message of the ring: the
 * path over the same slow hop 2(N-1) times is the longest there is. */
static double ring_seconds(const ls__sim_options *options, double bytes)
{
    double block = bytes / options->ranks;
    double across = options->latency + block * options->seconds_per_byte;
    double within = options->node_latency + block * options->node_seconds_per_byte;

    return 2 * (options->ranks - 1) * fmax(across, within);
}

static void test_ring_waits_for_the_slowest_hop(void **state)
{
    (void)state;
    for_all_shared(ring_seconds, &ls_algorithm_ring, 1 / 100e9);
    for_all_shared(ring_seconds, &ls_algorithm_ring, 1 / 1e9);
}

/* L ranks a node, M nodes, N = L M. Within a node L-1 rounds of D/L bytes, in each phase. Across, L
 * rings share a link, whose messages of D/N bytes keep it busy for d each. They start together, so
 * that the last arrives a + L d later. A ring's next message is ready when its last has arrived,
 * a + d after that began, and has its turn again when the link has carried one of each ring, L d
 * after: it leaves at the later of the two. There are 2(M-1) messages of each ring one after the
 * other, as the second phase begins across; the last ring's last ends the rounds across. */
static double hier_seconds(const ls__sim_options *options, double bytes)
{
    double rings = options->per_node;
    double nodes = options->ranks / rings;
    double within = options->node_latency + bytes / rings * options->node_seconds_per_byte;
    double busy = bytes / options->ranks * options->seconds_per_byte;
    double round = fmax(rings * busy, options->latency + busy);

    return 2 * (rings - 1) * within + (2 * (nodes - 1) - 1) * round + options->latency +
           rings * busy;
}

static void test_rings_of_hier_take_turns(void **state)
{
    (void)state;
    for_all_shared(hier_seconds, &ls_algorithm_hier, 1 / 100e9);
}

static int64_t one_wave(ls_layout layout)
{
    return layout.ranks - 1;
}

/* All send to rank 0 at once: their own links are free, but its way in carries one message at a
 * time, so they arrive a + k D b later, k = 1 .. N-1. */
static void test_way_in_is_shared(void **state)
{
    enum { RANKS = 9, COUNT = 1 << 20 };
    ls_schedule gather = *ls_algorithm_naive.reduce;
    ls_algorithm at_once = ls_algorithm_naive;
    ls__sim_options options = network_of(RANKS, 1);
    double message = COUNT * sizeof(float) * options.seconds_per_byte;

    (void)state;
    gather.wave = one_wave;
    at_once.reduce = &gather;
    double expected =
        options.latency + (RANKS - 1) * message + (RANKS - 1) * (options.latency + message);
    assert_ratio("incast", &options, COUNT, simulate(&options, &at_once, COUNT), expected, 1e-9);
}

/* ---- slow ranks ---- */

/* By the argument of ring_seconds: the slow rank's hops are the slowest. */
static void test_slow_rank_slows_the_ring(void **state)
{
    enum { RANKS = 16, COUNT = RANKS * 1000 };
    ls__sim_options options = network_of(RANKS, 1);
    ls__sim *sim = NULL;
    ls__simulated result;

    (void)state;
    for (int rank = 0; rank < RANKS; rank += 5) {
        assert_ok(ls__sim_open(&sim, &options));
        ls__sim_slow_down(sim, rank, 3);
        assert_ok(ls__simulate_all_reduce(sim, &ls_algorithm_ring, COUNT, ls__float_sums, &result));
        ls__sim_close(sim);
        assert_ratio("ring", &options, COUNT, result.seconds,
                     3 * ring_seconds(&options, COUNT * sizeof(float)), 1e-9);
    }
}

/* ---- many ranks, much data ---- */

/* 1 GB on each of 4,096 ranks: the data is not there. */
static void test_many_ranks(void **state)
{
    enum { RANKS = 4096, COUNT = 1 << 28, MEMORY_KB = 1 << 18 };
    const ls_algorithm *const algorithms[] = {&ls_algorithm_ring, &ls_algorithm_hier,
                                              &ls_algorithm_halving};
    ls__sim_options options = network_of(RANKS, 8);
    struct rusage usage;

    (void)state;
    for (int i = 0; i < 3; i++) {
        double start = ls__clock_seconds();
        double seconds = simulate(&options, algorithms[i], COUNT);
        ls__figure("%s, %d ranks, 1 GB: %.6f s, simulated in %.1f s", algorithms[i]->name, RANKS,
                   seconds, ls__clock_seconds() - start);
    }
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    assert_true(usage.ru_maxrss < MEMORY_KB);
}

/* ---- negative controls ---- */

static int64_t waves_of_two(ls_layout layout)
{
    (void)layout;
    return 2;
}

/* A ring that says its rounds need not wait for each other overlaps latencies that it may not. */
static void test_wrong_waves_take_another_time(void **state)
{
    enum { RANKS = 16, COUNT = RANKS * 100 };
    ls_schedule reduce = *ls_algorithm_ring.reduce;
    ls_algorithm broken = ls_algorithm_ring;
    ls__sim_options options = network_of(RANKS, 1);
    double right = ring_seconds(&options, COUNT * sizeof(float));

    (void)state;
    reduce.wave = waves_of_two;
    broken.reduce = &reduce;
    assert_true(simulate(&options, &broken, COUNT) < 0.8 * right);
}

static ls_round rank_1_sends_nothing(ls_layout layout, int rank, int64_t index)
{
    ls_round round = ls_algorithm_ring.reduce->round(layout, rank, index);

    if (rank == 1) {
        round.send_to = LS_NO_PEER;
        round.send = (ls_span){0, 0};
    }
    return round;
}

static void test_missing_message_is_a_deadlock(void **state)
{
    ls_schedule reduce = *ls_algorithm_ring.reduce;
    ls_algorithm broken = ls_algorithm_ring;
    ls__sim_options options = network_of(4, 1);
    ls__sim *sim = NULL;
    ls__simulated result;

    (void)state;
    reduce.round = rank_1_sends_nothing;
    broken.reduce = &reduce;
    assert_ok(ls__sim_open(&sim, &options));
    assert_fails(ls__simulate_all_reduce(sim, &broken, 400, ls__float_sums, &result), LS_COMM,
                 "deadlock: rank ");
    ls__sim_close(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_is_the_closed_formula),
        cmocka_unit_test(test_exact_sums_on_the_ring),
        cmocka_unit_test(test_ring_waits_for_the_slowest_hop),
        cmocka_unit_test(test_rings_of_hier_take_turns),
        cmocka_unit_test(test_way_in_is_shared),
        cmocka_unit_test(test_slow_rank_slows_the_ring),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_wrong_waves_take_another_time),
        cmocka_unit_test(test_missing_message_is_a_deadlock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
