/* A report: tables on standard output for people, and the same numbers as JSON for programs.
 *
 * The JSON file is one object: a member a table, named as the table, an array with an object a row;
 * and a member a fact. Its numbers are in base units (bytes, seconds, FLOPs), as the keys say,
 * whatever unit people are shown. Numbers that are not finite are null. */
#ifndef LS_CLI_REPORT_H
#define LS_CLI_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "lockstep/status.h"

typedef enum ls__column_kind {
    LS__COLUMN_TEXT,
    LS__COLUMN_FIXED, /* `digits` behind the point */
    LS__COLUMN_SHORT, /* `digits` that count, with an exponent where it is large or small */
} ls__column_kind;

typedef struct ls__column {
    const char *key;   /* in JSON */
    const char *title; /* for people, two lines: a name */
    const char *unit;  /* and a unit; "" for none */
    ls__column_kind kind;
    int digits;
    double scale; /* a person is shown number / scale; 0: as it is */
} ls__column;

/* The member that the column's kind asks for; a text of ours, without quotes. */
typedef struct ls__cell {
    const char *text;
    double number;
} ls__cell;

typedef struct ls__report {
    const char *path;
    FILE *json; /* in memory; NULL where nobody asked */
    char *text;
    size_t size;
    const ls__column *column; /* of the table that is open */
    int columns;
    int rows;    /* of it so far */
    int members; /* of the JSON object so far */
} ls__report;

/* `path` of the JSON file; "" for none. If this succeeded you must close. LS_NO_MEMORY. */
ls_status ls__report_open(ls__report *report, const char *path);

/* Begins a table, which the next table, fact or the close ends. */
void ls__report_table(ls__report *report, const char *name, const ls__column *column, int columns);
void ls__report_row(ls__report *report, const ls__cell *cell);

/* A number beside the tables, in JSON only: say it to people in a sentence. */
void ls__report_fact(ls__report *report, const char *key, double value);

/* Writes the JSON file. */
ls_status ls__report_close(ls__report *report);

#endif
