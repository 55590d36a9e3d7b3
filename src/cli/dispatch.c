#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "cli/commands.h"
#include "cli/start.h"

enum { ENTRIES_MAX = 16 };

static void print_commands(const char *command, const ls__cli_entry *entries, int count)
{
    printf("Usage: %s COMMAND [flags]\n\n", command);
    for (int i = 0; i < count; i++)
        printf("  %-10s %s\n", entries[i].name, entries[i].summary);
    printf("\n%s COMMAND --help lists a command's flags.\n", command);
}

ls_status ls__cli_dispatch(const char *command, const ls__cli_entry *entries, int count, int argc,
                           char **argv)
{
    const char *names[ENTRIES_MAX];
    const char *word = argc > 1 ? argv[1] : NULL;

    LS_FAIL_IF(!word, LS_BAD_USAGE, "%s needs a command: %s --help lists them", command, command);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_commands(command, entries, count);
        return LS_OK;
    }
    for (int i = 0; i < count; i++) {
        if (strcmp(word, entries[i].name) != 0)
            continue;
        if (entries[i].alone)
            LS_TRY(ls__cli_alone(word));
        return entries[i].run(argc - 1, argv + 1);
    }
    for (int i = 0; i < count; i++)
        names[i] = entries[i].name;
    const char *nearest = ls__nearest_name(word, names, count);
    LS_FAIL_IF(nearest, LS_BAD_USAGE, "%s has no command '%s': did you mean %s?", command, word,
               nearest);
    return LS_FAIL(LS_BAD_USAGE, "%s has no command '%s': %s --help lists them", command, word,
                   command);
}
