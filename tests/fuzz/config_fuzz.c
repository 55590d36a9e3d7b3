/* A configuration: whatever is accepted must come back the same from what is written of it, which
 * is how a run goes on. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "train/settings.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    ls__train_settings settings;
    char *text = NULL;
    static const char small[] =
        "; a comment\ndata = a.h5\nrun = \" runs/a ; b\"\nhidden = 3,4\n  lr=1e-3\n"
        "resume = true\nmodel = mlp\n";

    ls__options_preset(&ls__train_options, &settings);
    assert(ls__train_settings_text(&settings, &text) == LS_OK);
    ls__fuzz_seed(argc, argv, "presets", text, strlen(text));
    ls__fuzz_seed(argc, argv, "small", small, strlen(small));
    free(text);
    return 0;
}

static void read_again(const ls__train_settings *settings)
{
    static ls__train_settings again;
    char *text = NULL;

    assert(ls__train_settings_text(settings, &text) == LS_OK);
    const char *path = ls__fuzz_file("again.ini", text, strlen(text));
    ls__options_preset(&ls__train_options, &again);
    ls_status status = ls__options_read(&ls__train_options, &again, path);
    if (status != LS_OK)
        fprintf(stderr, "written, but refused: %s\n%s", ls_last_error()->text, text);
    assert(status == LS_OK);
    int index = ls__options_differ(&ls__train_options, settings, &again, LS__SCOPE_BITS);
    if (index < 0)
        index = ls__options_differ(&ls__train_options, settings, &again, LS__SCOPE_RUN);
    if (index >= 0)
        fprintf(stderr, "comes back changed: %s\n%s", ls__train_options.option[index].name, text);
    assert(index < 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static ls__train_settings settings;
    const char *path = ls__fuzz_file("input.ini", bytes, count);

    ls__options_preset(&ls__train_options, &settings);
    if (ls__options_read(&ls__train_options, &settings, path) != LS_OK)
        return 0;
    read_again(&settings);
    if (ls__train_settings_resolve(&settings) == LS_OK)
        assert(ls__micro_batches(&settings) >= 1);
    return 0;
}
