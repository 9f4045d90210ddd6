/* regex.c - see regex.h */
#include "common/base/regex.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };                       /* groups within groups */

/* Returns the character after a bracket expression that begins at s, or the end of the text. */
static const char *after_bracket(const char *s)
{
    s += s[1] == '^' ? 2 : 1;
    s += *s == ']';
    while (*s && *s != ']')
        if (*s == '[' && strchr(".:=", s[1]) && s[1]) {
            const char kind = s[1];
            for (s += 2; *s && !(*s == kind && s[1] == ']'); s++)
                ;
            s += *s ? 2 : 0;
        } else
            s++;
    return *s ? s + 1 : s;
}

/* How many copies of what stands before an operator at s it makes; *after: what follows it. 0: no
 * operator is there, and *after stays. */
static double copies(const char *s, const char **after)
{
    char *end;
    if (!*s || !strchr("*?+{", *s))
        return 0;
    *after = s + 1;
    if (*s == '*' || *s == '?')
        return 1;
    if (*s == '+')
        return 2;
    unsigned long least = strtoul(s + 1, &end, 10), most = least;
    if (*end == ',')
        most = strtoul(end + 1, &end, 10);
    *after = *end == '}' ? end + 1 : s + 1;
    return (double)(least > most ? least : most) + 1;
}

/* The characters of an expression with all copies that its operators make. */
static double expanded(const char *s)
{
    double sum[DEEPEST + 1] = { 0 }, atom;
    int deep = 0;
    while (*s) {
        const char *next = s + 1;
        atom = 1;
        if (*s == '(') {
            if (deep == DEEPEST)
                return HUGE_VAL;
            sum[++deep] = 0;
            s++;
            continue;
        }
        if (*s == ')' && deep)
            atom = sum[deep--] + 1;
        else if (*s == '[')
            next = after_bracket(s);
        else if (*s == '\\' && s[1])
            next = s + 2;
        for (double n; (n = copies(next, &next)) > 0;)
            atom *= n;
        sum[deep] += atom;
        s = next;
    }
    for (; deep; deep--)
        sum[deep - 1] += sum[deep];
    return sum[0];
}

/* Whether \1 to \9 refers to an earlier group, an extension of the C library. */
static bool refers_back(const char *s)
{
    while (*s) {
        if (*s == '\\' && s[1] >= '1' && s[1] <= '9')
            return true;
        s = *s == '[' ? after_bracket(s) : *s == '\\' && s[1] ? s + 2 : s + 1;
    }
    return false;
}

int vc_regex_compile(regex_t *out, const char *pattern, int flags, vc_err *err)
{
    char why[128];
    double all = expanded(pattern);
    if (refers_back(pattern))
        return vc_fail(err, VC_EINVAL, "it refers back to a group (\\1), which may take for ever");
    if (all <= VC_REGEX_MOST && all - (double)strlen(pattern) > VC_REGEX_COPIES)
        return vc_fail(err, VC_EINVAL, "its repeats make more than %d copies, which take long to "
                       "match: write * or + for {N}", VC_REGEX_COPIES);
    if (all > VC_REGEX_MOST)
        return vc_fail(err, VC_EINVAL, "it has more than %d characters with all of its "
                       "repeats, or more than %d groups within groups", VC_REGEX_MOST, DEEPEST);
    int code = regcomp(out, pattern, flags);
    if (!code)
        return 0;
    regerror(code, out, why, sizeof why);
    return vc_fail(err, VC_EINVAL, "%s", why);
}
