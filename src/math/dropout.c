#include <assert.h>

#include "base/rng.h"
#include "base/threads.h"
#include "math/lanes.h"
#include "math/ops.h"
#include "math/panels.h"

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

typedef struct sample {
    ls__values values;
    double rate;
    uint64_t key;
    int64_t count;
    ls__scratch scratch;
} sample;

static void drop_chunk(void *context, int64_t task, int thread)
{
    const sample *work = context;
    int64_t at = task * LS__CHUNK;
    int64_t count = ls__panel_size(task, work->count, LS__CHUNK);
    ls__values values = ls__from(work->values, at);
    float *room = ls__scratch_of(work->scratch, thread);
    float *place = ls__place(values, room);

    ls__dropout(place, ls__widened(values, room, count), work->rate, work->key, (uint64_t)at,
                count);
    ls__store(values, place, count);
}

void ls__dropout_sample(ls__values values, double rate, uint64_t key, int64_t count,
                        ls__scratch scratch)
{
    sample work = {.values = values, .rate = rate, .key = key, .count = count, .scratch = scratch};

    ls__threads_run(ls__panels(count, LS__CHUNK), drop_chunk, &work);
}
