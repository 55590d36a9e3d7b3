#include "train/compare.h"

#include <math.h>
#include <string.h>

ls_status ls__compare(const ls__loaded *a, const ls__loaded *b, ls__comparison *result)
{
    int64_t total = a->model->tensors.total;
    int64_t at = -1;

    LS_FAIL_IF(total != b->model->tensors.total, LS_BAD_INPUT,
               "the runs have %lld and %lld parameters: only runs of one model can be compared",
               (long long)total, (long long)b->model->tensors.total);
    *result = (ls__comparison){.same_bits = true};
    for (int64_t i = 0; i < total; i++) {
        if (memcmp(&a->parameters[i], &b->parameters[i], sizeof *a->parameters) == 0)
            continue;
        double difference = fabs((double)a->parameters[i] - (double)b->parameters[i]);
        result->same_bits = false;
        /* Written so that NaN counts as larger than any number. */
        if (at < 0 || !(difference <= result->largest)) {
            result->largest = difference;
            at = i;
        }
    }
    if (at >= 0)
        result->where = ls__tensors_at(&a->model->tensors, at)->name;
    return LS_OK;
}
