/* Importers: what they write, and a sentence for each source that is unusable. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/import.h"
#include "data/sampler.h"
#include "support/test.h"

static void write_raw(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void load(ls__dataset **dataset, ls__arena **arena, const char *path)
{
    assert_ok(ls__arena_open(arena, 0));
    assert_ok(ls__dataset_open(dataset, path));
    assert_ok(ls__dataset_load(*dataset, *arena));
}

static void unload(ls__dataset *dataset, ls__arena *arena)
{
    ls__dataset_close(dataset);
    ls__arena_close(arena);
}

/* ---- text ---- */

/* Token by token back to bytes, through the windows that training reads. */
static void read_text(const ls__dataset *dataset, ls__split split, uint8_t *bytes)
{
    const ls__dataset_info *info = ls__dataset_about(dataset);
    int32_t input = 0;
    int32_t target = 0;

    for (int64_t i = 0; i + 1 < info->count[split]; i++) {
        ls__dataset_window(dataset, split, i, 1, &input, &target);
        bytes[i] = info->vocabulary[input];
        bytes[i + 1] = info->vocabulary[target];
    }
}

static void test_text_comes_back(void **state)
{
    const char *a = ls__test_path("a.txt");
    const char *b = ls__test_path("b.txt");
    const char *out = ls__test_path("text.h5");
    const char *files[] = {a, b};
    uint8_t back[64] = {0};
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    (void)state;
    write_raw(a, "hello, ", 7);
    write_raw(b, "world\0\xff\n and more", 17);
    assert_ok(ls__import_text(files, 2, out, 0.25));
    load(&dataset, &arena, out);
    const ls__dataset_info *info = ls__dataset_about(dataset);
    assert_int_equal(info->kind, LS__DATASET_TEXT);
    assert_int_equal(info->count[LS__SPLIT_TRAIN], 18); /* 24 bytes in all */
    assert_int_equal(info->count[LS__SPLIT_HELD_OUT], 6);
    assert_int_equal(info->source_bytes, 24);
    assert_int_equal(info->token_bytes, 1);
    assert_int_equal(info->vocabulary_size, 15);
    assert_int_equal(info->vocabulary_bytes, 15);
    assert_memory_equal(info->vocabulary, "\0\n ,adehlmnorw\xff", 15);
    assert_non_null(strstr(info->source, "a.txt, "));
    read_text(dataset, LS__SPLIT_TRAIN, back);
    read_text(dataset, LS__SPLIT_HELD_OUT, back + 18);
    assert_memory_equal(back, "hello, world\0\xff\n and more", 24);
    assert_int_equal(ls__arena_booked(arena, LS__DATA), 24);
    unload(dataset, arena);
}

/* Larger than every buffer on the way, with the boundary of the splits inside one. */
static void test_text_larger_than_the_buffers(void **state)
{
    enum { LENGTH = 3 * (1 << 20) + 12345 };
    const char *source = ls__test_path("large.txt");
    const char *out = ls__test_path("large.h5");
    uint64_t seed = ls__test_seed(21);
    uint8_t *text = malloc(LENGTH);
    uint8_t *back = malloc(LENGTH);
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    (void)state;
    assert_true(text && back);
    for (uint64_t i = 0; i < LENGTH; i++)
        text[i] = (uint8_t)ls__bounded(ls__random(seed, LS__STREAM_SAMPLE, 0, i), 256);
    write_raw(source, text, LENGTH);
    assert_ok(ls__import_text(&source, 1, out, 0.1));
    load(&dataset, &arena, out);
    int64_t train = ls__dataset_about(dataset)->count[LS__SPLIT_TRAIN];
    assert_int_equal(train, (int64_t)(0.9 * LENGTH));
    assert_int_equal(ls__dataset_about(dataset)->count[LS__SPLIT_HELD_OUT], LENGTH - train);
    read_text(dataset, LS__SPLIT_TRAIN, back);
    read_text(dataset, LS__SPLIT_HELD_OUT, back + train);
    assert_memory_equal(back, text, LENGTH);
    unload(dataset, arena);
    free(text);
    free(back);
}

/* nanoGPT's data[:int(n * 0.9)], also where 0.9 * n is just below a whole number. */
static void test_the_split_is_nanogpts(void **state)
{
    const char *source = ls__test_path("split.txt");
    const char *out = ls__test_path("split.h5");
    char text[101];

    (void)state;
    memset(text, 'x', sizeof text);
    for (int length = 2; length <= 100; length += 7) {
        ls__dataset *dataset = NULL;
        write_raw(source, text, (size_t)length);
        assert_ok(ls__import_text(&source, 1, out, 0.1));
        assert_ok(ls__dataset_open(&dataset, out));
        assert_int_equal(ls__dataset_about(dataset)->count[LS__SPLIT_TRAIN],
                         (int64_t)(length * 0.9));
        ls__dataset_close(dataset);
    }
}

static void test_text_without_validation(void **state)
{
    const char *source = ls__test_path("all.txt");
    const char *out = ls__test_path("all.h5");
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;

    (void)state;
    write_raw(source, "abc", 3);
    assert_ok(ls__import_text(&source, 1, out, 0));
    load(&dataset, &arena, out);
    assert_int_equal(ls__dataset_about(dataset)->count[LS__SPLIT_TRAIN], 3);
    assert_int_equal(ls__dataset_about(dataset)->count[LS__SPLIT_HELD_OUT], 0);
    unload(dataset, arena);
}

static void test_unusable_texts(void **state)
{
    const char *fine = ls__test_path("fine.txt");
    const char *empty = ls__test_path("empty.txt");
    const char *absent = ls__test_path("absent.txt");
    const char *pipe = ls__test_path("pipe");
    const char *folder = ls__test_folder();
    const char *out = ls__test_path("unusable.h5");
    const char *files[] = {fine, empty};

    (void)state;
    write_raw(fine, "fine text", 9);
    write_raw(empty, "", 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_fails(ls__import_text(files, 2, out, 0.1), LS_BAD_INPUT, "empty.txt is empty");
    files[1] = absent;
    assert_fails(ls__import_text(files, 2, out, 0.1), LS_BAD_INPUT, "absent.txt: No such file");
    assert_fails(ls__import_text(&folder, 1, out, 0.1), LS_BAD_INPUT, "is a folder");
    assert_fails(ls__import_text(&pipe, 1, out, 0.1), LS_BAD_INPUT, "not a regular file");
    assert_fails(ls__import_text(&fine, 1, out, 0.95), LS_BAD_INPUT, "none is left for training");
    assert_fails(ls__import_text(&fine, 1, fine, 0.1), LS_BAD_USAGE, "read and written at once");
    assert_false(ls__path_exists(out));
    assert_false(ls__path_exists(ls__test_path("unusable.h5.tmp")));
}

/* ---- images ---- */

enum { IMAGES = 1500, ROWS = 5, COLS = 7, PIXELS = ROWS * COLS };

static uint8_t pixels[IMAGES * PIXELS];
static uint8_t labels[IMAGES];

static size_t put_header(uint8_t *bytes, uint32_t magic, const uint32_t *extent, int rank)
{
    size_t length = 0;

    for (int word = -1; word < rank; word++) {
        uint32_t value = word < 0 ? magic : extent[word];
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes[length++] = (uint8_t)(value >> shift);
    }
    return length;
}

/* An IDX file in memory: header, then `length` bytes of `content`. */
typedef struct idx_file {
    uint8_t bytes[16 + IMAGES * PIXELS + 16];
    size_t length;
} idx_file;

static void make_idx(idx_file *idx, uint32_t magic, uint32_t count, uint32_t rows,
                     const uint8_t *content, size_t length)
{
    uint32_t extent[] = {count, rows, COLS};

    idx->length = put_header(idx->bytes, magic, extent, magic == 0x803 ? 3 : 1);
    memcpy(idx->bytes + idx->length, content, length);
    idx->length += length;
}

static void write_gzip(const char *path, const idx_file *idx)
{
    gzFile file = gzopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(gzwrite(file, idx->bytes, (unsigned)idx->length), idx->length);
    assert_int_equal(gzclose(file), Z_OK);
}

/* Whole files, training plain and test compressed; a test then spoils one of them. */
static ls__image_files make_image_set(void)
{
    static idx_file idx;
    ls__image_files files = {ls__test_path("train-images"), ls__test_path("train-labels"),
                             ls__test_path("test-images.gz"), ls__test_path("test-labels.gz")};

    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i + i / 251);
    for (size_t i = 0; i < IMAGES; i++)
        labels[i] = (uint8_t)(i % 7);
    make_idx(&idx, 0x803, IMAGES, ROWS, pixels, sizeof pixels);
    write_raw(files.train_images, idx.bytes, idx.length);
    make_idx(&idx, 0x801, IMAGES, 0, labels, IMAGES);
    write_raw(files.train_labels, idx.bytes, idx.length);
    make_idx(&idx, 0x803, 10, ROWS, pixels + PIXELS, 10 * PIXELS);
    write_gzip(files.test_images, &idx);
    make_idx(&idx, 0x801, 10, 0, labels + 1, 10);
    write_gzip(files.test_labels, &idx);
    return files;
}

static void test_images_come_back(void **state)
{
    ls__image_files files = make_image_set();
    const char *out = ls__test_path("images.h5");
    ls__dataset *dataset = NULL;
    ls__arena *arena = NULL;
    float image[PIXELS];
    int32_t label = 0;

    (void)state;
    assert_ok(ls__import_images(&files, out));
    load(&dataset, &arena, out);
    const ls__dataset_info *info = ls__dataset_about(dataset);
    assert_int_equal(info->kind, LS__DATASET_IMAGES);
    assert_int_equal(info->count[LS__SPLIT_TRAIN], IMAGES);
    assert_int_equal(info->count[LS__SPLIT_HELD_OUT], 10);
    assert_int_equal(info->rows, ROWS);
    assert_int_equal(info->cols, COLS);
    assert_int_equal(info->classes, 7);
    for (int64_t i = 0; i < IMAGES; i++) {
        ls__dataset_image(dataset, LS__SPLIT_TRAIN, i, image, &label);
        assert_int_equal(label, labels[i]);
        for (int64_t j = 0; j < PIXELS; j++)
            assert_true(image[j] == (float)pixels[i * PIXELS + j] / 255.0F);
    }
    ls__dataset_image(dataset, LS__SPLIT_HELD_OUT, 9, image, &label);
    assert_int_equal(label, labels[10]);
    assert_true(image[3] == (float)pixels[10 * PIXELS + 3] / 255.0F);
    assert_int_equal(ls__arena_booked(arena, LS__DATA), (IMAGES + 10) * (PIXELS + 1));
    unload(dataset, arena);
}

static void refused(const ls__image_files *files, const char *part)
{
    const char *out = ls__test_path("refused.h5");

    assert_fails(ls__import_images(files, out), LS_BAD_INPUT, part);
    assert_false(ls__path_exists(out));
    assert_false(ls__path_exists(ls__test_path("refused.h5.tmp")));
}

static void test_wrong_magic(void **state)
{
    ls__image_files files = make_image_set();
    const char *swapped = files.train_images;

    (void)state;
    files.train_images = files.train_labels;
    files.train_labels = swapped;
    refused(&files, "it begins with 0x00000801 where 0x00000803 is expected");
    files = make_image_set();
    files.test_labels = files.test_images;
    refused(&files, "it begins with 0x00000803 where 0x00000801 is expected");
    files = make_image_set();
    write_raw(files.train_images, "\0\0", 2);
    refused(&files, "train-images is no IDX file of images");
    write_raw(files.train_images, "", 0);
    refused(&files, "train-images is empty");
    files.train_images = ls__test_path("absent");
    refused(&files, "No such file");
    files.train_images = ls__test_folder();
    refused(&files, "is a folder");
}

static void test_counts_that_do_not_match(void **state)
{
    static idx_file idx;
    ls__image_files files = make_image_set();

    (void)state;
    make_idx(&idx, 0x803, IMAGES, ROWS, pixels, sizeof pixels - 1);
    write_raw(files.train_images, idx.bytes, idx.length);
    refused(&files, "train-images is truncated: its header promises 1500 images (52500 bytes), "
                    "52499 bytes follow it");
    write_gzip(files.train_images, &idx);
    refused(&files, "train-images is truncated");
    make_idx(&idx, 0x803, IMAGES - 1, ROWS, pixels, sizeof pixels);
    write_raw(files.train_images, idx.bytes, idx.length);
    refused(&files, "train-images is too long");
    make_idx(&idx, 0x803, 0, ROWS, pixels, 0);
    write_raw(files.train_images, idx.bytes, idx.length);
    refused(&files, "holds no images");
    make_idx(&idx, 0x803, IMAGES, 0x7fffffff, pixels, sizeof pixels);
    write_raw(files.train_images, idx.bytes, idx.length);
    refused(&files, "its header is damaged");

    files = make_image_set();
    make_idx(&idx, 0x801, IMAGES - 1, 0, labels, IMAGES - 1);
    write_raw(files.train_labels, idx.bytes, idx.length);
    refused(&files, "1499 labels: they do not belong together");

    files = make_image_set();
    make_idx(&idx, 0x803, 5, 10, pixels, 5 * 10 * COLS);
    write_gzip(files.test_images, &idx);
    make_idx(&idx, 0x801, 5, 0, labels, 5);
    write_gzip(files.test_labels, &idx);
    refused(&files, "5 x 7 pixels");
}

/* More bytes than promised, known only once all is unpacked. */
static void test_compressed_trailing_bytes(void **state)
{
    static idx_file idx;
    ls__image_files files = make_image_set();

    (void)state;
    make_idx(&idx, 0x801, 10, 0, labels, 11);
    write_gzip(files.test_labels, &idx);
    refused(&files, "test-labels.gz is too long");
}

/* Every length of a compressed file, and every byte of it changed: never taken for a whole one. */
static void test_damaged_gzip(void **state)
{
    static uint8_t packed[8192];
    ls__image_files files = make_image_set();
    uint64_t seed = ls__test_seed(22);
    FILE *file = fopen(files.test_labels, "rb");

    (void)state;
    assert_non_null(file);
    size_t length = fread(packed, 1, sizeof packed, file);
    fclose(file);
    for (size_t cut = 1; cut < length; cut++) {
        write_raw(files.test_labels, packed, cut);
        refused(&files, "test-labels.gz");
    }
    /* Bytes 4 to 9 of a gzip file are its time and the system it was made on. */
    for (size_t i = 10; i < length; i++) {
        packed[i] ^= (uint8_t)(1 << (seed + i) % 8);
        write_raw(files.test_labels, packed, length);
        refused(&files, "test-labels.gz");
        packed[i] ^= (uint8_t)(1 << (seed + i) % 8);
    }
}

/* ---- a full disk ---- */

static void test_import_onto_a_full_disk(void **state)
{
    const char *source = ls__test_path("room.txt");
    const char *out = ls__test_path("room.h5");
    static uint8_t text[1 << 20];
    int how = 0;

    (void)state;
    for (uint64_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)ls__random(5, LS__STREAM_SAMPLE, 0, i).word[0];
    write_raw(source, text, sizeof text);
    for (rlim_t limit = 0; limit < sizeof text; limit += 150000) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            struct rlimit room = {limit, limit};
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &room);
            exit((int)ls__import_text(&source, 1, out, 0.1));
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), LS_NO_SPACE);
        assert_false(ls__path_exists(out));
        assert_false(ls__path_exists(ls__test_path("room.h5.tmp")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_comes_back),
        cmocka_unit_test(test_text_larger_than_the_buffers),
        cmocka_unit_test(test_the_split_is_nanogpts),
        cmocka_unit_test(test_text_without_validation),
        cmocka_unit_test(test_unusable_texts),
        cmocka_unit_test(test_images_come_back),
        cmocka_unit_test(test_wrong_magic),
        cmocka_unit_test(test_counts_that_do_not_match),
        cmocka_unit_test(test_compressed_trailing_bytes),
        cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_import_onto_a_full_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
