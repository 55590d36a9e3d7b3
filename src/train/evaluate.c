#include "train/evaluate.h"

#include "lockstep/schedule.h"
#include "math/gemm.h"

ls_status ls__evaluator_open(ls__evaluator *evaluator, ls__world *world, ls__model *model,
                             ls__feed *feed, int64_t wanted, ls__arena *arena)
{
    int64_t all = ls__feed_held_out_count(feed);
    int64_t samples = wanted > 0 && wanted < all ? wanted : all;
    int64_t micro_batch = model->micro_batch;

    *evaluator = (ls__evaluator){.world = world,
                                 .model = model,
                                 .feed = feed,
                                 .samples = samples,
                                 .micro_batch = micro_batch,
                                 .slots = (samples + micro_batch - 1) / micro_batch};
    return ls__arena_take(arena, LS__COMMUNICATION, evaluator->slots, sizeof(ls__eval_slot),
                          &evaluator->slot);
}

void ls__evaluator_batch(ls__evaluator *evaluator, int64_t index, ls__batch *batch)
{
    int64_t first = index * evaluator->micro_batch;
    int64_t left = evaluator->samples - first;
    int64_t samples = left < evaluator->micro_batch ? left : evaluator->micro_batch;

    ls__feed_held_out(evaluator->feed, evaluator->samples, first, samples, batch);
}

static void fill_slot(ls__evaluator *evaluator, const float *parameters, int64_t index)
{
    ls__batch batch;

    ls__evaluator_batch(evaluator, index, &batch);
    double loss = ls__model_loss(evaluator->model, parameters, &batch, false);
    evaluator->slot[index].loss = loss * (double)batch.samples;
    evaluator->slot[index].hits = (double)ls__model_hits(evaluator->model, &batch);
}

ls_status ls__evaluate(ls__evaluator *evaluator, const float *parameters, ls__evaluation *result)
{
    ls_range mine = ls_block(evaluator->slots, ls__world_ranks(evaluator->world),
                             ls__world_rank(evaluator->world));
    double rows = (double)evaluator->samples * (double)evaluator->model->context;

    *result = (ls__evaluation){.samples = evaluator->samples};
    for (int64_t i = mine.offset; i < mine.offset + mine.count; i++)
        fill_slot(evaluator, parameters, i);
    LS_TRY(ls__world_agree(evaluator->world, ls__gemm_failed()));
    LS_TRY(ls__world_all_gather_blocks(evaluator->world, evaluator->slot, evaluator->slots,
                                       sizeof(ls__eval_slot)));
    for (int64_t i = 0; i < evaluator->slots; i++) {
        result->loss += evaluator->slot[i].loss;
        result->accuracy += evaluator->slot[i].hits;
    }
    if (evaluator->samples > 0) {
        result->loss /= (double)evaluator->samples;
        result->accuracy /= rows;
    }
    return LS_OK;
}
