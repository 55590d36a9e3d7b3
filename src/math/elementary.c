#include "math/elementary.h"

/* exp(-105) is below half of FP32's smallest number, exp(89) above its largest; 1 - tanh(10) is
 * below a tenth of a unit in the last place of 1. */
const ls__bounds ls__exp_bounds = {-105, 89};
const ls__bounds ls__tanh_bounds = {-20, 20};
