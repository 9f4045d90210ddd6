/* paths_regex.c - rewrites Python's regular expressions as POSIX extended ones; see
 * paths_regex.h */
#include "train/lora/paths_regex.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/regex.h"
#include "common/os/file.h"

enum { MAX_REGEX = 1 << 14 };

/* Python's class escapes and their POSIX spellings, outside and inside of brackets. */
static const struct { char letter; const char *set, *inside; } escapes[] = {
    { 'd', "[0-9]", "0-9" },           { 'w', "[[:alnum:]_]", "[:alnum:]_" },
    { 's', "[[:space:]]", "[:space:]" }, { 'D', "[^0-9]", NULL },
    { 'W', "[^[:alnum:]_]", NULL },    { 'S', "[^[:space:]]", NULL },
};

/* The state of a rewrite: the unread rest of the expression, and the end of the result. */
typedef struct rewrite {
    const char *from;
    char *to;                    /* has room for 16 characters per character of `from` */
} rewrite;

static void put(rewrite *w, const char *text, size_t n)
{
    memcpy(w->to, text, n);
    w->to += n;
}

/* Rewrites an escape, whose backslash has been read. False: POSIX has no such escape. */
static bool put_escape(rewrite *w, bool inside)
{
    char c = *w->from;
    if (!c)
        return false;
    w->from++;
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (c != escapes[i].letter)
            continue;
        const char *text = inside ? escapes[i].inside : escapes[i].set;
        if (text)
            put(w, text, strlen(text));
        return text != NULL;
    }
    if (!inside && (c == 'b' || c == 'B'))
        put(w, (const char[]){ '\\', c }, 2);
    else if (isalnum((unsigned char)c) || (inside && strchr("]^-\\[", c)))
        return false;
    else if (inside)
        put(w, &c, 1);
    else
        put(w, (const char[]){ '\\', c }, 2);
    return true;
}

/* Rewrites a bracket expression, whose "[" has been read, up to its "]". */
static bool put_brackets(rewrite *w)
{
    put(w, "[", 1);
    if (*w->from == '^')
        put(w, w->from++, 1);
    if (*w->from == ']')
        put(w, w->from++, 1);
    while (*w->from && *w->from != ']') {
        if (*w->from == '[')
            return false;                                /* Python has no named classes */
        if (*w->from != '\\') {
            put(w, w->from++, 1);
            continue;
        }
        w->from++;
        if (!put_escape(w, true))
            return false;
    }
    if (*w->from)
        put(w, w->from++, 1);                            /* else regcomp reports the missing "]" */
    return true;
}

/* Writes Python's expression as a POSIX extended expression that matches the same whole paths.
 * Groups capture nothing, and a lazy repeat becomes greedy. False: POSIX has no such expression. */
static bool to_posix(char *out, const char *value)
{
    rewrite w = { value, out };
    for (char c; (c = *w.from);) {
        w.from++;
        if (c == '\\') {
            if (!put_escape(&w, false))
                return false;
        } else if (c == '[') {
            if (!put_brackets(&w))
                return false;
        } else if (c == '(' && *w.from == '?') {
            if (w.from[1] != ':')
                return false;
            w.from += 2;
            put(&w, "(", 1);
        } else {
            put(&w, &c, 1);
            bool repeat = strchr("*+?}", c) != NULL;
            if (repeat && *w.from == '+')
                return false;                            /* a possessive repeat */
            if (repeat && *w.from == '?')
                w.from++;
        }
    }
    *w.to = '\0';
    return true;
}

int vtrain_regex_open(regex_t *out, const char *value, bool below, vc_err *err)
{
    size_t n = strlen(value);
    char *posix = n < MAX_REGEX ? malloc(16 * n + 1) : NULL, *whole = NULL;
    bool known = posix && to_posix(posix, value);
    if (known)
        whole = vc_format("^%s(%s)$", below ? "(.*\\.)?" : "", posix);
    free(posix);
    if (n >= MAX_REGEX)
        return vc_fail(err, VC_EUSAGE, "the expression has %zu characters; at most %d are possible",
                       n, MAX_REGEX - 1);
    if (!known)
        return vc_fail(err, VC_EUSAGE, "\"%s\": look-around, back references, flags and escapes "
                       "other than \\d \\w \\s \\b and signs are not supported: write the "
                       "expression with groups, brackets and repeats", value);
    if (!whole)
        return vc_no_memory(err);
    vc_err why = { 0 };
    int rc = vc_regex_compile(out, whole, REG_EXTENDED | REG_NOSUB, &why);
    free(whole);
    return rc ? vc_fail(err, VC_EUSAGE, "\"%s\" is not a regular expression: %s", value, why.text)
              : 0;
}
