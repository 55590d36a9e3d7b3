#include "base/threads.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Looks before a thread gives its core away: about the time between one operation and the next. */
enum { LOOKS = 2000 };

/* The gate holds the number of a round of tasks in its upper half, whether the round is open, and
 * how many threads are inside. Other threads enter while it is open. The starter closes it when no
 * task is left, and waits for those inside: never for one that has not come, whose core others may
 * have. */
enum { ROUND_SHIFT = 32 };
static const uint64_t one_round = UINT64_C(1) << ROUND_SHIFT;
static const uint64_t open_bit = UINT64_C(1) << 31;
static const uint64_t inside_mask = (UINT64_C(1) << 31) - 1;

typedef struct threads_pool {
    int count; /* the starter included */
    pthread_t thread[LS__THREADS_MAX];
    atomic_int looks; /* before a thread that waits sleeps */
    bool busy;        /* within ls__threads_run; the starter's own */

    _Atomic uint64_t gate;
    atomic_bool ends;
    atomic_int sleepers;  /* that wait for a round */
    pthread_mutex_t lock; /* guards the sleeping, not the work */
    pthread_cond_t begun, done;

    /* The round: written while it is closed and nobody is inside. */
    ls__task *task;
    void *context;
    int64_t tasks;
    _Atomic int64_t next; /* the next task that nobody has taken */
} threads_pool;

static threads_pool pool = {.count = 1,
                            .looks = LOOKS,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .begun = PTHREAD_COND_INITIALIZER,
                            .done = PTHREAD_COND_INITIALIZER};
static _Thread_local int own_index;

static uint64_t round_of(uint64_t gate)
{
    return gate >> ROUND_SHIFT;
}

static void look_again(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static int looks(void)
{
    return atomic_load_explicit(&pool.looks, memory_order_relaxed);
}

static void take_tasks(void)
{
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
        if (task >= pool.tasks)
            return;
        pool.task(pool.context, task, own_index);
    }
}

/* ---- the other threads ---- */

/* Who begins a round looks for sleepers after that, and who sleeps looks for a round after saying
 * so: one of them sees the other. */
static void sleep_till_round(uint64_t last)
{
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.sleepers, 1);
    while (round_of(atomic_load(&pool.gate)) == last)
        pthread_cond_wait(&pool.begun, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.lock);
}

/* Returns the gate with another round than the last. */
static uint64_t await_round(uint64_t last)
{
    for (int i = looks(); i > 0; i--) {
        uint64_t gate = atomic_load(&pool.gate);
        if (round_of(gate) != last)
            return gate;
        look_again();
    }
    sleep_till_round(last);
    return atomic_load(&pool.gate);
}

/* False where the round is over; *gate is what was found. */
static bool enter(uint64_t *gate)
{
    while (*gate & open_bit)
        if (atomic_compare_exchange_weak(&pool.gate, gate, *gate + 1))
            return true;
    return false;
}

static void leave(void)
{
    uint64_t before = atomic_fetch_sub(&pool.gate, 1);

    if ((before & open_bit) || (before & inside_mask) > 1)
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_signal(&pool.done);
    pthread_mutex_unlock(&pool.lock);
}

static void *work(void *argument)
{
    uint64_t gate = 0;

    own_index = (int)(intptr_t)argument;
    for (;;) {
        gate = await_round(round_of(gate));
        if (enter(&gate)) {
            take_tasks();
            leave();
        } else if (atomic_load(&pool.ends)) { /* after `enter`, which may have seen the last gate */
            return NULL;
        }
    }
}

/* ---- the starter ---- */

/* With or without the open bit: without it is for threads to see that they are to end. */
static void begin_round(uint64_t bit)
{
    uint64_t round = round_of(atomic_load(&pool.gate)) << ROUND_SHIFT;

    atomic_store(&pool.gate, (round + one_round) | bit);
    if (atomic_load(&pool.sleepers) == 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.begun);
    pthread_mutex_unlock(&pool.lock);
}

static bool somebody_inside(void)
{
    return (atomic_load(&pool.gate) & inside_mask) > 0;
}

/* Those inside only compute, so this ends when they do. */
static void close_round(void)
{
    atomic_fetch_and(&pool.gate, ~open_bit);
    for (int i = looks(); i > 0 && somebody_inside(); i--)
        look_again();
    if (!somebody_inside())
        return;
    pthread_mutex_lock(&pool.lock);
    while (somebody_inside())
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void end_others(void)
{
    atomic_store(&pool.ends, true);
    begin_round(0);
    for (int i = 1; i < pool.count; i++)
        pthread_join(pool.thread[i], NULL);
    atomic_store(&pool.ends, false);
    pool.count = 1;
}

static bool start_one(void)
{
    void *index = (void *)(intptr_t)pool.count;

    if (pthread_create(&pool.thread[pool.count], NULL, work, index) != 0)
        return false;
    pool.count++;
    return true;
}

/* Signals are for the starter, whose waits they are to interrupt. */
ls_status ls__threads_start(int count)
{
    sigset_t all;
    sigset_t before;

    assert(count >= 1 && count <= LS__THREADS_MAX && own_index == 0 && !pool.busy);
    if (pool.count > 1)
        end_others();
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (pool.count < count && start_one()) {
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    int reached = pool.count;
    if (reached == count)
        return LS_OK;
    if (pool.count > 1)
        end_others();
    return LS_FAIL(LS_NO_MEMORY,
                   "the system gave %d threads of %d: lower --threads, or raise the limit on "
                   "processes (ulimit -u)",
                   reached, count);
}

void ls__threads_look(bool first)
{
    atomic_store(&pool.looks, first ? LOOKS : 0);
}

int ls__threads_count(void)
{
    return pool.count;
}

int ls__threads_index(void)
{
    return own_index;
}

static void run_alone(int64_t count, ls__task *task, void *context)
{
    for (int64_t i = 0; i < count; i++)
        task(context, i, 0);
}

static void run_together(int64_t count, ls__task *task, void *context)
{
    pool.task = task;
    pool.context = context;
    pool.tasks = count;
    atomic_store(&pool.next, 0);
    begin_round(open_bit);
    take_tasks();
    close_round();
}

void ls__threads_run(int64_t count, ls__task *task, void *context)
{
    assert(own_index == 0 && !pool.busy);
    pool.busy = true;
    if (pool.count == 1 || count < 2)
        run_alone(count, task, context);
    else
        run_together(count, task, context);
    pool.busy = false;
}

/* ---- ranges ---- */

typedef struct range_work {
    int64_t offset, end;
    ls__range_task *task;
    void *context;
} range_work;

/* The task-th of the pieces that the range touches. */
static void do_piece(void *context, int64_t task, int thread)
{
    const range_work *range = context;
    int64_t from = (range->offset / LS__THREADS_PIECE + task) * LS__THREADS_PIECE;
    int64_t to = from + LS__THREADS_PIECE;

    (void)thread;
    from = from > range->offset ? from : range->offset;
    to = to < range->end ? to : range->end;
    range->task(range->context, from, to - from);
}

void ls__threads_over(int64_t offset, int64_t count, ls__range_task *task, void *context)
{
    range_work range = {offset, offset + count, task, context};
    int64_t first = offset / LS__THREADS_PIECE;
    int64_t last = (range.end + LS__THREADS_PIECE - 1) / LS__THREADS_PIECE;

    if (pool.count == 1 || last - first < 2)
        task(context, offset, count);
    else
        ls__threads_run(last - first, do_piece, &range);
}
