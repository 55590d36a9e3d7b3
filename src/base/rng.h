/* Random numbers without state: each is a pure function of (seed, stream, index), so who draws it,
 * and in which order, changes nothing.
 *
 * The generator is Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC11. */
#ifndef LS_BASE_RNG_H
#define LS_BASE_RNG_H

#include <stdint.h>

/* What a draw is for. Streams of one seed are independent of each other. */
typedef enum ls__stream {
    LS__STREAM_INIT,    /* initial weights; index: element of the flat parameters */
    LS__STREAM_ORDER,   /* order of the samples; index: see data/sampler.h */
    LS__STREAM_DROPOUT, /* dropout masks; index: see math/ops.h */
    LS__STREAM_SAMPLE,  /* text generation; index: position */
    LS__STREAM_RESAMPLE /* the bootstrap of fits; index: see plan/law.c */
} ls__stream;

typedef struct ls__random4 {
    uint32_t word[4];
} ls__random4;

/* The bare Philox4x32-10 bijection of a 128-bit counter under a 64-bit key. */
ls__random4 ls__philox(ls__random4 counter, uint64_t key);

/* Four words for (seed, stream, major, minor): `major` is 32 bits wide, `minor` 64. */
ls__random4 ls__random(uint64_t seed, ls__stream stream, uint32_t major, uint64_t minor);

/* The same for `count` draws from `minor` on, side by side: word j of draw i in words[4 i + j]. */
void ls__random_run(uint32_t *words, uint64_t seed, ls__stream stream, uint32_t major,
                    uint64_t minor, int64_t count);

/* Uniform on the open interval (0, 1), 52 bits of two words: never 0, never 1. */
double ls__uniform(uint32_t high, uint32_t low);

/* A standard normal number for (seed, index): Box and Muller's transform. */
double ls__normal(uint64_t seed, ls__stream stream, uint64_t index);

/* Uniform on 0 .. bound-1 from 64 random bits, by the high half of the product; the bias is below
 * bound / 2^64. */
uint64_t ls__bounded(ls__random4 words, uint64_t bound);

#endif
