#include "cli/start.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "math/gemm.h"

/* mpirun's own flags, and the end of the list. */
enum { LAUNCH_WORDS = 12 };

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

    avoid_forbidden_copies();
    LS_FAIL_IF(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS, LS_COMM,
               "MPI_Init failed: is MPI installed and mpirun of the same kind?");
    LS_TRY(ls__world_open(&joined, timeout));
    ls__log_set_rank(ls__world_rank(joined), ls__world_ranks(joined));
    ls__gemm_start();
    return LS_OK;
}

int ls__cli_end(ls_status status)
{
    int initialised = 0;
    int exit_code = ls_status_exit_code(status);
    bool all_know = ls_last_error()->rank >= 0;

    if (status != LS_OK)
        ls__log_error();
    MPI_Initialized(&initialised);
    if (!initialised)
        return exit_code;
    if (status != LS_OK && !all_know)
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    ls__world_close(joined);
    MPI_Finalize();
    return exit_code;
}

/* ---- starting mpirun ---- */

static ls_status own_path(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, LS__PATH_SIZE - 1);

    LS_FAIL_IF(length < 0, LS_IO, "cannot find the path of this program: %s", strerror(errno));
    path[length] = '\0';
    return LS_OK;
}

/* What a laptop, a root shell or a container needs, where the user has not said otherwise. */
static void set_environment(int64_t ranks)
{
    avoid_forbidden_copies();
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    if (ranks > sysconf(_SC_NPROCESSORS_ONLN))
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* Becomes mpirun; returns only where that fails. */
static ls_status become_mpirun(int64_t ranks, int argc, const char *const *arguments)
{
    char self[LS__PATH_SIZE];
    char count[32];
    const char *binding = ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? "core" : "none";
    const char **words = calloc((size_t)argc + LAUNCH_WORDS, sizeof *words);
    int n = 0;

    LS_FAIL_IF(!words, LS_NO_MEMORY, "no memory to start mpirun");
    ls_status status = own_path(self);
    if (status == LS_OK) {
        const char *const launch[] = {"mpirun",          "-q",        "-n",    count,
                                      "--oversubscribe", "--bind-to", binding, self};
        snprintf(count, sizeof count, "%lld", (long long)ranks);
        set_environment(ranks);
        for (size_t i = 0; i < sizeof launch / sizeof launch[0]; i++)
            words[n++] = launch[i];
        for (int i = 0; i < argc; i++)
            words[n++] = arguments[i];
        execvp("mpirun", (char *const *)(uintptr_t)words);
        status = LS_FAIL(LS_BAD_USAGE, "cannot start mpirun: %s: install Open MPI (openmpi-bin)",
                         strerror(errno));
    }
    free(words);
    return status;
}

/* The child's side of ls__cli_run: never returns. */
static void run_child(int64_t ranks, int argc, const char *const *arguments, const char *log)
{
    int file = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (file < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0)
        _exit(3);
    if (become_mpirun(ranks, argc, arguments) != LS_OK)
        ls__log_error();
    _exit(2);
}

ls_status ls__cli_run(int64_t ranks, int argc, const char *const *arguments, const char *log,
                      int *exit_code)
{
    int wait_status = 0;
    pid_t child = fork();

    LS_FAIL_IF(child < 0, LS_IO, "cannot start a process: %s", strerror(errno));
    if (child == 0)
        run_child(ranks, argc, arguments, log);
    while (waitpid(child, &wait_status, 0) < 0)
        LS_FAIL_IF(errno != EINTR, LS_IO, "cannot wait for mpirun: %s", strerror(errno));
    *exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 3;
    return LS_OK;
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

/* Under mpirun the ranks join first, so that a mistake in the flags is told once. */
static ls_status start_under_mpi(const ls__cli_program *program, int argc, char **argv,
                                 ls__parsed *parsed)
{
    static const double joining_timeout = 60;

    LS_TRY(join(joining_timeout));
    ls_status status = ls__options_parse(program->table, program->settings, argc, argv, parsed);
    if (status == LS_OK && !parsed->help)
        status = check_ranks(*program->ranks);
    LS_TRY(ls__world_agree(joined, status));
    ls__world_set_timeout(joined, *program->stall_timeout);
    return LS_OK;
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
        return become_mpirun(*program->ranks, command_argc - 1,
                             (const char *const *)(uintptr_t)(command_argv + 1));
    if (!is_rank)
        LS_TRY(join(*program->stall_timeout));
    *world = joined;
    return LS_OK;
}
