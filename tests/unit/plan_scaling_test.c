/* Scaling laws: the figures of issue 6 and those of the papers. */
#include <math.h>

#include "plan/scaling.h"
#include "support/test.h"

static void assert_size(ls__plan_size size, double parameters, double tokens, double relative)
{
    assert_near(size.parameters, parameters, relative * parameters);
    assert_near(size.tokens, tokens, relative * tokens);
}

static void assert_rule_of_20(double parameters, double tokens)
{
    double flops = ls__plan_law_flops_for_parameters(LS__PLAN_RULE_OF_20, parameters);

    assert_size(ls__plan_law_optimum(LS__PLAN_RULE_OF_20, flops), parameters, tokens, 1e-9);
    assert_near(ls__plan_law_flops_for_tokens(LS__PLAN_RULE_OF_20, tokens), flops, 1e-9 * flops);
}

static void test_rule_of_20(void **state)
{
    (void)state;
    assert_rule_of_20(7e9, 1.4e11);
    assert_rule_of_20(175e9, 3.5e12);
    assert_rule_of_20(65e9, 1.3e12); /* near the 1.4e12 that LLaMA's 65B saw */
    /* Chinchilla: 5.88e23 FLOPs, 70e9 parameters on 1.4e12 tokens. */
    assert_size(ls__plan_law_optimum(LS__PLAN_RULE_OF_20, 5.88e23), 70e9, 1.4e12, 1e-9);
}

/* 7e9 on 1.4e11 and 70e9 on 1.4e10 cost the same. */
static void test_equal_flops(void **state)
{
    (void)state;
    assert_near(ls__plan_training_flops((ls__plan_size){7e9, 1.4e11}), 5.88e21, 1e9);
    assert_near(ls__plan_training_flops((ls__plan_size){70e9, 1.4e10}), 5.88e21, 1e9);
}

/* 175e9 on 3.5e12 tokens with 10,000 A100: 13.6 days at peak, 34 at 40%; not 175. */
static void test_days(void **state)
{
    double flops = ls__plan_training_flops((ls__plan_size){175e9, 3.5e12});
    double days = flops / (10000 * 312e12) / 86400;

    (void)state;
    assert_near(days, 13.6, 0.05);
    assert_near(days / 0.4, 34, 0.1);
}

/* Both ways to the optimum, and the optimum itself: no size of the same FLOPs does better. */
static void assert_optimum(ls__plan_law law, double flops)
{
    const ls__plan_fit *fit = ls__plan_law_fit(law);
    ls__plan_size closed = ls__plan_law_optimum(law, flops);
    ls__plan_size searched = ls__plan_fit_search(fit, flops);
    ls__plan_size larger = {closed.parameters * 1.05, closed.tokens / 1.05};
    ls__plan_size smaller = {closed.parameters / 1.05, closed.tokens * 1.05};

    assert_size(searched, closed.parameters, closed.tokens, 0.02);
    assert_near(ls__plan_training_flops(closed), flops, 1e-9 * flops);
    assert_true(ls__plan_fit_loss(fit, larger) > ls__plan_fit_loss(fit, closed));
    assert_true(ls__plan_fit_loss(fit, smaller) > ls__plan_fit_loss(fit, closed));
}

static void test_optimum_of_the_fits(void **state)
{
    (void)state;
    for (double flops = 1e18; flops < 1e27; flops *= 10) {
        assert_optimum(LS__PLAN_HOFFMANN, flops);
        assert_optimum(LS__PLAN_BESIROGLU, flops);
    }
}

static void test_laws_can_be_asked_backwards(void **state)
{
    (void)state;
    for (ls__plan_law law = 0; law < LS__PLAN_LAW_COUNT; law++) {
        ls__plan_size size = ls__plan_law_optimum(law, 1e22);
        assert_near(ls__plan_training_flops(size), 1e22, 1e13);
        assert_near(ls__plan_law_flops_for_parameters(law, size.parameters), 1e22, 1e13);
        assert_near(ls__plan_law_flops_for_tokens(law, size.tokens), 1e22, 1e13);
    }
}

static double growth_a_decade(ls__plan_law law)
{
    return log10(ls__plan_law_optimum(law, 1e24).parameters /
                 ls__plan_law_optimum(law, 1e23).parameters);
}

/* Exponents of N: 0.45 in Hoffmann et al.'s equation 4, 0.5126 in Besiroglu et al., 0.73 in Kaplan
 * et al.; by the re-fit Chinchilla's FLOPs want some 20 tokens a parameter, as its authors say. */
static void test_published_optimum(void **state)
{
    ls__plan_size chinchilla = ls__plan_law_optimum(LS__PLAN_BESIROGLU, 5.76e23);

    (void)state;
    assert_near(growth_a_decade(LS__PLAN_RULE_OF_20), 0.5, 1e-9);
    assert_near(growth_a_decade(LS__PLAN_HOFFMANN), 0.45, 0.005);
    assert_near(growth_a_decade(LS__PLAN_BESIROGLU), 0.5126, 0.0005);
    assert_near(growth_a_decade(LS__PLAN_KAPLAN), 0.73, 1e-9);
    assert_near(chinchilla.tokens / chinchilla.parameters, 20, 5);
    /* Kaplan et al. 2020, table 6: 1.3e9 parameters for one PF-day. */
    assert_near(ls__plan_law_optimum(LS__PLAN_KAPLAN, 8.64e19).parameters, 1.3e9, 1e3);
    /* 1.69 + 0.0837 + 0.1634 by Hoffmann et al.'s constants. */
    assert_near(
        ls__plan_fit_loss(ls__plan_law_fit(LS__PLAN_HOFFMANN), (ls__plan_size){70e9, 1.4e12}),
        1.937, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_of_20),
        cmocka_unit_test(test_equal_flops),
        cmocka_unit_test(test_days),
        cmocka_unit_test(test_optimum_of_the_fits),
        cmocka_unit_test(test_laws_can_be_asked_backwards),
        cmocka_unit_test(test_published_optimum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
