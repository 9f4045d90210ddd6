/* ok.h - assertions about calls that have to succeed, or to fail for a given reason. A failed
 * assertion prints the call's error.
 *
 * Tests include this header after cmocka.h. Each macro evaluates CALL once, and then reads the
 * error. */
#ifndef TESTS_LIB_OK_H
#define TESTS_LIB_OK_H
#include <string.h>

#include "common/base/err.h"

/* Asserts that CALL returns 0, which means success. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s: %s", #call, (err)->text);                                                \
    } while (0)

/* Asserts the same of a CALL that stores its error in &err, a variable of this macro. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        vc_err err = { 0 };                                                                        \
        assert_ok(call, &err);                                                                     \
    } while (0)

/* Asserts that the error's text contains `part`. */
#define assert_says(err, part)                                                                     \
    do {                                                                                           \
        if (!strstr((err)->text, part))                                                            \
            fail_msg("no \"%s\" in: %s", part, (err)->text);                                       \
    } while (0)

/* Asserts that CALL returns CODE, and that the error's text contains `part`. */
#define assert_fails(call, code, err, part)                                                        \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != (code) || !strstr((err)->text, part))                                           \
            fail_msg("%s: %d, expected %s and \"%s\": %s", #call, rc_, #code, part,                \
                     rc_ ? (err)->text : "the call succeeded");                                    \
    } while (0)

/* Asserts that low <= VALUE <= high, all of them whole numbers. (cmocka 2 has deprecated
 * assert_in_range, and cmocka 1 lacks what took its place.) */
#define assert_between(value, low, high)                                                           \
    do {                                                                                           \
        long long value_ = (long long)(value), low_ = (long long)(low), high_ = (long long)(high); \
        if (value_ < low_ || value_ > high_)                                                       \
            fail_msg("%s is %lld, not in %lld..%lld", #value, value_, low_, high_);                \
    } while (0)

#endif
