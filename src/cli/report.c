#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { NUMBER_WIDTH = 8, TEXT_WIDTH = 14 };

ls_status ls__report_open(ls__report *report, const char *path)
{
    *report = (ls__report){.path = path};
    if (!*path)
        return LS_OK;
    report->json = open_memstream(&report->text, &report->size);
    LS_FAIL_IF(!report->json, LS_NO_MEMORY, "no memory for the report %.600s", path);
    fputs("{", report->json);
    return LS_OK;
}

/* ---- text ---- */

static int width_of(const ls__column *column)
{
    int least = column->kind == LS__COLUMN_TEXT ? TEXT_WIDTH : NUMBER_WIDTH;
    int title = (int)strlen(column->title);
    int unit = (int)strlen(column->unit);
    int most = title > unit ? title : unit;

    return most > least ? most : least;
}

/* Texts stand on the left, numbers on the right; a text that ends a line is not padded. */
static void print_text(const ls__report *report, int index, const char *text)
{
    const ls__column *column = &report->column[index];

    if (column->kind != LS__COLUMN_TEXT)
        printf("%*s", width_of(column), text);
    else if (index + 1 < report->columns)
        printf("%-*s", width_of(column), text);
    else
        printf("%s", text);
}

static void print_number(const ls__report *report, int index, double number)
{
    const ls__column *column = &report->column[index];
    double shown = column->scale > 0 ? number / column->scale : number;

    if (!isfinite(number))
        print_text(report, index, "-");
    else if (column->kind == LS__COLUMN_FIXED)
        printf("%*.*f", width_of(column), column->digits, shown);
    else
        printf("%*.*g", width_of(column), column->digits, shown);
}

static void print_heading(const ls__report *report)
{
    for (int line = 0; line < 2; line++)
        for (int i = 0; i < report->columns; i++) {
            const ls__column *column = &report->column[i];
            print_text(report, i, line == 0 ? column->title : column->unit);
            fputs(i + 1 < report->columns ? "  " : "\n", stdout);
        }
}

/* ---- JSON ---- */

static void write_number(FILE *json, double number)
{
    if (isfinite(number))
        fprintf(json, "%.15g", number);
    else
        fputs("null", json);
}

static void end_table(ls__report *report)
{
    if (report->json && report->column)
        fputs(report->rows ? "\n  ]" : "]", report->json);
    report->column = NULL;
}

static void begin_member(ls__report *report, const char *name)
{
    end_table(report);
    fprintf(report->json, "%s\n  \"%s\": ", report->members++ ? "," : "", name);
}

static void write_row(ls__report *report, const ls__cell *cell)
{
    fputs(report->rows ? ",\n    {" : "\n    {", report->json);
    for (int i = 0; i < report->columns; i++) {
        const ls__column *column = &report->column[i];
        fprintf(report->json, "%s\"%s\": ", i ? ", " : "", column->key);
        if (column->kind == LS__COLUMN_TEXT)
            fprintf(report->json, "\"%s\"", cell[i].text);
        else
            write_number(report->json, cell[i].number);
    }
    fputs("}", report->json);
}

/* ---- both ---- */

void ls__report_table(ls__report *report, const char *name, const ls__column *column, int columns)
{
    if (report->json) {
        begin_member(report, name);
        fputs("[", report->json);
    }
    report->column = column;
    report->columns = columns;
    report->rows = 0;
    print_heading(report);
}

void ls__report_row(ls__report *report, const ls__cell *cell)
{
    for (int i = 0; i < report->columns; i++) {
        const ls__column *column = &report->column[i];
        if (column->kind == LS__COLUMN_TEXT)
            print_text(report, i, cell[i].text);
        else
            print_number(report, i, cell[i].number);
        fputs(i + 1 < report->columns ? "  " : "\n", stdout);
    }
    if (report->json)
        write_row(report, cell);
    report->rows++;
}

void ls__report_fact(ls__report *report, const char *key, double value)
{
    if (!report->json)
        return;
    begin_member(report, key);
    write_number(report->json, value);
}

ls_status ls__report_close(ls__report *report)
{
    if (!report->json)
        return LS_OK;
    end_table(report);
    fputs("\n}\n", report->json);
    bool kept = fclose(report->json) == 0;
    ls_status status = kept
                           ? ls__file_write_text(report->path, report->text)
                           : LS_FAIL(LS_NO_MEMORY, "no memory for the report %.600s", report->path);
    free(report->text);
    return status;
}
