/* The seal: a file that passes is, byte for byte, what sealing its content gives. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "h5/seal.h"

enum { CONTENT = 40, WHOLE = LS__SEAL_SIZE + CONTENT };

static void read_file(const char *path, char *bytes, size_t count)
{
    FILE *file = fopen(path, "rb");

    assert(file && fread(bytes, 1, count, file) == count);
    fclose(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char bytes[WHOLE] = "";
    const char *path = ls__fuzz_file("input", bytes, sizeof bytes);

    assert(ls__seal_write(path) == LS_OK);
    read_file(path, bytes, sizeof bytes);
    ls__fuzz_seed(argc, argv, "sealed", bytes, sizeof bytes);
    ls__fuzz_seed(argc, argv, "cut", bytes, LS__SEAL_SIZE / 2);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const char *path = ls__fuzz_file("input", bytes, count);
    bool present = false;

    assert(ls__seal_present(path, &present) == LS_OK);
    ls_status status = ls__seal_verify(path);
    assert(status == LS_BAD_INPUT || (status == LS_OK && present));
    if (status != LS_OK)
        return 0;
    char *again = malloc(count);
    assert(again && ls__seal_write(path) == LS_OK);
    read_file(path, again, count);
    assert(memcmp(again, bytes, count) == 0);
    free(again);
    return 0;
}
