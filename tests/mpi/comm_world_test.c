/* The world's control operations. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "comm/world.h"
#include "lockstep/schedule.h"
#include "support/mpi_main.h"

static ls__world *world;

static int open_world(void **state)
{
    (void)state;
    return ls__world_open(&world, 30) != LS_OK;
}

static int close_world(void **state)
{
    (void)state;
    ls__world_close(world);
    return 0;
}

static void test_who_we_are(void **state)
{
    int ranks = ls__world_ranks(world);
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;

    (void)state;
    MPI_Get_processor_name(name, &length);
    for (int rank = 0; rank < ranks; rank++)
        assert_string_equal(ls__world_host(world, rank), name);
    assert_int_equal(ls__world_host_ranks(world), ranks);
    assert_int_equal(ls__world_host_rank(world), ls__world_rank(world));
    assert_int_equal(ls__world_transport(world)->rank, ls__world_rank(world));
    assert_true(ls__world_timeout(world) == 30);
}

static void test_agree(void **state)
{
    int rank = ls__world_rank(world);
    int last = ls__world_ranks(world) - 1;

    (void)state;
    assert_ok(ls__world_agree(world, LS_OK));
    ls_status mine = rank == last ? LS_FAIL(LS_BAD_INPUT, "rank %d found nothing", rank) : LS_OK;
    char says[64];
    snprintf(says, sizeof says, "rank %d found nothing", last);
    assert_fails(ls__world_agree(world, mine), LS_BAD_INPUT, says);
    assert_int_equal(ls_last_error()->rank, last);
    assert_ok(ls__world_agree(world, LS_OK));
}

static void test_lowest_failure_wins(void **state)
{
    int rank = ls__world_rank(world);
    int last = ls__world_ranks(world) - 1;
    int lowest = last > 0 ? 1 : 0;
    ls_status mine = LS_OK;
    char says[64];

    (void)state;
    if (rank >= lowest)
        mine = LS_FAIL(rank == lowest ? LS_IO : LS_NO_MEMORY, "rank %d is unhappy", rank);
    snprintf(says, sizeof says, "rank %d is unhappy", lowest);
    assert_fails(ls__world_agree(world, mine), LS_IO, says);
    assert_int_equal(ls_last_error()->rank, lowest);
}

static void test_broadcast(void **state)
{
    enum { BYTES = 100001 };
    static char data[BYTES];

    (void)state;
    for (int root = 0; root < ls__world_ranks(world); root++) {
        memset(data, ls__world_rank(world) == root ? root + 1 : 0, BYTES);
        assert_ok(ls__world_broadcast(world, root, data, BYTES));
        for (int i = 0; i < BYTES; i++)
            assert_int_equal(data[i], root + 1);
        assert_ok(ls__world_broadcast(world, root, NULL, 0));
    }
}

static void test_all_gather(void **state)
{
    int64_t mine[3];
    int64_t all[64 * 3];
    int rank = ls__world_rank(world);

    (void)state;
    for (int64_t i = 0; i < 3; i++)
        mine[i] = 10 * rank + i;
    assert_ok(ls__world_all_gather(world, mine, all, sizeof mine));
    for (int64_t i = 0; i < 3 * ls__world_ranks(world); i++)
        assert_int_equal(all[i], 10 * (i / 3) + i % 3);
    assert_ok(ls__world_all_gather(world, mine, all, 0));
}

/* One slot a micro-batch, as the loss has them: fewer than ranks, not divisible, many. */
static void test_all_gather_blocks(void **state)
{
    static const int64_t counts[] = {0, 1, 7, 8, 1000};
    double slot[1000];
    int ranks = ls__world_ranks(world);

    (void)state;
    for (int k = 0; k < 5; k++)
        for (int step = 0; step < 3; step++) {
            ls_range mine = ls_block(counts[k], ranks, ls__world_rank(world));
            memset(slot, 0, sizeof slot);
            for (int64_t i = mine.offset; i < mine.offset + mine.count; i++)
                slot[i] = (double)i + step;
            assert_ok(ls__world_all_gather_blocks(world, slot, counts[k], sizeof slot[0]));
            for (int64_t i = 0; i < counts[k]; i++)
                assert_true(slot[i] == (double)i + step);
        }
}

static void limit(unsigned resource, rlim_t bytes, struct rlimit *before)
{
    assert_int_equal(getrlimit(resource, before), 0);
    struct rlimit lower = {bytes, before->rlim_max};
    assert_int_equal(setrlimit(resource, &lower), 0);
}

/* No room for a shared window, and on the last rank none for memory of its own either. */
static void test_memory_that_one_rank_lacks(void **state)
{
    enum { BYTES = 64 << 20, FILE_BYTES = 1 << 20 };
    bool last = ls__world_rank(world) == ls__world_ranks(world) - 1;
    struct rlimit file;
    struct rlimit addresses;
    ls__arena *arena = NULL;
    char *memory = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 0));
    limit(RLIMIT_FSIZE, FILE_BYTES, &file);
    limit(RLIMIT_AS, last ? BYTES : RLIM_INFINITY, &addresses);
    ls_status status = ls__world_memory(world, arena, LS__GRADIENTS, BYTES, 1, &memory);
    assert_int_equal(setrlimit(RLIMIT_AS, &addresses), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &file), 0);
    ls__arena_close(arena);
    assert_fails(status, LS_NO_MEMORY, "the system refused");
}

static void test_control_leaves_the_counters_alone(void **state)
{
    (void)state;
    assert_ok(ls__world_barrier(world));
    assert_int_equal(ls__world_transport(world)->traffic.sent_bytes, 0);
    assert_int_equal(ls__world_transport(world)->traffic.received_messages, 0);
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_we_are),
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_lowest_failure_wins),
        cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_all_gather_blocks),
        cmocka_unit_test(test_memory_that_one_rank_lacks),
        cmocka_unit_test(test_control_leaves_the_counters_alone),
    };

    return cmocka_run_group_tests(tests, open_world, close_world);
}

LS__MPI_MAIN(run_cases())
