/* A dataset that is valid HDF5 and holds something else than it should. It is sealed, because
 * sealed files are not first tried out in a child process: so this is fast, and a crash is ours.
 * The first byte says which kind of dataset, the others are changes. */
#include "fuzz/dataset_list.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const uint8_t text[1 + sizeof(ls__change)] = {0};
    static const uint8_t images[1 + 2 * sizeof(ls__change)] = {1};

    ls__fuzz_seed(argc, argv, "text", text, sizeof text);
    ls__fuzz_seed(argc, argv, "images", images, sizeof images);
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
