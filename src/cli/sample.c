/* lockstep sample */
#include "train/sample.h"

#include "base/options.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "math/gemm.h"

typedef struct sample_flags {
    char run[LS__TEXT_MAX];
    char prompt[LS__TEXT_MAX];
    int64_t length;
    double temperature;
    int64_t top_k;
    int64_t seed;
    int64_t threads;
} sample_flags;

#define AT(member) offsetof(sample_flags, member)

static const ls__option options[] = {
    {"run", "", "DIR", "the folder of the run", AT(run), 0, 0, LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"prompt", "", "TEXT", "what to go on from; none: the start of a line", AT(prompt), 0, 0,
     LS__OPTION_TEXT, LS__SCOPE_RUN, 0},
    {"length", "400", "bytes", "how much to add", AT(length), 0, 1e9, LS__OPTION_INT, LS__SCOPE_RUN,
     0},
    {"temperature", "0.8", "factor", "below 1 bolder, above 1 wilder; 0: the most probable",
     AT(temperature), 0, 1e6, LS__OPTION_REAL, LS__SCOPE_RUN, 0},
    {"top-k", "0", "tokens", "choose among the k most probable; 0: among all", AT(top_k), 0, 65536,
     LS__OPTION_INT, LS__SCOPE_RUN, 0},
    {"seed", "1", "number", "the same seed gives the same text", AT(seed), 0, 9e15, LS__OPTION_INT,
     LS__SCOPE_RUN, 0},
    {"threads", "1", "threads", "threads that compute", AT(threads), 1, LS__THREADS_MAX,
     LS__OPTION_INT, LS__SCOPE_RUN, 0},
};

static const ls__option_table table = {
    .command = "lockstep sample",
    .summary = "print text that a run's newest checkpoint makes",
    .operands = "",
    .option = options,
    .count = sizeof options / sizeof options[0],
};

ls_status ls__cli_sample(int argc, char **argv)
{
    static sample_flags flags;
    static ls__loaded loaded;
    ls__parsed parsed;

    LS_TRY(ls__options_parse(&table, &flags, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    LS_FAIL_IF(!*flags.run, LS_BAD_USAGE, "--run is missing: name the folder of a run");
    ls__gemm_start();
    LS_TRY(ls__threads_start((int)flags.threads));
    LS_TRY(ls__load_run(&loaded, flags.run, -1, 1, 0));
    ls__sample_settings settings = {.prompt = flags.prompt,
                                    .length = flags.length,
                                    .temperature = flags.temperature,
                                    .top_k = flags.top_k,
                                    .seed = (uint64_t)flags.seed};
    ls_status status = ls__sample(&loaded, &settings, stdout);
    ls__loaded_close(&loaded);
    return status;
}
