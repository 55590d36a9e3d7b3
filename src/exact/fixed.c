#include "exact/fixed.h"

#include <float.h>
#include <string.h>

_Static_assert(FLT_RADIX == 2 && DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024 &&
                   sizeof(double) == sizeof(uint64_t),
               "double is not IEEE 754's binary64");

enum {
    UNIT = -149,              /* the power of two that bit 0 stands for */
    TOP_BIT = 169 - 1 - UNIT, /* of the largest value that can be added */
    BIAS = 1023,              /* of a double's exponent field */
    FRACTION_BITS = 52        /* of a double, below its leading one */
};

bool ls__fixed_is_zero(const ls__fixed *x)
{
    return !(x->word[0] | x->word[1] | x->word[2] | x->word[3] | x->word[4]);
}

/* Writes |value| as significand 2^(UNIT + shift) with shift >= 0; false where that cannot be. */
static bool take_apart(double value, uint64_t *significand, int *shift)
{
    const uint64_t leading_one = UINT64_C(1) << FRACTION_BITS;
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    *significand = (bits & (leading_one - 1)) | leading_one;
    *shift = (int)(bits >> FRACTION_BITS & 0x7ff) - BIAS - FRACTION_BITS - UNIT;
    if (*shift < 0) {
        int below = -*shift;

        if (below > FRACTION_BITS || *significand & ((UINT64_C(1) << below) - 1))
            return false;
        *significand >>= below;
        *shift = 0;
    }
    return *shift + FRACTION_BITS <= TOP_BIT;
}

bool ls__fixed_add(ls__fixed *x, double value)
{
    uint64_t significand;
    int shift;

    if (value == 0)
        return true;
    if (!take_apart(value, &significand, &shift))
        return false;

    int first = shift / 64;
    int bit = shift % 64;
    uint64_t low = significand << bit;
    uint64_t high = bit ? significand >> (64 - bit) : 0;
    /* -y is ~y + 1; below `first` that is all ones and a carry, which change nothing. */
    uint64_t flip = value < 0 ? UINT64_MAX : 0;
    uint64_t carry = value < 0;

    for (int i = first; i < LS__FIXED_WORDS; i++) {
        uint64_t part = (i == first ? low : i == first + 1 ? high : 0) ^ flip;
        uint64_t sum = x->word[i] + part;
        uint64_t carried = sum < part;

        x->word[i] = sum + carry;
        carry = carried | (x->word[i] < carry);
    }
    return true;
}

/* |x|, which is at most 2^319; *sign becomes 1 or -1. */
static ls__fixed magnitude(const ls__fixed *x, double *sign)
{
    ls__fixed result = *x;
    bool negative = x->word[LS__FIXED_WORDS - 1] >> 63;
    uint64_t carry = 1;

    *sign = negative ? -1 : 1;
    for (int i = 0; negative && i < LS__FIXED_WORDS; i++) {
        result.word[i] = ~result.word[i] + carry;
        carry &= result.word[i] == 0;
    }
    return result;
}

/* -1 where there is none. */
static int highest_bit(const ls__fixed *x)
{
    for (int i = LS__FIXED_WORDS - 1; i >= 0; i--)
        if (x->word[i])
            return 64 * i + 63 - __builtin_clzll(x->word[i]);
    return -1;
}

/* The bits of x from `shift` on, 64 of them. */
static uint64_t bits_from(const ls__fixed *x, int shift)
{
    int i = shift / 64;
    int bit = shift % 64;
    uint64_t above = i + 1 < LS__FIXED_WORDS ? x->word[i + 1] : 0;

    return bit ? x->word[i] >> bit | above << (64 - bit) : x->word[i];
}

static bool any_bit_below(const ls__fixed *x, int end)
{
    uint64_t any = 0;

    for (int i = 0; i < end / 64; i++)
        any |= x->word[i];
    return any || (end % 64 && x->word[end / 64] << (64 - end % 64));
}

/* significand 2^(UNIT + shift), exactly: the significand is at most 2^53. */
static double put_together(uint64_t significand, int shift)
{
    uint64_t bits = (uint64_t)(UNIT + shift + BIAS) << FRACTION_BITS;
    double scale;

    memcpy(&scale, &bits, sizeof scale);
    return (double)significand * scale;
}

double ls__fixed_round(const ls__fixed *x)
{
    double sign;
    ls__fixed rest = magnitude(x, &sign);
    int shift = highest_bit(&rest) - FRACTION_BITS;

    if (shift <= 0)
        return sign * put_together(rest.word[0], 0);

    uint64_t significand = bits_from(&rest, shift);
    bool half = bits_from(&rest, shift - 1) & 1;

    if (half && ((significand & 1) || any_bit_below(&rest, shift - 1)))
        significand++;
    return sign * put_together(significand, shift);
}

int ls__fixed_split(const ls__fixed *x, double piece[LS__FIXED_PIECES])
{
    double sign;
    ls__fixed rest = magnitude(x, &sign);
    int count = 0;

    for (int top = highest_bit(&rest); top >= 0; top = highest_bit(&rest)) {
        int shift = top > FRACTION_BITS ? top - FRACTION_BITS : 0;
        uint64_t significand = bits_from(&rest, shift);

        piece[count++] = sign * put_together(significand, shift);
        rest.word[shift / 64] &= ~(significand << shift % 64);
        if (shift % 64 && shift / 64 + 1 < LS__FIXED_WORDS)
            rest.word[shift / 64 + 1] &= ~(significand >> (64 - shift % 64));
    }
    return count;
}
