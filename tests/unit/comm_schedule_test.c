/* Blocks and schedules as pure functions: the block formula's properties, every schedule run
 * symbolically (each block a set of contributions) for every N from 1 to 64, bytes from the
 * schedule alone, and 64-bit arithmetic. Broken schedules must be caught. */
#include <string.h>

#include "base/rng.h"
#include "lockstep/schedule.h"
#include "support/test.h"

enum { RANKS_MAX = 64 };

/* ---- blocks ---- */

static void check_partition(int64_t count, int64_t blocks)
{
    int64_t next = 0;

    for (int64_t i = 0; i < blocks; i++) {
        ls_range block = ls_block(count, blocks, i);
        assert_true(block.offset == next);
        assert_true(block.count == count / blocks || block.count == count / blocks + 1);
        assert_true(block.count <= ls_block(count, blocks, 0).count);
        next += block.count;
    }
    assert_true(next == count);
}

static void test_blocks_cover_everything_once(void **state)
{
    (void)state;
    for (int64_t count = 0; count <= 70; count++)
        for (int64_t blocks = 1; blocks <= 20; blocks++)
            check_partition(count, blocks);
}

static void test_blocks_at_64_bits(void **state)
{
    (void)state;
    check_partition(((int64_t)1 << 31) + 5, 7);
    check_partition(((int64_t)1 << 40) - 1, 16384);
    check_partition(INT64_MAX, 16384);
    assert_true(ls_block(((int64_t)1 << 40) + 1, 2, 1).offset == ((int64_t)1 << 39) + 1);
}

static void test_spans_join_blocks(void **state)
{
    ls_range empty = ls_span_range(100, 7, (ls_span){3, 0});
    ls_range all = ls_span_range(100, 7, (ls_span){0, 7});
    ls_range middle = ls_span_range(100, 7, (ls_span){1, 3});

    (void)state;
    assert_int_equal(empty.count, 0);
    assert_int_equal(all.offset, 0);
    assert_int_equal(all.count, 100);
    assert_int_equal(middle.offset, 15);
    assert_int_equal(middle.count, 43);
}

/* ---- symbolic runs ---- */

/* A rank a node. */
static ls_layout flat(int ranks)
{
    return (ls_layout){ranks, 1};
}

typedef uint64_t contributions; /* bit r: the addend of rank r */

typedef struct symbol_table {
    ls_layout layout;
    int64_t blocks;
    contributions at[RANKS_MAX][RANKS_MAX]; /* (ranks, blocks) */
} symbol_table;

static bool overlap(ls_span a, ls_span b)
{
    return a.first < b.first + b.count && b.first < a.first + a.count;
}

/* The promise about the rounds of a wave. */
static bool keeps_apart(const ls_schedule *schedule, ls_layout layout, int rank, int64_t index)
{
    ls_round round = schedule->round(layout, rank, index);
    int64_t first = index - index % schedule->wave(layout);

    if (overlap(round.send, round.receive))
        return false;
    for (int64_t i = first; i < index; i++) {
        ls_round before = schedule->round(layout, rank, i);
        if (overlap(round.send, before.receive) || overlap(round.receive, before.send))
            return false;
        if (overlap(round.receive, before.receive) && !(round.combine && before.combine))
            return false;
    }
    return true;
}

static const char *check_round(const ls_schedule *schedule, ls_layout layout, int rank,
                               int64_t index)
{
    ls_round mine = schedule->round(layout, rank, index);

    if (mine.send_to == rank || mine.receive_from == rank)
        return "a rank names itself";
    if (mine.send.count > schedule->widest(layout) || mine.receive.count > schedule->widest(layout))
        return "a message is wider than the widest";
    if (!keeps_apart(schedule, layout, rank, index))
        return "rounds of a wave touch the same block";
    if (mine.send_to == LS_NO_PEER)
        return mine.send.count ? "something is sent to nobody" : NULL;
    ls_round theirs = schedule->round(layout, mine.send_to, index);
    if (theirs.receive_from != rank || theirs.receive.first != mine.send.first ||
        theirs.receive.count != mine.send.count)
        return "what is sent is not what is received";
    return NULL;
}

static const char *receive(symbol_table *after, const symbol_table *before, int rank,
                           ls_round round)
{
    if (round.receive_from == LS_NO_PEER)
        return NULL;
    for (int64_t b = round.receive.first; b < round.receive.first + round.receive.count; b++) {
        contributions arriving = before->at[round.receive_from][b];
        if (round.combine && (arriving & before->at[rank][b]))
            return "a contribution is combined twice";
        after->at[rank][b] = arriving | (round.combine ? before->at[rank][b] : 0);
    }
    return NULL;
}

/* Runs all rounds of a schedule; NULL, or what is wrong with it. */
static const char *run_schedule(const ls_schedule *schedule, symbol_table *symbols)
{
    static symbol_table before;
    ls_layout layout = symbols->layout;
    const char *wrong = NULL;

    for (int64_t i = 0; i < schedule->rounds(layout) && !wrong; i++) {
        before = *symbols;
        for (int rank = 0; rank < layout.ranks && !wrong; rank++) {
            wrong = check_round(schedule, layout, rank, i);
            if (!wrong)
                wrong = receive(symbols, &before, rank, schedule->round(layout, rank, i));
        }
    }
    return wrong;
}

static bool owners_have_all(const ls_algorithm *algorithm, const symbol_table *symbols,
                            contributions all)
{
    int owners[RANKS_MAX] = {0};
    bool right = true;

    for (int rank = 0; rank < symbols->layout.ranks; rank++) {
        ls_span owned = algorithm->owned(symbols->layout, rank);
        for (int64_t b = owned.first; b < owned.first + owned.count; b++) {
            right = right && symbols->at[rank][b] == all;
            owners[b]++;
        }
    }
    for (int64_t b = 0; b < symbols->blocks; b++)
        right = right && owners[b] == 1;
    return right;
}

static const char *run_algorithm(const ls_algorithm *algorithm, ls_layout layout)
{
    int ranks = layout.ranks;
    static symbol_table symbols;
    contributions all = ranks == 64 ? ~(contributions)0 : ((contributions)1 << ranks) - 1;

    symbols.layout = layout;
    symbols.blocks = algorithm->reduce->blocks(layout);
    if (algorithm->distribute->blocks(layout) != symbols.blocks || symbols.blocks > RANKS_MAX)
        return "the phases cut the data differently";
    for (int rank = 0; rank < ranks; rank++)
        for (int64_t b = 0; b < symbols.blocks; b++)
            symbols.at[rank][b] = (contributions)1 << rank;
    const char *wrong = run_schedule(algorithm->reduce, &symbols);
    if (!wrong && !owners_have_all(algorithm, &symbols, all))
        wrong = "after the first phase an owner lacks a contribution";
    if (!wrong)
        wrong = run_schedule(algorithm->distribute, &symbols);
    for (int rank = 0; rank < ranks && !wrong; rank++)
        for (int64_t b = 0; b < symbols.blocks; b++)
            if (symbols.at[rank][b] != all)
                wrong = "after the last phase a rank lacks a contribution";
    return wrong;
}

/* On every number of ranks, and every way to spread them evenly over nodes. */
static int64_t check_all_layouts(const ls_algorithm *algorithm)
{
    int64_t layouts = 0;

    for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
        for (int per_node = 1; per_node <= ranks; per_node++) {
            if (ranks % per_node)
                continue;
            const char *wrong = run_algorithm(algorithm, (ls_layout){ranks, per_node});
            if (wrong)
                fail_msg("%s on %d ranks, %d a node: %s", algorithm->name, ranks, per_node, wrong);
            layouts++;
        }
    return layouts;
}

static void test_each_contribution_once(void **state)
{
    (void)state;
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++) {
        const ls_algorithm *algorithm = ls_algorithm_at(i);
        if (algorithm->reduce)
            ls__figure("%s, symbolic run, N = 1..%d, %lld layouts: each contribution exactly once",
                       algorithm->name, RANKS_MAX, (long long)check_all_layouts(algorithm));
    }
}

/* ---- schedules broken on purpose ---- */

static int64_t one_round_too_many(ls_layout layout)
{
    return layout.ranks;
}

static ls_round copies_where_it_should_combine(ls_layout layout, int rank, int64_t index)
{
    ls_round round = ls_algorithm_ring.reduce->round(layout, rank, index);

    round.combine = round.combine && index != layout.ranks - 2;
    return round;
}

static ls_round gathers_from_the_wrong_side(ls_layout layout, int rank, int64_t index)
{
    ls_round round = ls_algorithm_ring.distribute->round(layout, rank, index);

    round.receive_from = round.send_to;
    return round;
}

static ls_round gathers_one_block_off(ls_layout layout, int rank, int64_t index)
{
    ls_round round = ls_algorithm_ring.distribute->round(layout, rank, index);

    round.send.first = (round.send.first + 1) % layout.ranks;
    round.receive.first = (round.receive.first + 1) % layout.ranks;
    return round;
}

static int64_t waves_of_two(ls_layout layout)
{
    (void)layout;
    return 2;
}

static void expect_caught(const ls_algorithm *algorithm, const char *expected)
{
    for (int ranks = 3; ranks <= RANKS_MAX; ranks++) {
        const char *wrong = run_algorithm(algorithm, flat(ranks));
        assert_non_null(wrong);
        assert_string_equal(wrong, expected);
    }
}

static void test_broken_schedules_are_caught(void **state)
{
    ls_schedule reduce = *ls_algorithm_ring.reduce;
    ls_schedule distribute = *ls_algorithm_ring.distribute;
    ls_algorithm broken = ls_algorithm_ring;

    (void)state;
    broken.reduce = &reduce;
    broken.distribute = &distribute;
    reduce.rounds = one_round_too_many;
    expect_caught(&broken, "a contribution is combined twice");
    reduce = *ls_algorithm_ring.reduce;
    reduce.round = copies_where_it_should_combine;
    expect_caught(&broken, "after the first phase an owner lacks a contribution");
    reduce = *ls_algorithm_ring.reduce;
    reduce.wave = waves_of_two;
    expect_caught(&broken, "rounds of a wave touch the same block");
    reduce = *ls_algorithm_ring.reduce;
    distribute.round = gathers_from_the_wrong_side;
    expect_caught(&broken, "what is sent is not what is received");
    distribute.round = gathers_one_block_off;
    expect_caught(&broken, "after the last phase a rank lacks a contribution");
}

/* ---- bytes ---- */

static int64_t sent_bytes(const ls_algorithm *algorithm, int ranks, int rank, int64_t count)
{
    return ls_schedule_sent_bytes(algorithm->reduce, flat(ranks), rank, count, 4) +
           ls_schedule_sent_bytes(algorithm->distribute, flat(ranks), rank, count, 4);
}

static int64_t sent_by_all(const ls_algorithm *algorithm, int ranks, int64_t count)
{
    int64_t sum = 0;

    for (int rank = 0; rank < ranks; rank++)
        sum += sent_bytes(algorithm, ranks, rank, count);
    return sum;
}

static void test_ring_bytes(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
        int64_t count = (int64_t)ranks * 1000;
        for (int rank = 0; rank < ranks; rank++)
            assert_true(sent_bytes(&ls_algorithm_ring, ranks, rank, count) ==
                        2 * (ranks - 1) * (count * 4 / ranks));
        /* Not divisible: each block still crosses N - 1 links in each phase. */
        assert_true(sent_by_all(&ls_algorithm_ring, ranks, 1009) ==
                    2 * (int64_t)(ranks - 1) * 1009 * 4);
        assert_true(sent_by_all(&ls_algorithm_ring, ranks, 0) == 0);
    }
    ls__figure("ring, bytes sent per rank from the schedule, N = 1..%d: exactly 2(N-1)/N x data",
               RANKS_MAX);
}

/* All that own a block each send as much as the ring; trees and detours do not. */
static void test_bytes_of_scattering_algorithms(void **state)
{
    static const ls_algorithm *const like_the_ring[] = {
        &ls_algorithm_ring_seg, &ls_algorithm_direct, &ls_algorithm_halving, &ls_algorithm_hier};

    (void)state;
    for (int i = 0; i < 4; i++)
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
            for (int rank = 0; rank < ranks; rank++)
                assert_true(sent_bytes(like_the_ring[i], ranks, rank, ranks * 10) ==
                            2 * (ranks - 1) * 40);
    for (int ranks = 1; ranks <= RANKS_MAX; ranks++)
        assert_true(sent_by_all(&ls_algorithm_tree, ranks, 1009) ==
                    2 * (int64_t)(ranks - 1) * 1009 * 4);
}

/* What leaves a node of four, of sixteen ranks: 2 (M-1)/M D, where a ring sends 2 (N-1)/N D and
 * over its one link that leaves. */
static void test_hier_spares_the_network(void **state)
{
    ls_layout layout = {16, 4};
    const ls_schedule *phase[] = {ls_algorithm_hier.reduce, ls_algorithm_hier.distribute};
    int64_t blocks = 0;

    (void)state;
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; i < phase[p]->rounds(layout); i++)
            for (int rank = 0; rank < layout.per_node; rank++) {
                ls_round round = phase[p]->round(layout, rank, i);
                if (round.send_to >= layout.per_node)
                    blocks += round.send.count;
            }
    assert_int_equal(blocks, 2 * (4 - 1) * 16 / 4);
}

/* Rounds that can hold data, as J. L. Traeff has it: ceil(log2 N), twice, in two halves. */
static void test_halving_rounds(void **state)
{
    (void)state;
    assert_int_equal(ls_algorithm_halving.reduce->rounds(flat(1)), 0);
    assert_int_equal(ls_algorithm_halving.reduce->rounds(flat(2)), 2 * 1);
    assert_int_equal(ls_algorithm_halving.reduce->rounds(flat(5)), 2 * 3);
    assert_int_equal(ls_algorithm_halving.reduce->rounds(flat(16)), 2 * 4);
    assert_int_equal(ls_algorithm_halving.reduce->rounds(flat(16384)), 2 * 14);
    assert_int_equal(ls_algorithm_tree.reduce->rounds(flat(17)), 5);
}

static void test_naive_bytes(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        assert_true(sent_bytes(&ls_algorithm_naive, ranks, 0, 1009) ==
                    (int64_t)(ranks - 1) * 1009 * 4);
        for (int rank = 1; rank < ranks; rank++)
            assert_true(sent_bytes(&ls_algorithm_naive, ranks, rank, 1009) == 1009 * 4);
    }
    assert_true(sent_bytes(&ls_algorithm_naive, 1, 0, 1009) == 0);
}

static void test_bytes_at_64_bits(void **state)
{
    int64_t huge = (int64_t)1 << 40;
    int64_t above_int = ((int64_t)1 << 31) + 8;

    (void)state;
    assert_true(sent_bytes(&ls_algorithm_ring, 8, 3, above_int) == 14 * (above_int / 8 * 4));
    assert_true(sent_bytes(&ls_algorithm_ring, 16384, 0, huge) == 2 * 16383 * (huge / 16384 * 4));
    assert_true(sent_bytes(&ls_algorithm_ring, 16384, 16383, huge) ==
                2 * 16383 * (huge / 16384 * 4));
    assert_true(sent_bytes(&ls_algorithm_naive, 16384, 0, huge) == 16383 * huge * 4);
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++)
        if (ls_algorithm_at(i)->reduce)
            assert_true(sent_by_all(ls_algorithm_at(i), 7, huge + 3) == 12 * (huge + 3) * 4);
}

/* Any round of any rank, without the ones before: neighbours agree. */
static void test_rounds_at_16384_ranks(void **state)
{
    uint64_t seed = ls__test_seed(16384);

    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        ls__random4 words = ls__random(seed, LS__STREAM_ORDER, 0, i);
        int rank = (int)(words.word[0] % 16384);
        int64_t index = words.word[1] % 16383;
        assert_null(check_round(ls_algorithm_ring.reduce, flat(16384), rank, index));
        assert_null(check_round(ls_algorithm_ring.distribute, flat(16384), rank, index));
        assert_null(check_round(ls_algorithm_naive.reduce, flat(16384), rank, index));
    }
}

/* ---- names ---- */

static void test_names(void **state)
{
    (void)state;
    assert_ptr_equal(ls_algorithm_find("ring"), &ls_algorithm_ring);
    assert_ptr_equal(ls_algorithm_find("mpi"), &ls_algorithm_mpi);
    assert_null(ls_algorithm_find("rings"));
    assert_string_equal(LS_ALGORITHM_NAMES, "ring|ring-seg|direct|halving|hier|tree|naive|mpi");
    assert_ptr_equal(ls_algorithm_find("ring-seg"), &ls_algorithm_ring_seg);
    for (int i = 0; i < LS_ALGORITHM_COUNT; i++)
        assert_non_null(strstr(LS_ALGORITHM_NAMES, ls_algorithm_at(i)->name));
}

static void test_owned_elements(void **state)
{
    ls_range third = ls_algorithm_owned(&ls_algorithm_ring, flat(4), 3, 11);
    ls_range all = ls_algorithm_owned(&ls_algorithm_naive, flat(4), 0, 11);
    ls_range none = ls_algorithm_owned(&ls_algorithm_naive, flat(4), 2, 11);

    (void)state;
    assert_int_equal(third.offset, 9);
    assert_int_equal(third.count, 2);
    assert_int_equal(all.count, 11);
    assert_int_equal(none.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_cover_everything_once),
        cmocka_unit_test(test_blocks_at_64_bits),
        cmocka_unit_test(test_spans_join_blocks),
        cmocka_unit_test(test_each_contribution_once),
        cmocka_unit_test(test_broken_schedules_are_caught),
        cmocka_unit_test(test_ring_bytes),
        cmocka_unit_test(test_bytes_of_scattering_algorithms),
        cmocka_unit_test(test_hier_spares_the_network),
        cmocka_unit_test(test_halving_rounds),
        cmocka_unit_test(test_naive_bytes),
        cmocka_unit_test(test_bytes_at_64_bits),
        cmocka_unit_test(test_rounds_at_16384_ranks),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_owned_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
