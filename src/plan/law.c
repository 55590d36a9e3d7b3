#include "plan/law.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { P = LS__LAW_CONSTANTS, STEPS = 400, STARTS_EACH = 3 };

const char *ls__law_constant_name(ls__law_constant constant)
{
    static const char *const names[] = {"E", "A", "alpha", "B", "beta", "exponent", "by valleys"};

    return names[constant];
}

/* ---- small linear systems ---- */

/* Solves m x = v of `size` equations, in place, by elimination with pivots; x is left in v. False
 * where m is singular. */
static bool solve(double m[P][P], double v[P], int size)
{
    for (int column = 0; column < size; column++) {
        int pivot = column;
        for (int row = column + 1; row < size; row++)
            if (fabs(m[row][column]) > fabs(m[pivot][column]))
                pivot = row;
        if (!(fabs(m[pivot][column]) > 0))
            return false;
        for (int i = 0; i < size; i++) {
            double held = m[column][i];
            m[column][i] = m[pivot][i];
            m[pivot][i] = held;
        }
        double held = v[column];
        v[column] = v[pivot];
        v[pivot] = held;
        for (int row = 0; row < size; row++) {
            double factor = row == column ? 0 : m[row][column] / m[column][column];
            for (int i = column; i < size; i++)
                m[row][i] -= factor * m[column][i];
            v[row] -= factor * v[column];
        }
    }
    for (int i = 0; i < size; i++)
        v[i] /= m[i][i];
    return true;
}

/* ---- the law ---- */

/* The runs in logarithms, around their means: (log E, log A', log alpha, log B', log beta) with
 * A' = A / exp(alpha mean log N) are nearly independent of each other. */
typedef struct problem {
    int count;
    double n[LS__LAW_RUNS], t[LS__LAW_RUNS];
    double mean_n, mean_t;
    double loss[LS__LAW_RUNS];
} problem;

static void state_problem(problem *p, const ls__law_run *runs, int count)
{
    *p = (problem){.count = count};
    for (int i = 0; i < count; i++) {
        p->mean_n += log(runs[i].size.parameters) / count;
        p->mean_t += log(runs[i].size.tokens) / count;
    }
    for (int i = 0; i < count; i++) {
        p->n[i] = log(runs[i].size.parameters) - p->mean_n;
        p->t[i] = log(runs[i].size.tokens) - p->mean_t;
        p->loss[i] = log(runs[i].loss);
    }
}

/* The law's log L of run i, and its derivatives by x where asked. */
static double predict(const problem *p, int i, const double x[P], double *slope)
{
    double alpha = exp(x[2]);
    double beta = exp(x[4]);
    double floor = exp(x[0]);
    double by_n = exp(x[1] - alpha * p->n[i]);
    double by_t = exp(x[3] - beta * p->t[i]);
    double sum = floor + by_n + by_t;

    if (slope) {
        slope[0] = floor / sum;
        slope[1] = by_n / sum;
        slope[2] = -alpha * p->n[i] * by_n / sum;
        slope[3] = by_t / sum;
        slope[4] = -beta * p->t[i] * by_t / sum;
    }
    return log(sum);
}

static double squares(const problem *p, const double x[P])
{
    double sum = 0;

    for (int i = 0; i < p->count; i++) {
        double off = p->loss[i] - predict(p, i, x, NULL);
        sum += off * off;
    }
    return sum;
}

/* J' J and J' r. */
static void normal_equations(const problem *p, const double x[P], double m[P][P], double v[P])
{
    double slope[P];

    memset(m, 0, sizeof(double[P][P]));
    memset(v, 0, sizeof(double[P]));
    for (int i = 0; i < p->count; i++) {
        double off = p->loss[i] - predict(p, i, x, slope);
        for (int row = 0; row < P; row++) {
            v[row] += slope[row] * off;
            for (int column = 0; column < P; column++)
                m[row][column] += slope[row] * slope[column];
        }
    }
}

/* Improves x until nothing is gained any more; returns the sum of squares. */
static double descend(const problem *p, double x[P])
{
    double best = squares(p, x);
    double damping = 1e-3;

    for (int step = 0; step < STEPS && damping < 1e12; step++) {
        double m[P][P];
        double move[P];
        double tried[P];
        normal_equations(p, x, m, move);
        for (int i = 0; i < P; i++)
            m[i][i] += damping * (m[i][i] + 1e-12);
        if (!solve(m, move, P))
            return best;
        for (int i = 0; i < P; i++)
            tried[i] = x[i] + move[i];
        double found = squares(p, tried);
        damping *= found < best ? 0.3 : 5;
        if (!(found < best))
            continue;
        memcpy(x, tried, sizeof tried);
        best = found;
    }
    return best;
}

/* From a grid: of what is left above the floor, N and T have half each. */
static double search(const problem *p, double x[P])
{
    static const double exponents[STARTS_EACH] = {0.15, 0.4, 1};
    static const double floors[STARTS_EACH] = {0.3, 0.6, 0.9};
    double mean = 0;
    double best = (double)INFINITY;

    for (int i = 0; i < p->count; i++)
        mean += exp(p->loss[i]) / p->count;
    for (int i = 0; i < STARTS_EACH * STARTS_EACH * STARTS_EACH; i++) {
        double floor = mean * floors[i % STARTS_EACH];
        double half = log((mean - floor) / 2);
        double tried[P] = {log(floor), half, log(exponents[i / STARTS_EACH % STARTS_EACH]), half,
                           log(exponents[i / STARTS_EACH / STARTS_EACH])};
        double found = descend(p, tried);
        if (!(found < best))
            continue;
        best = found;
        memcpy(x, tried, sizeof tried);
    }
    return best;
}

static ls__plan_fit fit_of(const problem *p, const double x[P])
{
    double alpha = exp(x[2]);
    double beta = exp(x[4]);

    return (ls__plan_fit){.floor = exp(x[0]),
                          .a = exp(x[1] + alpha * p->mean_n),
                          .alpha = alpha,
                          .b = exp(x[3] + beta * p->mean_t),
                          .beta = beta};
}

/* ---- valleys ---- */

/* The runs of one budget. */
typedef struct group {
    const ls__law_run *run;
    int count;
} group;

static group group_at(const ls__law_run *runs, int count, int first)
{
    group g = {.run = runs + first};

    while (first + g.count < count && runs[first + g.count].budget == runs[first].budget)
        g.count++;
    return g;
}

double ls__law_valley_at(const ls__law_valley *valley, double parameters)
{
    double x = log(parameters / valley->centre);

    return valley->c[0] + x * (valley->c[1] + x * valley->c[2]);
}

static void fit_parabola(ls__law_valley *valley, const group *g)
{
    double m[P][P] = {{0}};
    double v[P] = {0};

    for (int i = 0; i < g->count; i++) {
        double x = log(g->run[i].size.parameters / valley->centre);
        double powers[] = {1, x, x * x};
        for (int row = 0; row < 3; row++) {
            v[row] += powers[row] * log(g->run[i].loss);
            for (int column = 0; column < 3; column++)
                m[row][column] += powers[row] * powers[column];
        }
    }
    bool solved = solve(m, v, 3);
    for (int i = 0; i < 3; i++)
        valley->c[i] = solved ? v[i] : (double)NAN;
}

static ls__law_valley valley_of(const group *g)
{
    ls__law_valley valley = {.best = {(double)NAN, (double)NAN}, .loss = (double)NAN};
    double log_centre = 0;

    for (int i = 0; i < g->count; i++) {
        valley.flops += ls__plan_training_flops(g->run[i].size) / g->count;
        log_centre += log(g->run[i].size.parameters) / g->count;
    }
    valley.centre = exp(log_centre);
    fit_parabola(&valley, g);
    if (!(valley.c[2] > 0))
        return valley;
    valley.best.parameters = valley.centre * exp(-valley.c[1] / (2 * valley.c[2]));
    valley.best.tokens = valley.flops / 6 / valley.best.parameters;
    valley.loss = exp(ls__law_valley_at(&valley, valley.best.parameters));
    return valley;
}

static int find_valleys(const ls__law_run *runs, int count, ls__law_valley *valley)
{
    int budgets = 0;

    for (int first = 0; first < count;) {
        group g = group_at(runs, count, first);
        valley[budgets++] = valley_of(&g);
        first += g.count;
    }
    return budgets;
}

/* The slope of log N over log C; NAN with fewer than two valleys that have a lowest point. */
static double valley_exponent(const ls__law_valley *valley, int budgets)
{
    double sum = 0;
    double x_sum = 0;
    double y_sum = 0;
    double xx_sum = 0;
    double xy_sum = 0;

    for (int i = 0; i < budgets; i++) {
        double x = log(valley[i].flops);
        double y = log(valley[i].best.parameters);
        if (isnan(y))
            continue;
        sum++;
        x_sum += x;
        y_sum += y;
        xx_sum += x * x;
        xy_sum += x * y;
    }
    if (sum < 2)
        return (double)NAN;
    return (sum * xy_sum - x_sum * y_sum) / (sum * xx_sum - x_sum * x_sum);
}

/* ---- the bootstrap ---- */

/* What a fit says of each run, and how far from it each is. */
typedef struct residuals {
    double fitted[LS__LAW_RUNS];   /* log L */
    double residual[LS__LAW_RUNS]; /* scaled for the constants that the fit used up */
} residuals;

static void scale_residuals(residuals *r, const ls__law_run *runs, int count, int used)
{
    double scale = count > used ? sqrt((double)count / (count - used)) : 1;

    for (int i = 0; i < count; i++)
        r->residual[i] = scale * (log(runs[i].loss) - r->fitted[i]);
}

static void residuals_of_law(residuals *r, const ls__law_run *runs, int count,
                             const ls__plan_fit *fit)
{
    for (int i = 0; i < count; i++)
        r->fitted[i] = log(ls__plan_fit_loss(fit, runs[i].size));
    scale_residuals(r, runs, count, P);
}

static void residuals_of_valleys(residuals *r, const ls__law_run *runs, int count,
                                 const ls__law_valley *valley, int budgets)
{
    int at = -1;

    for (int i = 0; i < count; i++) {
        if (i == 0 || runs[i].budget != runs[i - 1].budget)
            at++;
        r->fitted[i] = ls__law_valley_at(&valley[at], runs[i].size.parameters);
    }
    scale_residuals(r, runs, count, 3 * budgets);
}

/* Sample `number` of those that the seed gives. */
static void resample(const residuals *r, ls__law_run *runs, int count, uint64_t seed, int number)
{
    for (int i = 0; i < count; i++) {
        ls__random4 words = ls__random(seed, LS__STREAM_RESAMPLE, (uint32_t)i, (uint64_t)number);
        uint64_t drawn = ls__bounded(words, (uint64_t)count);
        runs[i].loss = exp(r->fitted[i] + r->residual[drawn]);
    }
}

static void take_values(double values[LS__LAW_ESTIMATES], const ls__plan_fit *fit,
                        double by_valleys)
{
    values[LS__LAW_FLOOR] = fit->floor;
    values[LS__LAW_A] = fit->a;
    values[LS__LAW_ALPHA] = fit->alpha;
    values[LS__LAW_B] = fit->b;
    values[LS__LAW_BETA] = fit->beta;
    values[LS__LAW_EXPONENT] = fit->beta / (fit->alpha + fit->beta);
    values[LS__LAW_VALLEY_EXPONENT] = by_valleys;
}

/* One bootstrap: all that it draws from, and where it puts what it finds. */
typedef struct bootstrap {
    residuals by_law, by_valleys;
    double start[P];
    ls__law_run runs[LS__LAW_RUNS];
    double *found[LS__LAW_ESTIMATES]; /* (times) each */
} bootstrap;

static void draw_one(bootstrap *b, int count, uint64_t seed, int number)
{
    problem p;
    ls__law_valley valley[LS__LAW_BUDGETS];
    double values[LS__LAW_ESTIMATES];
    double x[P];

    resample(&b->by_law, b->runs, count, seed, number);
    state_problem(&p, b->runs, count);
    memcpy(x, b->start, sizeof x);
    descend(&p, x);
    ls__plan_fit fit = fit_of(&p, x);
    resample(&b->by_valleys, b->runs, count, seed, number);
    int budgets = find_valleys(b->runs, count, valley);
    take_values(values, &fit, valley_exponent(valley, budgets));
    for (int i = 0; i < LS__LAW_ESTIMATES; i++)
        b->found[i][number] = values[i];
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return (left > right) - (left < right);
}

/* The bounds of the middle 95%, without those that are not known. */
static void take_interval(ls__law_estimate *estimate, double *found, int times)
{
    int known = 0;

    for (int i = 0; i < times; i++)
        if (isfinite(found[i]))
            found[known++] = found[i];
    qsort(found, (size_t)known, sizeof *found, by_value);
    estimate->low = known ? found[(int)(0.025 * (known - 1))] : (double)NAN;
    estimate->high = known ? found[(int)ceil(0.975 * (known - 1))] : (double)NAN;
}

static ls_status draw_all(bootstrap *b, const ls__law_run *runs, int count, uint64_t seed,
                          int times, ls__law *law)
{
    double *room = calloc((size_t)times * LS__LAW_ESTIMATES, sizeof *room);

    LS_FAIL_IF(!room, LS_NO_MEMORY, "no memory for %d samples of a bootstrap", times);
    residuals_of_law(&b->by_law, runs, count, &law->fit);
    residuals_of_valleys(&b->by_valleys, runs, count, law->valley, law->budgets);
    memcpy(b->runs, runs, (size_t)count * sizeof *runs);
    for (int i = 0; i < LS__LAW_ESTIMATES; i++)
        b->found[i] = room + (ptrdiff_t)i * times;
    for (int number = 0; number < times; number++)
        draw_one(b, count, seed, number);
    for (int i = 0; i < LS__LAW_ESTIMATES; i++)
        take_interval(&law->estimate[i], b->found[i], times);
    free(room);
    return LS_OK;
}

/* ---- all of it ---- */

static ls_status check_runs(const ls__law_run *runs, int count)
{
    int budgets = 0;

    LS_FAIL_IF(count <= P || count > LS__LAW_RUNS, LS_BAD_INPUT,
               "a law of %d constants needs %d to %d runs, there are %d", P, P + 1, LS__LAW_RUNS,
               count);
    for (int i = 0; i < count; i++)
        LS_FAIL_IF(!(runs[i].loss > 0) || !isfinite(runs[i].loss), LS_BAD_INPUT,
                   "run %d has no loss that a law could be fitted to: %g", i, runs[i].loss);
    for (int first = 0; first < count; budgets++) {
        group g = group_at(runs, count, first);
        LS_FAIL_IF(g.count < 3, LS_BAD_INPUT, "a valley needs 3 runs, budget %d has %d", budgets,
                   g.count);
        first += g.count;
    }
    LS_FAIL_IF(budgets > LS__LAW_BUDGETS, LS_BAD_INPUT, "at most %d budgets, there are %d",
               LS__LAW_BUDGETS, budgets);
    return LS_OK;
}

ls_status ls__law_of_runs(const ls__law_run *runs, int count, uint64_t seed, int times,
                          ls__law *law)
{
    problem p;
    bootstrap b = {0};
    double values[LS__LAW_ESTIMATES];

    LS_TRY(check_runs(runs, count));
    *law = (ls__law){0};
    state_problem(&p, runs, count);
    law->residual = sqrt(search(&p, b.start) / count);
    law->fit = fit_of(&p, b.start);
    law->budgets = find_valleys(runs, count, law->valley);
    take_values(values, &law->fit, valley_exponent(law->valley, law->budgets));
    for (int i = 0; i < LS__LAW_ESTIMATES; i++)
        law->estimate[i].value = values[i];
    return draw_all(&b, runs, count, seed, times, law);
}
