#include "ckpt/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "h5/h5.h"

enum { GROUP_NAME = 64 };

static const char format_name[] = "lockstep-checkpoint";

static ls__h5_shape shape_of(const ls__tensor *tensor)
{
    return (ls__h5_shape){.rank = tensor->dimensions, .extent = {tensor->rows, tensor->columns}};
}

/* ---- writing ---- */

static ls_status write_scaling(ls__h5 *file, const ls__checkpoint_info *info)
{
    if (info->loss_scale == 0)
        return LS_OK;
    LS_TRY(ls__h5_set_real(file, "/", "loss_scale", info->loss_scale));
    LS_TRY(ls__h5_set_int(file, "/", "good_steps", info->good_steps));
    return ls__h5_set_int(file, "/", "skipped_steps", info->skipped_steps);
}

static ls_status write_info(ls__h5 *file, const ls__checkpoint_info *info)
{
    char digest[LS__DIGEST_TEXT];

    LS_TRY(ls__h5_set_text(file, "/", "format", format_name));
    LS_TRY(ls__h5_set_int(file, "/", "format_version", LS__CHECKPOINT_VERSION));
    LS_TRY(ls__h5_set_int(file, "/", "step", info->step));
    LS_TRY(ls__h5_set_real(file, "/", "loss", info->loss));
    LS_TRY(ls__h5_set_int(file, "/", "seed", (int64_t)info->seed));
    LS_TRY(ls__h5_set_text(file, "/", "model", info->model));
    LS_TRY(ls__h5_set_text(file, "/", "configuration", info->configuration));
    LS_TRY(ls__h5_set_text(file, "/", "blas_core", info->blas_core));
    if (info->engine[0])
        LS_TRY(ls__h5_set_text(file, "/", "engine", info->engine));
    LS_TRY(ls__h5_set_text(file, "/", "digest", ls__digest_format(info->digest, digest)));
    if (info->vocabulary_bytes > 0)
        LS_TRY(ls__h5_set_bytes(file, "/", "vocabulary", info->vocabulary, info->vocabulary_bytes));
    return write_scaling(file, info);
}

static ls_status write_flat(ls__h5 *file, const char *group, const ls__tensors *tensors,
                            const float *flat)
{
    char name[LS__H5_NAME_SIZE];

    for (int i = 0; i < tensors->count; i++) {
        const ls__tensor *tensor = &tensors->tensor[i];
        ls__h5_shape shape = shape_of(tensor);
        snprintf(name, sizeof name, "%s/%s", group, tensor->name);
        LS_TRY(ls__h5_write(file, name, LS__H5_F32, &shape, flat + tensor->offset));
    }
    return LS_OK;
}

static void state_group(char *group, const char *state)
{
    snprintf(group, GROUP_NAME, "optimizer/%s", state);
}

static ls_status write_all(ls__h5 *file, const ls__checkpoint_info *info,
                           const ls__checkpoint_arrays *arrays)
{
    char group[GROUP_NAME];

    LS_TRY(write_info(file, info));
    LS_TRY(write_flat(file, "parameters", arrays->tensors, arrays->parameters));
    for (int i = 0; i < LS__CHECKPOINT_STATES; i++) {
        if (!arrays->state[i])
            continue;
        state_group(group, arrays->state_name[i]);
        LS_TRY(write_flat(file, group, arrays->tensors, arrays->state[i]));
    }
    return LS_OK;
}

ls_status ls__checkpoint_write(const char *path, const ls__checkpoint_info *info,
                               const ls__checkpoint_arrays *arrays)
{
    ls__h5 *file = NULL;

    LS_TRY(ls__h5_create(&file, path));
    ls_status status = write_all(file, info, arrays);
    if (status != LS_OK) {
        ls__h5_discard(file);
        return status;
    }
    return ls__h5_publish(file);
}

/* ---- reading ---- */

static ls_status read_format(ls__h5 *file, const char *path)
{
    char format[LS__CHECKPOINT_WORD];
    int64_t version = 0;

    LS_FAIL_IF(!ls__h5_has_attribute(file, "/", "format"), LS_BAD_INPUT,
               "%s is not a checkpoint of Lockstep", path);
    LS_TRY(ls__h5_get_text(file, "/", "format", format, sizeof format));
    LS_FAIL_IF(strcmp(format, format_name) != 0, LS_BAD_INPUT, "%s is a '%s', not a checkpoint",
               path, format);
    LS_TRY(ls__h5_get_int(file, "/", "format_version", &version));
    LS_FAIL_IF(
        version != LS__CHECKPOINT_VERSION, LS_BAD_INPUT,
        "%s has checkpoint format %lld, this program reads %d: use the version that wrote it", path,
        (long long)version, LS__CHECKPOINT_VERSION);
    return LS_OK;
}

static bool is_scale(double scale)
{
    int exponent = 0;

    return scale >= 0x1p-64 && scale <= 0x1p64 && frexp(scale, &exponent) == 0.5;
}

static ls_status read_scaling(ls__h5 *file, const char *path, ls__checkpoint_info *info)
{
    if (!ls__h5_has_attribute(file, "/", "loss_scale"))
        return LS_OK;
    LS_TRY(ls__h5_get_real(file, "/", "loss_scale", &info->loss_scale));
    LS_TRY(ls__h5_get_int(file, "/", "good_steps", &info->good_steps));
    LS_TRY(ls__h5_get_int(file, "/", "skipped_steps", &info->skipped_steps));
    LS_FAIL_IF(!is_scale(info->loss_scale), LS_BAD_INPUT,
               "%s has a loss scale of %g, which is no power of two from 2^-64 to 2^64", path,
               info->loss_scale);
    LS_FAIL_IF(info->good_steps < 0 || info->skipped_steps < 0 || info->good_steps > info->step ||
                   info->skipped_steps > info->step - info->good_steps,
               LS_BAD_INPUT, "%s counts %lld good and %lld skipped steps of %lld, which cannot be",
               path, (long long)info->good_steps, (long long)info->skipped_steps,
               (long long)info->step);
    return LS_OK;
}

static ls_status read_info(ls__h5 *file, const char *path, ls__checkpoint_info *info)
{
    char digest[LS__DIGEST_TEXT];
    int64_t seed = 0;

    *info = (ls__checkpoint_info){0};
    LS_TRY(read_format(file, path));
    LS_TRY(ls__h5_get_int(file, "/", "step", &info->step));
    LS_FAIL_IF(info->step < 0, LS_BAD_INPUT, "%s is of step %lld, which cannot be", path,
               (long long)info->step);
    LS_TRY(ls__h5_get_real(file, "/", "loss", &info->loss));
    LS_TRY(ls__h5_get_int(file, "/", "seed", &seed));
    info->seed = (uint64_t)seed;
    LS_TRY(ls__h5_get_text(file, "/", "model", info->model, sizeof info->model));
    LS_TRY(ls__h5_get_text(file, "/", "configuration", info->configuration,
                           sizeof info->configuration));
    LS_TRY(ls__h5_get_text(file, "/", "blas_core", info->blas_core, sizeof info->blas_core));
    info->engine[0] = 0;
    if (ls__h5_has_attribute(file, "/", "engine"))
        LS_TRY(ls__h5_get_text(file, "/", "engine", info->engine, sizeof info->engine));
    LS_TRY(ls__h5_get_text(file, "/", "digest", digest, sizeof digest));
    LS_TRY(ls__digest_parse(digest, &info->digest));
    if (ls__h5_has_attribute(file, "/", "vocabulary"))
        LS_TRY(ls__h5_get_bytes(file, "/", "vocabulary", info->vocabulary, sizeof info->vocabulary,
                                &info->vocabulary_bytes));
    return read_scaling(file, path, info);
}

static ls_status read_flat(ls__h5 *file, const char *group, const ls__tensors *tensors, float *flat)
{
    char name[LS__H5_NAME_SIZE];

    for (int i = 0; i < tensors->count; i++) {
        const ls__tensor *tensor = &tensors->tensor[i];
        ls__h5_shape shape = shape_of(tensor);
        snprintf(name, sizeof name, "%s/%s", group, tensor->name);
        LS_TRY(ls__h5_read(file, name, LS__H5_F32, &shape, flat + tensor->offset));
    }
    return LS_OK;
}

static ls_status read_all(ls__h5 *file, const char *path, ls__checkpoint_info *info,
                          const ls__checkpoint_arrays *arrays)
{
    char group[GROUP_NAME];

    LS_TRY(read_info(file, path, info));
    LS_TRY(read_flat(file, "parameters", arrays->tensors, arrays->parameters));
    for (int i = 0; i < LS__CHECKPOINT_STATES; i++) {
        if (!arrays->state[i])
            continue;
        state_group(group, arrays->state_name[i]);
        LS_TRY(read_flat(file, group, arrays->tensors, arrays->state[i]));
    }
    ls__digest digest =
        ls__digest_of(arrays->parameters, (size_t)arrays->tensors->total * sizeof(float));
    LS_FAIL_IF(!ls__digest_equal(digest, info->digest), LS_BAD_INPUT,
               "%s holds parameters with another digest than it records: use an older checkpoint",
               path);
    return LS_OK;
}

ls_status ls__checkpoint_read_info(const char *path, ls__checkpoint_info *info)
{
    ls__h5 *file = NULL;

    LS_TRY(ls__h5_open(&file, path, LS__H5_SEALED));
    ls_status status = read_info(file, path, info);
    ls__h5_close(file);
    return status;
}

ls_status ls__checkpoint_read(const char *path, ls__checkpoint_info *info,
                              const ls__checkpoint_arrays *arrays)
{
    ls__h5 *file = NULL;

    LS_TRY(ls__h5_open(&file, path, LS__H5_SEALED));
    ls_status status = read_all(file, path, info, arrays);
    ls__h5_close(file);
    return status;
}

ls_status ls__checkpoint_tensor_size(const char *path, const char *tensor, int64_t *rows,
                                     int64_t *columns)
{
    char name[LS__H5_NAME_SIZE];
    ls__h5_type type = LS__H5_F32;
    ls__h5_shape shape = {0};
    ls__h5 *file = NULL;

    snprintf(name, sizeof name, "parameters/%s", tensor);
    LS_TRY(ls__h5_open(&file, path, LS__H5_SEALED));
    ls_status status = ls__h5_describe(file, name, &type, &shape);
    ls__h5_close(file);
    LS_TRY(status);
    *rows = shape.extent[0];
    *columns = shape.rank > 1 ? shape.extent[1] : 1;
    return LS_OK;
}
