/* metrics.jsonl, an object a line, and the progress line. Rank 0 writes.
 *
 *     {"run": ...}          once at the top: version, ranks, model, parameters, BLAS core, hosts,
 * and rank 0's memory: bytes by category, and by how much it grew in set-up
 *     {"step": n, ...}      a step, or with val_loss an evaluation after it */
#ifndef LS_TRAIN_METRICS_H
#define LS_TRAIN_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/digest.h"
#include "lockstep/status.h"

typedef struct ls__metrics {
    FILE *file;
    const char *path;
    int64_t length;        /* bytes of the file, all of them whole lines */
    bool images;           /* count images, not tokens */
    double progress_shown; /* clock of the last progress line */
} ls__metrics;

typedef struct ls__step_metrics {
    int64_t step;  /* steps done, this one included */
    int64_t steps; /* to do in all */
    double loss;   /* nats, mean over the global batch, before the update */
    double lr;
    double grad_norm; /* before clipping; not finite in a step that was skipped */
    double items;     /* tokens or images of the global batch */
    double seconds;   /* of the whole step */
    double compute_seconds;
    double comm_seconds;   /* in the gradient's all-reduce, after backward */
    double hidden_seconds; /* of compute_seconds: part of the all-reduce was under way */
    int64_t bytes_sent;    /* by this rank, in it */
    int64_t flops;         /* of this rank's matrix products */
    double loss_scale;     /* of this step; 0: no scaling, and no field in the line */
    int64_t skipped;       /* steps so far, this one included */
    ls__digest digest;     /* of all parameters after the update */
} ls__step_metrics;

typedef struct ls__eval_metrics {
    int64_t step;
    double loss;
    double accuracy;
    bool bytes; /* tokens are bytes: bits per byte mean something */
} ls__eval_metrics;

/* Opens the file to append. Of a file that is there, lines of steps after `step` are dropped first:
 * a resumed run writes them again; and so are lines that are cut off or damaged. If this succeeded
 * you must close. */
ls_status ls__metrics_open(ls__metrics *metrics, const char *path, int64_t step, bool images);
ls_status ls__metrics_close(ls__metrics *metrics);

/* Writes one object of the caller's making, `json`, as a line. Where that fails nothing of the line
 * stays, and nothing more can be written. */
ls_status ls__metrics_line(ls__metrics *metrics, const char *json);

/* Writes the line and, every few seconds and at the first and the last step, prints progress. */
ls_status ls__metrics_step(ls__metrics *metrics, const ls__step_metrics *step);

/* Writes the line and prints it. */
ls_status ls__metrics_eval(ls__metrics *metrics, const ls__eval_metrics *eval);

/* ---- reading ---- */

/* The digests of a run's steps, in order, in memory that the caller frees: entry i is of step i
 * + 1. LS_BAD_INPUT where the file is not there, has a damaged line, or its steps are not 1, 2, 3,
 * ... each with a digest. */
ls_status ls__metrics_read_digests(const char *path, ls__digest **digests, int64_t *count);

/* The numbers behind "key" in the file's lines, in order, at most `most` of them; *count is how
 * many. With `object`, only in lines that have that object, and within or after it. A null is NAN.
 * LS_BAD_INPUT where the file cannot be read. */
ls_status ls__metrics_read_numbers(const char *path, const char *object, const char *key,
                                   double *numbers, int most, int *count);

/* On how many ranks the run went when it was started or resumed last; 0 where nothing tells. */
int64_t ls__metrics_last_ranks(const char *path);

#endif
