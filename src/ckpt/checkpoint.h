/* Checkpoints: one sealed HDF5 file each, independent of the number of ranks.
 *
 *     attributes of the root
 *       format "lockstep-checkpoint", format_version 1, step, loss, seed, configuration (INI text),
 *       model ("gpt", "mlp"), blas_core, engine (of products), digest (of all parameters),
 * vocabulary (the byte of each token; text models whose dataset has one) of a run with loss scaling
 * also loss_scale (of the next step, a power of two), good_steps (since the scale changed),
 * skipped_steps (in all: no updates, but counted by step); of runs without, and of those from
 * before there was such scaling, none of the three /parameters/<tensor>             float32,
 * matrices as (out, in) /optimizer/<state>/<tensor>      float32, "exp_avg", "exp_avg_sq" or
 * "momentum_buffer"
 *
 * A folder of checkpoints holds step-00000500.h5 and so on, and `latest`, a text naming one. */
#ifndef LS_CKPT_CHECKPOINT_H
#define LS_CKPT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/tensors.h"
#include "lockstep/status.h"

enum {
    LS__CHECKPOINT_VERSION = 1,
    LS__CHECKPOINT_STATES = 2,
    LS__CHECKPOINT_TEXT = 16384,
    LS__CHECKPOINT_WORD = 64,
    LS__CHECKPOINT_VOCABULARY = 256,
};

/* What stands in a checkpoint beside its arrays. */
typedef struct ls__checkpoint_info {
    int64_t step; /* steps done */
    double loss;  /* of the last of them, nats */
    uint64_t seed;
    ls__digest digest; /* of all parameters, in the order of the table of tensors */
    double loss_scale; /* 2^-64 .. 2^64; 0: no scaling, and what follows is 0 */
    int64_t good_steps;
    int64_t skipped_steps; /* 0 .. step */
    int64_t vocabulary_bytes;
    uint8_t vocabulary[LS__CHECKPOINT_VOCABULARY];
    char model[LS__CHECKPOINT_WORD];
    char blas_core[LS__CHECKPOINT_WORD];
    char engine[LS__CHECKPOINT_WORD]; /* of products; "" where an older file does not tell */
    char configuration[LS__CHECKPOINT_TEXT];
} ls__checkpoint_info;

/* Flat arrays of tensors->total floats, which belong to the caller; states not kept are NULL. */
typedef struct ls__checkpoint_arrays {
    const ls__tensors *tensors;
    float *parameters;
    float *state[LS__CHECKPOINT_STATES];
    const char *state_name[LS__CHECKPOINT_STATES];
} ls__checkpoint_arrays;

/* Writes one file: complete at `path`, or nothing there. LS_NO_SPACE, LS_IO. */
ls_status ls__checkpoint_write(const char *path, const ls__checkpoint_info *info,
                               const ls__checkpoint_arrays *arrays);

/* Checks the file's seal, then reads what stands beside the arrays. LS_BAD_INPUT where it is not a
 * whole checkpoint. */
ls_status ls__checkpoint_read_info(const char *path, ls__checkpoint_info *info);

/* Reads info and arrays; tensors the file must hold are those of the table. State arrays that are
 * NULL are not read. LS_BAD_INPUT, naming the tensor, where one is missing or of another shape, and
 * where the parameters' digest is not the one recorded. */
ls_status ls__checkpoint_read(const char *path, ls__checkpoint_info *info,
                              const ls__checkpoint_arrays *arrays);

/* Rows and columns of one tensor in a checkpoint. LS_BAD_INPUT where there is none of that name. */
ls_status ls__checkpoint_tensor_size(const char *path, const char *tensor, int64_t *rows,
                                     int64_t *columns);

/* ---- a folder of checkpoints ---- */

/* "FOLDER/step-00000500.h5" into `path` of LS__PATH_SIZE characters. */
ls_status ls__checkpoint_path(char *path, const char *folder, int64_t step);

/* Names the checkpoint of `step`, which is in place, as the latest; then removes those of later
 * steps, a future that the run went back from, the oldest until `keep` >= 1 are left, and what
 * writers that were killed left half-written. */
ls_status ls__checkpoint_settle(const char *folder, int64_t step, int64_t keep);

/* The steps of all checkpoints in the folder, whole or not, ascending, in memory that the caller
 * frees. A folder that is not there holds none; one that cannot be read is LS_IO. LS_NO_MEMORY. */
ls_status ls__checkpoint_steps(const char *folder, int64_t **steps, int64_t *count);

/* The newest checkpoint in the folder that passes its seal, as a path of LS__PATH_SIZE characters;
 * a damaged one is passed over with a warning. LS_BAD_INPUT where there is none; LS_IO where one
 * that may be the newest cannot be read. */
ls_status ls__checkpoint_latest(const char *folder, char *path);

#endif
