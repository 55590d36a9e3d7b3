#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/relay.h"

enum {
    LAUNCH_WORDS = 16,      /* mpirun's own flags, and the end of the list */
    RESTART_WORDS = 2,      /* what a restart adds to the command line */
    SOME_RANK = INT_MAX,    /* whose failure is known, and told by itself */
    SIGNAL_CODE = 128,      /* a shell's, and mpirun's, exit code for a signal is above it */
    LEFTOVER_MS = 300,      /* how long to wait for output after the end */
    ABORT_S = 5,            /* how long mpirun may take to end all ranks, once one has told it to */
    RANK_MEMORY = 16 << 20, /* bytes; the least that a rank takes */
#define ONE_MORE(code, exit_code, meaning) +1
    STATUSES = 0 LS_STATUS_LIST(ONE_MORE)
};

static const char launched_variable[] = "LOCKSTEP_LAUNCHED";
static const char restart_variable[] = "LOCKSTEP_RESTART";

bool ls__launched(void)
{
    return getenv(launched_variable) != NULL;
}

/* ---- signals ---- */

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { CAUGHT = sizeof caught / sizeof caught[0] };

static volatile sig_atomic_t last_signal;
static volatile sig_atomic_t signals;

static void remember(int signal_number)
{
    last_signal = signal_number;
    signals++;
}

/* A child starts as any program would. */
static void leave_signals(void)
{
    struct sigaction now;

    for (int i = 0; i < CAUGHT; i++)
        if (sigaction(caught[i], NULL, &now) == 0 && now.sa_handler == remember)
            signal(caught[i], SIG_DFL);
}

static void wake_up(int signal_number)
{
    (void)signal_number;
}

static void handle(int signal_number, void (*handler)(int))
{
    struct sigaction before;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    /* What nohup or a shell has us ignore stays ignored. */
    if (sigaction(signal_number, NULL, &before) == 0 &&
        (before.sa_handler != SIG_IGN || signal_number == SIGCHLD))
        sigaction(signal_number, &action, NULL);
}

void ls__launch_catch_signals(void)
{
    for (int i = 0; i < CAUGHT; i++)
        handle(caught[i], remember);
    handle(SIGCHLD, wake_up);
}

static bool is_interrupt(int signal_number)
{
    return signal_number == SIGINT || signal_number == SIGUSR2;
}

static const char *name_of(int signal_number)
{
    switch (signal_number) {
    case SIGINT:
        return "SIGINT";
    case SIGHUP:
        return "SIGHUP";
    case SIGUSR1:
        return "SIGUSR1";
    case SIGUSR2:
        return "SIGUSR2";
    default:
        return "SIGTERM";
    }
}

/* ---- the child: mpirun ---- */

static ls_status own_path(char *path)
{
    ssize_t length = readlink("/proc/self/exe", path, LS__PATH_SIZE - 1);

    LS_FAIL_IF(length < 0, LS_IO, "cannot find the path of this program: %s", strerror(errno));
    path[length] = '\0';
    return LS_OK;
}

/* What a laptop, a root shell or a container needs, where the user has not said otherwise. */
static void set_environment(int64_t threads)
{
    ls__cores cores = ls__cores_usable();

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    setenv(launched_variable, "1", 1);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    if (threads > ls__cores_count(&cores))
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* Becomes mpirun; returns only where that fails. Ranks are not bound to cores: two runs at a time
 * would both be bound to the first ones. */
static ls_status become_mpirun(const ls__launch *launch)
{
    char self[LS__PATH_SIZE];
    char count[32];
    const char *words[LAUNCH_WORDS] = {"mpirun",    "-n",   count, "--oversubscribe",
                                       "--bind-to", "none", "-x",  launched_variable};
    int n = 8;

    LS_TRY(own_path(self));
    snprintf(count, sizeof count, "%lld", (long long)launch->ranks);
    set_environment(launch->ranks * (launch->threads > 1 ? launch->threads : 1));
    if (getenv(restart_variable)) {
        words[n++] = "-x";
        words[n++] = restart_variable;
    }
    words[n++] = self;
    const char **all = calloc((size_t)n + (size_t)launch->argc + 1, sizeof *all);
    LS_FAIL_IF(!all, LS_NO_MEMORY, "no memory to start mpirun");
    memcpy(all, words, (size_t)n * sizeof *all);
    memcpy(all + n, launch->arguments, (size_t)launch->argc * sizeof *all);
    execvp("mpirun", (char *const *)(uintptr_t)all);
    free(all);
    return LS_FAIL(LS_BAD_USAGE, "cannot start mpirun: %s: install Open MPI (openmpi-bin)",
                   strerror(errno));
}

/* In a process group of its own, a terminal's Ctrl-C reaches mpirun once, through us. */
static _Noreturn void run_child(const ls__launch *launch, pid_t parent, int out, int err,
                                const sigset_t *mask)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        _exit(LS__LAUNCH_CODE + LS_IO);
    leave_signals();
    sigprocmask(SIG_SETMASK, mask, NULL);
    ls_status status = become_mpirun(launch);
    ls__log_error();
    _exit(LS__LAUNCH_CODE + (int)status);
}

/* ---- one run ---- */

/* A run in progress, and how it ended. */
typedef struct running {
    pid_t child;
    bool ended;
    int wait_status;
    int handed_on; /* of `signals` */
    bool saves;
    double abort_deadline; /* ls__clock_seconds; 0: no rank has aborted */
    ls__relay relay;
    ls_status status;
    bool told; /* a rank has said it */
    int lost;  /* ranks */
    char why[LS_ERROR_TEXT];
} running;

/* mpirun takes SIGTERM and SIGINT as an order to kill the ranks after a second; SIGUSR1 and SIGUSR2
 * it hands on. */
static void ask_to_save(const running *r)
{
    kill(r->child, is_interrupt(last_signal) ? SIGUSR2 : SIGUSR1);
}

/* Who asks a second time means it. */
static void hand_on_signals(running *r)
{
    if (r->ended || r->handed_on == signals)
        return;
    if (r->saves && r->handed_on == 0)
        ask_to_save(r);
    else
        kill(r->child, r->handed_on < 2 ? SIGTERM : SIGKILL);
    r->handed_on = signals;
}

/* How long to wait for what happens next; NULL: for ever. */
static const struct timespec *time_to_wait(const running *r)
{
    static const struct timespec leftover = {.tv_nsec = LEFTOVER_MS * 1000000L};
    static const struct timespec until_next_look = {.tv_sec = 1};

    if (r->ended)
        return &leftover;
    return (r->saves && r->handed_on == 1) || r->relay.aborted ? &until_next_look : NULL;
}

/* mpirun waits for ever for the daemon of a host that it cannot reach any more. Those that it can
 * have ended their ranks by then, or do so when they lose mpirun. */
static void end_after_abort(running *r)
{
    if (r->ended || !r->relay.aborted)
        return;
    if (r->abort_deadline == 0)
        r->abort_deadline = ls__clock_seconds() + ABORT_S;
    if (ls__clock_seconds() > r->abort_deadline)
        kill(r->child, SIGKILL);
}

static void look_for_end(running *r)
{
    if (!r->ended && waitpid(r->child, &r->wait_status, WNOHANG) == r->child)
        r->ended = true;
}

/* Relays output until mpirun has ended and its pipes are closed; somebody who was orphaned may keep
 * them open. A request to save is lost on ranks that are not started yet, so it is repeated. */
static ls_status attend(running *r, const sigset_t *mask)
{
    ls_status status = LS_OK;

    while (status == LS_OK) {
        struct pollfd fds[] = {{.fd = r->relay.out, .events = POLLIN},
                               {.fd = r->relay.err, .events = POLLIN}};
        bool ended = r->ended;
        if (ended && r->relay.out < 0 && r->relay.err < 0)
            return LS_OK;
        hand_on_signals(r);
        int ready = ppoll(fds, 2, time_to_wait(r), mask);
        if (ready == 0 && ended)
            return LS_OK;
        if (ready == 0 && r->saves && r->handed_on == 1)
            ask_to_save(r);
        status =
            ls__relay_take(&r->relay, ready > 0 && fds[0].revents, ready > 0 && fds[1].revents);
        end_after_abort(r);
        look_for_end(r);
    }
    return status;
}

static ls_status start_child(running *r, const ls__launch *launch, const sigset_t *mask)
{
    int out = -1;
    int err = -1;
    pid_t self = getpid();

    LS_TRY(ls__relay_open(&r->relay, launch->log, &out, &err));
    fflush(NULL);
    r->child = fork();
    if (r->child == 0)
        run_child(launch, self, out, err, mask);
    close(out);
    close(err);
    LS_FAIL_IF(r->child < 0, LS_IO, "cannot start a process: %s", strerror(errno));
    setpgid(r->child, r->child); /* here as well: whoever comes first */
    return LS_OK;
}

/* ---- what came of it ---- */

static bool ends_with_lost(const running *r, int code)
{
    bool silent = code == LS__LAUNCH_CODE + LS_COMM || code == LS__LAUNCH_CODE + LS_TIMEOUT;

    return code > SIGNAL_CODE || (silent && r->relay.lost);
}

static void tell_lost(running *r)
{
    const ls__relay *relay = &r->relay;

    r->status = LS_COMM;
    r->lost = 1;
    if (!relay->lost)
        snprintf(r->why, sizeof r->why, "a rank was lost");
    else if (relay->lost_signal)
        snprintf(r->why, sizeof r->why, "rank %d on %.64s was lost (signal %d)", relay->lost_rank,
                 relay->lost_host, relay->lost_signal);
    else
        snprintf(r->why, sizeof r->why, "rank %d on %.64s was lost", relay->lost_rank,
                 relay->lost_host);
}

static void judge(running *r)
{
    bool exited = WIFEXITED(r->wait_status);
    int code = exited ? WEXITSTATUS(r->wait_status) : 0;

    if (!exited && r->relay.aborted) { /* mpirun did not end by itself */
        exited = true;
        code = r->relay.aborted;
    }
    if (exited && code == 0)
        return;
    if (exited && code > LS__LAUNCH_CODE && code < LS__LAUNCH_CODE + STATUSES &&
        !ends_with_lost(r, code)) {
        r->status = (ls_status)(code - LS__LAUNCH_CODE);
        r->told = true;
        snprintf(r->why, sizeof r->why, "%s", ls_status_meaning(r->status));
    } else if (signals) {
        r->status = LS_STOPPED;
        snprintf(r->why, sizeof r->why, "stopped by %s", name_of(last_signal));
    } else if (!exited) {
        r->status = LS_COMM;
        snprintf(r->why, sizeof r->why, "mpirun was lost (signal %d)", WTERMSIG(r->wait_status));
    } else if (ends_with_lost(r, code)) {
        tell_lost(r);
    } else {
        r->status = LS_COMM;
        snprintf(r->why, sizeof r->why, "mpirun failed with exit code %d", code);
    }
}

/* Runs once. Fails where it cannot be started or watched; else `r` has what came of it. */
static ls_status run_once(running *r, const ls__launch *launch)
{
    sigset_t blocked;
    sigset_t before;

    *r = (running){.saves = launch->saves};
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCHLD);
    for (int i = 0; i < CAUGHT; i++)
        sigaddset(&blocked, caught[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    ls_status status = LS_OK;
    if (signals) {
        r->status = LS_STOPPED;
        snprintf(r->why, sizeof r->why, "stopped by %s", name_of(last_signal));
    } else {
        status = start_child(r, launch, &before);
        if (status == LS_OK)
            status = attend(r, &before);
        if (status == LS_OK)
            judge(r);
        else if (r->child > 0)
            kill(r->child, SIGTERM);
        ls__relay_close(&r->relay);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* The sentence, where no rank has said one. */
static ls_status verdict(const running *r, const ls__launch *launch)
{
    if (r->status == LS_OK)
        return LS_OK;
    if (r->told)
        return ls_fail_from(SOME_RANK, r->status, r->why);
    return LS_FAIL(r->status, "%s: %s", r->why,
                   launch->saves ? "go on with --resume" : "start it again");
}

/* ---- again ---- */

/* Ranks lost or stalled, or a file system that failed: another time it may go well. */
static bool may_recover(const running *r)
{
    return !signals && (r->status == LS_COMM || r->status == LS_TIMEOUT || r->status == LS_IO);
}

/* Says so, and has the ranks write it into their metrics. */
static void announce_restart(const running *r, const ls__launch *launch, int64_t number,
                             int64_t ranks, int64_t before)
{
    char note[LS_ERROR_TEXT + 256];

    ls__log_info("%s: restart %lld of %lld, on %lld rank%s, from the last checkpoint", r->why,
                 (long long)number, (long long)launch->restarts, (long long)ranks,
                 ranks == 1 ? "" : "s");
    snprintf(note, sizeof note,
             "{\"restart\": {\"number\": %lld, \"of\": %lld, \"ranks_before\": %lld, \"ranks\": "
             "%lld, \"reason\": \"%s\"}}",
             (long long)number, (long long)launch->restarts, (long long)before, (long long)ranks,
             r->why);
    setenv(restart_variable, note, 1);
}

static ls_status supervise(const ls__launch *launch, const char **words)
{
    ls__launch next = *launch;
    char ranks[64];
    running r;

    memcpy(words, launch->arguments, (size_t)launch->argc * sizeof *words);
    words[launch->argc] = "--resume";
    words[launch->argc + 1] = ranks;
    for (int64_t number = 1;; number++) {
        LS_TRY(run_once(&r, &next));
        if (number > launch->restarts || !may_recover(&r))
            return verdict(&r, launch);
        int64_t before = next.ranks;
        int64_t left = before - r.lost;
        next.ranks = left > launch->min_ranks ? left : launch->min_ranks;
        next.arguments = words;
        next.argc = launch->argc + RESTART_WORDS;
        snprintf(ranks, sizeof ranks, "--ranks=%lld", (long long)next.ranks);
        announce_restart(&r, launch, number, next.ranks, before);
    }
}

/* More ranks than this machine has memory for are a mistake in typing, best found before they are
 * started. What a cluster has is not for us to say. */
static ls_status check_ranks(int64_t ranks)
{
    int64_t available = ls__memory_available();
    bool elsewhere = getenv("SLURM_JOB_ID") || getenv("OMPI_MCA_orte_default_hostfile");
    char text[2][32];

    LS_FAIL_IF(!elsewhere && available > 0 && ranks > available / RANK_MEMORY, LS_BAD_USAGE,
               "--ranks %lld: that many processes need %s at least, and there are %s: start fewer",
               (long long)ranks, ls__format_bytes(text[0], sizeof text[0], ranks * RANK_MEMORY),
               ls__format_bytes(text[1], sizeof text[1], available));
    return LS_OK;
}

ls_status ls__launch_run(const ls__launch *launch)
{
    LS_TRY(check_ranks(launch->ranks));
    LS_FAIL_IF(launch->min_ranks > launch->ranks, LS_BAD_USAGE,
               "--min-ranks %lld is above --ranks %lld: lower it", (long long)launch->min_ranks,
               (long long)launch->ranks);
    const char **words = calloc((size_t)launch->argc + RESTART_WORDS, sizeof *words);
    LS_FAIL_IF(!words, LS_NO_MEMORY, "no memory to start mpirun");
    ls__launch_catch_signals();
    ls_status status = supervise(launch, words);
    free(words);
    return status;
}
