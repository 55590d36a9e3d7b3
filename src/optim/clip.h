/* The gradient's norm, and clipping by it. */
#ifndef LS_OPTIM_CLIP_H
#define LS_OPTIM_CLIP_H

#include <stdint.h>

/* The Euclidean norm of a vector, in FP64: sums over blocks of LS__NORM_BLOCK elements, each in one
 * fixed order, folded in order of their index. The same bits whoever computes it. Not finite where
 * an element is not. */
enum { LS__NORM_BLOCK = 256 };
double ls__norm(const float *values, int64_t count); /* on all threads of ls__threads_run */

/* The same in two parts, for ranks that hold a share of the vector each: the sum of squares of a
 * block of 1 .. LS__NORM_BLOCK elements, and the norm from the sums of all blocks. */
double ls__norm_block(const float *values, int64_t count);
double ls__norm_of_blocks(const double *block, int64_t blocks);

/* What to multiply a gradient of this norm by so that its norm is at most `limit`: 1 where it is,
 * else limit / (norm + 1e-6), as torch.nn.utils.clip_grad_norm_. limit 0: no clipping. */
double ls__clip_factor(double norm, double limit);

/* values[i] *= factor, on all threads. */
void ls__clip(float *values, int64_t count, float factor);

#endif
