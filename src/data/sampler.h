/* The order in which samples are taken: pure functions, no state, the same on every rank.
 *
 * Training: sample number `ordinal = step * batch + index within the batch` of a run is
 *
 *     epoch    = ordinal / population
 *     position = ordinal % population
 *     sample   = permutation(seed, epoch)[position]
 *
 * so that within an epoch every sample is taken once, each epoch in another order, and a resumed
 * run goes on where it stopped by its ordinal alone. The permutation is never stored: it is a
 * Feistel network on 2h bits, 4^h >= population, whose result is put through it again while it is
 * not below the population ("cycle walking": J. Black, P. Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002); below 4 walks on average. Its round function is the word that
 *
 *     ls__random(seed, LS__STREAM_ORDER, major = half, minor = epoch * LS__SAMPLER_ROUNDS + round)
 *
 * gives, cut to h bits. */
#ifndef LS_DATA_SAMPLER_H
#define LS_DATA_SAMPLER_H

#include <stdint.h>

enum { LS__SAMPLER_ROUNDS = 8 };

/* The sample, 0 .. population-1, that stands at `ordinal` >= 0; population >= 1. */
int64_t ls__sample_at(uint64_t seed, int64_t population, int64_t ordinal);

/* Window starts in a text: all at which `context` inputs and their targets (one token later) fit.
 * 0 where none does. */
int64_t ls__window_population(int64_t tokens, int64_t context);

/* Evaluation: a text as consecutive windows of `context` targets that do not overlap. Window i
 * starts at i * context; the last incomplete one is left out. */
int64_t ls__eval_windows(int64_t tokens, int64_t context);

/* The i-th of `wanted` entries spread evenly over `count`: floor(i * count / wanted), for
 * 0 <= i < wanted <= count. */
int64_t ls__spread_at(int64_t count, int64_t wanted, int64_t i);

#endif
