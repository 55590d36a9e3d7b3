/* What collectives cost: known values, worked out by hand from the formulas' sources. */
#include <math.h>
#include <string.h>

#include "plan/collectives.h"
#include "support/test.h"

/* 10 us and 1 GB/s a node, 1 us and 10 GB/s within it; 1 MB of data. */
static const double data = 1e6;

static ls__network network_of(int64_t ranks, int64_t per_node)
{
    return (ls__network){
        .ranks = ranks, .per_node = per_node, .across = {10e-6, 1e-9}, .within = {1e-6, 1e-10}};
}

static void assert_all_reduce(const char *algorithm, int64_t ranks, int64_t per_node,
                              double microseconds)
{
    ls__network network = network_of(ranks, per_node);

    assert_near(1e6 * ls__all_reduce_seconds(algorithm, &network, data), microseconds, 1e-6);
}

static void test_one_rank_a_node(void **state)
{
    (void)state;
    assert_all_reduce("naive", 8, 1, 14140); /* 14 x (10 + 1000) */
    assert_all_reduce("tree", 8, 1, 6060);   /* 6 x 1010 */
    assert_all_reduce("tree", 5, 1, 6060);
    assert_all_reduce("halving", 8, 1, 1810);  /* 6 x 10 + 1750 */
    assert_all_reduce("halving", 5, 1, 1660);  /* 6 x 10 + 1600 */
    assert_all_reduce("ring", 8, 1, 1890);     /* 14 x (10 + 125) */
    assert_all_reduce("direct", 8, 1, 1770);   /* 2 x (10 + 7 x 125) */
    assert_all_reduce("ring-seg", 8, 1, 1770); /* 2 x (10 + 7 x 125), three segments */
    assert_all_reduce("ring-seg", 2, 1, 1020); /* 2 x (10 + 500), eleven segments */
    assert_all_reduce("hier", 8, 1, 1890);
}

static void test_shared_nodes(void **state)
{
    (void)state;
    assert_all_reduce("ring", 8, 4, 1890);
    assert_all_reduce("hier", 8, 4, 1166);    /* 6 x (1 + 25) + 10 + 2 x 500 */
    assert_all_reduce("hier", 8, 2, 1612);    /* 2 x (1 + 50) + 10 + 6 x 250 */
    assert_all_reduce("naive", 8, 4, 8686);   /* 6 x 101 + 8 x 1010 */
    assert_all_reduce("tree", 8, 4, 2424);    /* 4 x 101 + 2 x 1010 */
    assert_all_reduce("halving", 8, 4, 7060); /* 6 x 10 + 4 x 1750 */
    assert_all_reduce("direct", 8, 4, 7020);  /* 2 x (10 + 7 x 4 x 125) */
    assert_all_reduce("ring", 4, 4, 156);     /* one node: 6 x (1 + 25) */
    assert_all_reduce("halving", 4, 8, 154);  /* 4 x 1 + 150 */
}

/* Messages too short to keep a link busy for 10 us. */
static void test_what_latency_leaves_idle(void **state)
{
    ls__network small = network_of(4, 2);
    ls__network large = network_of(33, 1);

    (void)state;
    /* 32 messages of 0.1 us: 16 and 16, the second half when the first arrive, 10.1 us later. */
    assert_near(1e6 * ls__all_reduce_seconds("direct", &large, 33e2), 2 * (10.1 + 1.5 + 10.1),
                1e-6);
    /* 2 rings over 2 nodes, messages of 1 us: 2 rounds, the second ring 1 us behind the first. */
    assert_near(1e6 * ls__all_reduce_seconds("hier", &small, 4e3), 2 * 1.2 + 2 * 11 + 1, 1e-6);
}

static void test_one_rank_needs_no_messages(void **state)
{
    (void)state;
    for (int i = 0; ls__all_reduce_names[i]; i++)
        assert_all_reduce(ls__all_reduce_names[i], 1, 1, 0);
}

static void test_names(void **state)
{
    char joined[128] = "";

    (void)state;
    for (int i = 0; ls__all_reduce_names[i]; i++) {
        size_t used = strlen(joined);
        snprintf(joined + used, sizeof joined - used, i ? "|%s" : "%s", ls__all_reduce_names[i]);
    }
    assert_string_equal(joined, LS__ALL_REDUCE_CHOICES);
}

static void test_what_has_no_answer(void **state)
{
    ls__network uneven = network_of(7, 4);

    (void)state;
    assert_true(isnan(ls__all_reduce_seconds("butterfly", &uneven, data)));
    assert_true(isnan(ls__all_reduce_seconds("hier", &uneven, data)));
}

static void test_the_other_collectives(void **state)
{
    ls__network flat = network_of(8, 1);

    (void)state;
    assert_near(1e6 * ls__all_gather_seconds(&flat, data), 945, 1e-6);
    assert_near(1e6 * ls__reduce_scatter_seconds(&flat, data), 945, 1e-6);
    assert_near(1e6 * ls__broadcast_seconds(&flat, data), 3030, 1e-6);
    assert_near(1e6 * ls__all_to_all_seconds(&flat, data), 885, 1e-6);
    assert_near(1e6 * ls__point_to_point_seconds(&flat, data), 1010, 1e-6);
}

/* Issue 6: the ring's factor is 1.750, 1.969 and, at infinity, 2; 1.21 GB over 64 ranks at 100
 * Gbit/s are 2.38 GB a rank and 0.19 s. */
static void test_figures_of_the_ring(void **state)
{
    ls__network cluster = {.ranks = 64, .per_node = 1, .across = {0, 8 / 100e9}};

    (void)state;
    assert_near(ls__ring_sent_bytes(8, 1), 1.750, 0.0005);
    assert_near(ls__ring_sent_bytes(64, 1), 1.969, 0.0005);
    assert_near(ls__ring_sent_bytes(INT64_MAX, 1), 2, 1e-12);
    assert_near(ls__ring_sent_bytes(64, 1.21e9), 2.38e9, 0.005e9);
    assert_near(ls__all_reduce_seconds("ring", &cluster, 1.21e9), 0.19, 0.005);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank_a_node),
        cmocka_unit_test(test_shared_nodes),
        cmocka_unit_test(test_what_latency_leaves_idle),
        cmocka_unit_test(test_one_rank_needs_no_messages),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_what_has_no_answer),
        cmocka_unit_test(test_the_other_collectives),
        cmocka_unit_test(test_figures_of_the_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
