/* Byte counts, rates and durations, as people write and read them. */
#ifndef LS_BASE_UNITS_H
#define LS_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

/* Reads "4096", "64K", "1.5M", "2G" or "1T": powers of 1024. LS_BAD_USAGE on anything else, on a
 * negative number and on one above INT64_MAX. */
ls_status ls__parse_bytes(const char *text, int64_t *bytes);

/* Reads "2us", "1.5ms", "100ns" or "1s". LS_BAD_USAGE on anything else and on a negative number. */
ls_status ls__parse_seconds(const char *text, double *seconds);

/* Reads "900GB/s", "200Gb/s", "100Gbit/s" or "12.5MB/s" as bytes a second: powers of 1000, B for
 * bytes, b or bit for bits. LS_BAD_USAGE on anything else and where the rate is not above 0. */
ls_status ls__parse_rate(const char *text, double *bytes_per_second);

/* Writes "512 bytes", "1.50 KiB", "2.00 GiB" and so on into `text` and returns it. */
const char *ls__format_bytes(char *text, size_t size, int64_t bytes);

/* Writes "0:07", "12:34" or "1:02:03". */
const char *ls__format_seconds(char *text, size_t size, double seconds);

#endif
