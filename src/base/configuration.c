/* Settings as text: one value, or all of them as a configuration file, and back. */
#include "base/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const void *const_member_of(const void *settings, const ls__option *option)
{
    return (const char *)settings + option->offset;
}

/* Takes the white space off both ends, in place. */
static char *trim(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* A value that white space or quotes would end is written between quotes; nothing inside them is
 * special. */
static bool is_quoted(const char *text)
{
    size_t length = strlen(text);

    return length >= 2 && text[0] == '"' && text[length - 1] == '"';
}

static bool needs_quotes(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && (isspace((unsigned char)text[0]) ||
                          isspace((unsigned char)text[length - 1]) || is_quoted(text));
}

static char *unquote(char *text)
{
    if (!is_quoted(text))
        return text;
    text[strlen(text) - 1] = '\0';
    return text + 1;
}

/* Whether the file may hold this name for the sake of another command. */
static bool is_passed_over(const ls__option_table *table, const char *name)
{
    for (const char *const *other = table->passed_over; other && *other; other++)
        if (strcmp(*other, name) == 0)
            return true;
    return false;
}

/* Takes one line, which it changes. */
static ls_status read_line(const ls__option_table *table, void *settings, char *line)
{
    char *name = trim(line);
    char *equals = strchr(name, '=');

    if (*name == '\0' || *name == ';' || *name == '#')
        return LS_OK;
    LS_FAIL_IF(*name == '[', LS_BAD_USAGE, "there are no sections, but here is %s", name);
    LS_FAIL_IF(!equals, LS_BAD_USAGE, "not of the form name = value");
    *equals = '\0';
    name = trim(name);
    if (is_passed_over(table, name))
        return LS_OK;
    return ls__options_set(table, settings, name, unquote(trim(equals + 1)));
}

/* Says where in the file the failure just recorded was. */
static ls_status fail_in_line(const char *path, int number)
{
    char why[LS_ERROR_TEXT];

    snprintf(why, sizeof why, "%s", ls_last_error()->text);
    return LS_FAIL(LS_BAD_USAGE, "%s, line %d: %.900s", path, number, why);
}

static ls_status read_lines(const ls__option_table *table, void *settings, const char *path,
                            FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length = 0;
    ls_status status = LS_OK;

    errno = 0;
    for (int number = 1; status == LS_OK && (length = getline(&line, &size, file)) > 0; number++) {
        if (strlen(line) != (size_t)length)
            status = LS_FAIL(LS_BAD_USAGE, "it holds a zero byte: is it a text file?");
        else
            status = read_line(table, settings, line);
        if (status != LS_OK)
            status = fail_in_line(path, number);
    }
    if (status == LS_OK && !feof(file))
        status =
            LS_FAIL(LS_BAD_USAGE, "cannot read the configuration %s: %s", path, strerror(errno));
    free(line);
    return status;
}

ls_status ls__options_read(const ls__option_table *table, void *settings, const char *path)
{
    FILE *file = fopen(path, "r");

    LS_FAIL_IF(!file, LS_BAD_USAGE, "cannot open the configuration %s: %s", path, strerror(errno));
    ls_status status = read_lines(table, settings, path, file);
    fclose(file);
    return status;
}

static void format_list(const ls__list *list, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < list->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, i ? ",%lld" : "%lld",
                                 (long long)list->value[i]);
}

static void format_choice(const ls__option *option, int value, char *text, size_t size)
{
    const char *name = option->unit;

    for (int i = 0; i < value; i++)
        name = strchr(name, '|') + 1;
    snprintf(text, size, "%.*s", (int)strcspn(name, "|"), name);
}

/* The shortest form that reads back as the same double, and its unit; NAN, unset, is an empty one.
 */
static void format_real(double value, const char *unit, char *text, size_t size)
{
    text[0] = '\0';
    if (isnan(value))
        return;
    for (int digits = 6; digits <= 17; digits++) { /* from 6 on: 120, not 1.2e+02 */
        snprintf(text, size, "%.*g%s", digits, value, unit);
        if (strtod(text, NULL) == value)
            return;
    }
}

void ls__options_format(const ls__option_table *table, const void *settings, int index, char *text,
                        size_t size)
{
    const ls__option *option = &table->option[index];
    const void *member = const_member_of(settings, option);

    switch (option->type) {
    case LS__OPTION_SWITCH:
        snprintf(text, size, "%s", *(const bool *)member ? "true" : "false");
        break;
    case LS__OPTION_INT:
    case LS__OPTION_BYTES:
        snprintf(text, size, "%lld", (long long)*(const int64_t *)member);
        break;
    case LS__OPTION_REAL:
        format_real(*(const double *)member, "", text, size);
        break;
    case LS__OPTION_SECONDS:
        format_real(*(const double *)member, "s", text, size);
        break;
    case LS__OPTION_RATE:
        format_real(*(const double *)member, "B/s", text, size);
        break;
    case LS__OPTION_CHOICE:
        format_choice(option, *(const int *)member, text, size);
        break;
    case LS__OPTION_LIST:
        format_list(member, text, size);
        break;
    case LS__OPTION_TEXT:
        snprintf(text, size, "%s", (const char *)member);
        break;
    }
}

void ls__options_write(const ls__option_table *table, const void *settings, FILE *file)
{
    char text[LS__TEXT_MAX];

    for (int i = 0; i < table->count; i++) {
        ls__options_format(table, settings, i, text, sizeof text);
        const char *quote = needs_quotes(text) ? "\"" : "";
        fprintf(file, "%s = %s%s%s\n", table->option[i].name, quote, text, quote);
    }
}

int ls__options_differ(const ls__option_table *table, const void *a, const void *b,
                       ls__option_scope scope)
{
    char text_a[LS__TEXT_MAX];
    char text_b[LS__TEXT_MAX];

    for (int i = 0; i < table->count; i++) {
        if (table->option[i].scope != scope)
            continue;
        ls__options_format(table, a, i, text_a, sizeof text_a);
        ls__options_format(table, b, i, text_b, sizeof text_b);
        if (strcmp(text_a, text_b) != 0)
            return i;
    }
    return -1;
}
