/* A dataset of another program, damaged in any way: the bytes are the file. HDF5 crashes on many of
 * them, but in the child process that tries a file out; what that lets pass must not crash us. */
#include <assert.h>
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#include <stdio.h>
#include <unistd.h>

#include "fuzz/dataset_list.h"
#include "fuzz/fuzz.h"

enum { SEED_MOST = 1 << 16, FAILED = 10 };

static void end_the_child(void)
{
    _exit(FAILED);
}

/* What the sanitizer finds in the child is HDF5's: it must not leave a reproducer as if it were
 * ours. libFuzzer's own callback is replaced in the child only. */
static void in_the_child(void)
{
    __sanitizer_set_death_callback(end_the_child);
}

static void add_seed(const int *argc, char **const *argv, const char *name, const ls__made *list)
{
    static uint8_t bytes[SEED_MOST];
    const char *path = ls__fuzz_path("seed.h5");

    ls__make_hdf5(path, list, LS__DATASET_OBJECTS, NULL, 0, false);
    FILE *file = fopen(path, "rb");
    assert(file);
    ls__fuzz_seed(argc, argv, name, bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    assert(pthread_atfork(NULL, NULL, in_the_child) == 0);
    add_seed(argc, argv, "text", ls__text_list);
    add_seed(argc, argv, "images", ls__images_list);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    ls__use_dataset(ls__fuzz_file("input.h5", bytes, count));
    return 0;
}
