#include "base/rng.h"

#include <math.h>

/* Constants of the paper: two multipliers, and the Weyl sequence of the key (golden ratio and
 * sqrt(3) - 1, each times 2^32). */
enum { PHILOX_ROUNDS = 10 };
static const uint32_t multiplier0 = 0xD2511F53u;
static const uint32_t multiplier1 = 0xCD9E8D57u;
static const uint32_t weyl0 = 0x9E3779B9u;
static const uint32_t weyl1 = 0xBB67AE85u;

ls__random4 ls__philox(ls__random4 counter, uint64_t key)
{
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    uint32_t *c = counter.word;

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)multiplier0 * c[0];
        uint64_t product1 = (uint64_t)multiplier1 * c[2];
        uint32_t next0 = (uint32_t)(product1 >> 32) ^ c[1] ^ key0;
        uint32_t next2 = (uint32_t)(product0 >> 32) ^ c[3] ^ key1;

        c[1] = (uint32_t)product1;
        c[3] = (uint32_t)product0;
        c[0] = next0;
        c[2] = next2;
        key0 += weyl0;
        key1 += weyl1;
    }
    return counter;
}

ls__random4 ls__random(uint64_t seed, ls__stream stream, uint32_t major, uint64_t minor)
{
    ls__random4 counter = {{(uint32_t)minor, (uint32_t)(minor >> 32), major, (uint32_t)stream}};

    return ls__philox(counter, seed);
}

/* ---- many draws: the same for SIDE counters at once, in vectors of gcc's and clang's ---- */

enum { SIDE = 16 };

/* A word in each, with room for its product. */
typedef uint64_t words_side __attribute__((vector_size(SIDE * sizeof(uint64_t))));

typedef struct counters {
    words_side word[4];
} counters;

static void philox_round(counters *c, uint32_t key0, uint32_t key1)
{
    words_side product0 = multiplier0 * c->word[0];
    words_side product1 = multiplier1 * c->word[2];

    c->word[0] = (product1 >> 32) ^ c->word[1] ^ key0;
    c->word[2] = (product0 >> 32) ^ c->word[3] ^ key1;
    c->word[1] = product1 & UINT32_MAX;
    c->word[3] = product0 & UINT32_MAX;
}

static void random_side(counters *c, uint64_t key, ls__stream stream, uint32_t major,
                        uint64_t minor)
{
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    words_side index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

    index += minor;
    c->word[0] = index & UINT32_MAX;
    c->word[1] = index >> 32;
    c->word[2] = (words_side){0} + major;
    c->word[3] = (words_side){0} + (uint64_t)stream;
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        philox_round(c, key0, key1);
        key0 += weyl0;
        key1 += weyl1;
    }
}

void ls__random_run(uint32_t *words, uint64_t seed, ls__stream stream, uint32_t major,
                    uint64_t minor, int64_t count)
{
    counters drawn;

    for (int64_t done = 0; done < count; done += SIDE) {
        int64_t size = count - done < SIDE ? count - done : SIDE;

        random_side(&drawn, seed, stream, major, minor + (uint64_t)done);
        for (int64_t i = 0; i < size; i++)
            for (int j = 0; j < 4; j++)
                words[4 * (done + i) + j] = (uint32_t)drawn.word[j][i];
    }
}

double ls__uniform(uint32_t high, uint32_t low)
{
    uint64_t bits = (uint64_t)high << 20 | low >> 12; /* 52 bits */

    return ((double)bits + 0.5) * 0x1p-52;
}

double ls__normal(uint64_t seed, ls__stream stream, uint64_t index)
{
    static const double two_pi = 6.283185307179586476925286766559;
    ls__random4 words = ls__random(seed, stream, 0, index);
    double radius = sqrt(-2.0 * log(ls__uniform(words.word[0], words.word[1])));

    return radius * cos(two_pi * ls__uniform(words.word[2], words.word[3]));
}

uint64_t ls__bounded(ls__random4 words, uint64_t bound)
{
    uint64_t bits = (uint64_t)words.word[0] << 32 | words.word[1];

    __extension__ typedef unsigned __int128 wide;

    return (uint64_t)((wide)bits * bound >> 64);
}
