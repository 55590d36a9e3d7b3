/* Text from a trained GPT. */
#ifndef LS_TRAIN_SAMPLE_H
#define LS_TRAIN_SAMPLE_H

#include <stdint.h>
#include <stdio.h>

#include "lockstep/status.h"
#include "train/load.h"

typedef struct ls__sample_settings {
    const char *prompt;
    int64_t length;     /* bytes to generate after the prompt */
    double temperature; /* 0: always the most probable */
    int64_t top_k;      /* choose among so many; 0: among all */
    uint64_t seed;      /* the same seed gives the same text */
} ls__sample_settings;

/* Prints the prompt and what the model adds to it, as it is made. LS_BAD_USAGE where the prompt has
 * a byte that the training text had not; LS_BAD_INPUT where the model is not one of text. */
ls_status ls__sample(ls__loaded *loaded, const ls__sample_settings *settings, FILE *out);

#endif
