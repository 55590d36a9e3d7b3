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

typedef struct named_scale {
    const char *name;
    double scale;
} named_scale;

/* What `text` is worth among `count` units; 0 where it is none of them. */
static double scale_of(const char *text, const named_scale *units, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, units[i].name) == 0)
            return units[i].scale;
    return 0;
}

ls_status ls__parse_seconds(const char *text, double *seconds)
{
    static const named_scale units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
    char *end = NULL;
    double value = strtod(text, &end);
    double scale = scale_of(end, units, 4);

    LS_FAIL_IF(end == text || scale == 0 || !(value >= 0) || isinf(value), LS_BAD_USAGE,
               "'%s' is not a time: write for example 2us, 1.5ms, 100ns or 1s", text);
    *seconds = value * scale;
    return LS_OK;
}

ls_status ls__parse_bandwidth(const char *text, double *bytes_per_second)
{
    static const named_scale prefixes[] = {
        {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
    static const named_scale units[] = {{"B/s", 1}, {"b/s", 0.125}, {"bit/s", 0.125}};
    char *end = NULL;
    double value = strtod(text, &end);
    double prefix = scale_of((char[]){*end, '\0'}, prefixes, 5);
    double scale = scale_of(prefix > 0 ? end + 1 : end, units, 3);

    LS_FAIL_IF(end == text || scale == 0 || !(value > 0) || isinf(value), LS_BAD_USAGE,
               "'%s' is not a bandwidth: write for example 12.5GB/s, 100Gb/s or 800MB/s", text);
    *bytes_per_second = value * (prefix > 0 ? prefix : 1) * scale;
    return LS_OK;
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
