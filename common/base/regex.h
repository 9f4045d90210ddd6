/* regex.h - compiles POSIX regular expressions that a user gives. */
#ifndef COMMON_BASE_REGEX_H
#define COMMON_BASE_REGEX_H

#include <regex.h>

#include "common/base/err.h"

/* regcomp(3) with its fault in words. The C library copies what is repeated, so that "a+++" has
 * eight copies and "(a{255}){255}" 65,025: an expression of more than VC_REGEX_MOST characters with
 * all copies is refused, as one of groups deep within groups is. So is one of more than
 * VC_REGEX_COPIES copies, or with a back-reference: on a text of 500 characters "(.{1,100}){100}"
 * takes seconds, "(a{0,130}){0,130}" half a minute, and a back-reference may never end. VC_EINVAL;
 * then *out needs no regfree. */
enum { VC_REGEX_MOST = 20000, VC_REGEX_COPIES = 2000 };
int vc_regex_compile(regex_t *out, const char *pattern, int flags, vc_err *err);

#endif
