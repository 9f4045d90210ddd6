/* regex.c - see regex.h */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "precompute/tokenizer/regex.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

/* Unicode's White_Space; PCRE2's own \s also has U+180E. Oniguruma's word characters. */
#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}" \
               "\\x{202f}\\x{205f}\\x{3000}"
#define WORDS "\\p{L}\\p{M}\\p{N}\\p{Pc}"

struct tok_regex {
    pcre2_code *code;
};
struct tok_matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    uint64_t left;                       /* steps that matches may still take */
    size_t at;                           /* place of the last step in the text */
};

enum { HEAP_KIB = 64 << 10 };            /* of one match, without the JIT */

/* ---- translation ---- */

/* An escape of two characters, outside or inside a class. */
static int put_escape(vc_buf *b, char c, bool in_class, vc_err *err)
{
    const char *set = c == 's' || c == 'S' ? SPACES : c == 'w' || c == 'W' ? WORDS
                    : c == 'd' || c == 'D' ? "\\p{Nd}" : NULL;
    bool not = c == 'S' || c == 'W' || c == 'D';

    if (!c || strchr("hHRXyYKGCQE", c) || (in_class && not && c != 'D'))
        return vc_fail(err, VC_EFORMAT, "'\\%c'%s is not known here", c,
                       in_class ? " in a class" : "");
    if (!set)
        vc_buf_add(b, (char[]){ '\\', c }, 2);
    else if (in_class)
        vc_buf_str(b, not ? "\\P{Nd}" : set);
    else
        vc_buf_printf(b, "[%s%s]", not ? "^" : "", set);
    return 0;
}

/* A class from its '[' on; *p is left at its ']'. */
static int put_class(vc_buf *b, const char **p, vc_err *err)
{
    const char *s = *p;

    vc_buf_add(b, s++, 1);
    if (*s == '^')
        vc_buf_add(b, s++, 1);
    for (bool first = true; *s && (first || *s != ']'); s++, first = false) {
        const char *end = s[0] == '[' && s[1] == ':' ? strstr(s, ":]") : NULL;
        if (end) {
            vc_buf_add(b, s, (size_t)(end + 2 - s));
            s = end + 1;
        } else if (*s == '\\') {
            int rc = put_escape(b, *++s, true, err);
            if (rc)
                return rc;
        } else if (*s == '[' || (s[0] == '&' && s[1] == '&')) {
            return vc_fail(err, VC_EFORMAT, "'%.2s' in a class is not known here", s);
        } else {
            vc_buf_add(b, s, 1);
        }
    }
    if (*s != ']')
        return vc_fail(err, VC_EFORMAT, "a class without its ']'");
    vc_buf_add(b, s, 1);
    *p = s;
    return 0;
}

static int translate(vc_buf *b, const char *s, vc_err *err)
{
    int rc = 0;

    for (; !rc && *s; s++) {
        if (*s == '\\')
            rc = put_escape(b, *++s, false, err);
        else if (*s == '[')
            rc = put_class(b, &s, err);
        else if (s[0] == '(' && s[1] == '?' && s[2] && strchr("CR&0123456789+", s[2]))
            rc = vc_fail(err, VC_EFORMAT, "'%.3s' is not known here", s);
        else
            vc_buf_add(b, s, 1);
    }
    return rc;
}

/* ---- compiling and matching ---- */

static int compile(tok_regex *r, const char *text, size_t n, vc_err *err)
{
    int code;
    PCRE2_SIZE at;

    /* Ruby's ^ and $ are those of lines. The callouts, one before each item, count steps, since
     * PCRE2's own limits begin anew at each start of a match. */
    r->code = pcre2_compile((PCRE2_SPTR)text, n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE
                            | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT, &code, &at, NULL);
    if (!r->code) {
        char why[200];
        if (pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why) < 0)
            why[0] = 0;
        return vc_fail(err, VC_EFORMAT, "%s", why);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);      /* without the JIT, matching is slower */
    return 0;
}

int tok_regex_open(tok_regex **out, const char *pattern, vc_err *err)
{
    vc_buf b = { 0 };

    *out = NULL;
    tok_regex *r = calloc(1, sizeof *r);
    int rc = r ? translate(&b, pattern, err) : VC_ENOMEM;
    if (!rc && b.failed)
        rc = VC_ENOMEM;
    if (!rc)
        rc = compile(r, b.n ? b.data : "", b.n, err);
    vc_buf_free(&b);
    if (rc == VC_ENOMEM)
        vc_fail(err, rc, "out of memory");
    if (rc) {
        tok_regex_close(r);
        return vc_context(err, rc, "pattern \"%.200s\"", pattern);
    }
    *out = r;
    return 0;
}

void tok_regex_close(tok_regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    free(r);
}

/* PCRE2's callout before it tries an item of a pattern. */
static int count_step(pcre2_callout_block *b, void *arg)
{
    tok_matcher *m = arg;
    size_t at = b->current_position;
    uint64_t cost = 1 + (at > m->at ? at - m->at : m->at - at);

    m->at = at;
    if (cost > m->left)
        return PCRE2_ERROR_CALLOUT;
    m->left -= cost;
    return 0;
}

int tok_matcher_open(tok_matcher **out, vc_err *err)
{
    *out = NULL;
    tok_matcher *m = calloc(1, sizeof *m);
    if (m) {
        m->data = pcre2_match_data_create(1, NULL);
        m->limits = pcre2_match_context_create(NULL);
    }
    if (!m || !m->data || !m->limits) {
        tok_matcher_close(m);
        return vc_no_memory(err);
    }
    pcre2_set_callout(m->limits, count_step, m);
    pcre2_set_heap_limit(m->limits, HEAP_KIB);
    pcre2_set_match_limit(m->limits, UINT32_MAX);
    *out = m;
    return 0;
}

void tok_matcher_close(tok_matcher *m)
{
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->limits);
    free(m);
}

void tok_matcher_allow(tok_matcher *m, uint64_t steps)
{
    m->left = steps;
}

int tok_regex_find(const tok_regex *r, tok_matcher *m, const char *s, size_t n, size_t from,
                   bool *found, size_t *start, size_t *end, vc_err *err)
{
    m->at = from;
    int rc = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, m->data, m->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(r->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         m->data, m->limits);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0)
        return vc_fail(err, rc == PCRE2_ERROR_NOMEMORY ? VC_ENOMEM : VC_EFORMAT,
                       "a pattern of the tokenizer gives up on this text (PCRE2 error %d)", rc);

    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->data);
    *start = at[0];
    *end = at[1] < at[0] ? at[0] : at[1];
    return 0;
}
