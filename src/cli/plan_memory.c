/* lockstep plan memory */
#include <stdio.h>

#include "cli/plan.h"

#define AT(member) LS__PLAN_AT(member)
#define RUN        LS__SCOPE_RUN

static const ls__option options[] = {
    {"params", "", "COUNT", "so many parameters instead of a model, of no known shape", AT(params),
     1, 1e18, LS__OPTION_REAL, RUN, 0},
    {"tp", "1", "devices", "tensor parallel: they share each layer", AT(layout.tensor), 1, 65536,
     LS__OPTION_INT, RUN, 0},
    {"pp", "1", "stages", "pipeline parallel: each has a run of the layers", AT(layout.pipeline), 1,
     65536, LS__OPTION_INT, RUN, 0},
    {"dp", "1", "ranks", "data parallel: each has other micro-batches", AT(layout.data), 1, 0x1p20,
     LS__OPTION_INT, RUN, 0},
    {"micro-batch", "1", "sequences", "computed together", AT(layout.micro_batch), 1, 0x1p20,
     LS__OPTION_INT, RUN, 0},
    {"micro-batches", "0", "count", "that a replica computes in a step; 0: as many as stages",
     AT(layout.micro_batches), 0, 0x1p20, LS__OPTION_INT, RUN, 0},
    {"sharding", "0", "0..3",
     "over the data ranks: 1 the optimizer, 2 gradients too, 3 parameters too (ZeRO)",
     AT(layout.sharding), 0, 3, LS__OPTION_INT, RUN, 0},
    {"recompute", "none", LS__PLAN_RECOMPUTE_NAMES,
     "activations in backward: attention's scores, or whole layers", AT(layout.recompute), 0, 0,
     LS__OPTION_CHOICE, RUN, 0},
};

static const ls__plan_command command = {
    .command = "lockstep plan memory",
    .summary = "what a device holds in training, and whether it fits",
    .flags = LS__PLAN_FLAGS_MODEL | LS__PLAN_FLAGS_FORMATS | LS__PLAN_FLAGS_STATES |
             LS__PLAN_FLAGS_MEMORY,
    .option = options,
    .count = sizeof options / sizeof options[0],
    .notes =
        "A layer keeps, for b sequences of s tokens, h channels and a heads in 16-bit numbers,\n"
        "s b h (34 + 5 a s / h) bytes (Korthikanti et al. 2022). The simple formula that is often\n"
        "repeated, B n (3 d + n + 4 d) elements, leaves out the heads' score matrices and most of\n"
        "the MLP's inner values. Both are printed. lockstep train's own ledger confirms the\n"
        "first without its masks and scores: 64 s b h bytes in FP32, half of that in 16 bits, and\n"
        "8 a s b of attention, which computes scores again.\n"
        "\n"
        "GB are 1e9 bytes. What is printed is of the device that holds the most. A driver, its\n"
        "libraries and fragmentation take some GB more.\n",
};

static const ls__column columns[] = {
    {"category", "category", "", LS__COLUMN_TEXT, 0, 0},
    {"bytes", "memory", "(GB)", LS__COLUMN_FIXED, 3, 1e9},
    {"bytes_per_parameter", "a parameter", "(bytes)", LS__COLUMN_FIXED, 2, 0},
};

static void print_ledger(ls__report *report, const ls__plan_memory *memory, double parameters)
{
    const struct {
        const char *name;
        double bytes;
    } rows[] = {
        {"parameters", memory->parameters},       {"gradients", memory->gradients},
        {"optimizer", memory->optimizer},         {"master copy", memory->master},
        {"activations", memory->activations},     {"buffers", memory->buffers},
        {"total", ls__plan_memory_total(memory)},
    };

    ls__report_table(report, "ledger", columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ls__report_row(report, (ls__cell[]){{.text = rows[i].name},
                                            {.number = rows[i].bytes},
                                            {.number = rows[i].bytes / parameters}});
}

/* The two formulas for activations, side by side. */
static void print_activations(ls__report *report, const ls__plan_settings *settings,
                              const ls__plan_memory *memory)
{
    ls__plan_layout all_kept = settings->layout;

    all_kept.recompute = LS__PLAN_RECOMPUTE_NONE;
    double layer = ls__plan_layer_activations(&settings->model, &settings->storage, &all_kept);
    double simple = ls__plan_simple_activations(&settings->model, &settings->storage,
                                                settings->layout.micro_batch);
    double simple_layers = simple * (double)settings->model.layers;
    double states = memory->parameters + memory->gradients + memory->optimizer + memory->master;

    printf("a layer's activations, all kept: %.3f GB; the simple formula's %.3f GB (%.2f GB for "
           "all layers, "
           "%.2f GB with the states above) leave out the score matrices and the MLP's inner "
           "values\n",
           layer / 1e9, simple / 1e9, simple_layers / 1e9, (simple_layers + states) / 1e9);
    ls__report_fact(report, "layer_activations_bytes", layer);
    ls__report_fact(report, "simple_layer_activations_bytes", simple);
    ls__report_fact(report, "simple_total_bytes", simple_layers + states);
}

static void print_fit(ls__report *report, const ls__plan_settings *settings,
                      const ls__plan_machine *machine, double total)
{
    bool fits = total <= machine->memory;

    if (fits)
        printf("fits on %s: %.1f of %.1f GB are left", machine->name,
               (machine->memory - total) / 1e9, machine->memory / 1e9);
    else
        printf("does not fit on %s: %.1f GB more than its %.1f GB", machine->name,
               (total - machine->memory) / 1e9, machine->memory / 1e9);
    ls__report_fact(report, "fits", fits);
    if (settings->model.count > 0) {
        printf(", before activations: for those name a --model\n");
        return;
    }
    int64_t most = ls__plan_largest_micro_batch(&settings->model, &settings->storage,
                                                &settings->layout, machine->memory);
    if (most > 0)
        printf("; the largest micro-batch that fits is %lld\n", (long long)most);
    else
        printf("; no micro-batch does\n");
    ls__report_fact(report, "largest_micro_batch", (double)most);
}

static void print_format(const ls__plan_storage *storage)
{
    ls__plan_number number = ls__plan_number_of((ls__plan_format)storage->format);

    printf("%s: %.0f bytes, spacing 2^-%d at 1, normal from %.2g to %.6g\n", number.name,
           number.bytes, number.fraction_bits, number.smallest, number.largest);
}

static void print_all(ls__report *report, const ls__plan_settings *settings,
                      const ls__plan_machine *machine)
{
    const ls__plan_layout *layout = &settings->layout;
    double parameters = ls__plan_device_parameters(&settings->model, layout);
    ls__plan_memory memory = ls__plan_memory_of(&settings->model, &settings->storage, layout);

    if (settings->model.count > 0)
        printf("%.4g G parameters\n", settings->model.count / 1e9);
    else
        ls__plan_print_model(settings);
    printf("TP %lld x PP %lld x DP %lld: %.4g G parameters a device on average, sharding %lld\n\n",
           (long long)layout->tensor, (long long)layout->pipeline, (long long)layout->data,
           parameters / 1e9, (long long)layout->sharding);
    print_ledger(report, &memory, parameters);
    ls__report_fact(report, "device_parameters", parameters);
    printf("\n");
    if (settings->model.count <= 0)
        print_activations(report, settings, &memory);
    print_fit(report, settings, machine, ls__plan_memory_total(&memory));
    print_format(&settings->storage);
}

static ls_status settle(ls__plan_settings *settings)
{
    if (settings->params > 0)
        settings->model = (ls__plan_model){.count = settings->params};
    if (settings->layout.micro_batches == 0)
        settings->layout.micro_batches = settings->layout.pipeline;
    LS_FAIL_IF(settings->layout.sharding > 0 && settings->layout.data == 1, LS_BAD_USAGE,
               "--sharding %lld needs data ranks to shard over: give --dp above 1",
               (long long)settings->layout.sharding);
    return ls__plan_layout_check(&settings->model, &settings->layout);
}

ls_status ls__cli_plan_memory(int argc, char **argv)
{
    static ls__plan_settings settings;
    ls__plan_machine machine;
    ls__report report;
    bool help = false;

    LS_TRY(ls__plan_parse(&command, &settings, argc, argv, &help));
    if (help)
        return LS_OK;
    LS_TRY(settle(&settings));
    LS_TRY(ls__plan_machine_of(&settings, &machine));
    LS_TRY(ls__report_open(&report, settings.json));
    print_all(&report, &settings, &machine);
    return ls__report_close(&report);
}
