/* lockstep data, as a user types it: what it prints, exit codes, one line for each mistake, and
 * that an independent reader (h5py) finds in our files what we wrote, and we in its files what it
 * wrote. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

static const char python[] = "/usr/bin/python3";

static void write_text(const char *path, const char *text)
{
    assert_ok(ls__file_write_text(path, text));
}

static void run_python(const char *script, const char *argument, ls__process *result)
{
    const char *argv[] = {python, "-c", script, argument, NULL};

    ls__process_run(&(ls__command){.argv = argv, .folder = ls__test_folder()}, result);
}

static void skip_without_h5py(void)
{
    ls__process result = {.exit_code = 1};

    if (access(python, X_OK) == 0)
        run_python("import h5py", "", &result);
    bool there = result.exit_code == 0;
    ls__process_free(&result);
    if (there)
        return;
    ls__figure("skipped: %s has no h5py (Debian: python3-h5py)", python);
    skip();
}

static void test_text_and_info(void **state)
{
    const char *source = ls__test_path("source.txt");
    const char *out = ls__test_path("source.h5");
    ls__process result;

    (void)state;
    write_text(source, "abracadabra\tand \\ more\n");
    ls__run_lockstep(&result, "data", "text", source, "-o", out, "--val", "0.5", NULL);
    assert_exit(result, 0);
    assert_non_null(strstr(result.out, "11 training and 12 validation tokens, vocabulary of 13"));
    assert_string_equal(result.err, "");
    ls__process_free(&result);

    ls__run_lockstep(&result, "data", "info", out, NULL);
    assert_exit(result, 0);
    assert_non_null(strstr(result.out, "train       11 tokens\nval         12 tokens\n"));
    assert_non_null(strstr(result.out, "vocabulary  13 bytes: \\t\\n \\\\abcdemnor\n"));
    assert_non_null(strstr(result.out, "source.txt (23 bytes)"));
    ls__process_free(&result);
}

/* Each ends with exit code 2 and one line, and leaves nothing behind. */
static void test_mistakes(void **state)
{
    const char *source = ls__test_path("fine.txt");
    const char *empty = ls__test_path("empty.txt");
    const char *out = ls__test_path("mistake.h5");
    const struct {
        const char *words[8];
        const char *says;
    } mistakes[] = {
        {{NULL}, "needs a command"},
        {{"txt"}, "did you mean text?"},
        {{"text"}, "needs FILE..."},
        {{"text", source}, "needs -o OUT.h5"},
        {{"text", source, "-o", out, "--vall", "0.1"}, "did you mean --val?"},
        {{"text", source, "-o", out, "--val", "1"}, "from 0 to 0.99"},
        {{"text", ls__test_path("absent"), "-o", out}, "No such file"},
        {{"text", ls__test_folder(), "-o", out}, "is a folder"},
        {{"text", empty, "-o", out}, "is empty"},
        {{"text", source, "-o", source}, "choose another output"},
        {{"text", source, "-o", ls__test_folder()}, "choose another name"},
        {{"text", source, "-o", ls__test_path("absent/out.h5")}, "make the folder first"},
        {{"images", "--train-images", source, "-o", out}, "needs --train-labels FILE"},
        {{"images", "--train-image", source}, "did you mean --train-images?"},
        {{"info"}, "needs FILE.h5"},
        {{"info", ls__test_path("absent")}, "No such file"},
        {{"info", empty}, "is empty, not an HDF5 file"},
        {{"info", source}, "is not an HDF5 file"},
        {{"info", ls__test_folder()}, "is a folder"},
    };

    (void)state;
    write_text(source, "a fine text");
    write_text(empty, "");
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const char *const *words = mistakes[i].words;
        ls__process result;
        ls__run_lockstep(&result, "data", words[0], words[1], words[2], words[3], words[4],
                         words[5], words[6], NULL);
        assert_exit(result, 2);
        assert_one_line(result, mistakes[i].says);
        assert_string_equal(result.out, "");
        assert_false(ls__path_exists(out));
        assert_false(ls__path_exists(ls__test_path("mistake.h5.tmp")));
        ls__process_free(&result);
    }
}

static void test_help(void **state)
{
    ls__process result;

    (void)state;
    ls__run_lockstep(&result, "data", "text", "--help", NULL);
    assert_exit(result, 0);
    assert_non_null(strstr(result.out, "Usage: lockstep data text [flags] FILE..."));
    ls__process_free(&result);
}

/* A limit on file sizes stands in for a full disk: neither is more than an errno to us. */
static void test_a_full_disk(void **state)
{
    const char *source = ls__test_path("large.txt");
    const char *argv[] = {
        "sh",           "-c",   "ulimit -f 8 && exec \"$0\" data text \"$1\" -o full.h5",
        ls__lockstep(), source, NULL};
    FILE *file = fopen(source, "w");
    ls__process result;

    (void)state;
    assert_non_null(file);
    for (unsigned i = 0; i < 100000; i++)
        fprintf(file, "%u ", i * 2654435761U);
    assert_int_equal(fclose(file), 0);
    ls__process_run(&(ls__command){.argv = argv, .folder = ls__test_folder()}, &result);
    assert_exit(result, 2);
    assert_one_line(result, "cannot write full.h5: File too large: free some room");
    assert_false(ls__path_exists(ls__test_path("full.h5")));
    assert_false(ls__path_exists(ls__test_path("full.h5.tmp")));
    ls__process_free(&result);
}

/* ---- an independent reader and writer ---- */

static void test_h5py_reads_what_we_write(void **state)
{
    static const char script[] =
        "import h5py, sys\n"
        "f = h5py.File(sys.argv[1])\n"
        "assert f.attrs['format'] == 'lockstep-dataset' and f.attrs['format_version'] == 1\n"
        "assert f.attrs['kind'] == 'text' and f.attrs['source_bytes'] == 70000\n"
        "v = bytes(f.attrs['vocabulary'])\n"
        "assert len(v) == f.attrs['vocabulary_size'] == 7\n"
        "t = f['train/tokens'], f['val/tokens']\n"
        "assert all(a.dtype == 'uint8' and a.fletcher32 and a.compression for a in t)\n"
        "print(''.join(chr(v[i]) for a in t for i in a[:]), end='')\n";
    const char *source = ls__test_path("letters.txt");
    const char *out = ls__test_path("letters.h5");
    static char text[70001];
    ls__process result;

    (void)state;
    skip_without_h5py();
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = "lockste"[i * i % 7 * (i % 3) % 7];
    memcpy(text, "lockste", 7); /* so that each occurs */
    write_text(source, text);
    ls__run_lockstep(&result, "data", "text", source, "-o", out, NULL);
    assert_exit(result, 0);
    ls__process_free(&result);
    run_python(script, out, &result);
    assert_exit(result, 0);
    assert_string_equal(result.out, text);
    ls__process_free(&result);
}

/* The snippet of data/README.md, run as it stands there. */
static void test_the_readmes_snippet(void **state)
{
    static const char opening[] = "```python\n";
    static char page[1 << 14];
    ls__process result;

    (void)state;
    skip_without_h5py();
    assert_ok(ls__file_read_text("data/README.md", page, sizeof page));
    char *snippet = strstr(page, opening);
    assert_non_null(snippet);
    snippet += sizeof opening - 1;
    *strstr(snippet, "```") = '\0';
    run_python(snippet, "", &result);
    assert_exit(result, 0);
    ls__process_free(&result);

    ls__run_lockstep(&result, "data", "info", ls__test_path("words.h5"), NULL);
    assert_exit(result, 0);
    assert_non_null(strstr(result.out, "tokens of 16 bits\ntrain       1080 tokens\n"));
    ls__process_free(&result);
    ls__run_lockstep(&result, "data", "info", ls__test_path("images.h5"), NULL);
    assert_exit(result, 0);
    assert_non_null(strstr(result.out, "images of 8 x 8 pixels\ntrain       500 images\n"));
    assert_non_null(strstr(result.out, "random noise, told apart"));
    ls__process_free(&result);
}

/* A file of another program, cut short: HDF5 is not asked about it in our process. */
static void test_a_truncated_file_of_h5py(void **state)
{
    static const char script[] = "import h5py, numpy, os, sys\n"
                                 "with h5py.File(sys.argv[1], 'w') as f:\n"
                                 "    f['train/tokens'] = numpy.zeros(5000, numpy.uint8)\n"
                                 "os.truncate(sys.argv[1], 4000)\n";
    const char *path = ls__test_path("cut.h5");
    ls__process result;

    (void)state;
    skip_without_h5py();
    run_python(script, path, &result);
    assert_exit(result, 0);
    ls__process_free(&result);
    ls__run_lockstep(&result, "data", "info", path, NULL);
    assert_exit(result, 2);
    assert_one_line(result, "is truncated or damaged");
    ls__process_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_and_info),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_a_full_disk),
        cmocka_unit_test(test_h5py_reads_what_we_write),
        cmocka_unit_test(test_the_readmes_snippet),
        cmocka_unit_test(test_a_truncated_file_of_h5py),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
