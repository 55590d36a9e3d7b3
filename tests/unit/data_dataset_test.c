/* Dataset files as users bring them: what is read, and one sentence for whatever is wrong. */
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/import.h"
#include "h5/h5.h"
#include "support/test.h"

/* What a test writes: a whole dataset, in which it then spoils one thing. */
typedef struct contents {
    const char *format;
    const char *kind;
    int64_t version;
    int64_t vocabulary_size;
    int64_t vocabulary_bytes; /* 0: none */
    int64_t classes;
    ls__h5_type token_type, val_type, label_type;
    ls__h5_shape tokens, val, images, labels, test_images, test_labels; /* rank 0: absent */
} contents;

static const contents good_text = {
    .format = "lockstep-dataset",
    .kind = "text",
    .version = 1,
    .vocabulary_size = 4,
    .vocabulary_bytes = 4,
    .tokens = {1, {20}},
    .val = {1, {10}},
};

static const contents good_images = {
    .format = "lockstep-dataset",
    .kind = "images",
    .version = 1,
    .classes = 4,
    .images = {3, {6, 2, 3}},
    .labels = {1, {6}},
    .test_images = {3, {2, 2, 3}},
    .test_labels = {1, {2}},
};

/* 0, 1, 2, 3, 0, 1, ... as uint8 and as uint16 */
static uint8_t bytes[256];
static uint16_t words[256];

static void write_array(ls__h5 *file, const char *name, ls__h5_type type, const ls__h5_shape *shape)
{
    if (shape->rank > 0)
        assert_ok(ls__h5_write(file, name, type, shape,
                               type == LS__H5_U16 ? (const void *)words : bytes));
}

static const char *cook(const contents *recipe)
{
    const char *path = ls__test_path("cooked.h5");
    ls__h5 *file = NULL;

    for (int i = 0; i < 256; i++) {
        bytes[i] = (uint8_t)(i % 4);
        words[i] = (uint16_t)(i % 4);
    }
    assert_ok(ls__h5_create(&file, path));
    if (recipe->format)
        assert_ok(ls__h5_set_text(file, "/", "format", recipe->format));
    assert_ok(ls__h5_set_int(file, "/", "format_version", recipe->version));
    assert_ok(ls__h5_set_text(file, "/", "kind", recipe->kind));
    assert_ok(ls__h5_set_int(file, "/", "vocabulary_size", recipe->vocabulary_size));
    assert_ok(ls__h5_set_int(file, "/", "classes", recipe->classes));
    if (recipe->vocabulary_bytes)
        assert_ok(ls__h5_set_bytes(file, "/", "vocabulary", bytes, recipe->vocabulary_bytes));
    write_array(file, "train/tokens", recipe->token_type, &recipe->tokens);
    write_array(file, "val/tokens", recipe->val_type, &recipe->val);
    write_array(file, "train/images", LS__H5_U8, &recipe->images);
    write_array(file, "train/labels", recipe->label_type, &recipe->labels);
    write_array(file, "test/images", LS__H5_U8, &recipe->test_images);
    write_array(file, "test/labels", LS__H5_U8, &recipe->test_labels);
    assert_ok(ls__h5_publish(file));
    return path;
}

static void refused(const contents *recipe, const char *part)
{
    ls__dataset *dataset = NULL;

    assert_fails(ls__dataset_open(&dataset, cook(recipe)), LS_BAD_INPUT, part);
    assert_null(strchr(ls_last_error()->text, '\n'));
}

/* Opens and loads; the digest is what is asked for most. */
static ls__digest digest_of(const contents *recipe)
{
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__dataset_open(&dataset, cook(recipe)));
    assert_ok(ls__dataset_load(dataset, arena));
    ls__digest digest = ls__dataset_digest(dataset);
    ls__dataset_close(dataset);
    ls__arena_close(arena);
    return digest;
}

static void load_refused(const contents *recipe, const char *part)
{
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__dataset_open(&dataset, cook(recipe)));
    assert_fails(ls__dataset_load(dataset, arena), LS_BAD_INPUT, part);
    ls__dataset_close(dataset);
    ls__arena_close(arena);
}

static void test_wrong_headers(void **state)
{
    contents recipe = good_text;

    (void)state;
    digest_of(&recipe);
    recipe.format = NULL;
    refused(&recipe, "is an HDF5 file but no dataset");
    recipe.format = "something else";
    refused(&recipe, "is an HDF5 file but no dataset");
    recipe = good_text;
    recipe.version = 2;
    refused(&recipe, "format_version 2, this program reads 1");
    recipe = good_text;
    recipe.kind = "sound";
    refused(&recipe, "'sound' where text or images is expected");
}

static void test_wrong_texts(void **state)
{
    contents recipe = good_text;

    (void)state;
    recipe.vocabulary_bytes = 3;
    refused(&recipe, "vocabulary_size is 4 but vocabulary holds 3 bytes");
    recipe.vocabulary_bytes = 0;
    recipe.vocabulary_size = 257;
    refused(&recipe, "more than uint8 tokens can tell apart");
    recipe.vocabulary_size = 0;
    refused(&recipe, "vocabulary_size is 0 where 1 to 65536 is expected");
    recipe.vocabulary_size = 3;
    load_refused(&recipe, "train/tokens[3] is 3, not below vocabulary_size, which is 3");
    recipe.token_type = LS__H5_U16;
    recipe.val_type = LS__H5_U16;
    load_refused(&recipe, "train/tokens[3] is 3, not below vocabulary_size, which is 3");
    recipe.val_type = LS__H5_U8;
    refused(&recipe, "val/tokens is uint8 (10) where the type of train/tokens is expected");
    recipe = good_text;
    recipe.token_type = LS__H5_F32;
    recipe.tokens.extent[0] = 5;
    refused(&recipe, "train/tokens is float32 (5) where uint8 or uint16 (n) is expected");
    recipe = good_text;
    recipe.tokens = (ls__h5_shape){2, {4, 5}};
    refused(&recipe, "train/tokens is uint8 (4, 5) where uint8 or uint16 (n) is expected");
    recipe.tokens.rank = 0;
    refused(&recipe, "holds no array train/tokens");
    recipe.tokens = (ls__h5_shape){1, {0}};
    refused(&recipe, "train/tokens is empty");
}

static void test_wrong_images(void **state)
{
    contents recipe = good_images;

    (void)state;
    digest_of(&recipe);
    recipe.classes = 3;
    load_refused(&recipe, "train/labels[3] is 3, not below classes, which is 3");
    recipe.classes = 257;
    refused(&recipe, "classes is 257 where 1 to 256 is expected");
    recipe = good_images;
    recipe.labels.extent[0] = 5;
    refused(&recipe, "train/labels is uint8 (5) where uint8, one for each image, is expected");
    recipe.labels.rank = 0;
    refused(&recipe, "holds no array train/labels");
    recipe = good_images;
    recipe.label_type = LS__H5_U16;
    refused(&recipe, "train/labels is uint16 (6) where uint8");
    recipe = good_images;
    recipe.images = (ls__h5_shape){2, {6, 6}};
    refused(&recipe, "train/images is uint8 (6, 6) where uint8 (n, rows, cols) is expected");
    recipe = good_images;
    recipe.test_images.extent[1] = 3;
    refused(&recipe, "test/images is uint8 (2, 3, 3) where the image size of train/images");
    recipe = good_images;
    recipe.images.extent[0] = 0;
    recipe.labels.extent[0] = 0;
    refused(&recipe, "train/images is empty");
}

/* The held-out split and the vocabulary's bytes may be missing. */
static void test_what_may_be_absent(void **state)
{
    contents text = good_text;
    contents images = good_images;

    (void)state;
    text.val.rank = 0;
    text.vocabulary_bytes = 0;
    digest_of(&text);
    images.test_images.rank = 0;
    images.test_labels.rank = 0;
    digest_of(&images);
}

static void test_what_is_no_dataset_file(void **state)
{
    const char *path = ls__test_path("garbage.h5");
    ls__dataset *dataset = NULL;
    FILE *file = fopen(path, "wb");

    (void)state;
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_fails(ls__dataset_open(&dataset, path), LS_BAD_INPUT, "is empty, not an HDF5 file");
    file = fopen(path, "wb");
    assert_non_null(file);
    fputs("a text, to be sure", file);
    assert_int_equal(fclose(file), 0);
    assert_fails(ls__dataset_open(&dataset, path), LS_BAD_INPUT, "is not an HDF5 file");
    assert_fails(ls__dataset_open(&dataset, ls__test_path("absent.h5")), LS_BAD_INPUT,
                 "No such file");
    assert_fails(ls__dataset_open(&dataset, ls__test_folder()), LS_BAD_INPUT, "is a folder");
}

static void test_truncated_datasets(void **state)
{
    const char *path = cook(&good_text);
    ls__dataset *dataset = NULL;
    FILE *file = fopen(path, "rb");
    long length = 0;

    (void)state;
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    length = ftell(file);
    fclose(file);
    for (long cut = length - 1; cut >= 0; cut -= cut > 1024 ? 13 : 1) {
        assert_int_equal(truncate(path, cut), 0);
        assert_fails(ls__dataset_open(&dataset, path), LS_BAD_INPUT, path);
    }
}

static void check_windows(ls__h5_type type)
{
    contents recipe = good_text;
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;
    int32_t inputs[5];
    int32_t targets[5];

    recipe.token_type = type;
    recipe.val_type = type;
    assert_ok(ls__arena_open(&arena, 0));
    assert_ok(ls__dataset_open(&dataset, cook(&recipe)));
    assert_ok(ls__dataset_load(dataset, arena));
    for (int start = 0; start <= 14; start++) {
        ls__dataset_window(dataset, LS__SPLIT_TRAIN, start, 5, inputs, targets);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(inputs[i], (start + i) % 4);
            assert_int_equal(targets[i], (start + i + 1) % 4);
        }
    }
    assert_int_equal(ls__arena_booked(arena, LS__DATA), 30 * ls__h5_type_size(type));
    ls__dataset_close(dataset);
    ls__arena_close(arena);
}

static void test_windows(void **state)
{
    (void)state;
    check_windows(LS__H5_U8);
    check_windows(LS__H5_U16);
}

static void test_a_text_shorter_than_a_context(void **state)
{
    ls__dataset *dataset = NULL;

    (void)state;
    assert_ok(ls__dataset_open(&dataset, cook(&good_text)));
    assert_ok(ls__dataset_check_context(dataset, LS__SPLIT_TRAIN, 19));
    assert_fails(ls__dataset_check_context(dataset, LS__SPLIT_TRAIN, 20), LS_BAD_INPUT,
                 "train/tokens holds 20 tokens, a context of 20 needs at least 21");
    assert_fails(ls__dataset_check_context(dataset, LS__SPLIT_HELD_OUT, 19), LS_BAD_INPUT,
                 "val/tokens holds 10 tokens, a context of 19 needs at least 20");
    ls__dataset_close(dataset);
}

static void test_digests_tell_datasets_apart(void **state)
{
    contents recipe = good_text;
    ls__digest text = digest_of(&recipe);

    (void)state;
    assert_true(ls__digest_equal(text, digest_of(&recipe)));
    recipe.val.extent[0] = 9;
    assert_false(ls__digest_equal(text, digest_of(&recipe)));
    recipe = good_text;
    recipe.vocabulary_bytes = 0;
    assert_false(ls__digest_equal(text, digest_of(&recipe)));
    recipe = good_text;
    recipe.token_type = LS__H5_U16;
    recipe.val_type = LS__H5_U16;
    assert_false(ls__digest_equal(text, digest_of(&recipe)));
    assert_false(ls__digest_equal(text, digest_of(&good_images)));
}

static void test_more_than_the_memory_there_is(void **state)
{
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    (void)state;
    assert_ok(ls__arena_open(&arena, 25));
    assert_ok(ls__dataset_open(&dataset, cook(&good_text)));
    assert_fails(ls__dataset_load(dataset, arena), LS_NO_MEMORY, "data need");
    ls__dataset_close(dataset);
    ls__arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_headers),
        cmocka_unit_test(test_wrong_texts),
        cmocka_unit_test(test_wrong_images),
        cmocka_unit_test(test_what_may_be_absent),
        cmocka_unit_test(test_what_is_no_dataset_file),
        cmocka_unit_test(test_truncated_datasets),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_a_text_shorter_than_a_context),
        cmocka_unit_test(test_digests_tell_datasets_apart),
        cmocka_unit_test(test_more_than_the_memory_there_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
