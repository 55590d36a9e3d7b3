#include <math.h>

#include "math/ops.h"
#include "math/softmax.h"

/* -log(p) = log(sum of exponentials) - (logit - largest), which is finite where p is not. */
static float forward_row(float *row, int32_t target, int64_t classes)
{
    float largest = ls__max(row, classes);
    float below = row[target] - largest;
    float sum = ls__softmax_exponentials(row, largest, classes);

    ls__scale(row, row, 1 / sum, classes);
    return (float)(log((double)sum) - (double)below);
}

void ls__cross_entropy_forward(float *loss, float *logits, const int32_t *targets, int64_t rows,
                               int64_t classes)
{
    for (int64_t r = 0; r < rows; r++)
        loss[r] = forward_row(logits + r * classes, targets[r], classes);
}

void ls__cross_entropy_backward(float *probabilities, const int32_t *targets, float scale,
                                int64_t rows, int64_t classes)
{
    for (int64_t r = 0; r < rows; r++)
        probabilities[r * classes + targets[r]] -= 1;
    ls__scale(probabilities, probabilities, scale, rows * classes);
}
