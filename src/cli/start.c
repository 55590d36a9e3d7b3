#include "cli/start.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "math/gemm.h"

static const double joining_timeout = 60; /* seconds */

static ls__world *joined; /* MPI itself is one a process */
static int command_argc;
static char **command_argv;

void ls__cli_begin(int argc, char **argv)
{
    command_argc = argc;
    command_argv = argv;
}

/* ---- under MPI ---- */

/* Variables that mpirun of Open MPI, or MPICH's and Slurm's launchers, set for each rank. */
static bool under_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_SIZE") || getenv("PMIX_RANK");
}

/* Open MPI's shared memory copies with process_vm_readv, and complains at every message where a
 * container forbids it ("Read -1, expected ..."). So ask first. */
static void avoid_forbidden_copies(void)
{
    char from = 1;
    char to = 0;
    struct iovec local = {.iov_base = &to, .iov_len = 1};
    struct iovec remote = {.iov_base = &from, .iov_len = 1};

    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1)
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

static ls_status join(double timeout)
{
    int provided = 0;

    if (joined)
        return LS_OK;
    avoid_forbidden_copies();
    LS_FAIL_IF(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS, LS_COMM,
               "MPI_Init failed: is MPI installed and mpirun of the same kind?");
    LS_TRY(ls__world_open(&joined, timeout));
    ls__log_set_rank(ls__world_rank(joined), ls__world_ranks(joined));
    ls__gemm_start();
    return LS_OK;
}

/* What this process ends with; the launcher that started a rank is told the status itself. */
static int exit_code_of(ls_status status)
{
    if (status != LS_OK && ls__launched())
        return LS__LAUNCH_CODE + (int)status;
    return ls_status_exit_code(status);
}

/* What stdio has not been able to write would be lost without a word. A failure before that counts
 * more. */
static ls_status flush_output(ls_status status)
{
    bool failed = ferror(stdout) != 0;
    bool flushed = fflush(stdout) == 0;

    if (status != LS_OK)
        return status;
    if (!flushed)
        return ls__fail_errno("write", "standard output");
    LS_FAIL_IF(failed, LS_IO, "cannot write standard output: not all of it was written");
    return LS_OK;
}

int ls__cli_end(ls_status status)
{
    int initialised = 0;

    status = flush_output(status);
    int exit_code = exit_code_of(status);
    bool all_know = status == LS_OK || ls_last_error()->rank >= 0;
    if (status != LS_OK)
        ls__log_error();
    MPI_Initialized(&initialised);
    if (!initialised)
        return exit_code;
    /* A rank alone has nobody to leave waiting, and MPI_Abort would add words of its own. */
    if (!all_know && !(joined && ls__world_ranks(joined) == 1))
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    ls__world_close(joined);
    MPI_Finalize();
    return exit_code;
}

/* ---- a command's start ---- */

static ls_status check_ranks(int64_t wanted)
{
    int ranks = ls__world_ranks(joined);

    LS_FAIL_IF(wanted > 0 && wanted != ranks, LS_BAD_USAGE,
               "--ranks %lld, but mpirun started %d: leave --ranks out under mpirun",
               (long long)wanted, ranks);
    return LS_OK;
}

/* Which command a rank was started as. */
typedef struct command_record {
    char name[64];
    bool help;
} command_record;

/* All ranks run the same command, before anything is compared that depends on it. */
static ls_status compare_commands(const ls__cli_program *program, bool help)
{
    command_record mine = {.help = help};
    int rank = ls__world_rank(joined);
    ls_status status = LS_OK;

    snprintf(mine.name, sizeof mine.name, "%s", program->table->command);
    command_record first = mine;
    LS_TRY(ls__world_broadcast(joined, 0, &first, sizeof first));
    if (strcmp(first.name, mine.name) != 0)
        status = LS_FAIL(LS_BAD_USAGE,
                         "rank %d runs %s where rank 0 runs %s: start the same on all ranks", rank,
                         mine.name, first.name);
    else if (first.help != mine.help)
        status = LS_FAIL(LS_BAD_USAGE,
                         "rank %d has --help %s where rank 0 has --help %s: start all ranks with "
                         "the same flags",
                         rank, mine.help ? "true" : "false", first.help ? "true" : "false");
    return ls__world_agree(joined, status);
}

static ls_status differs(const ls__cli_program *program, int index, const void *first)
{
    static char here[LS__TEXT_MAX];
    static char there[LS__TEXT_MAX];
    const char *name = program->table->option[index].name;

    ls__options_format(program->table, program->settings, index, here, sizeof here);
    ls__options_format(program->table, first, index, there, sizeof there);
    return LS_FAIL(LS_BAD_USAGE,
                   "rank %d has --%s %.200s where rank 0 has --%s %.200s: start all ranks with the "
                   "same flags",
                   ls__world_rank(joined), name, here, name, there);
}

/* The same flags on all ranks; those that decide bits are named first. */
static ls_status compare_settings(const ls__cli_program *program)
{
    void *first = malloc(program->size);

    LS_FAIL_IF(!first, LS_NO_MEMORY, "no memory for the settings");
    memcpy(first, program->settings, program->size);
    ls_status status = ls__world_broadcast(joined, 0, first, (int64_t)program->size);
    if (status == LS_OK) {
        int index = ls__options_differ(program->table, program->settings, first, LS__SCOPE_BITS);
        if (index < 0)
            index = ls__options_differ(program->table, program->settings, first, LS__SCOPE_RUN);
        status = ls__world_agree(joined, index < 0 ? LS_OK : differs(program, index, first));
    }
    free(first);
    return status;
}

/* Under mpirun the ranks join first, so that a mistake in the flags is told once. */
static ls_status start_under_mpi(const ls__cli_program *program, int argc, char **argv,
                                 ls__parsed *parsed)
{
    LS_TRY(join(joining_timeout));
    ls_status status = ls__options_parse(program->table, program->settings, argc, argv, parsed);
    if (status == LS_OK && !parsed->help)
        status = check_ranks(*program->ranks);
    LS_TRY(ls__world_agree(joined, status));
    LS_TRY(compare_commands(program, parsed->help));
    if (parsed->help)
        return LS_OK;
    LS_TRY(compare_settings(program));
    ls__world_set_timeout(joined, *program->stall_timeout);
    return LS_OK;
}

/* Started by hand with --ranks N: what the flags say is checked before N processes are started. */
static ls_status launch(const ls__cli_program *program, int argc, char **argv)
{
    ls__launch launch = {.ranks = *program->ranks,
                         .threads = program->threads ? *program->threads : 1,
                         .argc = command_argc - 1,
                         .arguments = (const char *const *)(uintptr_t)(command_argv + 1),
                         .saves = program->saves,
                         .restarts = program->restarts ? *program->restarts : 0,
                         .min_ranks = program->min_ranks ? *program->min_ranks : 1};

    if (program->check)
        LS_TRY(program->check(program->settings, argc, argv));
    if (program->launch)
        return program->launch(program->settings, &launch);
    return ls__launch_run(&launch);
}

ls_status ls__cli_start(const ls__cli_program *program, int argc, char **argv, ls__world **world)
{
    ls__parsed parsed;
    bool is_rank = under_mpi();

    *world = NULL;
    if (is_rank)
        LS_TRY(start_under_mpi(program, argc, argv, &parsed));
    else
        LS_TRY(ls__options_parse(program->table, program->settings, argc, argv, &parsed));
    if (parsed.help) {
        if (!joined || ls__world_rank(joined) == 0)
            ls__options_help(program->table, stdout);
        return LS_OK;
    }
    if (!is_rank && *program->ranks > 0)
        return launch(program, argc, argv);
    if (!is_rank)
        LS_TRY(join(*program->stall_timeout));
    *world = joined;
    return LS_OK;
}

ls_status ls__cli_alone(const char *command)
{
    if (!under_mpi())
        return LS_OK;
    LS_TRY(join(joining_timeout));
    if (ls__world_ranks(joined) == 1)
        return LS_OK;
    return ls__world_agree(
        joined,
        LS_FAIL(LS_BAD_USAGE, "lockstep %s runs by itself: start it without mpirun", command));
}

ls_status ls__cli_refuse_mpi(const char *command, const char *why)
{
    if (!under_mpi())
        return LS_OK;
    LS_TRY(join(joining_timeout));
    return ls__world_agree(
        joined, LS_FAIL(LS_BAD_USAGE, "lockstep %s %s: start it without mpirun", command, why));
}
