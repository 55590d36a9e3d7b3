/* lockstep: one binary, a file a subcommand. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/version.h"
#include "cli/commands.h"
#include "cli/start.h"

static const ls__cli_entry commands[] = {
    {"data", "make datasets, or say what is in one", ls__cli_data, true},
    {"train", "train a model on all ranks together", ls__cli_train, false},
    {"eval", "evaluate a run's model on held-out data", ls__cli_eval, false},
    {"sample", "print text that a run's model makes", ls__cli_sample, true},
    {"verify", "train at several rank counts and compare the weights", ls__cli_verify, false},
    {"diff", "find the first step and tensor at which two runs differ", ls__cli_diff, true},
    {"bench", "measure collectives", ls__cli_bench, false},
    {"plan", "say what training will cost before it is run", ls__cli_plan, true},
    {"scaling", "train a grid of small models and fit a scaling law", ls__cli_scaling, false},
};

int main(int argc, char **argv)
{
    ls_status status = LS_OK;

    /* A full disk or a limit on file sizes is then an error of write(), not a signal. */
    signal(SIGXFSZ, SIG_IGN);
    ls__cli_begin(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        printf("lockstep %s\n", LS__VERSION);
    else
        status = ls__cli_dispatch("lockstep", commands, sizeof commands / sizeof commands[0], argc,
                                  argv);
    return ls__cli_end(status);
}
