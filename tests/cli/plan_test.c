/* lockstep plan, as a user types it: the figures of issue 6, JSON that another program reads,
 * pictures, and one sentence with exit code 2 for nonsense. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "support/process.h"
#include "support/test.h"

enum { WORDS = 24 };

/* Runs `lockstep plan` with words closed with NULL. */
static void run(const char *const *words, const char *const *env, ls__process *result)
{
    const char *argv[WORDS] = {ls__lockstep(), "plan"};

    for (int i = 0; words[i]; i++) {
        assert_true(i + 3 < WORDS);
        argv[i + 2] = words[i];
    }
    ls__process_run(&(ls__command){.argv = argv, .env = env, .folder = ls__test_folder()}, result);
}

/* Asserts that the output has a line with all the parts, closed with NULL, in this order. */
static void assert_line(const char *text, const char *const *parts)
{
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *end = strchrnul(line, '\n');
        const char *at = line;
        const char *const *part = parts;
        for (; *part && (at = memmem(at, (size_t)(end - at), *part, strlen(*part))); part++)
            at += strlen(*part);
        if (!*part)
            return;
    }
    print_error("no line with '%s ...' in:\n%s", parts[0], text);
    fail();
}

/* As above, of one command; no line of its own where `line` is not given. */
static void assert_says(const char *const *words, const char *const lines[][6])
{
    ls__process result;

    run(words, NULL, &result);
    assert_exit(result, 0);
    assert_string_equal(result.err, "");
    for (int i = 0; lines[i][0]; i++)
        assert_line(result.out, lines[i]);
    ls__process_free(&result);
}

/* The number behind a key of the JSON file, the first such key. */
static double json_number(const char *path, const char *key)
{
    static char text[1 << 16];
    char quoted[64];

    assert_ok(ls__file_read_text(path, text, sizeof text));
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(text, quoted);
    if (!at)
        print_error("no %s in %s\n", quoted, text);
    assert_non_null(at);
    return strtod(at + strlen(quoted), NULL);
}

/* ---- figures ---- */

#define EXAMPLE "--layers", "24", "--width", "1024", "--heads", "16", "--vocabulary", "0"

static void test_memory_of_7e9(void **state)
{
    (void)state;
    assert_says((const char *[]){"memory", "--params", "7e9", "--format", "f32", NULL},
                (const char *const[][6]){{"parameters", "28.000", "4.00"},
                                         {"gradients", "28.000"},
                                         {"optimizer", "56.000"},
                                         {"total", "112.000", "16.00"},
                                         {NULL}});
    assert_says((const char *[]){"memory", "--params", "7e9", "--master", "none", NULL},
                (const char *const[][6]){{"parameters", "14.000"},
                                         {"gradients", "14.000"},
                                         {"optimizer", "56.000"},
                                         {"total", "84.000"},
                                         {"bf16: 2 bytes, spacing 2^-7"},
                                         {NULL}});
    assert_says((const char *[]){"memory", "--params", "7e9", NULL},
                (const char *const[][6]){{"master copy", "28.000"}, {"total", "112.000"}, {NULL}});
    assert_says((const char *[]){"memory", "--params", "7e9", "--format", "f16", NULL},
                (const char *const[][6]){{"normal from 6.1e-05 to 65504"}, {NULL}});
}

static void test_memory_of_175e9(void **state)
{
    (void)state;
    assert_says(
        (const char *[]){"memory", "--params", "175e9", "--tp", "8", "--pp", "8", NULL},
        (const char *const[][6]){{"2.734 G parameters a device"}, {"total", "43.750"}, {NULL}});
}

static void test_memory_of_the_example(void **state)
{
    (void)state;
    assert_says(
        (const char *[]){"memory", EXAMPLE, "--micro-batch", "8", "--format", "f32",
                         "--activations", "bf16", NULL},
        (const char *const[][6]){{"0.3023 G parameters"},
                                 {"parameters", "1.209"},
                                 {"optimizer", "2.418"},
                                 {"0.956 GB", "simple formula's 0.134 GB", "3.22 GB", "8.06 GB"},
                                 {"fits on a100-80g", "the largest micro-batch that fits is"},
                                 {NULL}});
}

static void test_models_by_name(void **state)
{
    (void)state;
    assert_says((const char *[]){"memory", "--model", "mixtral-8x7b", NULL},
                (const char *const[][6]){
                    {"46.7 G parameters", "12.88 G work on a token"}, {"does not fit"}, {NULL}});
    assert_says((const char *[]){"memory", "--model", "gpt2", NULL},
                (const char *const[][6]){{"gpt2: 12 layers", "0.1244 G parameters"}, {NULL}});
    assert_says((const char *[]){"memory", "--model", "llama-7b", "--dp", "8", "--sharding", "3",
                                 "--recompute", "full", NULL},
                (const char *const[][6]){{"6.738 G parameters"}, {"fits on"}, {NULL}});
}

/* A file of the shape's flags; what it leaves out is gpt2's, and flags go above it. */
static void test_model_of_a_file(void **state)
{
    const char *path = ls__test_path("model.ini");

    (void)state;
    assert_ok(ls__file_write_text(path, "layers = 24\nwidth = 1024\nheads = 16\n"));
    assert_says((const char *[]){"memory", "--model", path, "--vocabulary", "0", NULL},
                (const char *const[][6]){{"24 layers, width 1024", "0.3023 G parameters"}, {NULL}});
}

static void test_compute_of_the_example(void **state)
{
    (void)state;
    assert_says((const char *[]){"compute", EXAMPLE, "--batch", "8", NULL},
                (const char *const[][6]){{"QKV", " 51.5 "},
                                         {"attention", " 34.4 "},
                                         {"projection", " 17.2 "},
                                         {"FFN", " 137.4 "},
                                         {"total", " 240.5 "},
                                         {"a step: 17.32 TFLOP"},
                                         {"312.0 TFLOP/s", "0.0555 s at peak"},
                                         {NULL}});
}

static void test_network_of_the_example(void **state)
{
    const char *json = ls__test_path("network.json");

    (void)state;
    assert_says((const char *[]){"network", EXAMPLE, "--format", "f32", "--activations", "bf16",
                                 "--inter", "100Gb/s", "--mfu", "1", "--json", json, NULL},
                (const char *const[][6]){{"       8", "1.750"},
                                         {"      64", "1.969", "2.381", "0.1911"},
                                         {"      64", "0.0555", "0.1911", "0.2466"},
                                         {"all-to-all"},
                                         {"communication overtakes compute from N = 9 on"},
                                         {"(p-1)/(m+p-1) = 17.9%"},
                                         {NULL}});
    assert_near(json_number(json, "all_reduce_bytes"), 1.21e9, 0.005e9);
    assert_near(json_number(json, "pipeline_bubble"), 7.0 / 39, 1e-9);
    assert_near(json_number(json, "overtaken_ranks"), 9, 0);
}

static void test_layout_of_gpt3(void **state)
{
    (void)state;
    assert_says((const char *[]){"layout", "--model", "gpt3-175b", "--devices", "1024", "--device",
                                 "a100-80g", "--intra", "900GB/s", "--inter", "200Gb/s", NULL},
                (const char *const[][6]){{"  8 ", "  8 ", " 16 ", " 2.73 ", " 43.7 "},
                                         {" wins: ", "of its step is compute"},
                                         {"slower: it loses", " and gains "},
                                         {NULL}});
}

static void test_optimal(void **state)
{
    const char *json = ls__test_path("optimal.json");

    (void)state;
    assert_says((const char *[]){"optimal", "--flops", "5.88e23", "--json", json, "--table", NULL},
                (const char *const[][6]){{"20 a parameter", "7e+10", "1.4e+12", " 20 "},
                                         {"Hoffmann"},
                                         {"Besiroglu"},
                                         {"Kaplan"},
                                         {"1.75e+11", "3.5e+12"},
                                         {NULL}});
    assert_near(json_number(json, "parameters"), 7e10, 1);
    assert_says((const char *[]){"optimal", "--params", "7e9", "--tokens", "1.4e11", NULL},
                (const char *const[][6]){{"as given", "7e+09", "1.4e+11", "5.88e+21"},
                                         {"the same FLOPs train 7e+10 parameters on 1.4e+10"},
                                         {NULL}});
    assert_says((const char *[]){"optimal", "--params", "175e9", "--devices", "10000", NULL},
                (const char *const[][6]){{"20 a parameter", "1.75e+11", "3.5e+12", "13.6", "34.0"},
                                         {NULL}});
    assert_says((const char *[]){"optimal", "--tokens", "1.4e11", NULL},
                (const char *const[][6]){{"20 a parameter", "7e+09", "1.4e+11"}, {NULL}});
}

/* What is widely repeated and wrong is put right where help is asked for. */
static void test_help(void **state)
{
    (void)state;
    assert_says(
        (const char *[]){"optimal", "--help", NULL},
        (const char *const[][6]){
            {"13.6 days"}, {"not 175"}, {"1.4e12 tokens, not 3e11"}, {"70e9 on 1.4e10"}, {NULL}});
    assert_says((const char *[]){"memory", "--help", NULL},
                (const char *const[][6]){{"s b h (34 + 5 a s / h)"},
                                         {"score matrices"},
                                         {"lockstep train's own ledger confirms"},
                                         {NULL}});
    assert_says((const char *[]){"network", "--help", NULL},
                (const char *const[][6]){{"2 (N-1)/N D bytes and receives as many"}, {NULL}});
    assert_says((const char *[]){"layout", "--help", NULL},
                (const char *const[][6]){{"by columns"}, {"must be summed first"}, {NULL}});
}

/* ---- JSON and pictures ---- */

/* An independent reader takes each command's JSON, and finds tables with units in their keys. */
static void test_json_is_json(void **state)
{
    static const char script[] =
        "import json, sys\n"
        "for path in sys.argv[1:]:\n"
        "    report = json.load(open(path))\n"
        "    tables = [v for v in report.values() if isinstance(v, list)]\n"
        "    assert tables and all(isinstance(r, dict) for t in tables for r in t), path\n";
    static const char *const commands[][4] = {
        {"memory"}, {"compute"}, {"network"}, {"layout"}, {"optimal", "--flops", "1e21"}};
    const char *argv[16] = {"python3", "-c", script};
    int paths = 0;
    ls__process result;

    (void)state;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const char *path = strdup(ls__test_path(commands[i][0]));
        const char *words[8] = {commands[i][0], "--json", path, commands[i][1], commands[i][2]};
        run(words, NULL, &result);
        assert_exit(result, 0);
        ls__process_free(&result);
        argv[3 + paths++] = path;
    }
    if (access("/usr/bin/python3", X_OK) == 0) {
        ls__process_run(&(ls__command){.argv = argv}, &result);
        assert_exit(result, 0);
        ls__process_free(&result);
    }
    while (paths > 0)
        free((char *)(uintptr_t)argv[3 + --paths]);
}

static void assert_picture(const char *const *words, const char *path)
{
    static char text[1 << 20];
    ls__process result;

    run(words, NULL, &result);
    assert_exit(result, 0);
    assert_string_equal(result.err, "");
    assert_ok(ls__file_read_text(path, text, sizeof text));
    assert_non_null(strstr(text, "</svg>"));
    ls__process_free(&result);
}

static void test_pictures(void **state)
{
    const char *network = ls__test_path("network.svg");
    const char *optimal = ls__test_path("it's optimal.svg");

    (void)state;
    if (access("/usr/bin/gnuplot", X_OK) != 0) {
        ls__figure("skipped: no gnuplot (Debian: gnuplot-nox)");
        skip();
    }
    assert_picture((const char *[]){"network", "--plot", network, NULL}, network);
    assert_picture((const char *[]){"optimal", "--flops", "1e21", "--plot", optimal, NULL},
                   optimal);
}

static void test_without_gnuplot(void **state)
{
    static const char *const no_path[] = {"PATH=/nonexistent", NULL};
    ls__process result;

    (void)state;
    run((const char *[]){"network", "--plot", "a.svg", NULL}, no_path, &result);
    assert_exit(result, 2);
    assert_one_line(result, "needs gnuplot, which is not installed");
    ls__process_free(&result);
}

/* ---- nonsense ---- */

static void test_mistakes(void **state)
{
    static const struct {
        const char *words[8];
        const char *says;
    } mistakes[] = {
        {{NULL}, "needs a command"},
        {{"memry"}, "did you mean memory?"},
        {{"memory", "--layers", "0"}, "from 1 to"},
        {{"memory", "--layers", "-3"}, "from 1 to"},
        {{"memory", "--layers", "1e400"}, "whole number"},
        {{"memory", "--width", "nan"}, "whole number"},
        {{"memory", "--heads", "7"}, "does not divide --width"},
        {{"memory", "--params", "0"}, "from 1 to"},
        {{"memory", "--params", "-7e9"}, "from 1 to"},
        {{"memory", "--params", "nan"}, "takes a number"},
        {{"memory", "--params", "1e400"}, "from 1 to"},
        {{"memory", "--model", "gpt4"}, "no model is called 'gpt4'"},
        {{"memory", "--model", "absent.ini"}, "cannot open the configuration"},
        {{"memory", "--device", "abacus"}, "no device is called 'abacus'"},
        {{"memory", "--device", "v100-32g"}, "does not compute in bf16"},
        {{"memory", "--tp", "5"}, "--tp 5 does not divide"},
        {{"memory", "--pp", "5"}, "--pp 5 does not divide"},
        {{"memory", "--dp", "0"}, "from 1 to"},
        {{"memory", "--sharding", "4"}, "from 0 to 3"},
        {{"memory", "--sharding", "1"}, "needs data ranks"},
        {{"memory", "--memory", "0"}, "from 1e-06"},
        {{"memory", "--format", "f8"}, "takes one of f32|bf16|f16"},
        {{"compute", "--batch", "0"}, "from 1 to"},
        {{"compute", "--mfu", "1.5"}, "from 1e-06 to 1"},
        {{"compute", "--active-experts", "2"}, "above --experts 1"},
        {{"network", "--inter", "0Gb/s"}, "takes a rate above 0"},
        {{"network", "--inter", "fast"}, "takes a rate above 0"},
        {{"network", "--ranks", "1"}, "from 2 to"},
        {{"network", "--inter-latency", "-1"}, "from 0 to"},
        {{"network", "--algorithm", "butterfly"}, "takes one of naive|tree"},
        {{"layout", "--devices", "7", "--model", "gpt3-175b"}, "no layout of 7 devices"},
        {{"layout", "--devices", "8", "--model", "gpt3-175b"}, "layouts fits: the smallest needs"},
        {{"optimal"}, "needs --flops, --params or --tokens"},
        {{"optimal", "--flops", "0"}, "from 1"},
        {{"optimal", "--flops", "1e400"}, "from 1"},
        {{"optimal", "--flops", "1e22", "--params", "7e9"}, "leave out --params"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        ls__process result;
        run(mistakes[i].words, NULL, &result);
        assert_exit(result, 2);
        assert_one_line(result, mistakes[i].says);
        assert_string_equal(result.out, "");
        ls__process_free(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_7e9),
        cmocka_unit_test(test_memory_of_175e9),
        cmocka_unit_test(test_memory_of_the_example),
        cmocka_unit_test(test_models_by_name),
        cmocka_unit_test(test_model_of_a_file),
        cmocka_unit_test(test_compute_of_the_example),
        cmocka_unit_test(test_network_of_the_example),
        cmocka_unit_test(test_layout_of_gpt3),
        cmocka_unit_test(test_optimal),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_json_is_json),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_without_gnuplot),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
