#include "train/stall.h"

#include <stdarg.h>
#include <stdio.h>

enum { PLACE = 256 };

ls_status ls__stall_at(ls_status status, const char *format, ...)
{
    char place[PLACE];
    char before[LS_ERROR_TEXT];
    va_list arguments;

    if (status != LS_TIMEOUT || ls_last_error()->rank >= 0)
        return status;
    va_start(arguments, format);
    vsnprintf(place, sizeof place, format, arguments);
    va_end(arguments);
    snprintf(before, sizeof before, "%s", ls_last_error()->text);
    return LS_FAIL(status, "%s: %.750s", place, before);
}

const char *ls__stall_tensors(char *text, size_t size, const ls__tensors *tensors, ls_range range)
{
    int64_t last = range.offset + range.count - 1;

    *text = '\0';
    if (last >= tensors->total) /* the padding of the last unit */
        last = tensors->total - 1;
    if (last < range.offset)
        return text;
    const ls__tensor *from = ls__tensors_at(tensors, range.offset);
    const ls__tensor *to = ls__tensors_at(tensors, last);
    snprintf(text, size, ", %s%s%s (elements %lld to %lld)", from->name, from == to ? "" : " to ",
             from == to ? "" : to->name, (long long)range.offset, (long long)last);
    return text;
}
