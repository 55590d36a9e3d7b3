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

static ls_status load(ls__loaded *loaded, const char *run, int64_t step, int64_t micro_batch,
                      int64_t limit)
{
    ls__run_folder folder;
    char path[LS__PATH_SIZE];
    ls__data_shape shape = {0};

    ls__options_preset(&ls__train_options, &loaded->settings);
    LS_TRY(ls__run_folder_settings(run, &loaded->settings));
    LS_TRY(ls__run_folder_name(&folder, run));
    if (step < 0)
        LS_TRY(ls__checkpoint_latest(folder.checkpoints, path));
    else
        LS_TRY(ls__checkpoint_path(path, folder.checkpoints, step));
    LS_TRY(data_shape(path, &loaded->settings, &shape));
    LS_TRY(ls__arena_open(&loaded->arena, limit));
    LS_TRY(ls__assemble_model(&loaded->model, &loaded->settings, shape,
                              micro_batch > 0 ? micro_batch : loaded->settings.micro_batch,
                              loaded->arena));
    LS_TRY(ls__arena_take(loaded->arena, LS__PARAMETERS, loaded->model->tensors.total,
                          sizeof(float), &loaded->parameters));
    ls__checkpoint_arrays arrays = {.tensors = &loaded->model->tensors,
                                    .parameters = loaded->parameters};
    return ls__checkpoint_read(path, &loaded->info, &arrays);
}

ls_status ls__load_run(ls__loaded *loaded, const char *run, int64_t step, int64_t micro_batch,
                       int64_t limit)
{
    *loaded = (ls__loaded){0};
    ls_status status = load(loaded, run, step, micro_batch, limit);
    if (status != LS_OK)
        ls__loaded_close(loaded);
    return status;
}

void ls__loaded_close(ls__loaded *loaded)
{
    ls__model_close(loaded->model);
    ls__arena_close(loaded->arena);
    loaded->model = NULL;
    loaded->arena = NULL;
}
