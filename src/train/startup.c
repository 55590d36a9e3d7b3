#include "train/startup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/version.h"
#include "lockstep/exact.h"
#include "math/gemm.h"

enum { WORD = 64, LIBRARY = 192, NAMES = 512, NAMED_RANKS = 4 };

ls_status ls__startup_memory(ls__world *world, int64_t *bytes)
{
    *bytes = ls__memory_available() / ls__world_host_ranks(world);
    return ls__world_barrier(world);
}

/* ---- the canary ---- */

static void hash_addend(void *stream, int64_t offset, int64_t count, const float *addend)
{
    ls__digest_add(stream, &offset, sizeof offset);
    ls__digest_add(stream, addend, (size_t)count * sizeof *addend);
}

/* The loss leaves probabilities where the logits were. A logit that differs and shows in neither
 * them nor the losses has no way to the gradient. */
static void hash_forward(ls__digest_stream *stream, ls__model *model, const float *parameters,
                         const ls__batch *batch, bool training)
{
    size_t rows = (size_t)(batch->samples * batch->length);
    double loss = ls__model_loss(model, parameters, batch, training);

    ls__digest_add(stream, &loss, sizeof loss);
    ls__digest_add(stream, model->losses, rows * sizeof *model->losses);
    ls__digest_add(stream, model->logits.at,
                   rows * (size_t)(model->classes * ls__value_bytes(model->format)));
}

static void hash_held_out(ls__digest_stream *stream, ls__evaluator *evaluator,
                          const float *parameters)
{
    int64_t ends[] = {0, evaluator->slots - 1};
    ls__batch batch;

    for (int i = 0; i < 2 && evaluator->slots > 0; i++) {
        ls__evaluator_batch(evaluator, ends[i], &batch);
        hash_forward(stream, evaluator->model, parameters, &batch, false);
    }
}

ls_status ls__canary_run(ls__canary *canary, ls__evaluator *evaluator, const float *parameters,
                         bool trains)
{
    ls__model *model = evaluator->model;
    ls__digest_stream *stream = NULL;
    ls__batch batch;

    *canary = (ls__canary){0};
    canary->weights = ls__digest_of(parameters, (size_t)model->tensors.total * sizeof *parameters);
    LS_TRY(ls__digest_open(&stream));
    hash_held_out(stream, evaluator, parameters);
    if (trains) {
        ls__feed_train(evaluator->feed, 0, model->micro_batch, &batch);
        hash_forward(stream, model, parameters, &batch, true);
    }
    canary->forward = ls__digest_finish(stream);
    if (!trains)
        return LS_OK;
    LS_TRY(ls__digest_open(&stream));
    ls__model_backward(model, parameters, &batch, (ls__gradient_sink){hash_addend, stream});
    canary->backward = ls__digest_finish(stream);
    return LS_OK;
}

/* ---- comparing ---- */

/* What a rank tells the others of itself. */
typedef struct machine {
    char version[WORD];
    char core[WORD];
    char library[LIBRARY];
    char engine[WORD]; /* of products in the run's precision, and of attention's */
    ls__canary canary;
} machine;

/* What two machines must have in common, causes before effects, and what to do where not. */
static const struct aspect {
    const char *name;
    const char *advice;
} aspects[] = {
    {"version of lockstep", "install one version on all hosts"},
    {"OpenBLAS core", "set OPENBLAS_CORETYPE to one core that all hosts have"},
    {"build of OpenBLAS", "install one build on all hosts"},
    {"engine of products", "set ONEDNN_MAX_CPU_ISA to what all hosts have"},
    {"digest of the initial weights", "use one build, C library and kind of processor"},
    {"digest of a test forward pass", "use one build, C library and kind of processor"},
    {"digest of a test backward pass", "use one build, C library and kind of processor"},
};

enum { ASPECTS = sizeof aspects / sizeof aspects[0], WORDS = 4 }; /* words, then digests */

static const char *value_of(const machine *m, int aspect, char digest[LS__DIGEST_TEXT])
{
    const char *words[] = {m->version, m->core, m->library, m->engine};
    ls__digest digests[] = {m->canary.weights, m->canary.forward, m->canary.backward};

    return aspect < WORDS ? words[aspect] : ls__digest_format(digests[aspect - WORDS], digest);
}

void ls__startup_engine(char *text, size_t size, ls__format precision)
{
    snprintf(text, size, "%s, attention %s", ls__gemm_engine(precision), ls__gemm_small_engine());
}

static machine describe(const ls__canary *canary, ls__format precision)
{
    machine mine = {.canary = *canary};

    snprintf(mine.version, sizeof mine.version, "%s", LS__VERSION);
    snprintf(mine.core, sizeof mine.core, "%s", ls__gemm_core());
    snprintf(mine.library, sizeof mine.library, "%s", ls__gemm_library());
    ls__startup_engine(mine.engine, sizeof mine.engine, precision);
    return mine;
}

/* The first aspect in which two machines differ; ASPECTS: in none. */
static int difference(const machine *a, const machine *b)
{
    char left[LS__DIGEST_TEXT];
    char right[LS__DIGEST_TEXT];
    int i = 0;

    while (i < ASPECTS && strcmp(value_of(a, i, left), value_of(b, i, right)) == 0)
        i++;
    return i;
}

/* "rank 1 (here), rank 3 (there) and 4 more": those that differ from rank 0. */
static void name_ranks(char *text, const machine *all, ls__world *world)
{
    int count = 0;
    size_t used = 0;

    for (int rank = 1; rank < ls__world_ranks(world); rank++) {
        if (difference(&all[0], &all[rank]) == ASPECTS || count++ >= NAMED_RANKS)
            continue;
        used += (size_t)snprintf(text + used, NAMES - used, "%srank %d (%.64s)",
                                 count > 1 ? ", " : "", rank, ls__world_host(world, rank));
    }
    if (count > NAMED_RANKS)
        snprintf(text + used, NAMES - used, " and %d more", count - NAMED_RANKS);
}

static ls_status judge(const machine *all, ls__world *world)
{
    char names[NAMES];
    char here[LS__DIGEST_TEXT];
    char there[LS__DIGEST_TEXT];
    int other = 1;

    while (other < ls__world_ranks(world) && difference(&all[0], &all[other]) == ASPECTS)
        other++;
    if (other >= ls__world_ranks(world))
        return LS_OK;
    int i = difference(&all[0], &all[other]);
    name_ranks(names, all, world);
    return LS_FAIL(LS_BAD_INPUT, "not the same bits on %s as on rank 0 (%.64s): %s %s, not %s: %s",
                   names, ls__world_host(world, 0), aspects[i].name,
                   value_of(&all[other], i, there), value_of(&all[0], i, here), aspects[i].advice);
}

/* All could find the same; rank 0 says it. */
static ls_status verdict(const machine *all, ls__world *world, bool exact)
{
    if (ls__world_rank(world) != 0 || judge(all, world) == LS_OK)
        return LS_OK;
    if (exact)
        return LS_BAD_INPUT;
    ls__log_warning("%s", ls_last_error()->text);
    return LS_OK;
}

/* Rounding and subnormal numbers, on which exact sums stand. */
static ls_status check_arithmetic(ls__world *world)
{
    char why[LS_ERROR_TEXT];
    int rank = ls__world_rank(world);

    if (ls_exact_check_machine() == LS_OK)
        return LS_OK;
    snprintf(why, sizeof why, "%s", ls_last_error()->text);
    return LS_FAIL(LS_BAD_INPUT, "rank %d (%.64s): %.800s", rank, ls__world_host(world, rank), why);
}

/* `all` (ranks) is room to gather in, NULL where this rank has none. */
static ls_status compare(ls__world *world, const machine *mine, machine *all, bool exact)
{
    LS_TRY(ls__world_agree(world, exact ? check_arithmetic(world) : LS_OK));
    LS_TRY(ls__world_agree(world,
                           all ? LS_OK : LS_FAIL(LS_NO_MEMORY, "no memory to compare the ranks")));
    LS_TRY(ls__world_all_gather(world, mine, all, sizeof *mine));
    return ls__world_agree(world, all ? verdict(all, world, exact) : LS_OK);
}

ls_status ls__startup_compare(ls__world *world, const ls__canary *canary, ls__format precision,
                              bool exact)
{
    machine mine = describe(canary, precision);
    machine *all = calloc((size_t)ls__world_ranks(world), sizeof *all);
    ls_status status = compare(world, &mine, all, exact);

    free(all);
    return status;
}

void ls__startup_compare_checkpoint(const char *core, const char *engine, ls__format precision)
{
    char own[WORD];

    if (strcmp(core, ls__gemm_core()) != 0)
        ls__log_warning("the checkpoint was made on the OpenBLAS core %s, this is %s: from here on "
                        "the bits are not those that %s would give (OPENBLAS_CORETYPE sets the "
                        "core)",
                        core, ls__gemm_core(), core);
    ls__startup_engine(own, sizeof own, precision);
    if (engine[0] && strcmp(engine, own) != 0)
        ls__log_warning("the checkpoint was made with products by %s, here they are by %s: from "
                        "here on the bits may differ (ONEDNN_MAX_CPU_ISA sets oneDNN's)",
                        engine, own);
}
