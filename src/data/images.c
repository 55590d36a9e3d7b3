/* Image sets in IDX format. */
#include <stdlib.h>

#include "data/header.h"
#include "data/idx.h"
#include "data/import.h"

enum { BLOCK = 1 << 20 };

/* One split: its two files, open. */
typedef struct split_files {
    ls__idx *images;
    ls__idx *labels;
} split_files;

static void close_split(split_files *split)
{
    ls__idx_close(split->labels);
    ls__idx_close(split->images);
}

static ls_status open_split(split_files *split, const char *images, const char *labels)
{
    LS_TRY(ls__idx_open(&split->images, images, LS__IDX_IMAGES));
    LS_TRY(ls__idx_open(&split->labels, labels, LS__IDX_LABELS));
    LS_FAIL_IF(ls__idx_count(split->images) != ls__idx_count(split->labels), LS_BAD_INPUT,
               "%s holds %lld images but %s holds %lld labels: they do not belong together", images,
               (long long)ls__idx_count(split->images), labels,
               (long long)ls__idx_count(split->labels));
    return LS_OK;
}

static ls_status copy_entries(ls__idx *idx, ls__h5_stream *stream, uint8_t *block, int64_t entries,
                              int *largest)
{
    int64_t left = ls__idx_count(idx);
    int64_t entry = ls__idx_rows(idx) * ls__idx_cols(idx);

    for (; left > 0; left -= entries) {
        if (entries > left)
            entries = left;
        LS_TRY(ls__idx_read(idx, entries, block));
        for (int64_t i = 0; i < entries * entry; i++)
            *largest = block[i] > *largest ? block[i] : *largest;
        LS_TRY(ls__h5_stream_append(stream, entries, block));
    }
    return ls__idx_finish(idx);
}

/* Copies one IDX file; the largest byte met goes to `largest`. */
static ls_status copy(ls__h5 *file, const char *name, ls__idx *idx, const ls__h5_shape *entry,
                      int *largest)
{
    ls__h5_stream *stream = NULL;
    int64_t entry_bytes = ls__idx_rows(idx) * ls__idx_cols(idx);
    int64_t entries = entry_bytes < BLOCK ? BLOCK / entry_bytes : 1;
    uint8_t *block = malloc((size_t)(entries * entry_bytes));

    LS_FAIL_IF(!block, LS_NO_MEMORY, "no memory to import %s", name);
    ls_status status = ls__h5_stream_open(file, name, LS__H5_U8, entry, &stream);
    if (status == LS_OK)
        status = copy_entries(idx, stream, block, entries, largest);
    ls_status closed = ls__h5_stream_close(stream);
    free(block);
    return status != LS_OK ? status : closed;
}

static ls_status copy_split(ls__h5 *file, const char *const names[2], const split_files *split,
                            int *largest_label)
{
    ls__h5_shape image = {.rank = 2,
                          .extent = {ls__idx_rows(split->images), ls__idx_cols(split->images)}};
    ls__h5_shape label = {.rank = 0};
    int largest_pixel = 0;

    LS_TRY(copy(file, names[0], split->images, &image, &largest_pixel));
    return copy(file, names[1], split->labels, &label, largest_label);
}

static ls_status write_dataset(ls__h5 *file, const ls__image_files *files, const split_files *train,
                               const split_files *test)
{
    static const char *const train_names[] = {"train/images", "train/labels"};
    static const char *const test_names[] = {"test/images", "test/labels"};
    const char *const sources[] = {files->train_images, files->train_labels, files->test_images,
                                   files->test_labels};
    int64_t source_bytes = 0;
    int largest_label = 0;

    for (int i = 0; i < 4; i++) {
        int64_t bytes = 0;
        LS_TRY(ls__check_source(sources[i], &bytes));
        source_bytes += bytes;
    }
    LS_TRY(ls__header_write(file, "images", sources, 4, source_bytes));
    LS_TRY(copy_split(file, train_names, train, &largest_label));
    LS_TRY(copy_split(file, test_names, test, &largest_label));
    return ls__h5_set_int(file, "/", "classes", largest_label + 1);
}

static ls_status open_both(const ls__image_files *files, split_files *train, split_files *test)
{
    LS_TRY(open_split(train, files->train_images, files->train_labels));
    LS_TRY(open_split(test, files->test_images, files->test_labels));
    LS_FAIL_IF(ls__idx_rows(train->images) != ls__idx_rows(test->images) ||
                   ls__idx_cols(train->images) != ls__idx_cols(test->images),
               LS_BAD_INPUT,
               "%s has images of %lld x %lld pixels but %s of %lld x %lld: they do not belong "
               "together",
               files->train_images, (long long)ls__idx_rows(train->images),
               (long long)ls__idx_cols(train->images), files->test_images,
               (long long)ls__idx_rows(test->images), (long long)ls__idx_cols(test->images));
    return LS_OK;
}

static ls_status import_opened(const ls__image_files *files, const char *out_path,
                               const split_files *train, const split_files *test)
{
    const char *const sources[] = {files->train_images, files->train_labels, files->test_images,
                                   files->test_labels};
    ls__h5 *file = NULL;

    LS_TRY(ls__check_output(out_path, sources, 4));
    LS_TRY(ls__h5_create(&file, out_path));
    ls_status status = write_dataset(file, files, train, test);
    if (status == LS_OK)
        return ls__h5_publish(file);
    ls__h5_discard(file);
    return status;
}

ls_status ls__import_images(const ls__image_files *files, const char *out_path)
{
    split_files train = {0};
    split_files test = {0};
    ls_status status = open_both(files, &train, &test);

    if (status == LS_OK)
        status = import_opened(files, out_path, &train, &test);
    close_split(&train);
    close_split(&test);
    return status;
}
