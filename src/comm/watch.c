#include "comm/watch.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/mpi_check.h"

enum { ALIVE_TAG = 32767 }; /* the highest that MPI grants; nobody else's on this communicator */

static const double look_every = 0.02; /* seconds between looks for another rank's call */
static const double listen_for = 1.0;  /* seconds for the others to answer */
static const double short_while = 2.0; /* seconds for a rank that knows more to end the run */
static const double long_while = 4.0;

typedef struct watch {
    const ls__world *world; /* NULL: no watch runs */
    MPI_Comm communicator;
    MPI_Request *sending; /* (ranks) */
    bool *heard;          /* (ranks) */
    double next_look;
    char alive; /* what is sent: that it comes says all */
} watch;

static watch current;

ls_status ls__watch_start(const ls__world *world, MPI_Comm communicator)
{
    size_t ranks = (size_t)ls__world_ranks(world);
    watch started = {.world = world,
                     .communicator = communicator,
                     .sending = calloc(ranks, sizeof(MPI_Request)),
                     .heard = calloc(ranks, sizeof(bool))};

    if (!started.sending || !started.heard) {
        free(started.sending);
        free(started.heard);
        return LS_FAIL(LS_NO_MEMORY, "no memory to watch over %zu ranks", ranks);
    }
    ls__watch_end();
    current = started;
    return LS_OK;
}

void ls__watch_end(void)
{
    free(current.sending);
    free(current.heard);
    current = (watch){0};
}

bool ls__watch_alarmed(double now)
{
    int called = 0;

    if (!current.world || now < current.next_look)
        return false;
    current.next_look = now + look_every;
    return MPI_Iprobe(MPI_ANY_SOURCE, ALIVE_TAG, current.communicator, &called,
                      MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           called;
}

/* ---- the roll ---- */

static ls_status say_alive(void)
{
    int self = ls__world_rank(current.world);

    for (int rank = 0; rank < ls__world_ranks(current.world); rank++)
        if (rank != self)
            LS__TRY_MPI(MPI_Isend(&current.alive, 1, MPI_CHAR, rank, ALIVE_TAG,
                                  current.communicator, &current.sending[rank]),
                        "telling rank %d that this one is alive", rank);
    return LS_OK;
}

/* Takes one answer where there is one. */
static ls_status hear(int *answers)
{
    MPI_Status status;
    int there = 0;
    char alive = 0;

    LS__TRY_MPI(MPI_Iprobe(MPI_ANY_SOURCE, ALIVE_TAG, current.communicator, &there, &status),
                "calling the roll");
    if (!there)
        return LS_OK;
    LS__TRY_MPI(MPI_Recv(&alive, 1, MPI_CHAR, status.MPI_SOURCE, ALIVE_TAG, current.communicator,
                         MPI_STATUS_IGNORE),
                "calling the roll");
    *answers += !current.heard[status.MPI_SOURCE];
    current.heard[status.MPI_SOURCE] = true;
    return LS_OK;
}

static ls_status listen(void)
{
    double deadline = ls__clock_seconds() + listen_for;
    int ranks = ls__world_ranks(current.world);
    int answers = 1;

    memset(current.heard, 0, (size_t)ranks * sizeof *current.heard);
    current.heard[ls__world_rank(current.world)] = true;
    while (answers < ranks && ls__clock_seconds() < deadline) {
        LS_TRY(hear(&answers));
        sched_yield();
    }
    return LS_OK;
}

static int lowest_heard(void)
{
    int rank = 0;

    while (!current.heard[rank])
        rank++;
    return rank;
}

/* "rank 1 (host)", "ranks 1 (host), 2 (host)"; as many as there is room for. Returns how many are
 * missing. */
static int list_missing(char *text, size_t size)
{
    int missing = 0;
    size_t used = 0;

    for (int rank = 0; rank < ls__world_ranks(current.world); rank++)
        missing += !current.heard[rank];
    used = (size_t)snprintf(text, size, missing == 1 ? "rank" : "ranks");
    for (int rank = 0, listed = 0; rank < ls__world_ranks(current.world) && used < size; rank++)
        if (!current.heard[rank])
            used += (size_t)snprintf(text + used, size - used, "%s %d (%s)", listed++ ? "," : "",
                                     rank, ls__world_host(current.world, rank));
    return missing;
}

/* Records the failure; returns whether a rank is missing. */
static bool record(double timeout_seconds, const char *where)
{
    char before[LS_ERROR_TEXT];
    char names[LS_ERROR_TEXT / 2];
    bool missing = list_missing(names, sizeof names) > 0;

    snprintf(before, sizeof before, "%s", ls_last_error()->text);
    if (missing)
        ls_fail_at(__FILE__, __LINE__, LS_TIMEOUT,
                   "%s did not arrive within %g s: stopped, overloaded or gone; rank %d waited in "
                   "%s",
                   names, timeout_seconds, ls__world_rank(current.world), where);
    else
        ls_fail_at(__FILE__, __LINE__, LS_TIMEOUT,
                   "%.800s; all ranks answer now: if one is only slow, raise --stall-timeout",
                   before);
    return missing;
}

/* The run ends as soon as one rank returns; until then whoever waits here is not heard. */
static void keep_quiet(double seconds)
{
    double deadline = ls__clock_seconds() + seconds;

    while (ls__clock_seconds() < deadline)
        sched_yield();
}

/* Where a rank is missing, the lowest that is heard speaks at once. Where none is, perhaps others
 * did find one: it goes on, and answers, as mpirun wakes it to end it. So they come first; then
 * rank 0 speaks; and the rest should that fail. */
ls_status ls__watch_call_roll(double timeout_seconds, const char *where)
{
    if (!current.world || ls__world_ranks(current.world) == 1)
        return LS_TIMEOUT;
    LS_TRY(say_alive());
    LS_TRY(listen());
    bool missing = record(timeout_seconds, where);
    int self = ls__world_rank(current.world);
    if (self != (missing ? lowest_heard() : 0))
        keep_quiet(long_while);
    else if (!missing)
        keep_quiet(short_while);
    return LS_TIMEOUT;
}
