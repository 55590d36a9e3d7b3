#include "plan/scaling.h"

#include <math.h>
#include <stddef.h>

static const double pf_day = 1e15 * 86400; /* FLOPs */

/* The model of N parameters that uses up the FLOPs. */
static ls__plan_size spend(double parameters, double flops)
{
    return (ls__plan_size){parameters, flops / 6 / parameters};
}

double ls__plan_training_flops(ls__plan_size size)
{
    return 6 * size.parameters * size.tokens;
}

/* ---- fits of the loss ---- */

double ls__plan_fit_loss(const ls__plan_fit *fit, ls__plan_size size)
{
    return fit->floor + fit->a / pow(size.parameters, fit->alpha) +
           fit->b / pow(size.tokens, fit->beta);
}

static double loss_at(const ls__plan_fit *fit, double log_parameters, double flops)
{
    return ls__plan_fit_loss(fit, spend(exp(log_parameters), flops));
}

/* The loss has one minimum along log N: it is a sum of two exponentials. */
ls__plan_size ls__plan_fit_search(const ls__plan_fit *fit, double flops)
{
    static const double golden = 0.6180339887498949;
    double low = 0;
    double high = log(flops / 6);

    while (high - low > 1e-6) {
        double left = high - golden * (high - low);
        double right = low + golden * (high - low);
        if (loss_at(fit, left, flops) < loss_at(fit, right, flops))
            high = right;
        else
            low = left;
    }
    return spend(exp(low + (high - low) / 2), flops);
}

/* ---- laws of the optimum ---- */

const char *ls__plan_law_name(ls__plan_law law)
{
    static const char *const names[] = {"20 a parameter", "Hoffmann", "Besiroglu", "Kaplan"};

    return names[law];
}

const ls__plan_fit *ls__plan_law_fit(ls__plan_law law)
{
    static const ls__plan_fit hoffmann = {1.69, 406.4, 0.34, 410.7, 0.28};
    static const ls__plan_fit besiroglu = {1.8172, 482.01, 0.3478, 2085.43, 0.3658};

    if (law == LS__PLAN_HOFFMANN)
        return &hoffmann;
    return law == LS__PLAN_BESIROGLU ? &besiroglu : NULL;
}

/* N = k (C/6)^q. */
typedef struct power_law {
    double k;
    double q;
} power_law;

static power_law power_law_of(ls__plan_law law)
{
    const ls__plan_fit *fit = ls__plan_law_fit(law);

    if (law == LS__PLAN_RULE_OF_20)
        return (power_law){1 / sqrt(LS__PLAN_TOKENS_PER_PARAMETER), 0.5};
    if (law == LS__PLAN_KAPLAN)
        return (power_law){1.3e9 * pow(6 / pf_day, 0.73), 0.73};
    double sum = fit->alpha + fit->beta;
    return (power_law){pow(fit->alpha * fit->a / (fit->beta * fit->b), 1 / sum), fit->beta / sum};
}

ls__plan_size ls__plan_law_optimum(ls__plan_law law, double flops)
{
    power_law power = power_law_of(law);

    return spend(power.k * pow(flops / 6, power.q), flops);
}

double ls__plan_law_flops_for_parameters(ls__plan_law law, double parameters)
{
    power_law power = power_law_of(law);

    return 6 * pow(parameters / power.k, 1 / power.q);
}

double ls__plan_law_flops_for_tokens(ls__plan_law law, double tokens)
{
    power_law power = power_law_of(law);

    return 6 * pow(tokens * power.k, 1 / (1 - power.q));
}
