#include "math/census.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { PIECE = 1024 };

/* ---- magnitudes ---- */

static int bin_of(float value)
{
    int above = ilogbf(value) - LS__CENSUS_LOWEST;
    int bin = above < 0 ? 0 : above / LS__CENSUS_BINADES;

    return bin < LS__CENSUS_BINS ? bin : LS__CENSUS_BINS - 1;
}

void ls__magnitudes_add(ls__magnitudes *magnitudes, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (values[i] == 0)
            magnitudes->zero++;
        else
            magnitudes->bin[bin_of(values[i])]++;
        magnitudes->largest = fmaxf(magnitudes->largest, fabsf(values[i]));
    }
    magnitudes->count += count;
}

int ls__magnitudes_from(int bin)
{
    return LS__CENSUS_LOWEST + bin * LS__CENSUS_BINADES;
}

/* ---- rounding ---- */

static int64_t piece_at(int64_t first, int64_t count)
{
    return count - first < PIECE ? count - first : PIECE;
}

/* At most PIECE values. */
static void round_piece(float *values, int64_t count, ls__format format)
{
    float room[PIECE];
    ls__values stored = {room, format};

    ls__narrow(stored, values, count);
    ls__widen(values, stored, count);
}

void ls__round_to(float *values, int64_t count, ls__format format)
{
    for (int64_t at = 0; at < count; at += PIECE)
        round_piece(values + at, piece_at(at, count), format);
}

/* ---- a format ---- */

static float smallest_normal(ls__format format)
{
    return format == LS__F16 ? 0x1p-14f : 0x1p-126f;
}

static void count_one(ls__census *census, float value, float stored, float normal)
{
    float magnitude = fabsf(stored);

    if (value == 0)
        census->zero++;
    else if (magnitude == 0)
        census->flushed++;
    else if (magnitude < normal)
        census->subnormal++;
    else if (isfinite(magnitude))
        census->normal++;
    else
        census->infinite++;
}

void ls__census_add(ls__census *census, const float *values, int64_t count, double scale,
                    ls__format format)
{
    float normal = smallest_normal(format);
    float stored[PIECE];

    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t piece = piece_at(at, count);
        for (int64_t i = 0; i < piece; i++)
            stored[i] = values[at + i] * (float)scale;
        round_piece(stored, piece, format);
        for (int64_t i = 0; i < piece; i++)
            count_one(census, values[at + i], stored[i], normal);
    }
    census->count += count;
}

double ls__census_scale(float largest, ls__format format)
{
    for (int exponent = 127; exponent > -126; exponent--) {
        float scaled = largest * ldexpf(1, exponent);
        round_piece(&scaled, 1, format);
        if (isfinite(scaled))
            return ldexp(1, exponent);
    }
    return 0x1p-126;
}

/* ---- updates ---- */

static void count_updates(ls__updates *updates, const float *before, const float *after,
                          int64_t count, ls__format format)
{
    float held[PIECE];
    float moved[PIECE];

    memcpy(held, before, (size_t)count * sizeof *held);
    round_piece(held, count, format);
    for (int64_t i = 0; i < count; i++)
        moved[i] = held[i] + (after[i] - before[i]);
    round_piece(moved, count, format);
    for (int64_t i = 0; i < count; i++) {
        bool is_update = after[i] != before[i];
        updates->count += is_update;
        updates->lost += is_update && moved[i] == held[i];
    }
}

void ls__updates_add(ls__updates *updates, const float *before, const float *after, int64_t count,
                     ls__format format)
{
    for (int64_t at = 0; at < count; at += PIECE)
        count_updates(updates, before + at, after + at, piece_at(at, count), format);
}
