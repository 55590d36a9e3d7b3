/* The search for a layout: tensor x pipeline x data x micro-batch x sharding x recomputation.
 *
 * Every combination is tried in which tensor divides the heads, pipeline the layers, their product
 * the devices, data x micro-batch the global batch (micro-batches are powers of two), and sharding
 * is 0 where there is one data rank. Those whose fullest device does not fit are dropped, the rest
 * ranked by the predicted step time (plan/step.h). Some ten thousand combinations at most are a few
 * milliseconds. */
#ifndef LS_PLAN_SEARCH_H
#define LS_PLAN_SEARCH_H

#include "plan/step.h"

typedef struct ls__plan_question {
    ls__plan_model model;
    ls__plan_storage storage;
    ls__plan_cluster cluster;
    int64_t devices;
    int64_t batch; /* sequences of a step, all devices together */
} ls__plan_question;

typedef struct ls__plan_candidate {
    ls__plan_layout layout;
    ls__plan_memory memory;
    ls__plan_step step;
} ls__plan_candidate;

/* For each grid tensor x pipeline x data the best of its layouts. */
typedef struct ls__plan_answer {
    ls__plan_candidate *best; /* (count) fastest first */
    int64_t count;
    int64_t tried;     /* layouts */
    int64_t too_large; /* of those: that do not fit */
} ls__plan_answer;

/* LS_BAD_INPUT where nothing fits, saying by how much the smallest is too large, or nothing
 * divides; LS_NO_MEMORY. If this succeeded you must free the answer. */
ls_status ls__plan_search(const ls__plan_question *question, ls__plan_answer *answer);
void ls__plan_answer_free(ls__plan_answer *answer);

#endif
