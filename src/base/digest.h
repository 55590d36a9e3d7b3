/* A 128-bit digest of a stretch of memory: XXH3 of libxxhash. It finds differences; it is no
 * protection against someone who makes them on purpose. */
#ifndef LS_BASE_DIGEST_H
#define LS_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

typedef struct ls__digest {
    uint64_t high;
    uint64_t low;
} ls__digest;

enum { LS__DIGEST_TEXT = 33 }; /* 32 hex digits and the closing zero */

ls__digest ls__digest_of(const void *bytes, size_t count);
bool ls__digest_equal(ls__digest a, ls__digest b);

/* The 32 hex digits; `text` has room for LS__DIGEST_TEXT characters. */
const char *ls__digest_format(ls__digest digest, char *text);
ls_status ls__digest_parse(const char *text, ls__digest *digest);

/* Piece by piece: open, add any number of times, finish (which also closes). The pieces' digest is
 * that of their concatenation. */
typedef struct ls__digest_stream ls__digest_stream;

ls_status ls__digest_open(ls__digest_stream **stream);
void ls__digest_add(ls__digest_stream *stream, const void *bytes, size_t count);
ls__digest ls__digest_finish(ls__digest_stream *stream);

#endif
