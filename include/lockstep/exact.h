/* Exact sums: FP32 numbers added element by element without any rounding, by any number of ranks,
 * in any order and grouping, and rounded once at the end. Equal addends give equal bits.
 *
 * The sum of an element is kept in two parts, sum = lane + spill, exactly:
 * - the lane, a double in an array of the caller's. An addition to it is done by TwoSum (D. Knuth,
 *   The Art of Computer Programming, vol. 2, 4.2.2), which also gives the rounding error e:
 *       s = a + b;  bb = s - a;  e = (a - (s - bb)) + (b - bb);      a + b = s + e
 * - the spill, the sum of those e, which nearly always are all 0. It is an integer of 320 bits in
 *   units of 2^-149, the smallest FP32 number (after U. Kulisch's long accumulator). Its place is
 *   address space only, until something is spilt near by: 40 bytes an element, in blocks of
 *   LS_EXACT_BLOCK elements.
 *
 * Why nothing is ever lost, with n addends for an element, over all ranks together:
 * - All addends are multiples of 2^-149 below 2^128. So a lane is such a multiple as well, and at
 *   most n 2^128: that bound is a double for n < 2^53, and rounding to nearest never passes a
 *   double. No lane overflows, so TwoSum is exact, and each e is a multiple of 2^-149.
 * - An e is at most half a unit in the last place of its s, below n 2^75. Of n numbers that are
 *   not zero at most n - 1 pairs can be added, so all |e| of an element, on all ranks together, sum
 *   up to less than n^2 2^75. Every spill, and every sum of ranks' spills, is below that.
 * - The integer holds what is below 2^170. LS_EXACT_ADDENDS = 2^40 addends reach 2^155 in the spill
 *   and 2^168 in the lane: their sum, too, has room.
 *
 * Between ranks: add the lanes, in any order (ls_exact_combine_into in a collective); then give
 * each rank's spills, as records, to the rank that rounds.
 *
 * NaN and infinities stay visible in the lane, and the spill of such an element does not count. The
 * outcome is the same in every order: NaN where a NaN was added or both infinities, else the
 * infinity. A sum that is zero is +0, even where all addends are -0.
 *
 * Ranges are [offset, offset + count) within the lanes. Calls may run at the same time on threads
 * whose ranges have no block of LS_EXACT_BLOCK elements in common (block k begins at element
 * k LS_EXACT_BLOCK of the lanes). After open nothing here allocates or blocks. */
#ifndef LOCKSTEP_EXACT_H
#define LOCKSTEP_EXACT_H

#include <stdint.h>

#include "lockstep/status.h"

#define LS_EXACT_ADDENDS (INT64_C(1) << 40) /* of one element, at most, over all ranks together */

enum {
    LS_EXACT_BLOCK = 64,
    LS_EXACT_RECORDS = 7 /* of one element, at most: 320 bits, 53 in each */
};

typedef struct ls_exact ls_exact;

/* A part of an element's spill. */
typedef struct ls_spill {
    int64_t index; /* of the element, in the lanes */
    double value;  /* never 0; a multiple of 2^-149 */
} ls_spill;

/* Whether this machine computes as all of this requires: rounding to nearest, subnormal numbers
 * neither flushed to zero nor read as zero, TwoSum not optimised away. Call it at start, on every
 * thread that adds. LS_BAD_INPUT, saying which. */
ls_status ls_exact_check_machine(void);

/* ---- life cycle ---- */

/* Opens exact sums over `lanes` (count), which stay the caller's, live as long as the sums and are
 * written by the functions below alone. Resets them. LS_NO_MEMORY. If this succeeded you must close
 * it; if it failed there is nothing to do. */
ls_status ls_exact_open(ls_exact **exact, int64_t count, double *lanes);
void ls_exact_close(ls_exact *exact); /* NULL is fine */

/* All sums to +0. Costs a byte a block and what was spilt: the lanes are not cleared, the first
 * addition to a block overwrites them. Memory that spills have taken stays theirs until close. */
void ls_exact_reset(ls_exact *exact);

/* Clears the lanes of a range to which nothing was added since the reset. Call it before anyone
 * else reads lanes: before they are sent. */
void ls_exact_settle(ls_exact *exact, int64_t offset, int64_t count);

/* ---- adding ---- */

/* Adds addend[i] to element offset + i. */
void ls_exact_add(ls_exact *exact, int64_t offset, const float *addend, int64_t count);

/* Adds from[i], the lane of another rank, to element offset + i. A lane that no FP32 numbers sum up
 * to, which only damage can bring about, makes the element NaN where it is noticed. */
void ls_exact_combine(ls_exact *exact, int64_t offset, const double *from, int64_t count);

/* ls_exact_combine as a collective asks for it, on a payload that is a part of the lanes:
 *     ls_element_type lane = {"exact", sizeof(double), ls_exact_combine_into, exact};
 * `into` points into the lanes. */
void ls_exact_combine_into(void *exact, void *into, const void *from, int64_t count);

/* ---- spills ---- */

/* How many records a range has. */
int64_t ls_exact_spills(const ls_exact *exact, int64_t offset, int64_t count);

/* Writes the records of elements *next .. end - 1, in order, as far as whole elements fit in
 * `room` >= LS_EXACT_RECORDS records; moves *next to the first element not yet seen, which is `end`
 * when all is done. Returns how many were written. */
int64_t ls_exact_export(const ls_exact *exact, int64_t *next, int64_t end, ls_spill *records,
                        int64_t room);

/* Adds records of another rank, in any order. LS_COMM at the first that cannot be one: the sums are
 * then of no more use until the next reset. */
ls_status ls_exact_absorb(ls_exact *exact, const ls_spill *records, int64_t count);

/* ---- the result ---- */

/* out[i] = (float)(RN64(sum of element offset + i) / divisor), where RN64 rounds to the nearest
 * double, halfway cases to the even one, and division and conversion round likewise. A NaN is
 * always the same NaN. The sums stay as they are. */
void ls_exact_round(ls_exact *exact, int64_t offset, int64_t count, double divisor, float *out);

/* How many lanes of a range are infinite or NaN. */
int64_t ls_exact_nonfinite(ls_exact *exact, int64_t offset, int64_t count);

#endif
