/* A multi-layer perceptron for classification: linear layers with an activation between, none after
 * the last. Tensors: layers.<i>.weight (out, in), layers.<i>.bias (out). Initial weights are normal
 * with deviation sqrt(2 / in) (He et al. 2015, "Delving deep into rectifiers"), biases zero. */
#ifndef LS_NN_MLP_H
#define LS_NN_MLP_H

#include "base/arena.h"
#include "nn/model.h"

enum { LS__MLP_HIDDEN_MAX = 32 };

typedef enum ls__activation {
    LS__RELU,
    LS__GELU,
} ls__activation;

typedef struct ls__mlp_shape {
    int64_t inputs;
    int64_t hidden[LS__MLP_HIDDEN_MAX];
    int hidden_count;
    int64_t classes;
    ls__activation activation;
    ls__format format; /* of activations and of the weights that products read */
} ls__mlp_shape;

ls_status ls__mlp_open(ls__model **model, const ls__mlp_shape *shape, int64_t micro_batch,
                       ls__arena *arena);

#endif
