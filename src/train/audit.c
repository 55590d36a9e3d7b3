#include "train/audit.h"

#include <string.h>

#include "lockstep/schedule.h"
#include "math/gemm.h"

ls_status ls__audit_open(ls__audit *audit, const ls__train_settings *settings, ls__world *world,
                         ls__model *model, ls__feed *feed, ls__arena *arena)
{
    int64_t size = sizeof(ls__digest);
    int tensors = model->tensors.count;

    *audit = (ls__audit){.settings = settings, .world = world, .model = model, .feed = feed};
    if (settings->audit_every == 0)
        return LS_OK;
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, tensors, size, &audit->own));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, tensors, size, &audit->recomputed));
    LS_TRY(ls__arena_take(arena, LS__COMMUNICATION, tensors, size, &audit->received));
    return ls__arena_take(arena, LS__COMMUNICATION, ls__world_ranks(world), size, &audit->replica);
}

bool ls__audit_due(const ls__audit *audit, int64_t step)
{
    int64_t every = audit->settings->audit_every;

    return every > 0 && step % every == 0;
}

/* Counted in audits, not in steps: else a K that divides a rank's micro-batches would pass over
 * some of them for ever. */
int64_t ls__audit_micro_batch(const ls__audit *audit, int64_t step, int rank)
{
    ls_range own =
        ls_block(ls__micro_batches(audit->settings), ls__world_ranks(audit->world), rank);

    return own.offset + step / audit->settings->audit_every % own.count;
}

/* ---- digests of addends ---- */

/* A tensor may come in several stretches, as a tied weight does: each is chained to those before.
 */
static void add_stretch(ls__digest *digest, const float *values, int64_t count)
{
    ls__digest link[2] = {*digest, ls__digest_of(values, (size_t)count * sizeof *values)};

    *digest = ls__digest_of(link, sizeof link);
}

/* Cuts a stretch of the flat gradient at the tensors' ends. */
static void take_digests(void *context, int64_t offset, int64_t count, const float *addend)
{
    ls__audit *audit = context;
    const ls__tensors *tensors = &audit->model->tensors;

    for (int i = 0; i < tensors->count; i++) {
        const ls__tensor *tensor = &tensors->tensor[i];
        int64_t from = offset > tensor->offset ? offset : tensor->offset;
        int64_t tensor_end = tensor->offset + tensor->count;
        int64_t to = offset + count < tensor_end ? offset + count : tensor_end;
        if (from < to)
            add_stretch(&audit->into[i], addend + (from - offset), to - from);
    }
    if (audit->next.ready)
        audit->next.ready(audit->next.context, offset, count, addend);
}

static ls__gradient_sink tap_into(ls__audit *audit, ls__digest *digests, ls__gradient_sink next)
{
    memset(digests, 0, (size_t)audit->model->tensors.count * sizeof *digests);
    audit->into = digests;
    audit->next = next;
    return (ls__gradient_sink){.ready = take_digests, .context = audit};
}

ls__gradient_sink ls__audit_tap(ls__audit *audit, ls__gradient_sink next)
{
    return tap_into(audit, audit->own, next);
}

/* The first tensor of which two lists of digests differ, or -1. */
static int first_difference(const ls__audit *audit, const ls__digest *a, const ls__digest *b)
{
    for (int i = 0; i < audit->model->tensors.count; i++)
        if (!ls__digest_equal(a[i], b[i]))
            return i;
    return -1;
}

/* ---- gradients ---- */

static void recompute(ls__audit *audit, const float *parameters, int64_t step, int64_t index)
{
    const ls__train_settings *settings = audit->settings;
    int64_t ordinal = (step - 1) * settings->batch + index * settings->micro_batch;
    ls__gradient_sink sink = tap_into(audit, audit->recomputed, (ls__gradient_sink){0});
    ls__batch batch;

    ls__feed_train(audit->feed, ordinal, settings->micro_batch, &batch);
    ls__model_loss(audit->model, parameters, &batch, true);
    ls__model_backward(audit->model, parameters, &batch, sink);
}

static ls_status judge(const ls__audit *audit, int64_t step, int owner, int64_t index)
{
    int tensor = first_difference(audit, audit->recomputed, audit->received);
    int self = ls__world_rank(audit->world);

    LS_TRY(ls__gemm_failed()); /* then it is not the other's fault */
    LS_FAIL_IF(tensor >= 0, LS_COMM,
               "step %lld: the gradient of %s in micro-batch %lld has other bits on rank %d (%s), "
               "which computed it, than on rank %d (%s), which audits: one of these hosts computes "
               "wrongly; test their memory and processors, then go on with --resume",
               (long long)step, audit->model->tensors.tensor[tensor].name, (long long)index, owner,
               ls__world_host(audit->world, owner), self, ls__world_host(audit->world, self));
    return LS_OK;
}

ls_status ls__audit_gradients(ls__audit *audit, const float *parameters, int64_t step)
{
    int ranks = ls__world_ranks(audit->world);
    int self = ls__world_rank(audit->world);
    int owner = (self + 1) % ranks;
    int auditor = (self + ranks - 1) % ranks;
    int64_t bytes = audit->model->tensors.count * (int64_t)sizeof *audit->own;
    int64_t index = ls__audit_micro_batch(audit, step, owner);

    recompute(audit, parameters, step, index);
    LS_TRY(ls__world_swap(audit->world, auditor, audit->own, bytes, owner, audit->received, bytes));
    return ls__world_agree(audit->world, judge(audit, step, owner, index));
}

/* ---- replicas ---- */

static int count_like(const ls__audit *audit, int rank)
{
    int count = 0;

    for (int other = 0; other < ls__world_ranks(audit->world); other++)
        count += ls__digest_equal(audit->replica[other], audit->replica[rank]);
    return count;
}

/* The lowest of the ranks that have the most others like them. */
static int find_typical(const ls__audit *audit)
{
    int best = 0;

    for (int rank = 1; rank < ls__world_ranks(audit->world); rank++)
        if (count_like(audit, rank) > count_like(audit, best))
            best = rank;
    return best;
}

/* The lowest rank that is not like this one, or -1. */
static int find_odd(const ls__audit *audit, int typical)
{
    for (int rank = 0; rank < ls__world_ranks(audit->world); rank++)
        if (!ls__digest_equal(audit->replica[rank], audit->replica[typical]))
            return rank;
    return -1;
}

static ls_status blame(const ls__audit *audit, int64_t step, int odd, int typical)
{
    int tensor = first_difference(audit, audit->own, audit->received);

    return LS_FAIL(LS_COMM,
                   "step %lld: after it rank %d (%s) holds other bits of %s than rank %d (%s)%s: "
                   "test the memory and processors of these hosts, then go on with --resume",
                   (long long)step, odd, ls__world_host(audit->world, odd),
                   tensor < 0 ? "the parameters" : audit->model->tensors.tensor[tensor].name,
                   typical, ls__world_host(audit->world, typical),
                   count_like(audit, typical) > count_like(audit, odd) ? ", as most do" : "");
}

/* All ranks know that two differ, and which: these two find out in what. */
static ls_status compare_tensors(ls__audit *audit, const float *parameters, int64_t step, int odd,
                                 int typical)
{
    const ls__tensors *tensors = &audit->model->tensors;
    int64_t bytes = tensors->count * (int64_t)sizeof *audit->own;
    int self = ls__world_rank(audit->world);

    for (int i = 0; i < tensors->count; i++)
        audit->own[i] = ls__digest_of(parameters + tensors->tensor[i].offset,
                                      (size_t)tensors->tensor[i].count * sizeof *parameters);
    memcpy(audit->received, audit->own, (size_t)bytes);
    LS_TRY(ls__world_broadcast(audit->world, odd, audit->received, bytes));
    return ls__world_agree(audit->world,
                           self == typical ? blame(audit, step, odd, typical) : LS_OK);
}

ls_status ls__audit_replicas(ls__audit *audit, const float *parameters, int64_t step)
{
    size_t bytes = (size_t)audit->model->tensors.total * sizeof *parameters;
    ls__digest mine = ls__digest_of(parameters, bytes);

    LS_TRY(ls__world_all_gather(audit->world, &mine, audit->replica, sizeof mine));
    int typical = find_typical(audit);
    int odd = find_odd(audit, typical);
    return odd < 0 ? LS_OK : compare_tensors(audit, parameters, step, odd, typical);
}
