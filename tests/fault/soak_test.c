/* Fifty SIGKILLs of random ranks at random moments, saves included, with resumes on 1 to 4 ranks:
 * nothing hangs, no checkpoint is lost, and every run that gets to its end has the digest of one
 * that nothing disturbed. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "support/test.h"
#include "support/training.h"

enum { KILLS = 50, STEPS = 60, TRIES = 150 };

/* Half of the kills are at any time within so many seconds of the start of training ... */
static const double longest = 0.25;

static uint64_t seed;
static uint64_t drawn;

static int draw(int below)
{
    return (int)(ls__random(seed, LS__STREAM_SAMPLE, 0, drawn++).word[0] % (uint32_t)below);
}

/* ... the others at a place in one of the next steps that time seldom hits. */
static void choose_fault(char *fault, size_t size, int ranks, int64_t from_step)
{
    static const char *const places[] = {"write", "seal", "rename", "collective", "step"};
    int place = draw(5);
    int64_t step = from_step + 1 + draw(6);

    if (draw(2) == 0)
        snprintf(fault, size, "kill:at=time:rank=%d:after=%.4f", draw(ranks),
                 longest * draw(1000) / 1000.0);
    else
        snprintf(fault, size, "kill:at=%s:rank=%d:step=%lld", places[place],
                 place < 3 ? 0 : draw(ranks), (long long)step);
}

/* The line of a step is written before it is saved: so whatever has the next line was saved. */
static void assert_nothing_lost(const char *run, int64_t before)
{
    int64_t saved = ls__training_checkpoint(run);

    assert_true(saved >= before);
    assert_true(saved >= ls__training_last_step(run) - 1);
}

static void assert_whole(const char *run)
{
    assert_string_equal(ls__training_digest(run), ls__training_undisturbed(STEPS));
    assert_int_equal(ls__training_checkpoint(run), STEPS);
}

static void test_soak(void **state)
{
    char run[LS__PATH_SIZE] = "";
    char fault[128];
    int kills = 0;
    int in_saves = 0;
    int finished = 0;
    int64_t saved = 0;
    double seconds = 0;
    ls__process p;

    (void)state;
    seed = ls__test_seed(20261129);
    for (int attempt = 0; attempt < TRIES && (kills < KILLS || saved > 0); attempt++) {
        bool last = kills >= KILLS;
        int ranks = 1 + draw(4);
        if (saved == 0) {
            snprintf(fault, sizeof fault, "soak-%d", finished);
            snprintf(run, sizeof run, "%s", ls__test_path(fault));
        }
        choose_fault(fault, sizeof fault, ranks, saved);
        ls__training_run(
            &(ls__training){
                .fault = last ? NULL : fault, .run = run, .ranks = ranks, .steps = STEPS},
            &p);
        if (strstr(p.err, "damaged") || (p.exit_code != 0 && p.exit_code != 3))
            ls__process_show(&p);
        assert_null(strstr(p.err, "damaged"));
        assert_true(p.exit_code == 0 || p.exit_code == 3);
        seconds += p.seconds;
        bool killed = p.exit_code != 0;
        assert_true(!killed || strstr(p.err, "was lost (signal 9): go on with --resume"));
        ls__process_free(&p);
        kills += killed;
        in_saves +=
            killed && (strstr(fault, "write") || strstr(fault, "seal") || strstr(fault, "rename"));
        assert_nothing_lost(run, saved);
        saved = ls__training_checkpoint(run);
        if (!killed) {
            assert_whole(run);
            finished++;
            saved = 0;
        }
    }
    assert_true(kills >= KILLS);
    ls__assert_nothing_runs(ls__test_folder());
    ls__figure("soak, seed %llu: %d kills, %d of them inside a save, %d runs of %d steps came to "
               "their end with the undisturbed digest; %.0f s",
               (unsigned long long)seed, kills, in_saves, finished, STEPS, seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soak),
    };

    return cmocka_run_group_tests(tests, ls__training_set_up, NULL);
}
