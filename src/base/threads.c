#include "base/threads.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Looks before a thread gives its core away: about the time between one operation and the next. */
enum { LOOKS = 2000 };

typedef struct threads_pool {
    int count; /* the starter included */
    pthread_t thread[LS__THREADS_MAX];
    pthread_mutex_t lock; /* guards the sleeping, not the work */
    pthread_cond_t begun, done;
    atomic_uint round;  /* moves on when there is work, or an end */
    atomic_int working; /* threads that have not yet found the round's tasks used up */
    atomic_int looks;   /* before a thread that waits sleeps */
    bool ends;
    bool busy; /* within ls__threads_run; the starter's own */
    ls__task *task;
    void *context;
    int64_t tasks;
    atomic_llong next; /* the next task that nobody has taken */
} threads_pool;

static threads_pool pool = {.count = 1,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .begun = PTHREAD_COND_INITIALIZER,
                            .done = PTHREAD_COND_INITIALIZER,
                            .looks = LOOKS};
static _Thread_local int own_index;

static void look_again(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
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

static void await_round(unsigned last)
{
    for (int i = atomic_load_explicit(&pool.looks, memory_order_relaxed); i > 0; i--) {
        if (atomic_load(&pool.round) != last)
            return;
        look_again();
    }
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.round) == last)
        pthread_cond_wait(&pool.begun, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void *work(void *argument)
{
    unsigned round = 0;

    own_index = (int)(intptr_t)argument;
    for (;;) {
        await_round(round);
        round = atomic_load(&pool.round);
        if (pool.ends)
            return NULL;
        take_tasks();
        if (atomic_fetch_sub(&pool.working, 1) == 1) {
            pthread_mutex_lock(&pool.lock);
            pthread_cond_signal(&pool.done);
            pthread_mutex_unlock(&pool.lock);
        }
    }
}

static void begin_round(void)
{
    atomic_store(&pool.working, pool.count - 1);
    pthread_mutex_lock(&pool.lock);
    atomic_fetch_add(&pool.round, 1);
    pthread_cond_broadcast(&pool.begun);
    pthread_mutex_unlock(&pool.lock);
}

/* The others only compute, so this ends when they do. */
static void await_others(void)
{
    for (int i = atomic_load_explicit(&pool.looks, memory_order_relaxed);
         i > 0 && atomic_load(&pool.working) > 0; i--)
        look_again();
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.working) > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void end_others(void)
{
    pool.ends = true;
    begin_round();
    for (int i = 1; i < pool.count; i++)
        pthread_join(pool.thread[i], NULL);
    pool.ends = false;
    pool.count = 1;
    atomic_store(&pool.round, 0);
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

void ls__threads_look(bool looks)
{
    atomic_store(&pool.looks, looks ? LOOKS : 0);
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
    begin_round();
    take_tasks();
    await_others();
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
