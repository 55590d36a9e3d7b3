/* Scaling laws: how large a model, on how many tokens, for how many FLOPs.
 *
 * N parameters trained on T tokens cost C = 6 N T FLOPs.
 *
 * The rule of 20 tokens a parameter (J. Hoffmann et al. 2022, table 3): N = sqrt(C / 120).
 *
 * The parametric fit L(N, T) = E + A / N^alpha + B / T^beta (Hoffmann et al., equation 2 and
 * appendix D.3). Its optimum on C = 6 N T, in closed form (their equation 4):
 *
 *     N = G (C/6)^(beta / (alpha + beta)),  T = (C/6)^(alpha / (alpha + beta)) / G,
 *     G = (alpha A / (beta B))^(1 / (alpha + beta))
 *
 *     hoffmann   E 1.69    A 406.4   B 410.7    alpha 0.34    beta 0.28     as published, rounded
 *     besiroglu  E 1.8172  A 482.01  B 2085.43  alpha 0.3478  beta 0.3658   re-fit to the same runs
 *
 * The second is T. Besiroglu, E. Erdil, M. Barnett, J. You, "Chinchilla Scaling: A replication
 * attempt", 2024: it agrees with the rule of 20, where the first's rounded constants do not.
 *
 * Kaplan's law (J. Kaplan et al. 2020, section 6 and appendix A): N = 1.3e9 C^0.73, with C in
 * PF-days (8.64e19 FLOPs) and N without embeddings; the tokens follow from C = 6 N T. Larger models
 * on fewer tokens; superseded.
 *
 * All of these are power laws N = k (C/6)^q, T = (C/6)^(1-q) / k. */
#ifndef LS_PLAN_SCALING_H
#define LS_PLAN_SCALING_H

#define LS__PLAN_TOKENS_PER_PARAMETER 20.0

/* A model and its training. */
typedef struct ls__plan_size {
    double parameters;
    double tokens;
} ls__plan_size;

double ls__plan_training_flops(ls__plan_size size); /* 6 N T */

/* ---- fits of the loss ---- */

typedef struct ls__plan_fit {
    double floor; /* E, nats a token */
    double a, alpha;
    double b, beta;
} ls__plan_fit;

double ls__plan_fit_loss(const ls__plan_fit *fit, ls__plan_size size);

/* The size of least loss on C = 6 N T, by golden-section search in log N. */
ls__plan_size ls__plan_fit_search(const ls__plan_fit *fit, double flops);

/* ---- laws of the optimum ---- */

typedef enum ls__plan_law {
    LS__PLAN_RULE_OF_20,
    LS__PLAN_HOFFMANN,
    LS__PLAN_BESIROGLU,
    LS__PLAN_KAPLAN,
    LS__PLAN_LAW_COUNT
} ls__plan_law;

const char *ls__plan_law_name(ls__plan_law law);

/* NULL for a law that says nothing of the loss. */
const ls__plan_fit *ls__plan_law_fit(ls__plan_law law);

/* In closed form. */
ls__plan_size ls__plan_law_optimum(ls__plan_law law, double flops);

/* The FLOPs whose optimum has so many parameters, or tokens. */
double ls__plan_law_flops_for_parameters(ls__plan_law law, double parameters);
double ls__plan_law_flops_for_tokens(ls__plan_law law, double tokens);

#endif
