/* lockstep train */
#include "train/train.h"

#include "base/options.h"
#include "cli/commands.h"
#include "cli/start.h"
#include "train/run_folder.h"
#include "train/stop.h"

/* A resumed run keeps its own flags, but for those given now. Only rank 0 needs to see the folder:
 * the result is handed to the others. */
static ls_status take_over_run(ls__train_settings *settings, int argc, char **argv)
{
    ls__run_folder folder;
    ls__parsed parsed;

    LS_TRY(ls__run_folder_name(&folder, settings->run));
    if (!settings->resume || !ls__run_folder_in_use(&folder))
        return LS_OK;
    LS_TRY(ls__run_folder_settings(settings->run, settings));
    return ls__options_parse_over(&ls__train_options, settings, argc, argv, &parsed);
}

/* What can be known before any rank is started. The folder of a run to resume may be visible only
 * where rank 0 will be. */
static ls_status check(const void *settings, int argc, char **argv)
{
    static ls__train_settings checked;

    checked = *(const ls__train_settings *)settings;
    LS_TRY(take_over_run(&checked, argc, argv));
    LS_TRY(ls__train_settings_resolve(&checked));
    return ls__train_settings_check_ranks(&checked, checked.ranks);
}

static ls_status settle(ls__train_settings *settings, ls__world *world, int argc, char **argv)
{
    ls_status status = LS_OK;

    if (ls__world_rank(world) == 0) {
        status = take_over_run(settings, argc, argv);
        if (status == LS_OK)
            status = ls__train_settings_resolve(settings);
    }
    LS_TRY(ls__world_agree(world, status));
    return ls__world_broadcast(world, 0, settings, sizeof *settings);
}

ls_status ls__cli_train(int argc, char **argv)
{
    static ls__train_settings settings;
    ls__cli_program program = {.table = &ls__train_options,
                               .settings = &settings,
                               .size = sizeof settings,
                               .ranks = &settings.ranks,
                               .threads = &settings.threads,
                               .stall_timeout = &settings.stall_timeout,
                               .check = check,
                               .saves = true,
                               .restarts = &settings.restarts,
                               .min_ranks = &settings.min_ranks};
    ls__world *world = NULL;

    ls__stop_catch();
    LS_TRY(ls__cli_start(&program, argc, argv, &world));
    if (!world)
        return LS_OK;
    LS_TRY(settle(&settings, world, argc, argv));
    return ls__train(&settings, world);
}
