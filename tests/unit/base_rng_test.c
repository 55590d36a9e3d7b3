/* Philox against the known answers that its authors publish (Random123, kat_vectors), and the
 * shapes of what is drawn from it. */
#include <math.h>

#include "base/rng.h"
#include "support/test.h"

typedef struct known_answer {
    ls__random4 counter;
    uint64_t key;
    ls__random4 result;
} known_answer;

static void test_philox_known_answers(void **state)
{
    static const known_answer answers[] = {
        {{{0, 0, 0, 0}}, 0, {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}}},
        {{{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}},
         0xffffffffffffffffu,
         {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}}},
        {{{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
         0x299f31d0a4093822u,
         {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        ls__random4 result = ls__philox(answers[i].counter, answers[i].key);
        assert_memory_equal(&result, &answers[i].result, sizeof result);
    }
}

/* A run of draws is the single draws, also where the low half of the counter overflows. */
static void test_runs_are_single_draws(void **state)
{
    enum { DRAWS = 37 };
    const uint64_t first = UINT64_C(0x7fffffff5);
    uint32_t words[4 * (DRAWS + 1)] = {0};

    (void)state;
    ls__random_run(words, 1337, LS__STREAM_DROPOUT, 9, first, DRAWS);
    for (uint64_t i = 0; i < DRAWS; i++) {
        ls__random4 one = ls__random(1337, LS__STREAM_DROPOUT, 9, first + i);
        assert_memory_equal(&words[4 * i], one.word, sizeof one.word);
    }
    assert_true(words[4 * DRAWS] == 0);
}

/* The mean of n draws has standard error 1/sqrt(n): 5 of them are allowed. */
static void test_normal_moments(void **state)
{
    enum { DRAWS = 200000 };
    double sum = 0;
    double squares = 0;
    double fourths = 0;

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x = ls__normal(1337, LS__STREAM_INIT, i);
        sum += x;
        squares += x * x;
        fourths += x * x * x * x;
    }
    assert_true(fabs(sum / DRAWS) < 5 / sqrt(DRAWS));
    assert_true(fabs(squares / DRAWS - 1) < 5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(fourths / DRAWS - 3) < 5 * sqrt(96.0 / DRAWS));
}

static void test_streams_and_seeds_differ(void **state)
{
    ls__random4 here = ls__random(1, LS__STREAM_INIT, 0, 7);
    ls__random4 other_stream = ls__random(1, LS__STREAM_ORDER, 0, 7);
    ls__random4 other_seed = ls__random(2, LS__STREAM_INIT, 0, 7);
    ls__random4 again = ls__random(1, LS__STREAM_INIT, 0, 7);

    (void)state;
    assert_memory_equal(&here, &again, sizeof here);
    assert_memory_not_equal(&here, &other_stream, sizeof here);
    assert_memory_not_equal(&here, &other_seed, sizeof here);
}

static void test_uniform_is_open(void **state)
{
    (void)state;
    assert_true(ls__uniform(0, 0) > 0);
    assert_true(ls__uniform(0xffffffffu, 0xffffffffu) < 1);
}

static void test_bounded_reaches_both_ends(void **state)
{
    ls__random4 lowest = {{0, 0, 0, 0}};
    ls__random4 highest = {{0xffffffffu, 0xffffffffu, 0, 0}};

    (void)state;
    assert_int_equal(ls__bounded(lowest, 1000), 0);
    assert_int_equal(ls__bounded(highest, 1000), 999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_are_single_draws),
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_normal_moments),
        cmocka_unit_test(test_streams_and_seeds_differ),
        cmocka_unit_test(test_uniform_is_open),
        cmocka_unit_test(test_bounded_reaches_both_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
