/* Optimizers over flat parameters. Everything is elementwise, so a stretch can be updated alone
 * and by anyone who holds its gradient.
 *
 * AdamW: I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", ICLR 2019; the order of
 * operations is PyTorch's torch.optim.AdamW. SGD with momentum: torch.optim.SGD, its weight decay
 * decoupled as AdamW's. Weight decay is for matrices only, never for biases and norms. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include <stdint.h>

#include "base/arena.h"
#include "base/tensors.h"
#include "lockstep/status.h"

typedef enum ls__optimizer_kind {
    LS__ADAMW,
    LS__SGD,
} ls__optimizer_kind;

/* State arrays of a kind, in order: AdamW keeps two, SGD one. */
enum { LS__OPTIMIZER_STATES = 2 };

typedef struct ls__optimizer_settings {
    ls__optimizer_kind kind;
    double weight_decay;
    double beta1, beta2; /* AdamW */
    double epsilon;      /* AdamW: 1e-8 */
    double momentum;     /* SGD */
} ls__optimizer_settings;

typedef struct ls__optimizer {
    ls__optimizer_settings settings;
    const ls__tensors *tensors;         /* not owned */
    float *state[LS__OPTIMIZER_STATES]; /* (kept) each; NULL where the kind has none */
} ls__optimizer;

/* How many state arrays a kind keeps, and what they are called ("exp_avg"). */
int ls__optimizer_state_count(ls__optimizer_kind kind);
const char *ls__optimizer_state_name(ls__optimizer_kind kind, int index);

/* Takes state for `kept` elements from the arena, zero: for all parameters, or for a share of them.
 * There is nothing to close. `tensors` must outlive it. */
ls_status ls__optimizer_open(ls__optimizer *optimizer, const ls__optimizer_settings *settings,
                             const ls__tensors *tensors, int64_t kept, ls__arena *arena);

/* Updates parameters[first .. first+count-1] from gradients at the same indices, with the state
 * that begins at `state`, on all threads of ls__threads_run. `update` counts from 1: AdamW's bias
 * correction. */
void ls__optimizer_step(ls__optimizer *optimizer, float *parameters, const float *gradients,
                        double learning_rate, int64_t update, int64_t first, int64_t count,
                        int64_t state);

#endif
