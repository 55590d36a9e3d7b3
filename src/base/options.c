#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

enum { NAME_MAX_LENGTH = 48, NEAR_ENOUGH = 3, HELP_COLUMN = 34, OPTIONS_MAX = 128 };

static void *member_of(void *settings, const ls__option *option)
{
    return (char *)settings + option->offset;
}

/* ---- values from text ---- */

static ls_status out_of_range(const ls__option *option, const char *text)
{
    if (isinf(option->max))
        return LS_FAIL(LS_BAD_USAGE, "--%s %s: it must be at least %.15g", option->name, text,
                       option->min);
    return LS_FAIL(LS_BAD_USAGE, "--%s %s: it must be from %.15g to %.15g", option->name, text,
                   option->min, option->max);
}

static ls_status parse_int(const ls__option *option, const char *text, int64_t *value)
{
    char *end = NULL;

    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    LS_FAIL_IF(end == text || *end || errno == ERANGE, LS_BAD_USAGE,
               "--%s '%s': it takes a whole number (%s)", option->name, text, option->unit);
    if ((double)parsed < option->min || (double)parsed > option->max)
        return out_of_range(option, text);
    *value = parsed;
    return LS_OK;
}

static ls_status parse_bytes(const ls__option *option, const char *text, int64_t *value)
{
    int64_t parsed = 0;

    if (ls__parse_bytes(text, &parsed) != LS_OK)
        return LS_FAIL(LS_BAD_USAGE, "--%s '%s': it takes bytes, for example 4096, 64K or 2G",
                       option->name, text);
    if ((double)parsed < option->min || (double)parsed > option->max)
        return out_of_range(option, text);
    *value = parsed;
    return LS_OK;
}

static ls_status parse_real(const ls__option *option, const char *text, double *value)
{
    char *end = NULL;
    double parsed = strtod(text, &end);

    if (!*text && !*option->preset) {
        *value = (double)NAN;
        return LS_OK;
    }
    LS_FAIL_IF(end == text || *end || isnan(parsed), LS_BAD_USAGE,
               "--%s '%s': it takes a number (%s)", option->name, text, option->unit);
    if (parsed < option->min || parsed > option->max)
        return out_of_range(option, text);
    *value = parsed;
    return LS_OK;
}

static ls_status parse_seconds(const ls__option *option, const char *text, double *value)
{
    if (ls__parse_seconds(text, value) != LS_OK)
        return LS_FAIL(LS_BAD_USAGE, "--%s '%s': it takes a time, for example 2us, 1.5ms or 100ns",
                       option->name, text);
    return LS_OK;
}

static ls_status parse_rate(const ls__option *option, const char *text, double *value)
{
    if (ls__parse_rate(text, value) != LS_OK)
        return LS_FAIL(LS_BAD_USAGE,
                       "--%s '%s': it takes a rate above 0, for example 12.5GB/s or 100Gb/s",
                       option->name, text);
    return LS_OK;
}

static ls_status parse_choice(const ls__option *option, const char *text, int *value)
{
    size_t length = strlen(text);
    int index = 0;

    for (const char *name = option->unit; name; index++) {
        const char *bar = strchr(name, '|');
        size_t name_length = bar ? (size_t)(bar - name) : strlen(name);
        if (name_length == length && strncmp(name, text, length) == 0) {
            *value = index;
            return LS_OK;
        }
        name = bar ? bar + 1 : NULL;
    }
    return LS_FAIL(LS_BAD_USAGE, "--%s '%s': it takes one of %s", option->name, text, option->unit);
}

static ls_status parse_list(const ls__option *option, const char *text, ls__list *list)
{
    char item[32];

    list->count = 0;
    if (!*text)
        return LS_OK;
    for (const char *from = text; from;) {
        const char *comma = strchr(from, ',');
        size_t length = comma ? (size_t)(comma - from) : strlen(from);
        LS_FAIL_IF(length == 0 || length >= sizeof item || list->count == LS__LIST_MAX,
                   LS_BAD_USAGE, "--%s '%s': it takes up to %d numbers, written like 1,2,3",
                   option->name, text, LS__LIST_MAX);
        memcpy(item, from, length);
        item[length] = '\0';
        LS_TRY(parse_int(option, item, &list->value[list->count++]));
        from = comma ? comma + 1 : NULL;
    }
    return LS_OK;
}

static ls_status parse_text(const ls__option *option, const char *text, char *value)
{
    size_t length = strlen(text);

    LS_FAIL_IF(length >= LS__TEXT_MAX, LS_BAD_USAGE, "--%s: it takes at most %d characters",
               option->name, LS__TEXT_MAX - 1);
    LS_FAIL_IF(strchr(text, '\n'), LS_BAD_USAGE,
               "--%s: it takes one line, but its value goes over several", option->name);
    memcpy(value, text, length + 1);
    return LS_OK;
}

static ls_status parse_switch(const ls__option *option, const char *text, bool *value)
{
    bool on = strcmp(text, "true") == 0;

    LS_FAIL_IF(!on && strcmp(text, "false") != 0, LS_BAD_USAGE,
               "--%s '%s': it is a switch, true or false", option->name, text);
    *value = on;
    return LS_OK;
}

static ls_status set_member(const ls__option *option, void *settings, const char *text)
{
    void *member = member_of(settings, option);

    switch (option->type) {
    case LS__OPTION_SWITCH:
        return parse_switch(option, text, member);
    case LS__OPTION_INT:
        return parse_int(option, text, member);
    case LS__OPTION_BYTES:
        return parse_bytes(option, text, member);
    case LS__OPTION_REAL:
        return parse_real(option, text, member);
    case LS__OPTION_SECONDS:
        return parse_seconds(option, text, member);
    case LS__OPTION_RATE:
        return parse_rate(option, text, member);
    case LS__OPTION_CHOICE:
        return parse_choice(option, text, member);
    case LS__OPTION_LIST:
        return parse_list(option, text, member);
    case LS__OPTION_TEXT:
        return parse_text(option, text, member);
    }
    return LS_FAIL(LS_BAD_USAGE, "--%s has no type", option->name);
}

void ls__options_preset(const ls__option_table *table, void *settings)
{
    for (int i = 0; i < table->count; i++) {
        ls_status status = set_member(&table->option[i], settings, table->option[i].preset);
        assert(status == LS_OK);
        (void)status;
    }
}

/* ---- names ---- */

/* Levenshtein's distance, one row at a time. */
static int edit_distance(const char *a, const char *b)
{
    int row[NAME_MAX_LENGTH + 1];
    int a_length = (int)strlen(a);
    int b_length = (int)strlen(b);

    if (a_length > NAME_MAX_LENGTH || b_length > NAME_MAX_LENGTH)
        return NAME_MAX_LENGTH;
    for (int j = 0; j <= b_length; j++)
        row[j] = j;
    for (int i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            int shorter = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = replaced < shorter + 1 ? replaced : shorter + 1;
        }
    }
    return row[b_length];
}

const char *ls__nearest_name(const char *typed, const char *const *names, int count)
{
    const char *nearest = NULL;
    int nearest_distance = NEAR_ENOUGH + 1;

    for (int i = 0; i < count; i++) {
        int distance = edit_distance(typed, names[i]);
        if (distance < nearest_distance && distance < (int)strlen(typed)) {
            nearest_distance = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static const ls__option *find_option(const ls__option_table *table, const char *name, size_t length)
{
    for (int i = 0; i < table->count; i++)
        if (strlen(table->option[i].name) == length &&
            strncmp(table->option[i].name, name, length) == 0)
            return &table->option[i];
    return NULL;
}

static const ls__option *find_letter(const ls__option_table *table, char letter)
{
    for (int i = 0; i < table->count; i++)
        if (letter && table->option[i].letter == letter)
            return &table->option[i];
    return NULL;
}

/* `dashes` is how it was typed, "--" or "-". */
static ls_status unknown_option(const ls__option_table *table, const char *dashes,
                                const char *typed)
{
    const char *names[OPTIONS_MAX];

    assert(table->count <= OPTIONS_MAX);
    for (int i = 0; i < table->count; i++)
        names[i] = table->option[i].name;
    const char *nearest = ls__nearest_name(typed, names, table->count);
    if (nearest)
        return LS_FAIL(LS_BAD_USAGE, "%s has no flag %s%s: did you mean --%s?", table->command,
                       dashes, typed, nearest);
    return LS_FAIL(LS_BAD_USAGE, "%s has no flag %s%s: %s --help lists them", table->command,
                   dashes, typed, table->command);
}

ls_status ls__options_set(const ls__option_table *table, void *settings, const char *name,
                          const char *text)
{
    const ls__option *option = find_option(table, name, strlen(name));

    if (!option)
        return unknown_option(table, "--", name);
    return set_member(option, settings, text);
}

/* ---- the command line ---- */

/* Splits `--name`, `--name=value` or `-x` into its row, NULL for an unknown one, and, where it
 * stands in the same word, its value. `typed` has room for NAME_MAX_LENGTH + 1 characters. */
static const ls__option *match_flag(const ls__option_table *table, const char *word, char *typed,
                                    const char **value)
{
    bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t length = is_long ? strcspn(name, "=") : strlen(name);

    snprintf(typed, NAME_MAX_LENGTH + 1, "%.*s", (int)length, name);
    *value = is_long && name[length] == '=' ? name + length + 1 : NULL;
    if (is_long)
        return find_option(table, name, length);
    return length == 1 ? find_letter(table, name[0]) : NULL;
}

static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] != '\0' && !(word[1] >= '0' && word[1] <= '9');
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool names_config(const char *word)
{
    static const char flag[] = "--config";
    size_t length = sizeof flag - 1;

    return strncmp(word, flag, length) == 0 && (word[length] == '\0' || word[length] == '=');
}

/* Whether the flag `word` takes its value from the word after it. */
static bool wants_next(const ls__option_table *table, const char *word)
{
    char typed[NAME_MAX_LENGTH + 1];
    const char *value = NULL;
    const ls__option *option = match_flag(table, word, typed, &value);

    if (names_config(word))
        return !value;
    return option && option->type != LS__OPTION_SWITCH && !value;
}

/* A word that looks like a flag is no value: more likely the value was forgotten. */
static bool can_be_value(const char *word)
{
    return word && strncmp(word, "--", 2) != 0;
}

/* The index of the next word that stands for itself, from `at` on: no value of the flag before it.
 * argc at the end, which "--" is too. */
static int next_word(const ls__option_table *table, int argc, char **argv, int at)
{
    const char *before = argv[at - 1];

    if (at > 1 && at < argc && is_flag(before) && wants_next(table, before) &&
        can_be_value(argv[at]))
        at++;
    return at < argc && strcmp(argv[at], "--") == 0 ? argc : at;
}

static bool find_help(const ls__option_table *table, int argc, char **argv)
{
    for (int i = next_word(table, argc, argv, 1); i < argc; i = next_word(table, argc, argv, i + 1))
        if (asks_for_help(argv[i]))
            return true;
    return false;
}

/* The value of the flag in argv[*at], in the same word (`value`) or the next, to which it moves. */
static ls_status take_value(const char *flag, const char *what, const char **value, int argc,
                            char **argv, int *at)
{
    if (*value)
        return LS_OK;
    LS_FAIL_IF(*at + 1 >= argc, LS_BAD_USAGE, "--%s takes a value (%s)", flag, what);
    *value = argv[++*at];
    LS_FAIL_IF(!can_be_value(*value), LS_BAD_USAGE,
               "--%s takes a value (%s), and %.64s looks like a flag: write --%s=%.64s if you mean "
               "it",
               flag, what, *value, flag, *value);
    return LS_OK;
}

static ls_status take_config(int argc, char **argv, int *at, const char **path)
{
    const char *equals = strchr(argv[*at], '=');

    *path = equals ? equals + 1 : NULL;
    return take_value("config", "the path of an INI file", path, argc, argv, at);
}

/* --config, wherever it stands: the file is read before any other flag. */
static ls_status read_config(const ls__option_table *table, void *settings, int argc, char **argv)
{
    const char *path = NULL;

    for (int i = next_word(table, argc, argv, 1); i < argc;
         i = next_word(table, argc, argv, i + 1)) {
        int at = i;
        if (!names_config(argv[i]))
            continue;
        LS_TRY(take_config(argc, argv, &at, &path));
        LS_TRY(ls__options_read(table, settings, path));
    }
    return LS_OK;
}

static ls_status parse_flag(const ls__option_table *table, void *settings, int argc, char **argv,
                            int *at)
{
    const char *word = argv[*at];
    char typed[NAME_MAX_LENGTH + 1];
    const char *value = NULL;

    if (names_config(word))
        return take_config(argc, argv, at, &value); /* read already */
    const ls__option *option = match_flag(table, word, typed, &value);
    if (!option)
        return unknown_option(table, word[1] == '-' ? "--" : "-", typed);
    if (option->type == LS__OPTION_SWITCH)
        return set_member(option, settings, value ? value : "true");
    LS_TRY(take_value(option->name, option->unit, &value, argc, argv, at));
    return set_member(option, settings, value);
}

ls_status ls__options_parse(const ls__option_table *table, void *settings, int argc, char **argv,
                            ls__parsed *parsed)
{
    ls__options_preset(table, settings);
    return ls__options_parse_over(table, settings, argc, argv, parsed);
}

ls_status ls__options_parse_over(const ls__option_table *table, void *settings, int argc,
                                 char **argv, ls__parsed *parsed)
{
    int operands = 0;
    bool only_operands = false;

    *parsed = (ls__parsed){.operand = argv + 1};
    parsed->help = find_help(table, argc, argv);
    if (parsed->help)
        return LS_OK;
    LS_TRY(read_config(table, settings, argc, argv));
    for (int i = 1; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && is_flag(argv[i]))
            LS_TRY(parse_flag(table, settings, argc, argv, &i));
        else
            argv[1 + operands++] = argv[i];
    }
    parsed->operand_count = operands;
    LS_FAIL_IF(operands > table->operands_max, LS_BAD_USAGE, "%s does not know what '%s' is for",
               table->command, argv[1 + table->operands_max]);
    LS_FAIL_IF(operands < table->operands_min, LS_BAD_USAGE, "%s needs %s: %s --help says more",
               table->command, table->operands, table->command);
    return LS_OK;
}

static void print_option(const ls__option *option, FILE *file)
{
    char left[128];
    char letter[8] = "";

    if (option->letter)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "  %s--%s%s%s", letter, option->name, *option->unit ? " " : "",
             option->unit);
    fprintf(file, "%-*s", HELP_COLUMN, left);
    if (strlen(left) >= HELP_COLUMN)
        fprintf(file, "\n%*s", HELP_COLUMN, "");
    fputs(option->help, file);
    if (*option->preset && option->type != LS__OPTION_SWITCH)
        fprintf(file, " [%s]", option->preset);
    fputc('\n', file);
}

void ls__options_help(const ls__option_table *table, FILE *file)
{
    fprintf(file, "%s: %s\n\nUsage: %s [flags]%s%s\n\n", table->command, table->summary,
            table->command, *table->operands ? " " : "", table->operands);
    for (int i = 0; i < table->count; i++)
        print_option(&table->option[i], file);
    fprintf(file, "%-*s%s\n", HELP_COLUMN, "  --config FILE",
            "read flags from an INI file of name = value lines first");
    fprintf(file, "%-*s%s\n", HELP_COLUMN, "  -h, --help", "print this");
    if (table->notes)
        fprintf(file, "\n%s", table->notes);
}
