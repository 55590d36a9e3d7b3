/* A model: what the trainer needs of an MLP or a GPT, and nothing of how it works inside.
 *
 * A model computes one micro-batch at a time: forward to logits, loss, backward. It does not know
 * ranks: backward hands each finished stretch of the gradient to a function it is given.
 *
 * Life cycle: ls__gpt_open or ls__mlp_open takes all memory from an arena, which must outlive the
 * model; ls__model_close gives back the rest. */
#ifndef LS_NN_MODEL_H
#define LS_NN_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/tensors.h"
#include "lockstep/status.h"
#include "math/format.h"
#include "math/scratch.h"

/* One micro-batch. The arrays belong to the caller. */
typedef struct ls__batch {
    int64_t samples;        /* sequences or images, 1 .. the model's micro-batch */
    int64_t length;         /* GPT: tokens per sequence, 1 .. context; MLP: 1 */
    const int32_t *tokens;  /* GPT: (samples, length); MLP: NULL */
    const float *images;    /* MLP: (samples, inputs); GPT: NULL */
    const int32_t *targets; /* (samples, length); NULL where only logits are wanted */
    uint64_t ordinal;       /* step * batch + index of the first sample: keys its dropout */
} ls__batch;

/* Called by backward for each stretch of the flat gradient as soon as an addend for it is complete:
 * `addend` holds `count` values for the elements from `offset` on, valid during the call. A tied
 * weight is used twice, so its stretch comes twice, with an addend each. */
typedef struct ls__gradient_sink {
    void (*ready)(void *context, int64_t offset, int64_t count, const float *addend);
    void *context;
} ls__gradient_sink;

/* Called by forward before it reads the parameters offset .. offset + count - 1, of which those
 * that are read first are asked for first: they may still be on their way. */
typedef struct ls__parameter_gate {
    void (*need)(void *context, int64_t offset, int64_t count); /* NULL: all are there */
    void *context;
} ls__parameter_gate;

typedef struct ls__model ls__model;

typedef struct ls__model_ops {
    /* Fills model->logits for the batch; dropout only where `training`. */
    void (*forward)(ls__model *model, const float *parameters, const ls__batch *batch,
                    bool training);
    /* From d_logits in model->logits, after a training forward of the same batch. */
    void (*backward)(ls__model *model, const float *parameters, const ls__batch *batch,
                     ls__gradient_sink sink);
    void (*close)(ls__model *model);
} ls__model_ops;

struct ls__model {
    const ls__model_ops *ops;
    ls__tensors tensors;
    int64_t micro_batch;     /* the most samples of a batch */
    int64_t context;         /* rows of logits per sample: tokens of a sequence, 1 for an MLP */
    int64_t classes;         /* vocabulary, or classes of images */
    uint64_t seed;           /* keys dropout */
    float loss_scale;        /* which backward multiplies gradients by; 1 from opening */
    ls__format format;       /* of activations, and of the weights that products read */
    ls__parameter_gate gate; /* whoever owns the model sets it */
    ls__values weights;      /* (tensors.total) the parameters, rounded; at NULL for FP32 */
    bool weights_are_old;    /* the parameters have changed since */
    ls__values logits; /* (samples * length, classes): logits, then probabilities, then d_logits */
    float *row;        /* (classes) one row of them */
    ls__scratch scratch;
    float *losses;    /* (samples * length) */
    float *gradients; /* (tensors.total) one micro-batch's addends, under LS__GRADIENTS */
};

void ls__model_close(ls__model *model);

/* To be told whenever the parameters that the functions below are given have changed. */
void ls__model_parameters_changed(ls__model *model);

/* Logits of a batch without targets, no dropout, in model->logits. */
void ls__model_logits(ls__model *model, const float *parameters, const ls__batch *batch);

/* A row of model->logits as FP32: (classes), valid until the next call. */
const float *ls__model_row(const ls__model *model, int64_t row);

/* Forward, then the loss: the mean over the batch's rows of the cross-entropy in nats, summed in
 * FP64 in index order. Leaves probabilities in model->logits. */
double ls__model_loss(ls__model *model, const float *parameters, const ls__batch *batch,
                      bool training);

/* The class with the largest of a row's logits or probabilities; the lowest index among equals. */
int64_t ls__most_probable(const float *row, int64_t classes);

/* How many rows of the batch just computed have their target as the most probable class. */
int64_t ls__model_hits(const ls__model *model, const ls__batch *batch);

/* Gradients of ls__model_loss(..., training) just computed, times model->loss_scale, handed to the
 * sink stretch by stretch. */
void ls__model_backward(ls__model *model, const float *parameters, const ls__batch *batch,
                        ls__gradient_sink sink);

/* For implementations: asks the gate for parameters first .. end - 1, and rounds them for products
 * where they have changed. */
void ls__model_need(const ls__model *model, const float *parameters, int64_t first, int64_t end);

/* For implementations: the weights from `offset` on as products read them. */
ls__values ls__model_weights(const ls__model *model, const float *parameters, int64_t offset);

/* For implementations: takes logits, losses, weights and gradients from the arena once the table of
 * tensors, the sizes and the format are set. */
ls_status ls__model_take_common(ls__model *model, ls__arena *arena);

/* What ls__model_take_scratch takes, for so many threads, in bytes. */
int64_t ls__model_scratch_bytes(ls__format format, int64_t threads, int64_t widest, int64_t classes,
                                int64_t floats, int64_t shared);

/* For implementations: takes scratch for operations on rows of `widest` values and of logits, or
 * for `floats` where that is more; a piece for each thread there is now, and `shared` for all. */
ls_status ls__model_take_scratch(ls__model *model, ls__arena *arena, int64_t widest, int64_t floats,
                                 int64_t shared);

/* For implementations: refuses sizes that a matrix product cannot count. */
ls_status ls__model_check_size(const char *what, int64_t size);

#endif
