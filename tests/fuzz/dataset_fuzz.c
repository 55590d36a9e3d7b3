/* A dataset that is valid HDF5 and holds something else than it should. It is sealed, because
 * sealed files are not first tried out in a child process: so this is fast, and a crash is ours.
 * The first byte says which kind of dataset, the others are changes. */
#include <string.h>

#include "fuzz/dataset_list.h"
#include "fuzz/fuzz.h"

typedef struct changed {
    const char *seed;
    uint8_t images;
    const char *object;
    ls__change change;
    const char *left_out; /* another object, or NULL */
} changed;

/* What chance does not soon come to: errors that are found only when all else is right. */
static const changed rare[] = {
    {"wide",
     0,
     "train/tokens",
     {0, LS__MADE_LITTLE + LS__H5_U16, 1, {20}, 0, 0, {3, 0}},
     "val/tokens"},
    {"narrow", 0, "val/tokens", {0, LS__MADE_LITTLE + LS__H5_U16, 1, {20}, 0, 0, {3, 0}}, NULL},
    {"token", 0, "val/tokens", {0, LS__MADE_LITTLE, 1, {9}, 3, 0, {3, 4}}, NULL},
    {"label", 1, "test/labels", {0, LS__MADE_LITTLE, 1, {2}, 0, 0, {3, 10}}, NULL},
    {"size", 1, "test/images", {0, LS__MADE_LITTLE, 3, {2, 3, 2}, 0, 0, {3, 10}}, NULL},
    {"long", 0, "source", {0, LS__MADE_VARIABLE_TEXT, 6, {0}, 0, 18, {'a', 0}}, NULL},
    {"fixed", 0, "source", {0, LS__MADE_FIXED_TEXT, 6, {0}, 0, 1, {'a', 200}}, NULL},
    {"claim", 0, "train/tokens", {0, LS__MADE_LITTLE, 1, {253}, 4, 0, {0, 0}}, NULL},
};

static void add_rare(const int *argc, char **const *argv)
{
    uint8_t seed[1 + LS__CHANGED_BYTES];

    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        ls__change change = rare[i].change;
        change.object = ls__object(ls__text_list, LS__DATASET_OBJECTS, rare[i].object);
        seed[0] = rare[i].images;
        ls__no_changes(seed + 1, 0);
        memcpy(seed + 1, &change, sizeof change);
        change = (ls__change){.type = LS__MADE_LEFT_OUT};
        if (rare[i].left_out) {
            change.object = ls__object(ls__text_list, LS__DATASET_OBJECTS, rare[i].left_out);
            memcpy(seed + 1 + sizeof change, &change, sizeof change);
        }
        ls__fuzz_seed(argc, argv, rare[i].seed, seed, sizeof seed);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    uint8_t seed[1 + LS__CHANGED_BYTES] = {0};

    add_rare(argc, argv);
    for (uint8_t images = 0; images < 2; images++) {
        seed[0] = images;
        ls__no_changes(seed + 1, 0);
        ls__fuzz_seed(argc, argv, images ? "images" : "text", seed, sizeof seed);
        ls__no_changes(seed + 1, LS__DATASET_OBJECTS - LS__CHANGES);
        ls__fuzz_seed(argc, argv, images ? "images-end" : "text-end", seed, sizeof seed);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const char *path = ls__fuzz_path("input.h5");

    if (count == 0)
        return 0;
    ls__make_hdf5(path, bytes[0] & 1 ? ls__images_list : ls__text_list, LS__DATASET_OBJECTS,
                  bytes + 1, count - 1, true);
    ls__use_dataset(path);
    return 0;
}
