#include "train/load.h"

#include <stdio.h>

#include "train/assemble.h"
#include "train/run_folder.h"

/* A checkpoint is loaded without its dataset, so what the model owes to the data is read from the
 * shapes of its tensors. */
static ls_status data_shape(const char *path, const ls__train_settings *settings,
                            ls__data_shape *shape)
{
    char last[LS__TENSOR_NAME];
    int64_t other = 0;

    if (settings->model == LS__MODEL_GPT)
        return ls__checkpoint_tensor_size(path, "wte.weight", &shape->classes, &other);
    snprintf(last, sizeof last, "layers.%d.weight", settings->hidden.count);
    LS_TRY(ls__checkpoint_tensor_size(path, "layers.0.weight", &other, &shape->inputs));
    return ls__checkpoint_tensor_size(path, last, &shape->classes, &other);
}

/* What is found out, step by step, of the checkpoint to load. */
typedef struct source {
    ls__run_folder folder;
    int64_t step; /* -1: the newest */
    char path[LS__PATH_SIZE];
} source;

static ls_status find(source *from)
{
    if (from->step >= 0)
        return ls__checkpoint_path(from->path, from->folder.checkpoints, from->step);
    return ls__checkpoint_latest(from->folder.checkpoints, from->path);
}

/* A run that is training may save and remove meanwhile: then there is a newer one to load. */
static bool moved_on(const source *from)
{
    return from->step < 0 && !ls__path_exists(from->path);
}

static ls_status inspect(source *from, ls__loaded *loaded, const char *run, ls__data_shape *shape)
{
    ls_status status = LS_OK;

    ls__options_preset(&ls__train_options, &loaded->settings);
    LS_TRY(ls__run_folder_settings(run, &loaded->settings));
    LS_TRY(ls__run_folder_name(&from->folder, run));
    do {
        LS_TRY(find(from));
        status = data_shape(from->path, &loaded->settings, shape);
    } while (status != LS_OK && moved_on(from));
    return status;
}

static ls_status assemble(ls__loaded *loaded, ls__data_shape shape, int64_t micro_batch,
                          int64_t limit)
{
    LS_TRY(ls__arena_open(&loaded->arena, limit));
    LS_TRY(ls__assemble_model(&loaded->model, &loaded->settings, shape,
                              micro_batch > 0 ? micro_batch : loaded->settings.micro_batch,
                              loaded->arena));
    return ls__arena_take(loaded->arena, LS__PARAMETERS, loaded->model->tensors.total,
                          sizeof(float), &loaded->parameters);
}

static ls_status fill(source *from, ls__loaded *loaded)
{
    ls_status status = LS_OK;
    ls__checkpoint_arrays arrays = {.tensors = &loaded->model->tensors,
                                    .parameters = loaded->parameters};

    do {
        LS_TRY(find(from));
        status = ls__checkpoint_read(from->path, &loaded->info, &arrays);
    } while (status != LS_OK && moved_on(from));
    return status;
}

static ls_status load(ls__loaded *loaded, source *from, const char *run, int64_t micro_batch,
                      int64_t limit)
{
    ls__data_shape shape = {0};

    LS_TRY(inspect(from, loaded, run, &shape));
    LS_TRY(assemble(loaded, shape, micro_batch, limit));
    return fill(from, loaded);
}

ls_status ls__load_run(ls__loaded *loaded, const char *run, int64_t step, int64_t micro_batch,
                       int64_t limit)
{
    source from = {.step = step};

    *loaded = (ls__loaded){0};
    ls_status status = load(loaded, &from, run, micro_batch, limit);
    if (status != LS_OK)
        ls__loaded_close(loaded);
    return status;
}

static ls_status load_together(ls__loaded *loaded, const char *run, ls__world *world, int64_t limit)
{
    bool reads = ls__world_rank(world) == 0;
    source from = {.step = -1};
    ls__data_shape shape = {0};

    LS_TRY(ls__world_agree(world, reads ? inspect(&from, loaded, run, &shape) : LS_OK));
    LS_TRY(ls__world_broadcast(world, 0, &loaded->settings, sizeof loaded->settings));
    LS_TRY(ls__world_broadcast(world, 0, &shape, sizeof shape));
    LS_TRY(ls__world_agree(world, assemble(loaded, shape, 0, limit)));
    LS_TRY(ls__world_agree(world, reads ? fill(&from, loaded) : LS_OK));
    LS_TRY(ls__world_broadcast(world, 0, &loaded->info, sizeof loaded->info));
    return ls__world_broadcast(world, 0, loaded->parameters,
                               loaded->model->tensors.total * (int64_t)sizeof(float));
}

ls_status ls__load_run_together(ls__loaded *loaded, const char *run, ls__world *world,
                                int64_t limit)
{
    *loaded = (ls__loaded){0};
    ls_status status = load_together(loaded, run, world, limit);
    if (status != LS_OK)
        ls__loaded_close(loaded);
    return status;
}

ls_status ls__load_stored_data_failed(ls_status status)
{
    char before[LS_ERROR_TEXT];

    snprintf(before, sizeof before, "%s", ls_last_error()->text);
    return LS_FAIL(
        status,
        "%.800s (a path of the run's configuration where --data is not given: --data FILE "
        "overrides it)",
        before);
}

void ls__loaded_close(ls__loaded *loaded)
{
    ls__model_close(loaded->model);
    ls__arena_close(loaded->arena);
    loaded->model = NULL;
    loaded->arena = NULL;
}
