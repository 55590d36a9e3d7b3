/* lockstep diff: where two runs part. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "ckpt/checkpoint.h"
#include "cli/commands.h"
#include "train/compare.h"
#include "train/metrics.h"
#include "train/run_folder.h"

static const ls__option_table table = {
    .command = "lockstep diff",
    .summary = "the first step, then the first tensor, at which two runs differ",
    .operands = "RUN_A RUN_B",
    .operands_min = 2,
    .operands_max = 2,
};

/* What is read of each of the two. */
typedef struct side {
    const char *run;
    ls__run_folder folder;
    ls__digest *digests; /* (steps) */
    int64_t steps;
    int64_t *kept; /* (kept_count) steps with a checkpoint */
    int64_t kept_count;
    ls__loaded loaded;
} side;

static ls_status read_side(side *s, const char *run)
{
    s->run = run;
    LS_TRY(ls__run_folder_name(&s->folder, run));
    LS_TRY(ls__metrics_read_digests(s->folder.metrics, &s->digests, &s->steps));
    return ls__checkpoint_steps(s->folder.checkpoints, &s->kept, &s->kept_count);
}

static void free_side(side *s)
{
    free(s->digests);
    free(s->kept);
    ls__loaded_close(&s->loaded);
}

/* The first step of which both kept a checkpoint, from `step` on, or -1. */
static int64_t common_checkpoint(const side *a, const side *b, int64_t step)
{
    for (int64_t i = 0; i < a->kept_count; i++)
        for (int64_t j = 0; j < b->kept_count; j++)
            if (a->kept[i] >= step && a->kept[i] == b->kept[j])
                return a->kept[i];
    return -1;
}

static uint32_t bits_of(float value)
{
    uint32_t bits = 0;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void print_element(const side *a, const side *b, int64_t element)
{
    const ls__tensor *tensor = ls__tensors_at(&a->loaded.model->tensors, element);
    int64_t within = element - tensor->offset;
    float left = a->loaded.parameters[element];
    float right = b->loaded.parameters[element];

    printf("first tensor: %s, element [%" PRId64 ", %" PRId64 "]\n", tensor->name,
           within / tensor->columns, within % tensor->columns);
    printf("  %s: 0x%08" PRIx32 "  %.9g\n", a->run, bits_of(left), (double)left);
    printf("  %s: 0x%08" PRIx32 "  %.9g\n", b->run, bits_of(right), (double)right);
    printf("  %" PRId64 " ulps apart\n", ls__ulps_between(left, right));
}

/* Looks into the first checkpoint that both have from the parting on. */
static ls_status compare_tensors(side *a, side *b, int64_t parting)
{
    ls__comparison comparison;
    int64_t step = common_checkpoint(a, b, parting);

    if (step < 0) {
        printf("no checkpoint of step %" PRId64 " or later is kept by both: the tensors cannot be "
               "compared\n",
               parting);
        return LS_OK;
    }
    LS_TRY(ls__load_run(&a->loaded, a->run, step, 1, 0));
    LS_TRY(ls__load_run(&b->loaded, b->run, step, 1, 0));
    LS_TRY(ls__compare(&a->loaded, &b->loaded, &comparison));
    printf("checkpoints of step %" PRId64 ": largest difference %.3g\n", step, comparison.largest);
    if (comparison.first >= 0)
        print_element(a, b, comparison.first);
    return LS_OK;
}

static ls_status compare(side *a, side *b)
{
    int64_t both = a->steps < b->steps ? a->steps : b->steps;
    int64_t same = 0;

    while (same < both && ls__digest_equal(a->digests[same], b->digests[same]))
        same++;
    LS_FAIL_IF(both == 0, LS_BAD_INPUT, "%s has no steps to compare",
               a->steps == 0 ? a->run : b->run);
    if (same == both) {
        printf("the same bits in all %" PRId64 " steps that both have\n", both);
        return LS_OK;
    }
    printf("the first step that differs: %" PRId64 " (of %" PRId64 " that both have)\n", same + 1,
           both);
    LS_TRY(compare_tensors(a, b, same + 1));
    return LS_FAIL(LS_CHECK_FAILED, "the runs differ from step %" PRId64 " on", same + 1);
}

ls_status ls__cli_diff(int argc, char **argv)
{
    static side a;
    static side b;
    ls__parsed parsed;
    char nothing = 0;

    LS_TRY(ls__options_parse(&table, &nothing, argc, argv, &parsed));
    if (parsed.help) {
        ls__options_help(&table, stdout);
        return LS_OK;
    }
    ls_status status = read_side(&a, parsed.operand[0]);
    if (status == LS_OK)
        status = read_side(&b, parsed.operand[1]);
    if (status == LS_OK)
        status = compare(&a, &b);
    free_side(&a);
    free_side(&b);
    return status;
}
