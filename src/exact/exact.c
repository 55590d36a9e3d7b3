/* What a block of LS_EXACT_BLOCK elements holds is told by its byte in `state`: a reset costs a
 * byte a block, the first addition stores instead of adding, and spills are looked at only where
 * there are some. */
#include "lockstep/exact.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "exact/fixed.h"
#include "exact/two_sum.h"

_Static_assert((int)LS_EXACT_RECORDS == (int)LS__FIXED_PIECES, "an element's records");
_Static_assert(LS_EXACT_ADDENDS <= INT64_C(1) << (168 - FLT_MAX_EXP),
               "a lane is at most 2^168, which a spill's integer has room for");

enum {
    PLAIN, /* lanes alone */
    SPILT, /* lanes and spills */
    FRESH, /* nothing was added since the reset: the lanes stand for zeros, whatever is in them */
};

struct ls_exact {
    double *lanes; /* (count) */
    int64_t count;
    int64_t blocks;
    unsigned char *state; /* (blocks) */
    ls__fixed *spills;    /* (count), zero where nothing was spilt */
    size_t spill_bytes;
};

/* ---- life cycle ---- */

/* Reserves addresses; the system finds memory for a page when it is first written. */
static ls__fixed *reserve_spills(size_t bytes)
{
    void *spills = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (spills == MAP_FAILED)
        return NULL;
#ifdef MADV_NOHUGEPAGE
    /* Else a single spill could take two megabytes. Where it is refused that is all that is lost.
     */
    (void)madvise(spills, bytes, MADV_NOHUGEPAGE);
#endif
    return spills;
}

/* How many blocks elements 0 .. count - 1 are in. */
static int64_t blocks_of(int64_t count)
{
    return count / LS_EXACT_BLOCK + (count % LS_EXACT_BLOCK != 0);
}

ls_status ls_exact_open(ls_exact **exact, int64_t count, double *lanes)
{
    int64_t bytes = 0;
    ls_exact *opened = NULL;

    assert(count >= 0);
    LS_FAIL_IF(__builtin_mul_overflow(count, (int64_t)sizeof(ls__fixed), &bytes), LS_NO_MEMORY,
               "exact sums over %lld elements: no machine has as much", (long long)count);
    opened = calloc(1, sizeof *opened);
    LS_FAIL_IF(!opened, LS_NO_MEMORY, "no memory for exact sums");
    opened->lanes = lanes;
    opened->count = count;
    opened->blocks = blocks_of(count);
    opened->spill_bytes = bytes > 0 ? (size_t)bytes : 1;
    opened->spills = reserve_spills(opened->spill_bytes);
    opened->state = opened->spills ? calloc((size_t)opened->blocks + 1, 1) : NULL;
    if (!opened->state) {
        ls_exact_close(opened);
        return LS_FAIL(LS_NO_MEMORY,
                       "the system refused %lld bytes of address space for exact sums over %lld "
                       "elements: see `ulimit -v` and vm.overcommit_memory, or use a smaller model",
                       (long long)bytes, (long long)count);
    }
    ls_exact_reset(opened);
    *exact = opened;
    return LS_OK;
}

void ls_exact_close(ls_exact *exact)
{
    if (!exact)
        return;
    if (exact->spills)
        munmap(exact->spills, exact->spill_bytes);
    free(exact->state);
    free(exact);
}

static void assert_range(const ls_exact *exact, int64_t offset, int64_t count)
{
    assert(offset >= 0 && count >= 0 && offset <= exact->count && count <= exact->count - offset);
}

/* The first block with spills of block .. end - 1, or `end`: beyond it others may be writing. */
static int64_t next_spilt(const ls_exact *exact, int64_t block, int64_t end)
{
    const unsigned char *found = memchr(exact->state + block, SPILT, (size_t)(end - block));

    return found ? found - exact->state : end;
}

static int64_t block_size(const ls_exact *exact, int64_t block)
{
    int64_t left = exact->count - block * LS_EXACT_BLOCK;

    return left < LS_EXACT_BLOCK ? left : LS_EXACT_BLOCK;
}

void ls_exact_reset(ls_exact *exact)
{
    int64_t end = exact->blocks;

    for (int64_t block = next_spilt(exact, 0, end); block < end;
         block = next_spilt(exact, block + 1, end))
        memset(exact->spills + block * LS_EXACT_BLOCK, 0,
               (size_t)block_size(exact, block) * sizeof *exact->spills);
    memset(exact->state, FRESH, (size_t)exact->blocks);
}

/* Makes the zeros of a fresh block true. */
static void settle_block(ls_exact *exact, int64_t block)
{
    if (exact->state[block] != FRESH)
        return;
    memset(exact->lanes + block * LS_EXACT_BLOCK, 0,
           (size_t)block_size(exact, block) * sizeof *exact->lanes);
    exact->state[block] = PLAIN;
}

void ls_exact_settle(ls_exact *exact, int64_t offset, int64_t count)
{
    int64_t end = offset + count;

    assert_range(exact, offset, count);
    for (int64_t block = offset / LS_EXACT_BLOCK; block * LS_EXACT_BLOCK < end; block++)
        settle_block(exact, block);
}

/* ---- adding ---- */

static bool spill(ls_exact *exact, int64_t index, double value)
{
    settle_block(exact, index / LS_EXACT_BLOCK);
    exact->state[index / LS_EXACT_BLOCK] = SPILT;
    return ls__fixed_add(&exact->spills[index], value);
}

/* Beside the hot loops and out of their way. */
static __attribute__((noinline)) void spill_errors(ls_exact *exact, int64_t offset,
                                                   const double *error, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (fabs(error[i]) > 0 && !spill(exact, offset + i, error[i]))
            exact->lanes[offset + i] = (double)NAN;
}

/* From element `index` to the end of its block, or to `end`. */
static int64_t run_in_block(int64_t index, int64_t end)
{
    int64_t to_border = LS_EXACT_BLOCK - index % LS_EXACT_BLOCK;

    return to_border < end - index ? to_border : end - index;
}

/* Whether a run of additions may store: it fills a block that is fresh, which it then is no more.
 */
static bool may_store(ls_exact *exact, int64_t index, int64_t size)
{
    int64_t block = index / LS_EXACT_BLOCK;

    if (size == LS_EXACT_BLOCK && exact->state[block] == FRESH) {
        exact->state[block] = PLAIN;
        return true;
    }
    settle_block(exact, block);
    return false;
}

void ls_exact_add(ls_exact *exact, int64_t offset, const float *addend, int64_t count)
{
    double error[LS_EXACT_BLOCK];
    int64_t size = 0;

    assert_range(exact, offset, count);
    for (int64_t i = 0; i < count; i += size) {
        size = run_in_block(offset + i, offset + count);
        if (may_store(exact, offset + i, size))
            ls__store_float(exact->lanes + offset + i, addend + i);
        else if (ls__two_sum_float(exact->lanes + offset + i, error, addend + i, size))
            spill_errors(exact, offset + i, error, size);
    }
}

void ls_exact_combine(ls_exact *exact, int64_t offset, const double *from, int64_t count)
{
    double error[LS_EXACT_BLOCK];
    int64_t size = 0;

    assert_range(exact, offset, count);
    for (int64_t i = 0; i < count; i += size) {
        size = run_in_block(offset + i, offset + count);
        settle_block(exact, (offset + i) / LS_EXACT_BLOCK);
        if (ls__two_sum_double(exact->lanes + offset + i, error, from + i, size))
            spill_errors(exact, offset + i, error, size);
    }
}

void ls_exact_combine_into(void *context, void *into, const void *from, int64_t count)
{
    ls_exact *exact = context;

    ls_exact_combine(exact, (double *)into - exact->lanes, from, count);
}

/* ---- spills ---- */

/* The first element of index .. end - 1 whose spill is not zero, or `end`. */
static int64_t next_spill(const ls_exact *exact, int64_t index, int64_t end)
{
    while (index < end) {
        int64_t block = index / LS_EXACT_BLOCK;

        if (exact->state[block] != SPILT) {
            block = next_spilt(exact, block, blocks_of(end));
            index = block * LS_EXACT_BLOCK;
        } else if (ls__fixed_is_zero(&exact->spills[index])) {
            index++;
        } else {
            return index;
        }
    }
    return end;
}

int64_t ls_exact_spills(const ls_exact *exact, int64_t offset, int64_t count)
{
    int64_t end = offset + count;
    int64_t records = 0;
    double piece[LS_EXACT_RECORDS];

    assert_range(exact, offset, count);
    for (int64_t i = next_spill(exact, offset, end); i < end; i = next_spill(exact, i + 1, end))
        records += ls__fixed_split(&exact->spills[i], piece);
    return records;
}

int64_t ls_exact_export(const ls_exact *exact, int64_t *next, int64_t end, ls_spill *records,
                        int64_t room)
{
    int64_t written = 0;
    int64_t i = *next;

    assert(room >= LS_EXACT_RECORDS);
    assert_range(exact, i, end - i);
    for (i = next_spill(exact, i, end); i < end && room - written >= LS_EXACT_RECORDS;
         i = next_spill(exact, i + 1, end)) {
        double piece[LS_EXACT_RECORDS];
        int pieces = ls__fixed_split(&exact->spills[i], piece);

        for (int k = 0; k < pieces; k++)
            records[written++] = (ls_spill){i, piece[k]};
    }
    *next = i;
    return written;
}

ls_status ls_exact_absorb(ls_exact *exact, const ls_spill *records, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        LS_FAIL_IF(records[i].index < 0 || records[i].index >= exact->count, LS_COMM,
                   "a spill record is for element %lld of %lld: it was damaged on its way",
                   (long long)records[i].index, (long long)exact->count);
        LS_FAIL_IF(!spill(exact, records[i].index, records[i].value), LS_COMM,
                   "a spill record for element %lld holds %a, which no FP32 numbers leave over: it "
                   "was damaged on its way",
                   (long long)records[i].index, records[i].value);
    }
    return LS_OK;
}

/* ---- the result ---- */

static inline float quiet(float result)
{
    return isnan(result) ? NAN : result;
}

static inline float mean(double total, double divisor)
{
    return quiet((float)(total / divisor));
}

/* Division by a power of two is multiplication by its inverse, bit for bit (lanes are multiples of
 * 2^-149, far from where doubles underflow), and several times faster. */
static bool has_exact_inverse(double divisor)
{
    int exponent = 0;

    return frexp(divisor, &exponent) == 0.5 && exponent > 0 && exponent < 512;
}

static void round_lanes(float *restrict out, const double *restrict lanes, int64_t count,
                        double divisor)
{
    double inverse = 1 / divisor;

    if (has_exact_inverse(divisor))
        for (int64_t i = 0; i < count; i++)
            out[i] = quiet((float)(lanes[i] * inverse));
    else
        for (int64_t i = 0; i < count; i++)
            out[i] = mean(lanes[i], divisor);
}

/* RN64 of lane and spill together. */
static double total_of(double lane, const ls__fixed *spilt)
{
    ls__fixed total = *spilt;

    if (!isfinite(lane))
        return lane;
    return ls__fixed_add(&total, lane) ? ls__fixed_round(&total) : (double)NAN;
}

void ls_exact_round(ls_exact *exact, int64_t offset, int64_t count, double divisor, float *out)
{
    int64_t end = offset + count;

    ls_exact_settle(exact, offset, count);
    for (int64_t i = offset; i < end;) {
        int64_t next = next_spill(exact, i, end);

        round_lanes(out + (i - offset), exact->lanes + i, next - i, divisor);
        if (next < end)
            out[next - offset] = mean(total_of(exact->lanes[next], &exact->spills[next]), divisor);
        i = next + 1;
    }
}

int64_t ls_exact_nonfinite(ls_exact *exact, int64_t offset, int64_t count)
{
    const double *lanes = exact->lanes + offset;
    int64_t found = 0;

    ls_exact_settle(exact, offset, count);
    for (int64_t i = 0; i < count; i++)
        found += !(fabs(lanes[i]) <= DBL_MAX);
    return found;
}
