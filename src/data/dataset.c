#include "data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data/header.h"
#include "data/sampler.h"

enum { VOCABULARY_MAX = 1 << 16, LABELS_MAX = 256, NAME_SIZE = 32 };

/* One split in memory; what the other kind has is NULL. */
typedef struct split_data {
    uint8_t *tokens8;
    uint16_t *tokens16;
    uint8_t *images;
    uint8_t *labels;
} split_data;

struct ls__dataset {
    ls__h5 *file; /* NULL once loaded */
    ls__dataset_info info;
    split_data split[LS__SPLIT_COUNT];
    char path[LS__PATH_SIZE];
};

const char *ls__split_name(ls__dataset_kind kind, ls__split split)
{
    if (split == LS__SPLIT_TRAIN)
        return "train";
    return kind == LS__DATASET_TEXT ? "val" : "test";
}

/* "val/tokens" into `name` of NAME_SIZE characters. */
static const char *array_name(char *name, ls__dataset_kind kind, ls__split split, const char *what)
{
    snprintf(name, NAME_SIZE, "%s/%s", ls__split_name(kind, split), what);
    return name;
}

/* ---- the header ---- */

static ls_status read_size(ls__dataset *dataset, const char *name, int64_t most, int64_t *value)
{
    LS_TRY(ls__h5_get_int(dataset->file, "/", name, value));
    LS_FAIL_IF(*value < 1 || *value > most, LS_BAD_INPUT,
               "%s: %s is %" PRId64 " where 1 to %" PRId64 " is expected", dataset->path, name,
               *value, most);
    return LS_OK;
}

static ls_status read_vocabulary(ls__dataset *dataset)
{
    ls__dataset_info *info = &dataset->info;

    LS_TRY(read_size(dataset, "vocabulary_size", VOCABULARY_MAX, &info->vocabulary_size));
    if (!ls__h5_has_attribute(dataset->file, "/", "vocabulary"))
        return LS_OK;
    LS_TRY(ls__h5_get_bytes(dataset->file, "/", "vocabulary", info->vocabulary,
                            sizeof info->vocabulary, &info->vocabulary_bytes));
    LS_FAIL_IF(info->vocabulary_bytes != info->vocabulary_size, LS_BAD_INPUT,
               "%s: vocabulary_size is %" PRId64 " but vocabulary holds %" PRId64 " bytes",
               dataset->path, info->vocabulary_size, info->vocabulary_bytes);
    return LS_OK;
}

static ls_status expect(const ls__dataset *dataset, const char *name, ls__h5_type type,
                        const ls__h5_shape *shape, const char *expected)
{
    char text[LS__H5_NAME_SIZE];

    return LS_FAIL(LS_BAD_INPUT, "%s: %s is %s %s where %s is expected", dataset->path, name,
                   ls__h5_type_name(type), ls__h5_format_shape(text, shape), expected);
}

static ls_status read_tokens_header(ls__dataset *dataset, ls__split split)
{
    ls__dataset_info *info = &dataset->info;
    char name[NAME_SIZE];
    ls__h5_type type = LS__H5_U8;
    ls__h5_shape shape;

    array_name(name, LS__DATASET_TEXT, split, "tokens");
    if (split == LS__SPLIT_HELD_OUT && !ls__h5_has(dataset->file, name))
        return LS_OK;
    LS_TRY(ls__h5_describe(dataset->file, name, &type, &shape));
    if (shape.rank != 1 || (type != LS__H5_U8 && type != LS__H5_U16))
        return expect(dataset, name, type, &shape, "uint8 or uint16 (n)");
    if (split != LS__SPLIT_TRAIN && ls__h5_type_size(type) != info->token_bytes)
        return expect(dataset, name, type, &shape, "the type of train/tokens");
    info->token_bytes = ls__h5_type_size(type);
    info->count[split] = shape.extent[0];
    return LS_OK;
}

static ls_status read_text_header(ls__dataset *dataset)
{
    ls__dataset_info *info = &dataset->info;

    LS_TRY(read_vocabulary(dataset));
    LS_TRY(read_tokens_header(dataset, LS__SPLIT_TRAIN));
    LS_TRY(read_tokens_header(dataset, LS__SPLIT_HELD_OUT));
    LS_FAIL_IF(info->count[LS__SPLIT_TRAIN] == 0, LS_BAD_INPUT, "%s: train/tokens is empty",
               dataset->path);
    LS_FAIL_IF(info->token_bytes == 1 && info->vocabulary_size > UINT8_MAX + 1, LS_BAD_INPUT,
               "%s: vocabulary_size is %" PRId64 ", more than uint8 tokens can tell apart",
               dataset->path, info->vocabulary_size);
    return LS_OK;
}

/* The first split says how large an image is, the second one has to agree. */
static ls_status read_images_header(ls__dataset *dataset, ls__split split)
{
    ls__dataset_info *info = &dataset->info;
    char name[NAME_SIZE];
    ls__h5_type type = LS__H5_U8;
    ls__h5_shape shape;

    array_name(name, LS__DATASET_IMAGES, split, "images");
    if (split == LS__SPLIT_HELD_OUT && !ls__h5_has(dataset->file, name))
        return LS_OK;
    LS_TRY(ls__h5_describe(dataset->file, name, &type, &shape));
    if (shape.rank != 3 || type != LS__H5_U8 || shape.extent[1] == 0 || shape.extent[2] == 0)
        return expect(dataset, name, type, &shape, "uint8 (n, rows, cols)");
    if (split != LS__SPLIT_TRAIN &&
        (shape.extent[1] != info->rows || shape.extent[2] != info->cols))
        return expect(dataset, name, type, &shape, "the image size of train/images");
    info->count[split] = shape.extent[0];
    info->rows = shape.extent[1];
    info->cols = shape.extent[2];

    array_name(name, LS__DATASET_IMAGES, split, "labels");
    LS_TRY(ls__h5_describe(dataset->file, name, &type, &shape));
    if (shape.rank != 1 || type != LS__H5_U8 || shape.extent[0] != info->count[split])
        return expect(dataset, name, type, &shape, "uint8, one for each image,");
    return LS_OK;
}

static ls_status read_image_set_header(ls__dataset *dataset)
{
    LS_TRY(read_size(dataset, "classes", LABELS_MAX, &dataset->info.classes));
    LS_TRY(read_images_header(dataset, LS__SPLIT_TRAIN));
    LS_TRY(read_images_header(dataset, LS__SPLIT_HELD_OUT));
    LS_FAIL_IF(dataset->info.count[LS__SPLIT_TRAIN] == 0, LS_BAD_INPUT, "%s: train/images is empty",
               dataset->path);
    return LS_OK;
}

static ls_status read_format(ls__dataset *dataset)
{
    char format[LS__H5_NAME_SIZE];
    int64_t version = 0;

    LS_FAIL_IF(!ls__h5_has_attribute(dataset->file, "/", "format") ||
                   ls__h5_get_text(dataset->file, "/", "format", format, sizeof format) != LS_OK ||
                   strcmp(format, LS__DATASET_FORMAT) != 0,
               LS_BAD_INPUT,
               "%s is an HDF5 file but no dataset: its attribute format is not '%s': make one with "
               "lockstep data",
               dataset->path, LS__DATASET_FORMAT);
    LS_TRY(ls__h5_get_int(dataset->file, "/", "format_version", &version));
    LS_FAIL_IF(version != LS__DATASET_VERSION, LS_BAD_INPUT,
               "%s has format_version %" PRId64 ", this program reads %d", dataset->path, version,
               LS__DATASET_VERSION);
    return LS_OK;
}

static ls_status read_source(ls__dataset *dataset)
{
    ls__dataset_info *info = &dataset->info;

    if (ls__h5_has_attribute(dataset->file, "/", "source"))
        LS_TRY(ls__h5_get_text(dataset->file, "/", "source", info->source, sizeof info->source));
    if (ls__h5_has_attribute(dataset->file, "/", "source_bytes"))
        LS_TRY(ls__h5_get_int(dataset->file, "/", "source_bytes", &info->source_bytes));
    return LS_OK;
}

static ls_status read_header(ls__dataset *dataset)
{
    char kind[LS__H5_NAME_SIZE];
    struct stat file;

    LS_TRY(read_format(dataset));
    LS_TRY(ls__h5_get_text(dataset->file, "/", "kind", kind, sizeof kind));
    LS_TRY(read_source(dataset));
    if (stat(dataset->path, &file) == 0)
        dataset->info.file_bytes = file.st_size;
    if (strcmp(kind, "text") == 0) {
        dataset->info.kind = LS__DATASET_TEXT;
        return read_text_header(dataset);
    }
    LS_FAIL_IF(strcmp(kind, "images") != 0, LS_BAD_INPUT,
               "%s: its attribute kind is '%s' where text or images is expected", dataset->path,
               kind);
    dataset->info.kind = LS__DATASET_IMAGES;
    return read_image_set_header(dataset);
}

/* ---- life cycle ---- */

ls_status ls__dataset_open(ls__dataset **dataset, const char *path)
{
    ls__dataset *made = calloc(1, sizeof *made);
    ls_status status = LS_OK;

    LS_FAIL_IF(!made, LS_NO_MEMORY, "no memory to open %s", path);
    LS_TRY_TO(failed, ls__h5_open(&made->file, path, LS__H5_FOREIGN));
    snprintf(made->path, sizeof made->path, "%s", path);
    LS_TRY_TO(failed, read_header(made));
    *dataset = made;
    return LS_OK;
failed:
    ls__dataset_close(made);
    return status;
}

void ls__dataset_close(ls__dataset *dataset)
{
    if (!dataset)
        return;
    ls__h5_close(dataset->file);
    free(dataset);
}

const ls__dataset_info *ls__dataset_about(const ls__dataset *dataset)
{
    return &dataset->info;
}

const char *ls__dataset_path(const ls__dataset *dataset)
{
    return dataset->path;
}

ls_status ls__dataset_check_context(const ls__dataset *dataset, ls__split split, int64_t context)
{
    const ls__dataset_info *info = &dataset->info;

    assert(info->kind == LS__DATASET_TEXT && context > 0);
    LS_FAIL_IF(ls__window_population(info->count[split], context) == 0, LS_BAD_INPUT,
               "%s: %s/tokens holds %" PRId64 " tokens, a context of %" PRId64
               " needs at least %" PRId64 ": use more text or a smaller --context",
               dataset->path, ls__split_name(info->kind, split), info->count[split], context,
               context + 1);
    return LS_OK;
}

/* ---- loading ---- */

/* The index of the first value not below `bound`, or `count`. The loop over all is branch-free, so
 * that it costs nothing beside reading the file; which one it was is asked only afterwards. */
static int64_t first_above8(const uint8_t *values, int64_t count, int64_t bound)
{
    uint8_t largest = 0;
    int64_t i = 0;

    for (i = 0; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    if (largest < bound)
        return count;
    for (i = 0; values[i] < bound; i++)
        ;
    return i;
}

static int64_t first_above16(const uint16_t *values, int64_t count, int64_t bound)
{
    uint16_t largest = 0;
    int64_t i = 0;

    for (i = 0; i < count; i++)
        largest = values[i] > largest ? values[i] : largest;
    if (largest < bound)
        return count;
    for (i = 0; values[i] < bound; i++)
        ;
    return i;
}

static ls_status out_of_bounds(const ls__dataset *dataset, const char *name, int64_t index,
                               int64_t value, const char *bound_name, int64_t bound)
{
    return LS_FAIL(LS_BAD_INPUT,
                   "%s: %s[%" PRId64 "] is %" PRId64 ", not below %s, which is %" PRId64,
                   dataset->path, name, index, value, bound_name, bound);
}

static ls_status load_tokens(ls__dataset *dataset, ls__arena *arena, ls__split split)
{
    const ls__dataset_info *info = &dataset->info;
    split_data *data = &dataset->split[split];
    int64_t count = info->count[split];
    ls__h5_shape shape = {.rank = 1, .extent = {count}};
    bool wide = info->token_bytes == 2;
    char name[NAME_SIZE];
    void *tokens = NULL;

    if (count == 0)
        return LS_OK;
    array_name(name, LS__DATASET_TEXT, split, "tokens");
    LS_TRY(ls__arena_take(arena, LS__DATA, count, info->token_bytes, &tokens));
    LS_TRY(ls__h5_read(dataset->file, name, wide ? LS__H5_U16 : LS__H5_U8, &shape, tokens));
    data->tokens8 = wide ? NULL : tokens;
    data->tokens16 = wide ? tokens : NULL;
    int64_t bad = wide ? first_above16(data->tokens16, count, info->vocabulary_size)
                       : first_above8(data->tokens8, count, info->vocabulary_size);
    if (bad < count)
        return out_of_bounds(dataset, name, bad, wide ? data->tokens16[bad] : data->tokens8[bad],
                             "vocabulary_size", info->vocabulary_size);
    return LS_OK;
}

static ls_status load_images(ls__dataset *dataset, ls__arena *arena, ls__split split)
{
    const ls__dataset_info *info = &dataset->info;
    split_data *data = &dataset->split[split];
    int64_t count = info->count[split];
    ls__h5_shape images = {.rank = 3, .extent = {count, info->rows, info->cols}};
    ls__h5_shape labels = {.rank = 1, .extent = {count}};
    char name[NAME_SIZE];

    if (count == 0)
        return LS_OK;
    LS_TRY(ls__arena_take(arena, LS__DATA, count, info->rows * info->cols, &data->images));
    LS_TRY(ls__arena_take(arena, LS__DATA, count, 1, &data->labels));
    array_name(name, LS__DATASET_IMAGES, split, "images");
    LS_TRY(ls__h5_read(dataset->file, name, LS__H5_U8, &images, data->images));
    array_name(name, LS__DATASET_IMAGES, split, "labels");
    LS_TRY(ls__h5_read(dataset->file, name, LS__H5_U8, &labels, data->labels));
    int64_t bad = first_above8(data->labels, count, info->classes);
    if (bad < count)
        return out_of_bounds(dataset, name, bad, data->labels[bad], "classes", info->classes);
    return LS_OK;
}

ls_status ls__dataset_load(ls__dataset *dataset, ls__arena *arena)
{
    assert(dataset->file);
    for (ls__split split = LS__SPLIT_TRAIN; split < LS__SPLIT_COUNT; split++) {
        if (dataset->info.kind == LS__DATASET_TEXT)
            LS_TRY(load_tokens(dataset, arena, split));
        else
            LS_TRY(load_images(dataset, arena, split));
    }
    ls__h5_close(dataset->file);
    dataset->file = NULL;
    return LS_OK;
}

/* ---- after loading ---- */

ls__digest ls__dataset_digest(const ls__dataset *dataset)
{
    const ls__dataset_info *info = &dataset->info;
    struct {
        int64_t size[8];
        uint8_t vocabulary[LS__DATASET_VOCABULARY];
        ls__digest data[LS__SPLIT_COUNT][2];
    } whole = {
        .size = {(int64_t)info->kind, info->count[0], info->count[1], info->vocabulary_size,
                 info->token_bytes, info->rows, info->cols, info->classes},
    };

    assert(!dataset->file);
    memcpy(whole.vocabulary, info->vocabulary, sizeof whole.vocabulary);
    for (int split = 0; split < LS__SPLIT_COUNT; split++) {
        const split_data *data = &dataset->split[split];
        size_t count = (size_t)info->count[split];
        if (data->tokens8)
            whole.data[split][0] = ls__digest_of(data->tokens8, count);
        if (data->tokens16)
            whole.data[split][0] = ls__digest_of(data->tokens16, count * sizeof(uint16_t));
        if (data->images)
            whole.data[split][0] =
                ls__digest_of(data->images, count * (size_t)(info->rows * info->cols));
        if (data->labels)
            whole.data[split][1] = ls__digest_of(data->labels, count);
    }
    return ls__digest_of(&whole, sizeof whole);
}

void ls__dataset_window(const ls__dataset *dataset, ls__split split, int64_t start, int64_t context,
                        int32_t *inputs, int32_t *targets)
{
    const split_data *data = &dataset->split[split];

    assert(start >= 0 && start < ls__window_population(dataset->info.count[split], context));
    for (int64_t i = 0; i < context; i++)
        inputs[i] = data->tokens8 ? data->tokens8[start + i] : data->tokens16[start + i];
    for (int64_t i = 1; i < context; i++)
        targets[i - 1] = inputs[i];
    int64_t last = start + context;
    targets[context - 1] = data->tokens8 ? data->tokens8[last] : data->tokens16[last];
}

void ls__dataset_image(const ls__dataset *dataset, ls__split split, int64_t index, float *pixels,
                       int32_t *label)
{
    const ls__dataset_info *info = &dataset->info;
    const split_data *data = &dataset->split[split];
    int64_t size = info->rows * info->cols;

    assert(index >= 0 && index < info->count[split]);
    const uint8_t *image = data->images + index * size;
    for (int64_t i = 0; i < size; i++)
        pixels[i] = (float)image[i] / 255.0F;
    *label = data->labels[index];
}
