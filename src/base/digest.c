#include "base/digest.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static ls__digest from_xxh(XXH128_hash_t hash)
{
    return (ls__digest){.high = hash.high64, .low = hash.low64};
}

ls__digest ls__digest_of(const void *bytes, size_t count)
{
    return from_xxh(XXH3_128bits(bytes, count));
}

bool ls__digest_equal(ls__digest a, ls__digest b)
{
    return a.high == b.high && a.low == b.low;
}

const char *ls__digest_format(ls__digest digest, char *text)
{
    snprintf(text, LS__DIGEST_TEXT, "%016llx%016llx", (unsigned long long)digest.high,
             (unsigned long long)digest.low);
    return text;
}

ls_status ls__digest_parse(const char *text, ls__digest *digest)
{
    unsigned long long high = 0;
    unsigned long long low = 0;

    LS_FAIL_IF(strspn(text, "0123456789abcdef") != LS__DIGEST_TEXT - 1 ||
                   strlen(text) != LS__DIGEST_TEXT - 1 ||
                   sscanf(text, "%16llx%16llx", &high, &low) != 2,
               LS_BAD_INPUT, "'%.64s' is not a digest of 32 hex digits", text);
    *digest = (ls__digest){.high = high, .low = low};
    return LS_OK;
}

/* The stream is libxxhash's own state under a name of ours. */
static XXH3_state_t *state_of(ls__digest_stream *stream)
{
    return (XXH3_state_t *)(void *)stream;
}

ls_status ls__digest_open(ls__digest_stream **stream)
{
    XXH3_state_t *state = XXH3_createState();

    LS_FAIL_IF(!state || XXH3_128bits_reset(state) != XXH_OK, LS_NO_MEMORY,
               "no memory for a digest");
    *stream = (ls__digest_stream *)(void *)state;
    return LS_OK;
}

void ls__digest_add(ls__digest_stream *stream, const void *bytes, size_t count)
{
    /* Fails only on a null state, which open refuses. */
    XXH3_128bits_update(state_of(stream), bytes, count);
}

ls__digest ls__digest_finish(ls__digest_stream *stream)
{
    ls__digest digest = from_xxh(XXH3_128bits_digest(state_of(stream)));

    XXH3_freeState(state_of(stream));
    return digest;
}
