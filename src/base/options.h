/* The option table: one row a flag, from which the command line, --config FILE, --help and the
 * resolved configuration of a run are all made.
 *
 * A table describes a plain struct of settings: each row names the member by its offset and sets
 * its type. Flags are written --name VALUE or --name=VALUE; a switch takes no value, and a VALUE
 * that begins with "--" must be written the second way.
 *
 * A configuration file has a line `name = value` a flag, without dashes. The value is what stands
 * behind the first '=', without the white space around it, or all between the quotes where it is
 * quoted. Lines that begin with ';' or '#' are comments; there are no sections. Lines may be of any
 * length. */
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/file.h"
#include "lockstep/status.h"

enum { LS__LIST_MAX = 32, LS__TEXT_MAX = LS__PATH_SIZE };

typedef struct ls__list {
    int64_t value[LS__LIST_MAX];
    int count;
} ls__list;

typedef enum ls__option_type {
    LS__OPTION_SWITCH,  /* bool */
    LS__OPTION_INT,     /* int64_t within [min, max] */
    LS__OPTION_BYTES,   /* int64_t within [min, max], written with K, M, G or T */
    LS__OPTION_REAL,    /* double within [min, max]; with a preset of "" also NAN, unset */
    LS__OPTION_SECONDS, /* double, not negative, written 2us */
    LS__OPTION_RATE,    /* double, bytes a second, above 0, written 12.5GB/s or 100Gb/s */
    LS__OPTION_CHOICE,  /* int: index into `unit`, "one|two|three" */
    LS__OPTION_LIST,    /* ls__list of values within [min, max], written 1,2,3 */
    LS__OPTION_TEXT,    /* char[LS__TEXT_MAX], one line */
} ls__option_type;

/* What a flag may change. */
typedef enum ls__option_scope {
    LS__SCOPE_RUN,  /* where a run stands and how fast it goes: free to differ on resume */
    LS__SCOPE_BITS, /* the arithmetic: a run keeps it from its first step to its last */
} ls__option_scope;

typedef struct ls__option {
    const char *name;   /* without dashes */
    const char *preset; /* the default, as on a command line; "" is an unset text, list or real */
    const char *unit;   /* what the value counts, or the choices; shown by --help */
    const char *help;   /* one sentence, lower case, no full stop */
    size_t offset;      /* of the member in the settings */
    double min, max;    /* of numbers, both allowed */
    ls__option_type type;
    ls__option_scope scope;
    char letter; /* the short form -x, or 0 */
} ls__option;

typedef struct ls__option_table {
    const char *command;  /* "lockstep train" */
    const char *summary;  /* what the command does, one line */
    const char *operands; /* what stands beside flags, "FILE..."; "" for nothing */
    const ls__option *option;
    int count;
    int operands_min, operands_max;
    const char *notes; /* lines that --help prints below the flags, each closed; or NULL */
    const char *const *passed_over; /* names that a configuration file may hold for another command,
                                       closed with NULL; or NULL */
} ls__option_table;

/* What parsing met beside settings. The operands point into argv. */
typedef struct ls__parsed {
    bool help; /* --help was given: nothing else was checked */
    int operand_count;
    char **operand;
} ls__parsed;

/* Sets every member to its preset. */
void ls__options_preset(const ls__option_table *table, void *settings);

/* Presets, then --config FILE, then the flags of argv[1 .. argc-1], a later one over an earlier.
 * Reorders argv so that operands stand together. LS_BAD_USAGE, naming the flag and, for an unknown
 * one, the nearest known. */
ls_status ls__options_parse(const ls__option_table *table, void *settings, int argc, char **argv,
                            ls__parsed *parsed);

/* The same over what `settings` holds, instead of the presets. */
ls_status ls__options_parse_over(const ls__option_table *table, void *settings, int argc,
                                 char **argv, ls__parsed *parsed);

/* Sets one member from text: the one way in which values arrive. */
ls_status ls__options_set(const ls__option_table *table, void *settings, const char *name,
                          const char *text);

/* Reads a configuration file over what `settings` holds. LS_BAD_USAGE, naming the line. */
ls_status ls__options_read(const ls__option_table *table, void *settings, const char *path);

/* Writes one member as text that ls__options_set takes back; reals keep every bit. */
void ls__options_format(const ls__option_table *table, const void *settings, int index, char *text,
                        size_t size);

/* Writes all members as a configuration file, which ls__options_read takes back exactly. */
void ls__options_write(const ls__option_table *table, const void *settings, FILE *file);

/* The index of the first option within `scope` on which two settings differ, or -1. */
int ls__options_differ(const ls__option_table *table, const void *a, const void *b,
                       ls__option_scope scope);

void ls__options_help(const ls__option_table *table, FILE *file);

/* The nearest of `count` names to a mistyped one, or NULL where none has much in common. */
const char *ls__nearest_name(const char *typed, const char *const *names, int count);

#endif
