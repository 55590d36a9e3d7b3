/* What the fuzzers share. A fuzzer is one file, NAME_fuzz.c, of the two functions below; libFuzzer
 * brings main. It is called as NAME_fuzz [FLAGS] CORPUS, and itself adds its seeds to that folder.
 * An assert that fails ends it like a crash: with a reproducer, crash-..., to be given to it
 * instead of the folder. */
#ifndef LS_TESTS_FUZZ_FUZZ_H
#define LS_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* libFuzzer's names: called once, before the corpus is read; and for each input. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* Writes a seed to the corpus; nothing where a reproducer is run instead. */
void ls__fuzz_seed(const int *argc, char **const *argv, const char *name, const void *bytes,
                   size_t count);

/* Writes a file of that name into this process's own folder, removed at its end. The path is valid
 * until the next call. */
const char *ls__fuzz_file(const char *name, const void *bytes, size_t count);

/* The path alone. */
const char *ls__fuzz_path(const char *name);

#endif
