/* lockstep data text|images|info: making dataset files, and looking at them. No MPI. */
#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "base/units.h"
#include "cli/commands.h"
#include "data/dataset.h"
#include "data/import.h"

enum { UNIT_TEXT = 32, OPERANDS_MAX = 1 << 20 };

#define TEXT_AT(struct_type, member) \
    .type = LS__OPTION_TEXT, .offset = offsetof(struct_type, member), .preset = ""

static ls_status needs(const ls__option_table *table, const char *flag, const char *unit)
{
    return LS_FAIL(LS_BAD_USAGE, "%s needs %s %s: %s --help says more", table->command, flag, unit,
                   table->command);
}

/* Opens what was just written: the line it prints is what a reader finds. */
static ls_status print_written(const char *path)
{
    ls__dataset *dataset = NULL;
    char bytes[UNIT_TEXT];

    LS_TRY(ls__dataset_open(&dataset, path));
    const ls__dataset_info *info = ls__dataset_about(dataset);
    ls__format_bytes(bytes, sizeof bytes, info->file_bytes);
    if (info->kind == LS__DATASET_TEXT)
        printf("%s: %" PRId64 " training and %" PRId64 " validation tokens, vocabulary of %" PRId64
               ", %s\n",
               path, info->count[LS__SPLIT_TRAIN], info->count[LS__SPLIT_HELD_OUT],
               info->vocabulary_size, bytes);
    else
        printf("%s: %" PRId64 " training and %" PRId64 " test images of %" PRId64 " x %" PRId64
               ", %" PRId64 " classes, %s\n",
               path, info->count[LS__SPLIT_TRAIN], info->count[LS__SPLIT_HELD_OUT], info->rows,
               info->cols, info->classes, bytes);
    ls__dataset_close(dataset);
    return LS_OK;
}

/* ---- lockstep data text ---- */

typedef struct text_settings {
    char out[LS__TEXT_MAX];
    double val;
} text_settings;

static const ls__option text_options[] = {
    {.name = "out",
     .letter = 'o',
     .unit = "OUT.h5",
     .help = "the dataset file to write",
     TEXT_AT(text_settings, out)},
    {.name = "val",
     .type = LS__OPTION_REAL,
     .offset = offsetof(text_settings, val),
     .preset = "0.1",
     .unit = "FRACTION",
     .min = 0,
     .max = 0.99,
     .help = "the last part of the text, kept for validation"},
};

static const ls__option_table text_table = {
    .command = "lockstep data text",
    .summary = "make a dataset of text files, a token a byte",
    .operands = "FILE...",
    .option = text_options,
    .count = sizeof text_options / sizeof text_options[0],
    .operands_min = 1,
    .operands_max = OPERANDS_MAX,
};

static ls_status run_text(int argc, char **argv)
{
    text_settings settings;
    ls__parsed parsed;

    LS_TRY(ls__options_parse(&text_table, &settings, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&text_table, stdout);
        return LS_OK;
    }
    if (!*settings.out)
        return needs(&text_table, "-o", "OUT.h5");
    LS_TRY(ls__import_text((const char *const *)parsed.operand, parsed.operand_count, settings.out,
                           settings.val));
    return print_written(settings.out);
}

/* ---- lockstep data images ---- */

typedef struct image_settings {
    char out[LS__TEXT_MAX];
    char train_images[LS__TEXT_MAX];
    char train_labels[LS__TEXT_MAX];
    char test_images[LS__TEXT_MAX];
    char test_labels[LS__TEXT_MAX];
} image_settings;

static const ls__option image_options[] = {
    {.name = "train-images",
     .unit = "FILE",
     .help = "images to train on, IDX, plain or gzip",
     TEXT_AT(image_settings, train_images)},
    {.name = "train-labels",
     .unit = "FILE",
     .help = "their labels",
     TEXT_AT(image_settings, train_labels)},
    {.name = "test-images",
     .unit = "FILE",
     .help = "images to evaluate on",
     TEXT_AT(image_settings, test_images)},
    {.name = "test-labels",
     .unit = "FILE",
     .help = "their labels",
     TEXT_AT(image_settings, test_labels)},
    {.name = "out",
     .letter = 'o',
     .unit = "OUT.h5",
     .help = "the dataset file to write",
     TEXT_AT(image_settings, out)},
};

static const ls__option_table image_table = {
    .command = "lockstep data images",
    .summary = "make a dataset of images and labels in IDX format",
    .operands = "",
    .option = image_options,
    .count = sizeof image_options / sizeof image_options[0],
};

static ls_status run_images(int argc, char **argv)
{
    image_settings settings;
    ls__parsed parsed;
    char flag[UNIT_TEXT];

    LS_TRY(ls__options_parse(&image_table, &settings, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&image_table, stdout);
        return LS_OK;
    }
    for (int i = 0; i < image_table.count; i++) {
        const ls__option *option = &image_options[i];
        snprintf(flag, sizeof flag, "--%s", option->name);
        if (!*((const char *)&settings + option->offset))
            return needs(&image_table, flag, option->unit);
    }
    LS_TRY(ls__import_images(
        &(ls__image_files){
            .train_images = settings.train_images,
            .train_labels = settings.train_labels,
            .test_images = settings.test_images,
            .test_labels = settings.test_labels,
        },
        settings.out));
    return print_written(settings.out);
}

/* ---- lockstep data info ---- */

static const ls__option_table info_table = {
    .command = "lockstep data info",
    .summary = "say what a dataset file holds",
    .operands = "FILE.h5",
    .operands_min = 1,
    .operands_max = 1,
};

/* The bytes as they would stand in a C string: one line, whatever they are. */
static void print_vocabulary(const ls__dataset_info *info)
{
    printf("vocabulary  %" PRId64 "%s", info->vocabulary_size,
           info->vocabulary_bytes ? " bytes: " : "");
    for (int64_t i = 0; i < info->vocabulary_bytes; i++) {
        uint8_t byte = info->vocabulary[i];
        if (byte == '\n')
            fputs("\\n", stdout);
        else if (byte == '\t')
            fputs("\\t", stdout);
        else if (byte == '\\')
            fputs("\\\\", stdout);
        else if (byte >= ' ' && byte < 0x7f)
            putchar(byte);
        else
            printf("\\x%02x", byte);
    }
    putchar('\n');
}

static void print_splits(const ls__dataset_info *info)
{
    for (ls__split split = LS__SPLIT_TRAIN; split < LS__SPLIT_COUNT; split++)
        printf("%-11s %" PRId64 " %s\n", ls__split_name(info->kind, split), info->count[split],
               info->kind == LS__DATASET_TEXT ? "tokens" : "images");
}

static void print_source(const ls__dataset_info *info)
{
    char bytes[UNIT_TEXT];

    if (!*info->source)
        return;
    printf("source      %s", info->source);
    if (info->source_bytes > 0)
        printf(" (%s)", ls__format_bytes(bytes, sizeof bytes, info->source_bytes));
    putchar('\n');
}

static void print_info(const ls__dataset *dataset)
{
    const ls__dataset_info *info = ls__dataset_about(dataset);
    char bytes[UNIT_TEXT];

    printf("file        %s, %s\n", ls__dataset_path(dataset),
           ls__format_bytes(bytes, sizeof bytes, info->file_bytes));
    print_source(info);
    if (info->kind == LS__DATASET_TEXT) {
        printf("kind        text, tokens of %" PRId64 " bits\n", 8 * info->token_bytes);
        print_splits(info);
        print_vocabulary(info);
    } else {
        printf("kind        images of %" PRId64 " x %" PRId64 " pixels\n", info->rows, info->cols);
        print_splits(info);
        printf("classes     %" PRId64 "\n", info->classes);
    }
}

static ls_status run_info(int argc, char **argv)
{
    ls__dataset *dataset = NULL;
    ls__parsed parsed;
    char no_settings = 0;

    LS_TRY(ls__options_parse(&info_table, &no_settings, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&info_table, stdout);
        return LS_OK;
    }
    LS_TRY(ls__dataset_open(&dataset, parsed.operand[0]));
    print_info(dataset);
    ls__dataset_close(dataset);
    return LS_OK;
}

/* ---- all three ---- */

static const ls__cli_entry commands[] = {
    {"text", "make a dataset of text files", run_text, false},
    {"images", "make a dataset of images and labels", run_images, false},
    {"info", "say what a dataset file holds", run_info, false},
};

ls_status ls__cli_data(int argc, char **argv)
{
    return ls__cli_dispatch("lockstep data", commands, sizeof commands / sizeof commands[0], argc,
                            argv);
}
