/* regex.h - regular expressions that a user gives, run by PCRE2 on texts in UTF-8: POSIX's extended
 * ones and Python's are written alike in its syntax, and what differs, {,N} and the \< and \> of
 * grep, is translated. A dot is any character, and ^ and $ are the ends of the text. */
#ifndef COMMON_BASE_REGEX_H
#define COMMON_BASE_REGEX_H

#include <stdbool.h>

#include "common/base/err.h"

typedef struct vc_regex vc_regex;
enum { VC_REGEX_ANY_CASE = 1, VC_REGEX_WHOLE = 2 };   /* WHOLE: the whole text, not a part of it */

/* VC_EINVAL says in words what no expression has. */
int vc_regex_open(vc_regex **out, const char *pattern, unsigned how, vc_err *err);
void vc_regex_close(vc_regex *r);                      /* r may be NULL */

/* Whether the expression matches. A search of more than ten million steps, as that of "(a+)+b" in
 * a long row of a, is given up: it counts as no match, and so does each later one, until
 * vc_regex_check says so with VC_EINVAL. Several threads may search with one expression. */
bool vc_regex_matches(vc_regex *r, const char *text);
int vc_regex_check(const vc_regex *r, vc_err *err);

#endif
