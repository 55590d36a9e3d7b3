#include "cli/algorithms.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"

static ls_status add(ls__algorithms *algorithms, const char *name)
{
    const ls_algorithm *found = ls_algorithm_find(name);

    LS_FAIL_IF(!found, LS_BAD_USAGE, "--algorithm: there is none called '%s': choose from %s", name,
               LS_ALGORITHM_NAMES);
    LS_FAIL_IF(algorithms->count == LS_ALGORITHM_COUNT, LS_BAD_USAGE,
               "--algorithm takes at most %d names", LS_ALGORITHM_COUNT);
    algorithms->algorithm[algorithms->count++] = found;
    return LS_OK;
}

ls_status ls__algorithms_read(ls__algorithms *algorithms, const char *list)
{
    char names[LS__TEXT_MAX];
    char *rest = names;
    char *name = NULL;

    *algorithms = (ls__algorithms){0};
    snprintf(names, sizeof names, "%s", list);
    while ((name = strsep(&rest, ",")))
        LS_TRY(add(algorithms, name));
    return LS_OK;
}
