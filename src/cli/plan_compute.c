/* lockstep plan compute */
#include <math.h>
#include <stdio.h>

#include "cli/plan.h"
#include "plan/flops.h"

#define AT(member) LS__PLAN_AT(member)
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"batch", "1", "sequences", "of a step, all devices together", AT(batch), 1, 0x1p40,
     LS__OPTION_INT, RUN, 0},
    {"recompute", "none", LS__PLAN_RECOMPUTE_NAMES,
     "activations in backward: attention's scores, or whole layers", AT(layout.recompute), 0, 0,
     LS__OPTION_CHOICE, RUN, 0},
    {"devices", "1", "devices", "that share the work evenly", AT(devices), 1, 0x1p20,
     LS__OPTION_INT, RUN, 0},
    {"mfu", "0.4", "share", "of the peak that is reached (model FLOPs utilisation)", AT(share),
     1e-6, 1, LS__OPTION_REAL, RUN, 0},
};

static const ls__plan_command command = {
    .command = "lockstep plan compute",
    .summary = "floating-point operations by part, forward and backward, and their time",
    .flags = LS__PLAN_FLAGS_MODEL | LS__PLAN_FLAGS_FORMATS,
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "A multiplication with its addition counts 2. Backward is twice forward: a product for "
        "the\n"
        "gradient of each operand. Of experts, those that work on a token count. Peaks are of\n"
        "dense products: data sheets often print twice that, for 2:4 sparsity.\n",
};

static const ls__column columns[] = {
    {"part", "part", "", LS__COLUMN_TEXT, 0, 0},
    {"layer_forward_flops", "a layer fwd", "(GFLOP)", LS__COLUMN_FIXED, 1, 1e9},
    {"forward_flops", "forward", "(TFLOP)", LS__COLUMN_FIXED, 3, 1e12},
    {"backward_flops", "backward", "(TFLOP)", LS__COLUMN_FIXED, 3, 1e12},
    {"share", "share", "(%)", LS__COLUMN_FIXED, 1, 0.01},
};

static void print_row(ls__report *report, const char *name, double layer, double forward,
                      double all)
{
    ls__report_row(report, (ls__cell[]){{.text = name},
                                        {.number = layer},
                                        {.number = forward},
                                        {.number = 2 * forward},
                                        {.number = forward / all}});
}

static void print_parts(ls__report *report, const ls__plan_settings *settings)
{
    double batch = (double)settings->batch;
    double all = ls__plan_step_flops(&settings->model, batch, LS__PLAN_RECOMPUTE_NONE) / 3;
    double layer = 0;

    ls__report_table(report, "parts", columns, sizeof columns / sizeof columns[0]);
    for (ls__plan_part part = 0; part < LS__PLAN_PART_COUNT; part++) {
        double one = ls__plan_forward_flops(&settings->model, part, batch);
        bool once = part == LS__PLAN_HEAD;
        layer += once ? 0 : one;
        print_row(report, ls__plan_part_name(part), once ? (double)NAN : one,
                  one * ls__plan_part_times(&settings->model, part), all);
    }
    print_row(report, "total", layer, all, all);
}

static void print_time(ls__report *report, const ls__plan_settings *settings,
                       const ls__plan_machine *machine)
{
    double batch = (double)settings->batch;
    double tokens = batch * (double)settings->model.context;
    double model = ls__plan_step_flops(&settings->model, batch, LS__PLAN_RECOMPUTE_NONE);
    double step = ls__plan_step_flops(&settings->model, batch, settings->layout.recompute);
    double peak = machine->peak * (double)settings->devices;
    double rule = 6 * ls__plan_active_parameters(&settings->model) * tokens;

    printf("a step: %.2f TFLOP, %.2f TFLOP with recomputation; 6 a parameter and token: %.2f\n",
           model / 1e12, step / 1e12, rule / 1e12);
    printf("on %lld x %s, %.1f TFLOP/s each: %.3g s at peak, %.3g s at an MFU of %.0f%%, "
           "%.4g tokens/s\n",
           (long long)settings->devices, machine->name, machine->peak / 1e12, step / peak,
           model / peak / settings->share, 100 * settings->share,
           tokens * peak * settings->share / model);
    ls__report_fact(report, "step_flops", model);
    ls__report_fact(report, "step_flops_with_recomputation", step);
    ls__report_fact(report, "six_parameters_tokens_flops", rule);
    ls__report_fact(report, "seconds_at_peak", step / peak);
    ls__report_fact(report, "seconds_at_mfu", model / peak / settings->share);
}

ls_status ls__cli_plan_compute(int argc, char **argv)
{
    static ls__plan_settings settings;
    ls__plan_machine machine;
    ls__report report;
    bool help = false;

    LS_TRY(ls__plan_parse(&command, &settings, argc, argv, &help));
    if (help)
        return LS_OK;
    LS_TRY(ls__plan_machine_of(&settings, &machine));
    LS_TRY(ls__report_open(&report, settings.json));
    ls__plan_print_model(&settings);
    printf("%lld sequences of %lld tokens\n\n", (long long)settings.batch,
           (long long)settings.model.context);
    print_parts(&report, &settings);
    printf("\n");
    print_time(&report, &settings, &machine);
    return ls__report_close(&report);
}
