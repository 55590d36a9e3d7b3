#include "data/sampler.h"

#include <assert.h>

#include "base/rng.h"

/* The smallest half whose square of values covers the population; at least one bit. */
static int half_bits(int64_t population)
{
    int bits = 1;

    while (bits < 32 && ((uint64_t)1 << 2 * bits) < (uint64_t)population)
        bits++;
    return bits;
}

/* (left, right) -> (right, left ^ f(right)), so many times: a bijection whatever f is. */
static uint64_t feistel(uint64_t seed, uint64_t epoch, int bits, uint64_t value)
{
    uint32_t mask = UINT32_MAX >> (32 - bits);
    uint32_t left = (uint32_t)(value >> bits) & mask;
    uint32_t right = (uint32_t)value & mask;

    for (uint64_t round = 0; round < LS__SAMPLER_ROUNDS; round++) {
        ls__random4 words =
            ls__random(seed, LS__STREAM_ORDER, right, epoch * LS__SAMPLER_ROUNDS + round);
        uint32_t mixed = left ^ (words.word[0] & mask);
        left = right;
        right = mixed;
    }
    return (uint64_t)left << bits | right;
}

int64_t ls__sample_at(uint64_t seed, int64_t population, int64_t ordinal)
{
    assert(population >= 1 && ordinal >= 0);
    int bits = half_bits(population);
    uint64_t epoch = (uint64_t)(ordinal / population);
    uint64_t value = (uint64_t)(ordinal % population);

    do
        value = feistel(seed, epoch, bits, value);
    while (value >= (uint64_t)population);
    return (int64_t)value;
}

int64_t ls__window_population(int64_t tokens, int64_t context)
{
    return tokens > context ? tokens - context : 0;
}

int64_t ls__eval_windows(int64_t tokens, int64_t context)
{
    return tokens > 0 ? (tokens - 1) / context : 0;
}

int64_t ls__spread_at(int64_t count, int64_t wanted, int64_t i)
{
    __extension__ typedef __int128 wide;

    assert(0 <= i && i < wanted && wanted <= count);
    return (int64_t)((wide)i * count / wanted);
}
