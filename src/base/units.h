/* Byte counts and durations, as people write and read them. */
#ifndef LS_BASE_UNITS_H
#define LS_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Reads "4096", "64K", "1.5M", "2G" or "1T": powers of 1024. LS_BAD_USAGE on anything else, on a
 * negative number and on one above INT64_MAX. */
ls_status ls__parse_bytes(const char *text, int64_t *bytes);

/* Writes "512 bytes", "1.50 KiB", "2.00 GiB" and so on into `text` and returns it. */
const char *ls__format_bytes(char *text, size_t size, int64_t bytes);

/* Writes "0:07", "12:34" or "1:02:03". */
const char *ls__format_seconds(char *text, size_t size, double seconds);

#endif
