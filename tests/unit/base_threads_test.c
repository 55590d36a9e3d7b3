/* The pool of threads: each task once, on a thread that there is, with more threads than cores,
 * restarts, many short rounds, ranges, signals, and rounding as the first thread has it. */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "support/test.h"

enum { THREADS = 9, TASKS = 5000, ROUNDS = 100000 };

static int end_others(void **state)
{
    (void)state;
    ls__threads_look(true);
    return ls__threads_start(1) != LS_OK;
}

/* ---- each task once ---- */

typedef struct census {
    atomic_int done[TASKS];
    atomic_int wrong; /* calls with an index that is not this thread's, or of no thread */
    atomic_int by[THREADS];
} census;

static census c;

static void count(void *context, int64_t task, int thread)
{
    census *counted = context;

    atomic_fetch_add(&counted->done[task], 1);
    if (thread < 0 || thread >= ls__threads_count() || thread != ls__threads_index())
        atomic_fetch_add(&counted->wrong, 1);
    else
        atomic_fetch_add(&counted->by[thread], 1);
}

static void check_run(int64_t tasks)
{
    int all = 0;

    memset(&c, 0, sizeof c);
    ls__threads_run(tasks, count, &c);
    for (int64_t i = 0; i < TASKS; i++)
        assert_int_equal(atomic_load(&c.done[i]), i < tasks ? 1 : 0);
    for (int i = 0; i < THREADS; i++)
        all += atomic_load(&c.by[i]);
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_int_equal(all, tasks);
}

static void test_each_task_once(void **state)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 10, 64, 1000, TASKS};

    (void)state;
    for (int looks = 0; looks < 2; looks++)
        for (int threads = 1; threads <= THREADS; threads++) {
            ls__threads_look(looks != 0);
            assert_ok(ls__threads_start(threads));
            assert_int_equal(ls__threads_count(), threads);
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                check_run(sizes[i]);
        }
    assert_int_equal(ls__threads_index(), 0);
}

static void test_restarts(void **state)
{
    static const int counts[] = {4, 1, 9, 2, 2, 1, 1, 7, 3};

    (void)state;
    for (int again = 0; again < 20; again++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            assert_ok(ls__threads_start(counts[i]));
            assert_int_equal(ls__threads_count(), counts[i]);
            if ((again + (int)i) % 3 > 0) /* some end without ever having had work */
                check_run(20);
        }
}

/* Every thread there is must take part: each of the tasks waits until all have begun. */
static void meet(void *context, int64_t task, int thread)
{
    atomic_int *begun = context;

    (void)task;
    (void)thread;
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < ls__threads_count())
        usleep(100);
}

static void test_all_take_part(void **state)
{
    (void)state;
    for (int threads = 2; threads <= THREADS; threads++) {
        atomic_int begun = 0;

        assert_ok(ls__threads_start(threads));
        ls__threads_run(threads, meet, &begun);
        assert_int_equal(atomic_load(&begun), threads);
    }
}

/* ---- many short rounds ---- */

/* Plain memory: what a round leaves must be seen by the next, whichever threads do its tasks. */
typedef struct relay {
    int64_t value[THREADS];
    int64_t by_others[THREADS]; /* (task) */
} relay;

/* Now and then as long as others take to come, else nothing. */
static void pass_on(void *context, int64_t task, int thread)
{
    relay *r = context;

    for (volatile int i = 0; r->value[task] % 16 == 0 && i < 3000; i++) {
    }
    r->value[task]++;
    r->by_others[task] += thread > 0;
}

static void stress(int threads, bool looks, int rounds)
{
    relay r = {0};
    int64_t by_others = 0;

    ls__threads_look(looks);
    assert_ok(ls__threads_start(threads));
    for (int i = 0; i < rounds; i++)
        ls__threads_run(2 + i % (THREADS - 1), pass_on, &r);
    for (int i = 0; i < THREADS; i++) {
        int64_t expected = 0;

        for (int round = 0; round < rounds; round++)
            expected += i < 2 + round % (THREADS - 1);
        assert_int_equal(r.value[i], expected);
        by_others += r.by_others[i];
    }
    ls__figure("%d short rounds on %d threads that %s: others did %lld of %lld tasks", rounds,
               threads, looks ? "look" : "sleep", (long long)by_others, (long long)rounds * 11 / 2);
    assert_true(by_others > 0);
}

static void test_short_rounds(void **state)
{
    (void)state;
    stress(2, true, ROUNDS);
    stress(3, false, ROUNDS);
    stress(THREADS, true, ROUNDS);
    stress(THREADS, false, ROUNDS);
}

/* ---- ranges ---- */

enum { ELEMENTS = 5 * LS__THREADS_PIECE + 321 };

static unsigned char touched[ELEMENTS + 1];

static void touch(void *context, int64_t offset, int64_t length)
{
    atomic_int *misplaced = context;

    if (offset / LS__THREADS_PIECE != (offset + length - 1) / LS__THREADS_PIECE)
        atomic_fetch_add(misplaced, 1);
    for (int64_t i = offset; i < offset + length; i++)
        touched[i]++;
}

static void check_range(int64_t offset, int64_t length)
{
    atomic_int misplaced = 0;

    memset(touched, 0, sizeof touched);
    ls__threads_over(offset, length, touch, &misplaced);
    for (int64_t i = 0; i <= ELEMENTS; i++)
        assert_int_equal(touched[i], i >= offset && i < offset + length ? 1 : 0);
    if (ls__threads_count() > 1)
        assert_int_equal(atomic_load(&misplaced), 0);
}

static void test_ranges(void **state)
{
    static const int64_t borders[] = {0,
                                      1,
                                      LS__THREADS_PIECE - 1,
                                      LS__THREADS_PIECE,
                                      LS__THREADS_PIECE + 1,
                                      3 * LS__THREADS_PIECE,
                                      4 * LS__THREADS_PIECE + 99,
                                      ELEMENTS};
    enum { BORDERS = sizeof borders / sizeof borders[0] };

    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        assert_ok(ls__threads_start(threads));
        for (int from = 0; from < BORDERS; from++)
            for (int to = from + 1; to < BORDERS; to++)
                check_range(borders[from], borders[to] - borders[from]);
    }
}

static void refuse(void *context, int64_t offset, int64_t length)
{
    (void)context;
    (void)offset;
    assert_int_equal(length, 0);
}

static void test_empty_range(void **state)
{
    (void)state;
    assert_ok(ls__threads_start(3));
    ls__threads_over(0, 0, refuse, NULL);
    ls__threads_over(LS__THREADS_PIECE, 0, refuse, NULL);
    ls__threads_over(77, 0, refuse, NULL);
}

/* ---- what threads inherit ---- */

/* Of four threads, each does one of four tasks: none goes on before all have begun. */
static void wait_for_four(atomic_int *begun)
{
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < 4)
        usleep(100);
}

static void ask_signals(void *context, int64_t task, int thread)
{
    static atomic_int begun;
    int *blocked = context;
    sigset_t set;

    (void)task;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    blocked[thread] = sigismember(&set, SIGTERM) && sigismember(&set, SIGINT);
    wait_for_four(&begun);
}

static void test_signals_are_the_first_threads(void **state)
{
    int blocked[4] = {-1, -1, -1, -1};

    (void)state;
    assert_ok(ls__threads_start(4));
    ls__threads_run(4, ask_signals, blocked);
    assert_int_equal(blocked[0], 0);
    for (int i = 1; i < 4; i++)
        assert_int_equal(blocked[i], 1);
}

static void ask_rounding(void *context, int64_t task, int thread)
{
    static atomic_int begun;
    int *mode = context;

    (void)task;
    mode[thread] = fegetround();
    wait_for_four(&begun);
}

static void test_rounding_is_inherited(void **state)
{
    int mode[4] = {-1, -1, -1, -1};

    (void)state;
    assert_ok(ls__threads_start(1));
    assert_int_equal(fesetround(FE_UPWARD), 0);
    ls_status status = ls__threads_start(4);
    ls__threads_run(4, ask_rounding, mode);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_ok(status);
    for (int i = 0; i < 4; i++)
        assert_int_equal(mode[i], FE_UPWARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_each_task_once, end_others),
        cmocka_unit_test_teardown(test_restarts, end_others),
        cmocka_unit_test_teardown(test_all_take_part, end_others),
        cmocka_unit_test_teardown(test_short_rounds, end_others),
        cmocka_unit_test_teardown(test_ranges, end_others),
        cmocka_unit_test_teardown(test_empty_range, end_others),
        cmocka_unit_test_teardown(test_signals_are_the_first_threads, end_others),
        cmocka_unit_test_teardown(test_rounding_is_inherited, end_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
