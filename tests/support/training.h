/* Training runs of a model that trains in no time, as tests of faults start and look at them. */
#ifndef LS_TESTS_SUPPORT_TRAINING_H
#define LS_TESTS_SUPPORT_TRAINING_H

#include <stdint.h>

#include "support/process.h"

typedef struct ls__training {
    const char *fault;  /* LOCKSTEP_FAULT; NULL: none */
    const char *folder; /* to run in; NULL: this process's own */
    const char *run;
    int ranks;
    int steps;                  /* 0: 12 */
    const char *const *flags;   /* more, closed with NULL; or NULL */
    const char *const *through; /* a command that starts the run, closed with NULL; or NULL */
} ls__training;

/* Makes the dataset in the test's folder. For a group's set-up. */
int ls__training_set_up(void **state);

/* Runs `lockstep train --resume` with a checkpoint after every step and at most 60 s. */
void ls__training_run(const ls__training *training, ls__process *result);

/* The digest of a run's last step, "" where there is none; valid until the next call. */
const char *ls__training_digest(const char *run);
/* The last step in a run's metrics, 0 where there is none. */
int64_t ls__training_last_step(const char *run);
/* Asserts that the steps in a run's metrics are 1 to `last`, each once and in order. */
void ls__assert_every_step(const char *run, int64_t last);
/* The step of a run's newest whole checkpoint, 0 where there is none. */
int64_t ls__training_checkpoint(const char *run);

/* Asserts that no process with this word in its command line is left, waiting a moment for it. */
void ls__assert_nothing_runs(const char *word);

/* The digest after the given number of steps of a run that nothing disturbed, on one rank; computed
 * once, valid to the end of the process. */
const char *ls__training_undisturbed(int steps);

#endif
