/* regex.c - see regex.h */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "common/base/regex.h"

#include <pcre2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

enum { MOST_STEPS = 10000000, MOST_HEAP_KIB = 64 << 10, MOST_CHARACTERS = 1 << 14, SHOWN = 20 };

struct vc_regex {
    pcre2_code *code;
    pcre2_match_context *limits;
    atomic_int given_up;                     /* PCRE2's error of the first search without an end */
};

/* The expression in PCRE2's syntax. */
static void translate(vc_buf *b, const char *s)
{
    bool class = false;

    for (size_t n; *s; s += n) {
        n = *s == '\\' && s[1] ? 2 : 1;
        if (class && *s == '[' && s[1] && strchr(":.=", s[1])) {
            const char end[] = { s[1], ']', 0 }, *named = strstr(s + 2, end);
            n = named ? (size_t)(named - s) + 2 : 1;
        } else if (class)
            class = *s != ']';
        else if (*s == '[') {
            class = true;                    /* a ']' that comes first is one of the class */
            n += s[1] == '^';
            n += s[n] == ']';
        } else if (n == 2 && (s[1] == '<' || s[1] == '>')) {
            vc_buf_printf(b, "[[:%c:]]", s[1]);
            continue;
        } else if (*s == '{' && s[1] == ',' && s[2 + strspn(s + 2, "0123456789")] == '}') {
            vc_buf_str(b, "{0");
            continue;
        }
        vc_buf_add(b, s, n);
    }
}

static int compile(vc_regex *r, const vc_buf *b, unsigned how, vc_err *err)
{
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_DOTALL |
                             PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
                             (how & VC_REGEX_ANY_CASE ? PCRE2_CASELESS : 0) |
                             (how & VC_REGEX_WHOLE ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0);
    PCRE2_UCHAR why[128] = "";
    PCRE2_SIZE at;
    int code;

    r->limits = pcre2_match_context_create(NULL);
    if (b->failed || !r->limits)
        return vc_no_memory(err);
    pcre2_set_match_limit(r->limits, MOST_STEPS);
    pcre2_set_heap_limit(r->limits, MOST_HEAP_KIB);
    r->code = pcre2_compile((PCRE2_SPTR)(b->n ? b->data : ""), b->n, options, &code, &at, NULL);
    if (r->code)
        return 0;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return vc_no_memory(err);
    pcre2_get_error_message(code, why, sizeof why);
    const int rest = at + SHOWN < b->n ? SHOWN : at < b->n ? (int)(b->n - at) : 0;
    return rest ? vc_fail(err, VC_EINVAL, "%s, before \"%.*s\"", (const char *)why, rest,
                          (const char *)b->data + at)
                : vc_fail(err, VC_EINVAL, "%s, at the end", (const char *)why);
}

int vc_regex_open(vc_regex **out, const char *pattern, unsigned how, vc_err *err)
{
    vc_buf b = { 0 };
    vc_regex *r;

    *out = NULL;
    if (strlen(pattern) > MOST_CHARACTERS)
        return vc_fail(err, VC_EINVAL, "it has more than %d characters", MOST_CHARACTERS);
    if (!(r = calloc(1, sizeof *r)))
        return vc_no_memory(err);
    translate(&b, pattern);
    int rc = compile(r, &b, how, err);
    vc_buf_free(&b);
    if (rc)
        vc_regex_close(r);
    else
        *out = r;
    return rc;
}

void vc_regex_close(vc_regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    pcre2_match_context_free(r->limits);
    free(r);
}

bool vc_regex_matches(vc_regex *r, const char *text)
{
    pcre2_match_data *data;
    int rc = PCRE2_ERROR_NOMEMORY, none = 0;

    if (atomic_load(&r->given_up))
        return false;
    if ((data = pcre2_match_data_create(1, NULL)))
        rc = pcre2_match(r->code, (PCRE2_SPTR)text, strlen(text), 0, 0, data, r->limits);
    pcre2_match_data_free(data);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
        atomic_compare_exchange_strong(&r->given_up, &none, rc);
    return rc >= 0;
}

int vc_regex_check(const vc_regex *r, vc_err *err)
{
    const int code = atomic_load(&r->given_up);

    if (code == PCRE2_ERROR_NOMEMORY)
        return vc_no_memory(err);
    return code ? vc_fail(err, VC_EINVAL, "matching a text takes more than %d steps: repeats of "
                          "what is repeated, as in (a+)+, try each way to divide it", MOST_STEPS)
                : 0;
}
