#include "plan/scaling.h"

#include <math.h>

static const double pf_day = 1e15 * 86400; /* FLOPs */

const ls__plan_fit ls__plan_hoffmann = {
    .name = "hoffmann", .floor = 1.69, .a = 406.4, .alpha = 0.34, .b = 410.7, .beta = 0.28};
const ls__plan_fit ls__plan_besiroglu = {.name = "besiroglu",
                                         .floor = 1.8172,
                                         .a = 482.01,
                                         .alpha = 0.3478,
                                         .b = 2085.43,
                                         .beta = 0.3658};

/* The model of N parameters that uses up the FLOPs. */
static ls__plan_size spend(double parameters, double flops)
{
    return (ls__plan_size){parameters, flops / 6 / parameters};
}

double ls__plan_training_flops(ls__plan_size size)
{
    return 6 * size.parameters * size.tokens;
}

ls__plan_size ls__plan_rule_of_20(double flops)
{
    return spend(sqrt(flops / (6 * LS__PLAN_TOKENS_PER_PARAMETER)), flops);
}

ls__plan_size ls__plan_kaplan(double flops)
{
    return spend(1.3e9 * pow(flops / pf_day, 0.73), flops);
}

double ls__plan_fit_loss(const ls__plan_fit *fit, ls__plan_size size)
{
    return fit->floor + fit->a / pow(size.parameters, fit->alpha) +
           fit->b / pow(size.tokens, fit->beta);
}

static double ratio_g(const ls__plan_fit *fit)
{
    return pow(fit->alpha * fit->a / (fit->beta * fit->b), 1 / (fit->alpha + fit->beta));
}

ls__plan_size ls__plan_fit_optimum(const ls__plan_fit *fit, double flops)
{
    return spend(ratio_g(fit) * pow(flops / 6, fit->beta / (fit->alpha + fit->beta)), flops);
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

double ls__plan_fit_flops_for_parameters(const ls__plan_fit *fit, double parameters)
{
    return 6 * pow(parameters / ratio_g(fit), (fit->alpha + fit->beta) / fit->beta);
}

double ls__plan_fit_flops_for_tokens(const ls__plan_fit *fit, double tokens)
{
    return 6 * pow(tokens * ratio_g(fit), (fit->alpha + fit->beta) / fit->alpha);
}
