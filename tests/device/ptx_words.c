/* ptx_words.c - statements and operands of PTX; see ptx_words.h */
#include "tests/device/ptx_words.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_fault(ptx_reader *r, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    if (r->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->rc = vc_fail(r->err, VC_EFORMAT, "%s:%d: %s", r->p->name, r->line, text);
}

/* ---- words ---- */

void ptx_skip(ptx_reader *r)
{
    for (;;) {
        if (*r->at == '\n')
            r->line++;
        if (isspace((unsigned char)*r->at))
            r->at++;
        else if (r->at[0] == '/' && r->at[1] == '/')
            r->at += strcspn(r->at, "\n");
        else
            return;
    }
}

/* Copies a statement up to `;`, or up to a block's brace, with spaces for line ends. */
void ptx_statement(ptx_reader *r, char *to, size_t n, const char *ends)
{
    size_t k = 0;
    int depth = 0;

    while (*r->at && (depth || !strchr(ends, *r->at))) {
        if (r->at[0] == '/' && r->at[1] == '/') {
            r->at += strcspn(r->at, "\n");
            continue;
        }
        depth += *r->at == '(' || *r->at == '[';
        depth -= *r->at == ')' || *r->at == ']';
        if (*r->at == '\n')
            r->line++;
        if (k + 1 < n)
            to[k++] = isspace((unsigned char)*r->at) ? ' ' : *r->at;
        r->at++;
    }
    to[k] = 0;
}

/* Splits at commas outside of brackets and trims spaces; the parts point into s. */
int ptx_split(char *s, char **part, int most)
{
    int n = 0, depth = 0;

    while (*s == ' ')
        s++;
    if (!*s)
        return 0;
    part[n++] = s;
    for (; *s; s++) {
        depth += *s == '{' || *s == '[' || *s == '(';
        depth -= *s == '}' || *s == ']' || *s == ')';
        if (*s != ',' || depth)
            continue;
        *s = 0;
        while (s[1] == ' ')
            s++;
        if (n < most)
            part[n++] = s + 1;
    }
    for (int i = 0; i < n; i++)
        for (size_t k = strlen(part[i]); k > 0 && part[i][k - 1] == ' ';)
            part[i][--k] = 0;
    return n;
}

/* ---- operands ---- */

static int constant(ptx_reader *r, uint64_t v)
{
    ptx *p = r->p;
    uint64_t at = v * 0x9E3779B97F4A7C15u >> (64 - PTX_SLOT_BITS);

    for (; r->slot[at]; at = (at + 1) % (1u << PTX_SLOT_BITS))
        if (p->constant[r->slot[at] - 1][0] == v)
            return -r->slot[at];
    if (p->constants == 1 << (PTX_SLOT_BITS - 1)) {
        ptx_fault(r, "there are more than %d constants", p->constants);
        return -1;
    }
    r->slot[at] = p->constants + 1;
    if (p->constants % 64 == 0)
        p->constant = realloc(p->constant, (size_t)(p->constants + 64) * sizeof *p->constant);
    for (int i = 0; i < PTX_LANES; i++)
        p->constant[p->constants][i] = v;
    return -1 - p->constants++;
}

static int new_reg(ptx_reader *r)
{
    return r->f->first_reg + r->f->regs++;
}

static int given(ptx_reader *r, ptx_known what, int64_t offset)
{
    ptx_function *f = r->f;

    for (int i = 0; i < f->givens; i++)
        if (f->given[i].what == what && f->given[i].offset == offset)
            return f->given[i].reg;
    if (f->givens % 16 == 0)
        f->given = realloc(f->given, (size_t)(f->givens + 16) * sizeof *f->given);
    f->given[f->givens] = (ptx_given){ what, new_reg(r), offset };
    return f->given[f->givens++].reg;
}

int ptx_place_of(const ptx_function *f, const char *name)
{
    for (int i = f->places; i-- > 0;)          /* the latest of a name is meant */
        if (!strcmp(f->place[i].name, name))
            return i;
    return -1;
}

int ptx_place_add(ptx_reader *r, ptx_function *f, const char *name, int64_t bytes)
{
    ptx *p = r->p;
    int i = ptx_place_of(f, name);

    if (i >= 0 && f->place[i].bytes >= bytes)
        return i;
    if (f->places % 16 == 0)
        f->place = realloc(f->place, (size_t)(f->places + 16) * sizeof *f->place);
    p->lane_bytes = (p->lane_bytes + 15) / 16 * 16;
    f->place[f->places] = (ptx_place){ .offset = p->lane_bytes, .bytes = bytes };
    snprintf(f->place[f->places].name, sizeof f->place->name, "%s", name);
    p->lane_bytes += bytes;
    return f->places++;
}

static int reg(ptx_reader *r, const char *name)
{
    for (int i = r->banks; i-- > 0;) {
        const ptx_bank *b = &r->bank[i];
        size_t n = strlen(b->prefix);
        char *end;
        if (strncmp(b->prefix, name, n))
            continue;
        if (!name[n] && b->count == 1)
            return b->first;
        long k = strtol(name + n, &end, 10);
        if (name[n] && !*end && k < b->count)
            return b->first + (int)k;
    }
    return PTX_ABSENT;
}

int ptx_operand(ptx_reader *r, const char *s)
{
    static const struct { const char *name; ptx_known what; } special[] = {
        { "%tid.x", PTX_TID }, { "%ctaid.x", PTX_CTAID }, { "%ntid.x", PTX_NTID } };
    int k = reg(r, s);
    char *end;

    if (k != PTX_ABSENT)
        return k;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(s, special[i].name))
            return given(r, special[i].what, 0);
    if (s[0] == '0' && (s[1] == 'f' || s[1] == 'd' || s[1] == 'F' || s[1] == 'D'))
        return constant(r, strtoull(s + 2, NULL, 16));
    uint64_t v = s[0] == '-' ? (uint64_t)strtoll(s, &end, 0) : strtoull(s, &end, 0);
    if (*s && (!*end || !strcmp(end, "U")))
        return constant(r, v);
    k = ptx_place_of(r->f, s);
    if (k >= 0) {
        const ptx_place *at = &r->f->place[k];
        return at->shared ? constant(r, (uint64_t)at->offset)
                          : given(r, at->args ? PTX_ARGS : PTX_LANE, at->offset);
    }
    for (int i = 0; i < r->p->tables; i++)
        if (!strcmp(s, r->p->table[i].name))
            return constant(r, (uint64_t)(uintptr_t)r->p->table[i].bytes);
    ptx_fault(r, "\"%s\" is no register, number or variable", s);
    return 0;
}

/* Reads {a, b} or one operand. */
int ptx_operands(ptx_reader *r, char *s, int *to)
{
    char *part[4];

    if (*s != '{') {
        to[0] = ptx_operand(r, s);
        return 1;
    }
    s[strlen(s) - 1] = 0;
    int n = ptx_split(s + 1, part, 4);
    for (int i = 0; i < n; i++)                /* "_" takes a value that nothing reads */
        to[i] = strcmp(part[i], "_") ? ptx_operand(r, part[i]) : new_reg(r);
    return n;
}

void ptx_address(ptx_reader *r, ptx_ins *x, char *s)
{
    size_t n = strlen(s);

    if (n < 3 || s[0] != '[' || s[n - 1] != ']') {
        ptx_fault(r, "\"%s\" is no address", s);
        return;
    }
    s[n - 1] = 0;
    char *plus = strchr(++s, '+');
    if (plus) {
        *plus = 0;
        x->offset = strtoll(plus + 1, NULL, 0);
    }
    x->a = ptx_operand(r, s);
}

