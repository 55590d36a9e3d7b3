#include "fuzz/dataset_list.h"

#include <assert.h>
#include <stdlib.h>

#include "data/dataset.h"
#include "data/sampler.h"

enum { ARENA_LIMIT = 64 << 20, CONTEXT = 4 };

static const int64_t version = 1, source_bytes = 99, size = 4, classes = 10;
static const uint8_t bytes[32] = {0, 1, 2, 3, 0, 3, 2, 1};

/* An attribute that is a number, one that is a text, an array of bytes. */
#define NUMBER(named, value)                               \
    {                                                      \
        named, true, false, LS__H5_I64, {0, {0}}, &(value) \
    }
#define WORD(named, text)                            \
    {                                                \
        named, true, true, LS__H5_U8, {0, {0}}, text \
    }
#define BYTES(named, ...)                                  \
    {                                                      \
        named, false, false, LS__H5_U8, __VA_ARGS__, bytes \
    }

#define COMMON                                                                                     \
    WORD("format", "lockstep-dataset"), NUMBER("format_version", version),                         \
        WORD("source", "a.txt"), NUMBER("source_bytes", source_bytes),                             \
        NUMBER("vocabulary_size", size), NUMBER("classes", classes),                               \
        {"vocabulary", true, false, LS__H5_U8, {1, {4}}, bytes}, BYTES("train/tokens", {1, {32}}), \
        BYTES("val/tokens", {1, {9}}), BYTES("train/images", {3, {5, 2, 3}}),                      \
        BYTES("train/labels", {1, {5}}), BYTES("test/images", {3, {2, 2, 3}}),                     \
        BYTES("test/labels", {1, {2}})

const ls__made ls__text_list[LS__DATASET_OBJECTS] = {WORD("kind", "text"), COMMON};
const ls__made ls__images_list[LS__DATASET_OBJECTS] = {WORD("kind", "images"), COMMON};

static void use_text(const ls__dataset *dataset, ls__split split)
{
    int64_t count = ls__dataset_about(dataset)->count[split];
    int32_t inputs[CONTEXT];
    int32_t targets[CONTEXT];

    if (ls__dataset_check_context(dataset, split, CONTEXT) != LS_OK)
        return;
    int64_t last = ls__window_population(count, CONTEXT) - 1;
    ls__dataset_window(dataset, split, 0, CONTEXT, inputs, targets);
    ls__dataset_window(dataset, split, last, CONTEXT, inputs, targets);
    for (int i = 0; i < CONTEXT; i++)
        assert(targets[i] >= 0 && targets[i] < ls__dataset_about(dataset)->vocabulary_size);
}

static void use_images(const ls__dataset *dataset, ls__split split)
{
    const ls__dataset_info *info = ls__dataset_about(dataset);
    int32_t label = 0;

    if (info->count[split] == 0)
        return;
    float *pixels = malloc((size_t)(info->rows * info->cols) * sizeof *pixels);
    assert(pixels);
    ls__dataset_image(dataset, split, 0, pixels, &label);
    ls__dataset_image(dataset, split, info->count[split] - 1, pixels, &label);
    assert(label >= 0 && label < info->classes);
    free(pixels);
}

void ls__use_dataset(const char *path)
{
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    if (ls__dataset_open(&dataset, path) != LS_OK)
        return;
    assert(ls__arena_open(&arena, ARENA_LIMIT) == LS_OK);
    bool loaded = ls__dataset_load(dataset, arena) == LS_OK;
    for (ls__split split = LS__SPLIT_TRAIN; loaded && split < LS__SPLIT_COUNT; split++) {
        if (ls__dataset_about(dataset)->kind == LS__DATASET_TEXT)
            use_text(dataset, split);
        else
            use_images(dataset, split);
    }
    if (loaded)
        ls__dataset_digest(dataset);
    ls__dataset_close(dataset);
    ls__arena_close(arena);
}
