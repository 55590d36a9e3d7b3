#include <assert.h>

#include "base/rng.h"
#include "math/lanes.h"
#include "math/ops.h"

/* Elements a draw, element e having word e mod 4 of draw e / 4; and elements drawn for at a time.
 */
enum { QUAD = 4, BLOCK = 256 };

uint64_t ls__dropout_key(uint64_t seed, uint32_t site, uint64_t sample)
{
    ls__random4 words = ls__random(seed, LS__STREAM_DROPOUT, site, sample);

    return (uint64_t)words.word[0] << 32 | words.word[1];
}

/* A dropped element is multiplied by 0, not replaced, so that a NaN stays visible. */
static void apply(float *out, const float *in, const uint32_t *words, uint32_t dropped, float scale,
                  int64_t count)
{
    LS__ELEMENTWISE
    for (int64_t i = 0; i < count; i++)
        out[i] = in[i] * (words[i] < dropped ? 0 : scale);
}

void ls__dropout(float *out, const float *in, double rate, uint64_t key, uint64_t first,
                 int64_t count)
{
    uint32_t words[BLOCK];
    uint32_t dropped = (uint32_t)(rate * 0x1p32); /* of 2^32 words, those below are dropped */
    float scale = (float)(1 / (1 - rate));
    int64_t skipped = (int64_t)(first % QUAD);

    assert(rate >= 0 && rate < 1);
    for (int64_t done = 0; done < count;) {
        int64_t left = count - done;
        int64_t size = BLOCK - skipped < left ? BLOCK - skipped : left;

        ls__random_run(words, key, LS__STREAM_DROPOUT, 0, (first + (uint64_t)done) / QUAD,
                       (skipped + size + QUAD - 1) / QUAD);
        apply(out + done, in + done, words + skipped, dropped, scale, size);
        done += size;
        skipped = 0;
    }
}
