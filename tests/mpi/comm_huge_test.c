/* More than 2^31 elements and bytes for real, between real ranks: once in a single message of the
 * collective, which MPI's int counts cannot hold, once in segments. An element is a byte, summed
 * modulo 256, so that no more memory is needed than that. Skipped, saying so, where it is not
 * there. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/units.h"
#include "lockstep/collective.h"
#include "lockstep/transport_mpi.h"
#include "support/mpi_main.h"

enum { BLOCK = 4096 };

static const int64_t count = (INT64_C(1) << 31) + 100003;
static const double timeout = 100;

static ls_transport *transport;

static void combine_bytes(void *context, void *into, const void *from, int64_t elements)
{
    uint8_t *sum = into;
    const uint8_t *other = from;

    (void)context;
    for (int64_t i = 0; i < elements; i++)
        sum[i] = (uint8_t)(sum[i] + other[i]);
}

static const ls_element_type sum_u8 = {.name = "u8", .size = 1, .combine = combine_bytes};

/* Another one for each element within 2^32, and each rank. */
static uint8_t addend(int64_t index, int rank)
{
    uint32_t mixed = ((uint32_t)index + (uint32_t)rank * 40503U) * 2654435761U;

    return (uint8_t)(mixed >> 24);
}

static void fill(uint8_t *data)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = addend(i, transport->rank);
}

/* What the ranks' addends of elements first .. first + BLOCK - 1 sum up to. */
static void expect(uint8_t *sums, int64_t first)
{
    memset(sums, 0, BLOCK);
    for (int rank = 0; rank < transport->ranks; rank++)
        for (int64_t i = 0; i < BLOCK; i++)
            sums[i] = (uint8_t)(sums[i] + addend(first + i, rank));
}

static int64_t wrong_blocks(const uint8_t *data)
{
    uint8_t expected[BLOCK];
    int64_t wrong = 0;

    for (int64_t at = 0; at < count; at += BLOCK) {
        int64_t left = count - at;
        expect(expected, at);
        wrong += memcmp(data + at, expected, (size_t)(left < BLOCK ? left : BLOCK)) != 0;
    }
    return wrong;
}

/* Whether every rank can have `bytes`; the least of what one can have. */
static bool memory_for(int64_t bytes)
{
    int64_t least = ls__memory_available() / transport->ranks;
    char text[2][32];

    MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);
    if (least > bytes)
        return true;
    ls__figure("skipped: a sum of more than 2^31 elements: it takes %s a rank, there are %s",
               ls__format_bytes(text[0], sizeof text[0], bytes),
               ls__format_bytes(text[1], sizeof text[1], least));
    return false;
}

static void run(ls_allreduce *sum, uint8_t *data)
{
    fill(data);
    assert_ok(ls_allreduce_check(sum, timeout));
    int64_t before = transport->traffic.sent_bytes;
    assert_ok(ls_allreduce_start(sum));
    assert_ok(ls_allreduce_wait(sum, timeout));
    assert_true(transport->traffic.sent_bytes - before == count);
    assert_true(wrong_blocks(data) == 0);
}

static void sum_by(const ls_algorithm *algorithm)
{
    ls_layout layout = ls_transport_layout(transport);
    int64_t scratch = ls_allreduce_scratch(algorithm, layout, count, &sum_u8);
    ls_payload payload = {.count = count, .type = &sum_u8};
    ls_allreduce *sum = NULL;

    if (!memory_for(count + scratch))
        return;
    payload.data = malloc((size_t)count);
    payload.scratch = malloc((size_t)scratch);
    assert_true(payload.data && payload.scratch);
    assert_ok(ls_allreduce_open(&sum, transport, algorithm, &payload));
    run(sum, payload.data);
    ls__figure("%s, %d ranks: all of %lld elements, above 2^31, right", algorithm->name,
               transport->ranks, (long long)count);
    ls_allreduce_close(sum);
    free(payload.scratch);
    free(payload.data);
}

/* On two ranks each sends everything once, in one message. */
static void test_one_message(void **state)
{
    (void)state;
    sum_by(&ls_algorithm_naive);
}

static void test_segments(void **state)
{
    (void)state;
    sum_by(&ls_algorithm_ring_seg);
}

static int open_transport(void **state)
{
    (void)state;
    return ls_transport_open_mpi(&transport, MPI_COMM_WORLD, NULL) != LS_OK;
}

static int close_transport(void **state)
{
    (void)state;
    ls_transport_close(transport);
    return 0;
}

static int run_cases(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message),
        cmocka_unit_test(test_segments),
    };

    return cmocka_run_group_tests(tests, open_transport, close_transport);
}

LS__MPI_MAIN(run_cases())
