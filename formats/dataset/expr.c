/* expr.c - parses conditions by recursive descent and evaluates the tree. See expr.h */
#include "formats/dataset/expr.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/regex.h"

enum { MAX_NODES = 256, MAX_DEPTH = 64, MAX_WORD = 1024 };

typedef enum { OR, AND, NOT, EQ, NE, LT, LE, GT, GE, MATCH, NO_MATCH } operation;

typedef struct node {
    operation op;
    struct node *a, *b;                      /* operands of OR, AND, NOT */
    char *name;                              /* left side of a comparison */
    char *text;
    double number;                           /* NaN: text is no number */
    vc_regex *regex;
} node;

struct vf_expr {
    node node[MAX_NODES];
    int n;
    node *root;
};

typedef struct parser {
    vf_expr *e;
    const char *begin, *at;
    const char *const *names;
    int depth;
    vc_err *err;
    bool failed;
} parser;

static node *complain(parser *p, const char *what)
{
    if (!p->failed)
        vc_fail(p->err, VC_EUSAGE, "condition: %s at \"%.40s\" (character %d)", what,
                *p->at ? p->at : "its end", (int)(p->at - p->begin) + 1);
    p->failed = true;
    return NULL;
}

static void skip(parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static node *make(parser *p, operation op)
{
    if (p->e->n == MAX_NODES)
        return complain(p, "too long");
    node *x = &p->e->node[p->e->n++];
    x->op = op;
    return x;
}

/* Takes the keyword, in upper or lower case, if it is the next word. */
static bool keyword(parser *p, const char *word)
{
    size_t n = strlen(word);
    skip(p);
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)p->at[i]) != word[i])
            return false;
    if (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
        return false;
    p->at += n;
    return true;
}

/* ---- comparisons ---- */

static const struct { const char *sign; operation op; } signs[] = {
    { "!=", NE }, { "!~", NO_MATCH }, { "<=", LE }, { ">=", GE }, { "==", EQ },
    { "=", EQ }, { "<", LT }, { ">", GT }, { "~", MATCH },
};

/* Takes a known name; the caller frees the copy. */
static char *take_name(parser *p)
{
    char list[400] = "";
    size_t n = 0;
    skip(p);
    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_' || p->at[n] == '.')
        n++;
    for (const char *const *name = p->names; *name; name++) {
        size_t len = strlen(*name);
        bool open = (*name)[len - 1] == '.';
        if ((open ? len < n : len == n) && !strncmp(*name, p->at, len)) {
            p->at += n;
            return strndup(p->at - n, n);
        }
        snprintf(list + strlen(list), sizeof list - strlen(list), " %s", *name);
    }
    if (!p->failed)
        vc_fail(p->err, VC_EUSAGE, "condition: no name \"%.*s\"; there are%s", (int)(n ? n : 1),
                p->at, list);
    p->failed = true;
    return NULL;
}

/* Takes a text in quotes, or up to a blank or parenthesis; the caller frees the copy. */
static char *take_text(parser *p)
{
    char word[MAX_WORD], quote = 0;
    size_t n = 0;
    skip(p);
    if (*p->at == '"' || *p->at == '\'')
        quote = *p->at++;
    while (*p->at && (quote ? *p->at != quote : !isspace((unsigned char)*p->at) && *p->at != ')')) {
        if (quote && *p->at == '\\' && p->at[1] == quote)
            p->at++;
        if (n + 1 == sizeof word) {
            complain(p, "value too long");
            return NULL;
        }
        word[n++] = *p->at++;
    }
    if (quote && *p->at++ != quote) {
        p->at--;
        complain(p, "missing quote");
        return NULL;
    }
    if (!n && !quote) {
        complain(p, "a value is missing");
        return NULL;
    }
    return strndup(word, n);
}

static void take_value(parser *p, node *x)
{
    char *end;
    if (!(x->text = take_text(p)))
        return;
    x->number = strtod(x->text, &end);
    if (*end || end == x->text)
        x->number = NAN;
    if (x->op < MATCH)
        return;
    vc_err why = { 0 };
    if (!vc_regex_open(&x->regex, x->text, VC_REGEX_ANY_CASE, &why))
        return;
    char text[200];
    snprintf(text, sizeof text, "no regular expression before here (%.150s)", why.text);
    complain(p, text);
}

static node *comparison(parser *p)
{
    char *name = take_name(p);
    if (!name)
        return NULL;
    skip(p);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t n = strlen(signs[i].sign);
        if (strncmp(p->at, signs[i].sign, n))
            continue;
        p->at += n;
        node *x = make(p, signs[i].op);
        if (!x)
            break;
        x->name = name;
        take_value(p, x);
        return p->failed ? NULL : x;
    }
    free(name);
    return complain(p, "one of = != < <= > >= ~ !~ is missing");
}

/* ---- or, and, not ---- */

static node *alternatives(parser *p);

static node *factor(parser *p)
{
    if (++p->depth > MAX_DEPTH)
        return complain(p, "nested too deep");
    node *x = NULL;
    skip(p);
    if (keyword(p, "not")) {
        x = make(p, NOT);
        if (x && !(x->a = factor(p)))
            x = NULL;
    } else if (*p->at == '(') {
        p->at++;
        x = alternatives(p);
        skip(p);
        if (x && *p->at++ != ')') {
            p->at--;
            x = complain(p, ") is missing");
        }
    } else {
        x = comparison(p);
    }
    p->depth--;
    return x;
}

static node *chain(parser *p, const char *word, operation op, node *(*part)(parser *))
{
    node *x = part(p);
    while (x && keyword(p, word)) {
        node *y = make(p, op);
        if (!y)
            return NULL;
        y->a = x;
        y->b = part(p);
        x = y->b ? y : NULL;
    }
    return x;
}

static node *conjunction(parser *p) { return chain(p, "and", AND, factor); }
static node *alternatives(parser *p) { return chain(p, "or", OR, conjunction); }

int vf_expr_open(vf_expr **out, const char *text, const char *const *names, vc_err *err)
{
    *out = NULL;
    vf_expr *e = calloc(1, sizeof *e);
    if (!e)
        return vc_no_memory(err);
    parser p = { .e = e, .begin = text, .at = text, .names = names, .err = err };
    e->root = alternatives(&p);
    skip(&p);
    if (e->root && *p.at)
        complain(&p, "\"and\" or \"or\" is missing");
    if (!e->root && !p.failed)
        complain(&p, "out of memory");
    if (p.failed) {
        vf_expr_close(e);
        return VC_EUSAGE;
    }
    *out = e;
    return 0;
}

void vf_expr_close(vf_expr *e)
{
    if (!e)
        return;
    for (int i = 0; i < e->n; i++) {
        vc_regex_close(e->node[i].regex);
        free(e->node[i].name);
        free(e->node[i].text);
    }
    free(e);
}

/* ---- evaluation ---- */

static int compare_numbers(double a, double b)
{
    return a < b ? -1 : a > b;
}

static bool one_holds(const node *x, const vf_expr_value *v)
{
    char number[40];
    const char *text = v->text;
    if (!text) {
        snprintf(number, sizeof number, "%.10g", v->number);
        text = number;
    }
    if (x->op == MATCH || x->op == NO_MATCH)
        return vc_regex_matches(x->regex, text) == (x->op == MATCH);
    bool numbers = !v->text && !isnan(x->number);
    if (x->op == EQ || x->op == NE) {
        bool same = numbers ? compare_numbers(v->number, x->number) == 0 : !strcmp(text, x->text);
        return same == (x->op == EQ);
    }
    if (!numbers || isnan(v->number))
        return false;
    int c = compare_numbers(v->number, x->number);
    return x->op == LT ? c < 0 : x->op == LE ? c <= 0 : x->op == GT ? c > 0 : c >= 0;
}

static bool holds(const node *x, vf_expr_get get, void *arg)
{
    vf_expr_value v;
    if (x->op == OR)
        return holds(x->a, get, arg) || holds(x->b, get, arg);
    if (x->op == AND)
        return holds(x->a, get, arg) && holds(x->b, get, arg);
    if (x->op == NOT)
        return !holds(x->a, get, arg);
    bool all = x->op == NE || x->op == NO_MATCH;
    for (int k = 0; get(arg, x->name, k, &v); k++)
        if (one_holds(x, &v) != all)
            return !all;
    return all;
}

int vf_expr_holds(const vf_expr *e, vf_expr_get get, void *arg, bool *yes, vc_err *err)
{
    *yes = holds(e->root, get, arg);
    for (int i = 0; i < e->n; i++) {
        const node *x = &e->node[i];
        const int rc = x->regex ? vc_regex_check(x->regex, err) : 0;
        if (rc)
            return vc_context(err, rc, "condition: %s ~ \"%.100s\"", x->name, x->text);
    }
    return 0;
}
