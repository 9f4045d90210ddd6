/* ptx_read.c - reads PTX; see ptx.h */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/ptx_words.h"

#define GROW(array, count, room)                                                                   \
    ((count) < (room) ? 0 :                                                                        \
     ((room) = (room) ? 2 * (room) : 64,                                                           \
      (array) = realloc((array), (size_t)(room) * sizeof *(array)),                                \
      (array) ? 0 : (abort(), 0)))

/* ---- instructions ---- */

static int type_of(const char *s)
{
    static const struct { const char *name; ptx_type type; } all[] = {
        { "pred", PTX_PRED }, { "u8", PTX_U8 }, { "b8", PTX_U8 }, { "s8", PTX_S8 },
        { "u16", PTX_U16 }, { "b16", PTX_U16 }, { "s16", PTX_S16 }, { "u32", PTX_U32 },
        { "b32", PTX_U32 }, { "s32", PTX_S32 }, { "u64", PTX_U64 }, { "b64", PTX_U64 },
        { "s64", PTX_S64 }, { "f32", PTX_F32 }, { "f64", PTX_F64 }, { "bf16", PTX_BF16 },
        { "bf16x2", PTX_BF16X2 } };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(s, all[i].name))
            return all[i].type;
    return PTX_NONE;
}

static int find(const char *const *names, int n, const char *s)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], s))
            return i;
    return -1;
}

#define NAMED(name) #name,
static const char *const op_names[] = { PTX_OPS(NAMED) };

/* Reads op.mod.mod; the words that change nothing here are listed. */
static void modifiers(ptx_reader *r, ptx_ins *x, char *word)
{
    static const char *const compares[] = { "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu",
                                            "ltu", "leu", "gtu", "geu" };
    static const char *const rounds[] = { "rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi" };
    static const char *const none[] = { "local", "param", "to", "nc", "approx", "uni",
                                        "sync", "bfly", "const", "relaxed" };
    char *save, *m = strtok_r(word, ".", &save);
    int k = find(op_names, PTX_OP_COUNT, m), t;

    if (k < 0) {
        ptx_fault(r, "the interpreter has no %s", m);
        return;
    }
    x->op = (uint8_t)k;
    x->parts = 1;
    while ((m = strtok_r(NULL, ".", &save))) {
        if ((t = type_of(m))) {
            x->from = x->type ? (uint8_t)t : x->from;
            x->type = x->type ? x->type : (uint8_t)t;
        } else if (x->op == PTX_OP_setp && (k = find(compares, 12, m)) >= 0) {
            x->compare = (uint8_t)k;
        } else if ((k = find(rounds, 8, m)) >= 0) {
            x->round = (uint8_t)k;
        } else if (m[0] == 'v' && m[1] && !m[2]) {
            x->vector = (uint8_t)(m[1] - '0');
        } else if (!strcmp(m, "lo") || !strcmp(m, "hi") || !strcmp(m, "wide")) {
            x->half = *m == 'l' ? PTX_LO : *m == 'h' ? PTX_HI : PTX_WIDE;
        } else if (!strcmp(m, "sat")) {
            x->saturates = true;
        } else if (!strcmp(m, "ftz")) {
            x->flushes = true;
        } else if (!strcmp(m, "cc")) {
            x->carries = true;
        } else if (!strcmp(m, "global")) {
            x->global = true;
        } else if (!strcmp(m, "shared")) {
            x->shared = true;
        } else if (find(none, sizeof none / sizeof *none, m) < 0) {
            ptx_fault(r, "the interpreter has no .%s of %s", m, op_names[x->op]);
        }
    }
}

/* The GPU's own instructions for one of PTX, about: the compiler's expansions as seen in SASS. */
static float weight(const ptx_ins *x)
{
    bool wide = x->type == PTX_U64 || x->type == PTX_S64;

    switch (x->op) {
    case PTX_OP_div: case PTX_OP_rem:
        return x->type == PTX_F32 ? 10 : x->type == PTX_F64 ? 60 : wide ? 80 : 17;
    case PTX_OP_rcp: return x->round == PTX_RN ? 6 : 1;
    case PTX_OP_sqrt: return 9;
    case PTX_OP_mov: case PTX_OP_cvta: return 0.25f;
    case PTX_OP_mul: case PTX_OP_mad: return wide ? 4 : 1;
    case PTX_OP_cvt: return ptx_size(x->type) == 8 || ptx_size(x->from) == 8 ? 0.7f : 1;
    case PTX_OP_add: case PTX_OP_sub: case PTX_OP_and: case PTX_OP_or: case PTX_OP_shl:
    case PTX_OP_shr: case PTX_OP_setp: case PTX_OP_selp: case PTX_OP_min: case PTX_OP_max:
        return wide ? 2 : 1;
    default: return 1;
    }
}

static ptx_ins *new_ins(ptx_reader *r)
{
    ptx *p = r->p;

    GROW(p->ins, p->count, p->room);
    p->ins[p->count] = (ptx_ins){ .guard = PTX_ABSENT, .d = PTX_ABSENT, .a = PTX_ABSENT,
                                  .b = PTX_ABSENT, .c = PTX_ABSENT, .result = -1,
                                  .line = r->line };
    return &p->ins[p->count++];
}

/* call.uni (retval0), name, (param0, param1) */
static void read_call(ptx_reader *r, ptx_ins *x, char *rest)
{
    char *part[3], *name[PTX_PARAMS];
    int n = ptx_split(rest, part, 3), at = part[0][0] == '(';

    if (at) {
        part[0][strlen(part[0]) - 1] = 0;
        x->result = ptx_place_of(r->f, part[0] + 1);
    }
    x->callee = -1;
    for (int i = 0; i < r->p->functions; i++)
        if (!strcmp(r->p->function[i].name, part[at]))
            x->callee = i;
    if (x->callee < 0)
        ptx_fault(r, "function \"%s\" is called before it is declared", part[at]);
    if (n <= at + 1)
        return;
    part[at + 1][strlen(part[at + 1]) - 1] = 0;
    x->params = ptx_split(part[at + 1] + 1, name, PTX_PARAMS);
    for (int i = 0; i < x->params; i++)
        x->param[i] = ptx_place_of(r->f, name[i]);
}

static void read_jump(ptx_reader *r, const char *to)
{
    GROW(r->jump, r->jumps, r->jump_room);
    r->jump[r->jumps].ins = r->p->count - 1;
    snprintf(r->jump[r->jumps++].name, sizeof r->jump->name, "%s", to);
}

/* d, or d|p of a shuffle. */
static void read_result(ptx_reader *r, ptx_ins *x, char *s)
{
    char *bar = strchr(s, '|');

    if (bar)
        *bar = 0;
    x->parts = (uint8_t)ptx_operands(r, s, x->v);
    x->d = x->v[0];
}

static void instruction(ptx_reader *r, char *s)
{
    ptx_ins *x = new_ins(r);
    char *part[6];

    if (*s == '@') {
        char *end = strchr(s, ' ');
        *end = 0;
        x->not_guard = s[1] == '!';
        x->guard = ptx_operand(r, s + 1 + x->not_guard);
        for (s = end + 1; *s == ' ';)
            s++;
    }
    char *rest = s + strcspn(s, " ");
    if (*rest)
        *rest++ = 0;
    modifiers(r, x, s);
    x->weight = weight(x);
    if (r->rc)
        return;
    if (x->op == PTX_OP_call) {
        read_call(r, x, rest);
        return;
    }
    int n = ptx_split(rest, part, 6), k = 1;
    if (x->op == PTX_OP_bra)
        read_jump(r, part[0]);
    if (x->op == PTX_OP_bra || x->op == PTX_OP_ret || x->op == PTX_OP_bar)
        return;
    if (x->op == PTX_OP_st) {
        ptx_address(r, x, part[0]);
        x->parts = (uint8_t)ptx_operands(r, part[1], x->v);
        return;
    }
    read_result(r, x, part[0]);
    if (x->op == PTX_OP_ld) {
        ptx_address(r, x, part[1]);
        return;
    }
    if (x->op == PTX_OP_mov && part[1][0] == '{') {          /* packs: d of parts */
        x->vector = (uint8_t)ptx_operands(r, part[1], x->v);
        return;
    }
    int *to[] = { &x->a, &x->b, &x->c, &x->callee };
    for (; k < n && k <= 4; k++)
        *to[k - 1] = ptx_operand(r, part[k]);
}

/* ---- declarations ---- */

static int64_t array_bytes(char *s, char *name, size_t n)
{
    for (size_t k = strlen(s); k > 0 && s[k - 1] == ' ';)
        s[--k] = 0;
    char *bracket = strrchr(s, '['), *last;
    int64_t count = 1, size = strstr(s, ".b64") ? 8 : strstr(s, ".b32") || strstr(s, ".f32") ? 4 :
                              strstr(s, ".f64") || strstr(s, ".u64") ? 8 : 1;

    if (bracket && s[strlen(s) - 1] == ']') {
        count = strtoll(bracket + 1, NULL, 0);
        *bracket = 0;
    }
    for (size_t k = strlen(s); k > 0 && s[k - 1] == ' ';)
        s[--k] = 0;
    last = s + strlen(s);
    while (last > s && last[-1] != ' ' && last[-1] != '\t')
        last--;
    snprintf(name, n, "%s", last);
    return count * size;
}

/* %r<76>, or one register. */
static void declare_regs(ptx_reader *r, char *s)
{
    char *angle = strchr(s, '<');

    if (r->banks == PTX_BANKS) {
        ptx_fault(r, "there are more than %d declarations of registers", PTX_BANKS);
        return;
    }
    ptx_bank *b = &r->bank[r->banks++];
    b->count = angle ? atoi(angle + 1) : 1;
    if (angle)
        *angle = 0;
    snprintf(b->prefix, sizeof b->prefix, "%s", s);
    b->first = r->f->first_reg + r->f->regs;
    r->f->regs += b->count;
}

static void declare(ptx_reader *r, char *s)
{
    char name[200], *part[32];

    if (!strncmp(s, ".reg", 4)) {
        s += 4 + strspn(s + 4, " ");           /* the type follows */
        int n = ptx_split(s + strcspn(s, " "), part, 32);
        for (int i = 0; i < n && !r->rc; i++)
            declare_regs(r, part[i]);
        return;
    }
    if (!strncmp(s, ".param", 6) || !strncmp(s, ".local", 6)) {
        int64_t bytes = array_bytes(s, name, sizeof name);
        ptx_place_add(r, r->f, name, bytes);
    } else if (!strncmp(s, ".shared", 7)) {
        int64_t bytes = array_bytes(s, name, sizeof name);
        int i = ptx_place_add(r, r->f, name, bytes);
        r->f->place[i].offset = r->f->shared;
        r->f->place[i].shared = true;
        r->f->shared += bytes;
    } else if (strncmp(s, ".pragma", 7)) {
        ptx_fault(r, "the interpreter has no \"%.60s\"", s);
    }
}

/* .global .align 8 .b8 name[144] = {8, 93, ...} */
static void read_table(ptx_reader *r)
{
    char head[256];

    ptx_statement(r, head, sizeof head, "=;");
    ptx *p = r->p;
    int64_t n = array_bytes(head, p->table[p->tables].name, sizeof p->table->name);
    uint8_t *to = aligned_alloc(64, (size_t)(n + 63) / 64 * 64);
    memset(to, 0, (size_t)n);
    p->table[p->tables++].bytes = to;
    for (int64_t i = 0; *r->at && *r->at != ';'; r->at++)
        if (isdigit((unsigned char)*r->at) && i < n) {
            char *end;
            to[i++] = (uint8_t)strtol(r->at, &end, 0);
            r->at = end - 1;
        }
}

static void read_body(ptx_reader *r)
{
    static char text[1 << 16];
    int depth = 1, banks[PTX_SCOPES];              /* banks: declarations outside of each scope */

    r->at++;
    while (!r->rc && depth) {
        ptx_skip(r);
        if (!*r->at) {
            ptx_fault(r, "the file ends inside of %s", r->f->name);
        } else if (*r->at == '}') {
            r->at++;
            if (--depth)
                r->banks = banks[depth];
        } else if (*r->at == '{') {
            if (depth == PTX_SCOPES)
                ptx_fault(r, "scopes are nested %d deep", depth);
            else
                banks[depth++] = r->banks;
            r->at++;
        } else if (*r->at == '$') {
            GROW(r->label, r->labels, r->label_room);
            size_t n = strcspn(r->at, ":");
            snprintf(r->label[r->labels].name, sizeof r->label->name, "%.*s", (int)n, r->at);
            r->label[r->labels++].at = r->p->count;
            r->at += n + 1;
        } else {
            ptx_statement(r, text, sizeof text, ";");
            r->at += *r->at == ';';
            for (char *c = text; *c; c++)
                *c = *c == '\t' ? ' ' : *c;
            if (*text == '.')
                declare(r, text);
            else
                instruction(r, text);
        }
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ptx_label *)a)->name, ((const ptx_label *)b)->name);
}

static void link_jumps(ptx_reader *r)
{
    qsort(r->label, (size_t)r->labels, sizeof *r->label, by_name);
    for (int i = 0; i < r->jumps && !r->rc; i++) {
        ptx_label key;
        snprintf(key.name, sizeof key.name, "%s", r->jump[i].name);
        const ptx_label *to = bsearch(&key, r->label, (size_t)r->labels, sizeof key, by_name);
        if (!to)
            ptx_fault(r, "there is no label %s", key.name);
        else
            r->p->ins[r->jump[i].ins].offset = to->at;
    }
}

/* .func (.param .b64 result) name (.param .b64 a, .param .b64 b), or .entry name(..) */
static void read_function(ptx_reader *r)
{
    char head[8192], *s = head, *part[PTX_PARAMS], name[200], result[200] = "";
    ptx *p = r->p;

    ptx_statement(r, head, sizeof head, ";{");
    bool entry = strstr(head, ".entry") != NULL;
    s = strstr(head, entry ? ".entry" : ".func") + (entry ? 6 : 5);
    s += strspn(s, " ");
    int64_t result_bytes = 0;
    if (*s == '(') {
        char *end = strchr(s, ')');
        *end = 0;
        result_bytes = array_bytes(s + 1, result, sizeof result);
        s = end + 1 + strspn(end + 1, " ");
    }
    size_t n = strcspn(s, " (");
    ptx_function *f = NULL;
    for (int i = 0; i < p->functions; i++)
        if (!strncmp(p->function[i].name, s, n) && !p->function[i].name[n])
            f = &p->function[i];
    if (!f) {
        p->function = realloc(p->function, (size_t)(p->functions + 1) * sizeof *p->function);
        f = &p->function[p->functions++];
        *f = (ptx_function){ .entry = entry, .result = -1 };
        snprintf(f->name, sizeof f->name, "%.*s", (int)n, s);
    }
    r->f = f;
    char *open = strchr(s, '('), *close = open ? strrchr(open, ')') : NULL;
    if (!f->places && close) {
        *close = 0;
        f->params = ptx_split(open + 1, part, PTX_PARAMS);
        for (int i = 0; i < f->params; i++) {
            int64_t bytes = array_bytes(part[i], name, sizeof name);
            int at = ptx_place_add(r, f, name, bytes);
            f->place[at].args = entry;
            f->place[at].offset = entry ? 0 : f->place[at].offset;
        }
        if (*result)
            f->result = ptx_place_add(r, f, result, result_bytes);
    }
    if (*r->at == ';') {                       /* a declaration */
        r->at++;
        return;
    }
    f->first_reg = entry ? PTX_FUNCTION_REGS : p->function_regs;
    f->begin = p->count;
    r->banks = 0;
    read_body(r);
    f->end = p->count;
    if (!entry)
        p->function_regs += f->regs;
    if (f->first_reg + f->regs > p->most_regs)
        p->most_regs = f->first_reg + f->regs;
}

ptx *ptx_read(const char *text, const char *name, vc_err *err)
{
    ptx_reader r = { .at = text, .line = 1, .err = err };
    char other[4096];

    r.p = calloc(1, sizeof *r.p);
    r.p->name = strdup(name);
    r.slot = calloc(1u << PTX_SLOT_BITS, sizeof *r.slot);
    while (!r.rc) {
        ptx_skip(&r);
        if (!*r.at)
            break;
        if (!strncmp(r.at, ".global", 7)) {
            read_table(&r);
            r.at += *r.at == ';';
        } else if (!strncmp(r.at, ".func", 5) || !strncmp(r.at, ".entry", 6) ||
                   !strncmp(r.at, ".visible", 8)) {
            read_function(&r);
        } else {                               /* .version, .target, .address_size */
            ptx_statement(&r, other, sizeof other, "\n");
        }
    }
    if (r.p->function_regs > PTX_FUNCTION_REGS)
        ptx_fault(&r, "functions have more than %d registers", PTX_FUNCTION_REGS);
    if (!r.rc)
        link_jumps(&r);
    free(r.slot);
    free(r.label);
    free(r.jump);
    if (!r.rc)
        return r.p;
    ptx_close(r.p);
    return NULL;
}

ptx *ptx_open(const char *path, vc_err *err)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;

    if (!f) {
        vc_fail(err, VC_EIO, "%s: cannot open it", path);
        return NULL;
    }
    do {
        room += 1 << 22;
        text = realloc(text, room + 1);
        n += fread(text + n, 1, room - n, f);
    } while (n == room);
    fclose(f);
    text[n] = 0;
    ptx *p = ptx_read(text, path, err);
    free(text);
    return p;
}

void ptx_close(ptx *p)
{
    if (!p)
        return;
    ptx_machine_close(p->machine);
    for (int i = 0; i < p->functions; i++) {
        free(p->function[i].place);
        free(p->function[i].given);
    }
    for (int i = 0; i < p->tables; i++)
        free(p->table[i].bytes);
    free(p->function);
    free(p->constant);
    free(p->ins);
    free(p->name);
    free(p);
}
