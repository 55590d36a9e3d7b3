/* A folder with one checkpoint that is sealed and valid HDF5, but holds something else than it
 * should. The first byte, where it is large, damages the seal: no such file is opened. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "fuzz/fuzz.h"
#include "fuzz/hdf5_maker.h"
#include "support/test.h"

enum { DAMAGE = 0xf0, STEP = 7, TOTAL = 10, OBJECTS = 19 };

static const int64_t version = 1, step = STEP, seed = 1337;
static const int64_t good_steps = 4, skipped_steps = 2;
static const double loss = 2.5, loss_scale = 1024;
static const float values[TOTAL] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10};
static char digest[LS__DIGEST_TEXT];
static ls__tensors tensors;

#define NUMBER(named, kind, value)                   \
    {                                                \
        named, true, false, kind, {0, {0}}, &(value) \
    }
#define WORD(named, text)                            \
    {                                                \
        named, true, true, LS__H5_U8, {0, {0}}, text \
    }
#define MATRIX(named)                                        \
    {                                                        \
        named, false, false, LS__H5_F32, {2, {3, 2}}, values \
    }
#define VECTOR(named)                                         \
    {                                                         \
        named, false, false, LS__H5_F32, {1, {4}}, values + 6 \
    }

static const ls__made list[OBJECTS] = {
    WORD("format", "lockstep-checkpoint"),
    NUMBER("format_version", LS__H5_I64, version),
    NUMBER("step", LS__H5_I64, step),
    NUMBER("loss", LS__H5_F64, loss),
    NUMBER("seed", LS__H5_I64, seed),
    WORD("model", "gpt"),
    WORD("configuration", "seed = 1337\n"),
    WORD("blas_core", "Haswell"),
    WORD("digest", digest),
    {"vocabulary", true, false, LS__H5_U8, {1, {4}}, "abcd"},
    NUMBER("loss_scale", LS__H5_F64, loss_scale),
    NUMBER("good_steps", LS__H5_I64, good_steps),
    NUMBER("skipped_steps", LS__H5_I64, skipped_steps),
    MATRIX("parameters/wte.weight"),
    VECTOR("parameters/ln.bias"),
    MATRIX("optimizer/exp_avg/wte.weight"),
    VECTOR("optimizer/exp_avg/ln.bias"),
    MATRIX("optimizer/exp_avg_sq/wte.weight"),
    VECTOR("optimizer/exp_avg_sq/ln.bias"),
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint8_t whole[1 + LS__CHANGED_BYTES] = {0};
    static const uint8_t broken[1] = {DAMAGE};
    int64_t offset = 0;

    assert(ls__tensors_add_matrix(&tensors, "wte.weight", 3, 2, 0, &offset) == LS_OK);
    assert(ls__tensors_add_vector(&tensors, "ln.bias", 4, 0, &offset) == LS_OK);
    assert(tensors.total == TOTAL);
    ls__digest_format(ls__digest_of(values, sizeof values), digest);
    ls__no_changes(whole + 1, 0);
    ls__fuzz_seed(argc, argv, "whole", whole, sizeof whole);
    ls__no_changes(whole + 1, OBJECTS - LS__CHANGES);
    ls__fuzz_seed(argc, argv, "whole-end", whole, sizeof whole);
    ls__fuzz_seed(argc, argv, "broken", broken, sizeof broken);
    return 0;
}

static void damage(const char *path, int where)
{
    FILE *file = fopen(path, "r+b");

    assert(file && fseek(file, where, SEEK_SET) == 0);
    int byte = fgetc(file);
    assert(fseek(file, where, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF && fclose(file) == 0);
}

/* Memory of exactly the size, so that the sanitizer sees a write behind it. */
static ls_status read_whole(const char *path, ls__checkpoint_info *info)
{
    ls__checkpoint_arrays arrays = {
        .tensors = &tensors,
        .parameters = malloc(TOTAL * sizeof(float)),
        .state = {malloc(TOTAL * sizeof(float)), malloc(TOTAL * sizeof(float))},
        .state_name = {"exp_avg", "exp_avg_sq"}};

    assert(arrays.parameters && arrays.state[0] && arrays.state[1]);
    ls_status status = ls__checkpoint_read(path, info, &arrays);
    if (status == LS_OK)
        assert(ls__digest_equal(info->digest, ls__digest_of(arrays.parameters, sizeof values)));
    free(arrays.parameters);
    free(arrays.state[0]);
    free(arrays.state[1]);
    return status;
}

static void use_checkpoint(const char *path)
{
    static ls__checkpoint_info info;
    static ls__checkpoint_info again;
    int64_t rows = 0;
    int64_t columns = 0;

    ls_status headed = ls__checkpoint_read_info(path, &info);
    ls_status whole = read_whole(path, &again);
    ls_status sized = ls__checkpoint_tensor_size(path, "wte.weight", &rows, &columns);
    if (headed == LS_OK) {
        assert(info.loss_scale >= 0 && info.loss_scale <= 0x1p64);
        assert(info.skipped_steps >= 0 && info.skipped_steps <= info.step);
        assert(info.step >= 0 && strlen(info.model) < sizeof info.model);
        assert(info.vocabulary_bytes >= 0 && info.vocabulary_bytes <= LS__CHECKPOINT_VOCABULARY);
    }
    if (whole == LS_OK)
        assert(headed == LS_OK && sized == LS_OK && rows == 3 && columns == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char path[LS__PATH_SIZE];
    char found[LS__PATH_SIZE];
    const char *folder = ls__test_folder();
    int64_t *steps = NULL;
    int64_t found_steps = 0;

    if (count == 0)
        return 0;
    assert(ls__checkpoint_path(path, folder, STEP) == LS_OK);
    ls__make_hdf5(path, list, OBJECTS, bytes + 1, count - 1, true);
    bool damaged = bytes[0] >= DAMAGE;
    if (damaged)
        damage(path, 4 * (bytes[0] - DAMAGE));
    assert(ls__checkpoint_steps(folder, &steps, &found_steps) == LS_OK);
    assert(found_steps == 1 && steps[0] == STEP);
    free(steps);
    ls_status status = ls__checkpoint_latest(folder, found);
    assert(status == (damaged ? LS_BAD_INPUT : LS_OK));
    use_checkpoint(path);
    return 0;
}
