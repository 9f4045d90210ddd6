/* ok.h - calls that have to succeed, or to fail for a given reason. Otherwise their error is
 * printed.
 *
 * Included after cmocka.h. Each macro runs CALL once, before it looks at the error. */
#ifndef TESTS_LIB_OK_H
#define TESTS_LIB_OK_H
#include <string.h>

#include "common/base/err.h"

/* CALL returns 0, which means success. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        if (call)                                                                                  \
            fail_msg("%s: %s", #call, (err)->text);                                                \
    } while (0)

/* The same, of a CALL that puts its error into one named err, which is made for it. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        vc_err err = { 0 };                                                                        \
        assert_ok(call, &err);                                                                     \
    } while (0)

/* The error's text has `says` in it. */
#define assert_says(err, says)                                                                     \
    do {                                                                                           \
        if (!strstr((err)->text, says))                                                            \
            fail_msg("no \"%s\" in: %s", says, (err)->text);                                       \
    } while (0)

/* CALL returns CODE, and the error's text has `says` in it. */
#define assert_fails(call, code, err, says)                                                        \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != (code) || !strstr((err)->text, says))                                           \
            fail_msg("%s: %d, not %s and \"%s\": %s", #call, rc_, #code, says,                     \
                     rc_ ? (err)->text : "it went well");                                          \
    } while (0)

#endif
