/* What every test includes: CMocka, our asserts on status codes, the seed of random tests, and
 * figures that the test runner shows even where all passes. */
#ifndef LS_TESTS_SUPPORT_TEST_H
#define LS_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "lockstep/status.h"

/* Fails with the recorded sentence where `expression` is not LS_OK. */
#define assert_ok(expression) ls__assert_status((expression), LS_OK, __FILE__, __LINE__)
/* Fails unless `expression` gives `expected` and the sentence contains `part`. */
#define assert_fails(expression, expected, part)                         \
    do {                                                                 \
        ls__assert_status((expression), (expected), __FILE__, __LINE__); \
        ls__assert_error_says((part), __FILE__, __LINE__);               \
    } while (0)

/* Fails unless |value - expected| <= tolerance. */
#define assert_near(value, expected, tolerance) \
    ls__assert_near((value), (expected), (tolerance), __FILE__, __LINE__)

void ls__assert_status(ls_status status, ls_status expected, const char *file, int line);
void ls__assert_error_says(const char *part, const char *file, int line);

void ls__assert_near(double value, double expected, double tolerance, const char *file, int line);

/* The seed of this run: LOCKSTEP_TEST_SEED where set, else `preset`; prints it. */
uint64_t ls__test_seed(uint64_t preset);

/* Prints "figure: ..." for the test runner to show. */
void ls__figure(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A fresh folder of this process's own, removed when the process ends. */
const char *ls__test_folder(void);

/* The path of a name in that folder; valid to the end of the process. */
const char *ls__test_path(const char *name);

#endif
