#include "train/feed.h"

#include "data/sampler.h"

static bool is_text(const ls__feed *feed)
{
    return ls__dataset_about(feed->dataset)->kind == LS__DATASET_TEXT;
}

/* Training samples to choose from: window starts, or images. */
static int64_t population(const ls__dataset *dataset, int64_t context)
{
    const ls__dataset_info *info = ls__dataset_about(dataset);

    if (info->kind == LS__DATASET_IMAGES)
        return info->count[LS__SPLIT_TRAIN];
    return ls__window_population(info->count[LS__SPLIT_TRAIN], context);
}

ls_status ls__feed_check(const ls__dataset *dataset, const ls__train_settings *settings)
{
    bool text = ls__dataset_about(dataset)->kind == LS__DATASET_TEXT;

    LS_FAIL_IF(text != (settings->model == LS__MODEL_GPT), LS_BAD_USAGE,
               "--model %s does not fit %s, which holds %s: use --model %s", text ? "mlp" : "gpt",
               ls__dataset_path(dataset), text ? "text" : "images", text ? "gpt" : "mlp");
    if (text)
        LS_TRY(ls__dataset_check_context(dataset, LS__SPLIT_TRAIN, settings->context));
    return LS_OK;
}

ls_status ls__feed_check_step(const ls__dataset *dataset, const ls__train_settings *settings)
{
    const ls__dataset_info *info = ls__dataset_about(dataset);
    bool text = info->kind == LS__DATASET_TEXT;

    if (population(dataset, settings->context) >= settings->batch)
        return LS_OK;
    LS_FAIL_IF(text, LS_BAD_INPUT,
               "%s: a step takes --batch %lld sequences of --context %lld tokens, which needs %lld "
               "training tokens, and there are %lld: use more text, or a smaller batch",
               ls__dataset_path(dataset), (long long)settings->batch, (long long)settings->context,
               (long long)(settings->batch + settings->context),
               (long long)info->count[LS__SPLIT_TRAIN]);
    return LS_FAIL(LS_BAD_INPUT,
                   "%s: a step takes --batch %lld training images, and there are %lld: use more "
                   "images, or a smaller batch",
                   ls__dataset_path(dataset), (long long)settings->batch,
                   (long long)info->count[LS__SPLIT_TRAIN]);
}

ls_status ls__feed_compare_data(const ls__dataset *dataset, ls__world *world)
{
    int rank = ls__world_rank(world);
    ls__digest mine = ls__dataset_digest(dataset);
    ls__digest first = mine;
    ls_status status = LS_OK;

    LS_TRY(ls__world_broadcast(world, 0, &first, sizeof first));
    if (!ls__digest_equal(mine, first))
        status = LS_FAIL(LS_BAD_INPUT,
                         "%s holds other data on rank %d (%s) than on rank 0 (%s): give all hosts "
                         "the same file",
                         ls__dataset_path(dataset), rank, ls__world_host(world, rank),
                         ls__world_host(world, 0));
    return ls__world_agree(world, status);
}

ls_status ls__feed_open(ls__feed *feed, const ls__dataset *dataset,
                        const ls__train_settings *settings, int64_t micro_batch, ls__arena *arena)
{
    const ls__dataset_info *info = ls__dataset_about(dataset);
    bool text = info->kind == LS__DATASET_TEXT;
    int64_t row = sizeof(int32_t);

    *feed = (ls__feed){.dataset = dataset,
                       .context = text ? settings->context : 1,
                       .inputs = text ? 0 : info->rows * info->cols,
                       .seed = (uint64_t)settings->seed};
    if (text)
        LS_TRY(ls__arena_take(arena, LS__DATA, micro_batch, feed->context * row, &feed->tokens));
    else
        LS_TRY(ls__arena_take(arena, LS__DATA, micro_batch, feed->inputs * (int64_t)sizeof(float),
                              &feed->images));
    return ls__arena_take(arena, LS__DATA, micro_batch, feed->context * row, &feed->targets);
}

/* Puts one sample at place `slot` of the micro-batch. */
static void put(ls__feed *feed, ls__split split, int64_t sample, int64_t slot)
{
    if (is_text(feed))
        ls__dataset_window(feed->dataset, split, sample, feed->context,
                           feed->tokens + slot * feed->context,
                           feed->targets + slot * feed->context);
    else
        ls__dataset_image(feed->dataset, split, sample, feed->images + slot * feed->inputs,
                          feed->targets + slot);
}

static ls__batch batch_of(const ls__feed *feed, int64_t samples, uint64_t ordinal)
{
    return (ls__batch){.samples = samples,
                       .length = feed->context,
                       .tokens = feed->tokens,
                       .images = feed->images,
                       .targets = feed->targets,
                       .ordinal = ordinal};
}

void ls__feed_train(ls__feed *feed, int64_t ordinal, int64_t samples, ls__batch *batch)
{
    int64_t choices = population(feed->dataset, feed->context);

    for (int64_t i = 0; i < samples; i++)
        put(feed, LS__SPLIT_TRAIN, ls__sample_at(feed->seed, choices, ordinal + i), i);
    *batch = batch_of(feed, samples, (uint64_t)ordinal);
}

int64_t ls__feed_held_out_count(const ls__feed *feed)
{
    int64_t count = ls__dataset_about(feed->dataset)->count[LS__SPLIT_HELD_OUT];

    return is_text(feed) ? ls__eval_windows(count, feed->context) : count;
}

void ls__feed_held_out(ls__feed *feed, int64_t wanted, int64_t first, int64_t samples,
                       ls__batch *batch)
{
    int64_t all = ls__feed_held_out_count(feed);
    int64_t stride = is_text(feed) ? feed->context : 1;

    for (int64_t i = 0; i < samples; i++)
        put(feed, LS__SPLIT_HELD_OUT, ls__spread_at(all, wanted, first + i) * stride, i);
    *batch = batch_of(feed, samples, 0);
}
