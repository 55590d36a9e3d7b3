/* A scaling law, fitted to runs of one's own: L = E + A / N^alpha + B / T^beta (plan/scaling.h),
 * and the valleys of equal FLOPs.
 *
 * The law minimises the sum over runs of (log L - log of the law)^2, in the logarithms of its five
 * constants, which are thereby positive: K. Levenberg 1944, D. Marquardt 1963, from a grid of
 * starts. (J. Hoffmann et al. 2022, appendix D.3, do the same with a Huber loss.)
 *
 * A valley is the parabola of log L over log N through the runs of one budget, by least squares
 * (Hoffmann et al., approach 2); its lowest point is the budget's best size, where it has one. The
 * exponent of N = k C^q is beta / (alpha + beta) by the law, and by the valleys the slope of a line
 * through (log C, log N).
 *
 * Intervals hold 95% of the fits to `times` samples that a bootstrap draws: to the fitted log L of
 * each run it adds a residual of another, drawn with replacement and scaled by sqrt(n / (n - p))
 * for the p constants that the fit has used up. They say how far noise like that of these runs
 * moves the constants; not how wrong the law is elsewhere. */
#ifndef LS_PLAN_LAW_H
#define LS_PLAN_LAW_H

#include <stdint.h>

#include "lockstep/status.h"
#include "plan/scaling.h"

enum { LS__LAW_RUNS = 256, LS__LAW_BUDGETS = 16, LS__LAW_CONSTANTS = 5 };

typedef struct ls__law_run {
    int budget; /* runs of equal FLOPs have the same, from 0 on, and stand together */
    ls__plan_size size;
    double loss; /* nats a token */
} ls__law_run;

/* log L = c[0] + c[1] x + c[2] x^2 with x = log(N / centre). */
typedef struct ls__law_valley {
    double flops;  /* the budget: the mean of its runs' */
    double centre; /* parameters */
    double c[3];
    ls__plan_size best; /* NAN where the parabola has no lowest point */
    double loss;        /* there */
} ls__law_valley;

/* NAN: not known. */
typedef struct ls__law_estimate {
    double value;
    double low, high; /* of 95% */
} ls__law_estimate;

typedef enum ls__law_constant {
    LS__LAW_FLOOR,
    LS__LAW_A,
    LS__LAW_ALPHA,
    LS__LAW_B,
    LS__LAW_BETA,
    LS__LAW_EXPONENT,        /* q, by the law */
    LS__LAW_VALLEY_EXPONENT, /* q, by the valleys */
    LS__LAW_ESTIMATES
} ls__law_constant;

typedef struct ls__law {
    ls__plan_fit fit;
    double residual; /* root of the mean of (log L - log of the law)^2 */
    int budgets;
    ls__law_valley valley[LS__LAW_BUDGETS];
    ls__law_estimate estimate[LS__LAW_ESTIMATES];
} ls__law;

const char *ls__law_constant_name(ls__law_constant constant);

/* log L of a valley at so many parameters. */
double ls__law_valley_at(const ls__law_valley *valley, double parameters);

/* Fits everything. LS_BAD_INPUT where there are fewer runs than the law has constants plus one, or
 * a budget with fewer than three, or one loss is not a positive number. */
ls_status ls__law_of_runs(const ls__law_run *runs, int count, uint64_t seed, int times,
                          ls__law *law);

#endif
