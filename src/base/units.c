#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char suffixes[] = "KMGTP";

ls_status ls__parse_bytes(const char *text, int64_t *bytes)
{
    char *end = NULL;
    double value = strtod(text, &end);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;

    if (suffix) {
        value = ldexp(value, 10 * (int)(suffix - suffixes + 1));
        end++;
    }
    LS_FAIL_IF(end == text || *end || !(value >= 0) || value >= 0x1p63, LS_BAD_USAGE,
               "'%s' is not a number of bytes: write for example 4096, 64K, 1.5M or 2G", text);
    *bytes = (int64_t)value;
    return LS_OK;
}

ls_status ls__parse_seconds(const char *text, double *seconds)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    char *end = NULL;
    double value = strtod(text, &end);

    for (size_t i = 0; end != text && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].name) == 0 && value >= 0 && isfinite(value)) {
            *seconds = value * units[i].seconds;
            return LS_OK;
        }
    return LS_FAIL(LS_BAD_USAGE,
                   "'%.200s' is not a time: write for example 2us, 1.5ms, 100ns or 1s", text);
}

ls_status ls__parse_rate(const char *text, double *bytes_per_second)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B/s", 1}, {"b/s", 0.125}, {"bit/s", 0.125}};
    char *end = NULL;
    double value = strtod(text, &end);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;

    if (suffix) {
        value *= pow(1000, (double)(suffix - suffixes + 1));
        end++;
    }
    for (size_t i = 0; end != text && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(end, units[i].name) == 0 && value > 0 && isfinite(value)) {
            *bytes_per_second = value * units[i].bytes;
            return LS_OK;
        }
    return LS_FAIL(LS_BAD_USAGE,
                   "'%.200s' is not a rate above 0: write for example 900GB/s or "
                   "200Gb/s (B: bytes, b: bits)",
                   text);
}

const char *ls__format_bytes(char *text, size_t size, int64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    int unit = 0;

    if (bytes < 1024) {
        snprintf(text, size, "%lld bytes", (long long)bytes);
        return text;
    }
    for (; value >= 1024 && unit < 5; unit++)
        value /= 1024;
    snprintf(text, size, "%.2f %s", value, names[unit]);
    return text;
}

const char *ls__format_seconds(char *text, size_t size, double seconds)
{
    long long whole = seconds > 0 ? (long long)(seconds + 0.5) : 0;
    long long hours = whole / 3600;

    if (hours)
        snprintf(text, size, "%lld:%02lld:%02lld", hours, whole / 60 % 60, whole % 60);
    else
        snprintf(text, size, "%lld:%02lld", whole / 60, whole % 60);
    return text;
}
