/* pt_pickle.c - reads pickles as data: a stack machine over those opcodes of protocols 2 to 5 that
 * build values. See pt_parts.h; Python's pickletools describes the opcodes. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tensors/pt_parts.h"

enum { NAME_MAX_LEN = 200, MAX_LATIN1 = 1 << 20 };

/* A value that is being built. Containers grow. A class that the pickle names and a storage that a
 * persistent id names are OPAQUE for callers. */
typedef struct node {
    vf_pt_value v;
    size_t room;                             /* pointers for which v.item has room */
    const vf_pt_member *storage;             /* a storage's bytes */
    vc_dtype type;                           /* a storage's elements; VC_DTYPE_NONE: untyped */
    bool is_mark, is_name, is_storage;
} node;

typedef struct machine {
    vf_pt *p;
    const uint8_t *at, *end;
    node **stack, **memo;
    size_t n, room, n_memo, memos, nodes;    /* n_memo: entries of memo; memos: entries in use */
    node nothing;                            /* result of make() after a failure; never read */
    vc_err *err;
    int rc;                                  /* the first failure; later ones are ignored */
} machine;

static void fail(machine *m, const char *what)
{
    if (!m->rc)
        m->rc = vc_fail(m->err, VC_EFORMAT, "%s", what);
}

static void no_memory(machine *m)
{
    if (!m->rc)
        m->rc = vc_fail(m->err, VC_ENOMEM, "out of memory");
}

/* ---- input ---- */

static const uint8_t *take(machine *m, uint64_t n)
{
    static const uint8_t zeros[8];
    if (m->rc || n > (uint64_t)(m->end - m->at)) {
        fail(m, "cut short");
        return n <= sizeof zeros ? zeros : NULL;
    }
    m->at += n;
    return m->at - n;
}

static uint64_t take_int(machine *m, int bytes)
{
    const uint8_t *p = take(m, (uint64_t)bytes);
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* Takes the text up to the end of the line, and the line end. */
static const char *take_line(machine *m, size_t *n)
{
    const uint8_t *nl = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!nl || nl - m->at > NAME_MAX_LEN) {
        fail(m, "a name that does not end");
        *n = 0;
        return "";
    }
    const char *s = (const char *)m->at;
    *n = (size_t)(nl - m->at);
    m->at = nl + 1;
    return s;
}

/* ---- stack ---- */

/* Makes a value; after a failure the result is &m->nothing, never NULL. */
static node *make(machine *m, vf_pt_kind kind)
{
    if (m->nodes == VF_PT_NODES)
        fail(m, "more values than any dataset has");
    node *x = m->rc ? NULL : vf_pt_alloc(m->p, sizeof *x);
    if (!x) {
        no_memory(m);
        return &m->nothing;
    }
    m->nodes++;
    x->v.kind = kind;
    if (kind == VF_PT_OPAQUE)
        x->v.s = "";
    x->type = VC_DTYPE_NONE;
    return x;
}

static void push(machine *m, node *x)
{
    if (m->rc)
        return;
    if (m->n == m->room) {
        size_t room = m->room ? 2 * m->room : 64;
        node **more = realloc(m->stack, room * sizeof *more);
        if (!more) {
            no_memory(m);
            return;
        }
        m->stack = more;
        m->room = room;
    }
    m->stack[m->n++] = x;
}

static node *pop(machine *m)
{
    if (!m->n || m->stack[m->n - 1]->is_mark)
        fail(m, "a value is missing");
    return m->rc ? make(m, VF_PT_NONE) : m->stack[--m->n];
}

static node *top(machine *m)
{
    if (!m->n || m->stack[m->n - 1]->is_mark)
        fail(m, "a value is missing");
    return m->rc ? make(m, VF_PT_NONE) : m->stack[m->n - 1];
}

/* Pops the topmost mark and the *count values above, and returns the index of the first of them in
 * m->stack, where they stay until the next push. */
static size_t pop_mark(machine *m, size_t *count)
{
    size_t at = m->n;
    while (at && !m->stack[at - 1]->is_mark)
        at--;
    if (!at)
        fail(m, "a mark is missing");
    if (m->rc) {
        *count = 0;
        return 0;
    }
    *count = m->n - at;
    m->n = at - 1;
    return at;
}

/* ---- containers ---- */

static void grow(machine *m, node *c, size_t more)
{
    size_t used = c->v.kind == VF_PT_DICT ? 2 * c->v.n : c->v.n;
    if (m->rc || c->room - used >= more)
        return;
    size_t room = used + more > 2 * c->room ? used + more : 2 * c->room;
    const vf_pt_value **item = vf_pt_alloc(m->p, room * sizeof *item);
    if (!item) {
        no_memory(m);
        return;
    }
    if (used)
        memcpy(item, c->v.item, used * sizeof *item);
    c->v.item = item;
    c->room = room;
}

/* Makes n values of the stack items of c; a dict takes keys and values alternately. Items of an
 * opaque value are dropped. */
static void add_items(machine *m, node *c, size_t at, size_t n)
{
    bool dict = c->v.kind == VF_PT_DICT;
    if (m->rc || (!dict && c->v.kind != VF_PT_LIST))
        return;
    if (dict && n % 2) {
        fail(m, "a key without value");
        return;
    }
    grow(m, c, n);
    for (size_t i = 0; !m->rc && i < n; i++)
        c->v.item[(dict ? 2 * c->v.n : c->v.n) + i] = &m->stack[at + i]->v;
    if (!m->rc)
        c->v.n += dict ? n / 2 : n;
}

static node *make_tuple(machine *m, size_t at, size_t n)
{
    node *t = make(m, VF_PT_LIST);
    add_items(m, t, at, n);
    t->v.kind = m->rc ? VF_PT_NONE : VF_PT_TUPLE;
    return t;
}

static void tuple_of(machine *m, size_t n)
{
    if (m->n < n) {
        fail(m, "a value is missing");
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (m->stack[m->n - 1 - i]->is_mark)
            fail(m, "a value is missing");
    if (m->rc)
        return;
    m->n -= n;
    push(m, make_tuple(m, m->n, n));
}

/* ---- scalars ---- */

static void push_int(machine *m, int64_t v)
{
    node *x = make(m, VF_PT_INT);
    x->v.i = v;
    push(m, x);
}

/* Pushes an integer of n bytes in two's complement, least significant byte first. */
static void push_long(machine *m, uint64_t n)
{
    const uint8_t *p = take(m, n);
    uint64_t v = !m->rc && n && n <= 8 && p[n - 1] & 0x80 ? ~(uint64_t)0 : 0;
    if (m->rc)
        return;
    if (n > 8) {
        push(m, make(m, VF_PT_OPAQUE));
        return;
    }
    for (uint64_t i = n; i-- > 0;)
        v = v << 8 | p[i];
    push_int(m, (int64_t)v);
}

static void push_bytes(machine *m, vf_pt_kind kind, uint64_t n)
{
    const uint8_t *p = take(m, n);
    node *x = make(m, kind);
    if (!m->rc) {
        x->v.s = (const char *)p;
        x->v.n = n;
    }
    push(m, x);
}

static void push_float(machine *m)
{
    const uint8_t *p = take(m, 8);
    uint64_t u = 0;
    for (int i = 0; i < 8; i++)
        u = u << 8 | p[i];
    node *x = make(m, VF_PT_FLOAT);
    memcpy(&x->v.f, &u, 8);
    push(m, x);
}

/* ---- names of classes and functions, storages ---- */

static void push_name(machine *m, const char *module, size_t n, const char *name, size_t k)
{
    node *x = make(m, VF_PT_OPAQUE);
    if (n > NAME_MAX_LEN || k > NAME_MAX_LEN)
        fail(m, "a name that does not end");
    char *s = m->rc ? NULL : vf_pt_alloc(m->p, n + k + 2);
    if (!s) {
        no_memory(m);
        return;
    }
    memcpy(s, module, n);
    s[n] = '.';
    memcpy(s + n + 1, name, k);
    x->v.s = s;
    x->v.n = n + k + 1;
    x->is_name = true;
    push(m, x);
}

static void stack_global(machine *m)
{
    const node *name = pop(m), *module = pop(m);
    if (name->v.kind != VF_PT_STR || module->v.kind != VF_PT_STR)
        fail(m, "a name that is no text");
    if (!m->rc)
        push_name(m, module->v.s, module->v.n, name->v.s, name->v.n);
}

static bool named(const vf_pt_value *v, const char *name)
{
    return v->kind == VF_PT_OPAQUE && ((const node *)v)->is_name && !strcmp(v->s, name);
}

/* Pushes the storage that a persistent id names: ("storage", class, key, device, elements). */
static void push_storage(machine *m)
{
    const node *id = pop(m);
    const vf_pt_value *word = vf_pt_arg(&id->v, 0), *class = vf_pt_arg(&id->v, 1);
    const vf_pt_value *key = vf_pt_arg(&id->v, 2);
    node *x = make(m, VF_PT_OPAQUE);
    char name[64];
    if (!word || word->kind != VF_PT_STR || word->n != 7 || memcmp(word->s, "storage", 7) ||
        !class ||
        class->kind != VF_PT_OPAQUE || !key || key->kind != VF_PT_STR || key->n > 40 ||
        memchr(key->s, 0, key->n))
        fail(m, "a persistent id that names no storage");
    if (m->rc)
        return;
    snprintf(name, sizeof name, "data/%.*s", (int)key->n, key->s);
    if (!(x->storage = vf_pt_find(m->p, name))) {
        m->rc = vc_fail(m->err, VC_EFORMAT, "%s: missing in the zip", name);
        return;
    }
    const char *dot = class->s ? strrchr(class->s, '.') : NULL;
    for (const vf_pt_type *t = vf_pt_types; dot && t->name; t++)
        if (t->storage && !strcmp(dot + 1, t->storage))
            x->type = t->dtype;
    x->is_storage = true;
    push(m, x);
}

static vc_dtype dtype_of(const vf_pt_value *v)
{
    if (v && v->kind == VF_PT_OPAQUE && ((const node *)v)->is_name && !strncmp(v->s, "torch.", 6))
        for (const vf_pt_type *t = vf_pt_types; t->name; t++)
            if (!strcmp(v->s + 6, t->name))
                return t->dtype;
    return VC_DTYPE_NONE;
}

/* ---- calls ---- */

static void push_tensor(machine *m, const vf_pt_value *args, vc_dtype dtype)
{
    const node *s = (const node *)vf_pt_arg(args, 0);
    node *x = make(m, VF_PT_TENSOR);
    if (!s || !s->is_storage)
        fail(m, "a tensor without storage");
    if (!m->rc)
        m->rc = vf_pt_view(m->p, &x->v.tensor, s->storage,
                           dtype == VC_DTYPE_NONE ? s->type : dtype, args, m->err);
    if (!m->rc && !x->v.tensor)              /* a complex or quantised type, for example */
        x = make(m, VF_PT_OPAQUE);
    push(m, x);
}


/* Pushes bytes that protocol 2, which has none, writes as a call of _codecs.encode(text,
 * "latin1"). */
static void push_latin1(machine *m, const vf_pt_value *text)
{
    node *x = make(m, VF_PT_BYTES);
    uint8_t *out = m->rc ? NULL : vf_pt_alloc(m->p, text->n + 1);
    if (!out) {
        no_memory(m);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < text->n; i++) {
        uint8_t c = (uint8_t)text->s[i];
        if (c >= 0x80 && i + 1 < text->n)
            c = (uint8_t)((c & 3) << 6 | ((uint8_t)text->s[++i] & 0x3f));
        out[n++] = c;
    }
    x->v.s = (const char *)out;
    x->v.n = n;
    push(m, x);
}

static void push_empty(machine *m, vf_pt_kind kind)
{
    node *x = make(m, kind);
    if (kind == VF_PT_BYTES)
        x->v.s = "";
    push(m, x);
}

/* Pushes the value that f(args) would make, if the machine knows f, else an opaque value. No
 * function is called. */
static void reduce(machine *m)
{
    const node *args = pop(m), *f = pop(m);
    const vf_pt_value *a = &args->v, *first = vf_pt_arg(a, 0);
    if (m->rc)
        return;
    if (named(&f->v, "torch._utils._rebuild_tensor_v2") ||
        named(&f->v, "torch._utils._rebuild_tensor"))
        push_tensor(m, a, VC_DTYPE_NONE);
    else if (named(&f->v, "torch._utils._rebuild_tensor_v3"))
        push_tensor(m, a, dtype_of(vf_pt_arg(a, 6)));
    else if (named(&f->v, "torch._utils._rebuild_parameter") && first &&
             first->kind == VF_PT_TENSOR)
        push(m, (node *)first);
    else if (named(&f->v, "collections.OrderedDict") && a->kind == VF_PT_TUPLE && !a->n)
        push_empty(m, VF_PT_DICT);
    else if (named(&f->v, "torch.Size") && first && first->kind == VF_PT_TUPLE)
        push(m, (node *)first);
    else if (named(&f->v, "_codecs.encode") && first && first->kind == VF_PT_STR &&
             first->n <= MAX_LATIN1)
        push_latin1(m, first);
    else if ((named(&f->v, "__builtin__.bytes") || named(&f->v, "builtins.bytes")) && !a->n)
        push_empty(m, VF_PT_BYTES);
    else {
        node *x = make(m, VF_PT_OPAQUE);
        x->v.s = f->is_name ? f->v.s : "";
        x->v.n = f->is_name ? f->v.n : 0;
        push(m, x);
    }
}

/* Pushes an opaque value for an object that is made without a call. */
static void new_object(machine *m, int operands)
{
    node *class = NULL, *x = make(m, VF_PT_OPAQUE);
    for (int i = 0; i < operands; i++)
        class = pop(m);
    if (!m->rc && class->is_name) {
        x->v.s = class->v.s;
        x->v.n = class->v.n;
    }
    push(m, x);
}

/* ---- memo ---- */

static void put_memo(machine *m, uint64_t at)
{
    node *x = top(m);
    if (at >= VF_PT_NODES)
        fail(m, "a memo beyond its bounds");
    if (!m->rc && at >= m->n_memo) {
        size_t n = at + 1 > 2 * m->n_memo ? (size_t)at + 1 : 2 * m->n_memo;
        node **more = realloc(m->memo, n * sizeof *more);
        if (!more) {
            no_memory(m);
            return;
        }
        memset(more + m->n_memo, 0, (n - m->n_memo) * sizeof *more);
        m->memo = more;
        m->n_memo = n;
    }
    if (m->rc)
        return;
    m->memos += !m->memo[at];
    m->memo[at] = x;
}

static void get_memo(machine *m, uint64_t at)
{
    if (at >= m->n_memo || !m->memo[at])
        fail(m, "a memo that was never put");
    else
        push(m, m->memo[at]);
}

/* ---- opcodes ---- */

static void add_marked(machine *m)
{
    size_t n, at = pop_mark(m, &n);
    node *c = top(m);
    add_items(m, c, at, n);
}

static void add_last(machine *m, size_t n)
{
    if (m->n <= n) {
        fail(m, "a value is missing");
        return;
    }
    for (size_t i = 0; i <= n; i++)
        if (m->stack[m->n - 1 - i]->is_mark)
            fail(m, "a value is missing");
    if (m->rc)
        return;
    m->n -= n;
    add_items(m, m->stack[m->n - 1], m->n, n);
}

static void collect(machine *m, vf_pt_kind kind)
{
    size_t n, at = pop_mark(m, &n);
    node *c = kind == VF_PT_TUPLE ? make_tuple(m, at, n) : make(m, kind);
    if (kind != VF_PT_TUPLE)
        add_items(m, c, at, n);
    push(m, c);
}

static void push_mark(machine *m)
{
    node *x = make(m, VF_PT_NONE);
    if (!m->rc)
        x->is_mark = true;
    push(m, x);
}

static void push_bool(machine *m, bool v)
{
    node *x = make(m, VF_PT_BOOL);
    x->v.i = v;
    push(m, x);
}

static void global(machine *m)
{
    size_t n, k;
    const char *module = take_line(m, &n), *name = take_line(m, &k);
    if (!m->rc)
        push_name(m, module, n, name, k);
}

/* Runs an opcode other than STOP. */
static void step(machine *m, uint8_t op)
{
    switch (op) {
    case 0x80: take(m, 1); break;                                    /* PROTO */
    case 0x95: take(m, 8); break;                                    /* FRAME */
    case '(': push_mark(m); break;
    case '0': m->n && m->stack[m->n - 1]->is_mark ? (void)m->n-- : (void)pop(m); break;
    case '1': { size_t n; pop_mark(m, &n); break; }                  /* POP_MARK */
    case '2': push(m, top(m)); break;                                /* DUP */
    case 'N': push(m, make(m, VF_PT_NONE)); break;
    case 0x88: push_bool(m, true); break;
    case 0x89: push_bool(m, false); break;
    case 'K': push_int(m, (int64_t)take_int(m, 1)); break;
    case 'M': push_int(m, (int64_t)take_int(m, 2)); break;
    case 'J': push_int(m, (int32_t)take_int(m, 4)); break;
    case 0x8a: push_long(m, take_int(m, 1)); break;
    case 0x8b: push_long(m, take_int(m, 4)); break;
    case 'G': push_float(m); break;
    case 'X': push_bytes(m, VF_PT_STR, take_int(m, 4)); break;
    case 0x8c: push_bytes(m, VF_PT_STR, take_int(m, 1)); break;
    case 0x8d: push_bytes(m, VF_PT_STR, take_int(m, 8)); break;
    case 'T': push_bytes(m, VF_PT_STR, take_int(m, 4)); break;       /* Python 2's text */
    case 'U': push_bytes(m, VF_PT_STR, take_int(m, 1)); break;
    case 'B': push_bytes(m, VF_PT_BYTES, take_int(m, 4)); break;
    case 'C': push_bytes(m, VF_PT_BYTES, take_int(m, 1)); break;
    case 0x8e: case 0x96: push_bytes(m, VF_PT_BYTES, take_int(m, 8)); break;
    case '}': push(m, make(m, VF_PT_DICT)); break;
    case ']': case 0x8f: push(m, make(m, VF_PT_LIST)); break;        /* a set is a list */
    case ')': push(m, make(m, VF_PT_TUPLE)); break;
    case 't': collect(m, VF_PT_TUPLE); break;
    case 'l': case 0x91: collect(m, VF_PT_LIST); break;
    case 'd': collect(m, VF_PT_DICT); break;
    case 0x85: case 0x86: case 0x87: tuple_of(m, op - 0x84u); break;
    case 'a': add_last(m, 1); break;
    case 's': add_last(m, 2); break;
    case 'e': case 'u': case 0x90: add_marked(m); break;
    case 'q': put_memo(m, take_int(m, 1)); break;
    case 'r': put_memo(m, take_int(m, 4)); break;
    case 0x94: put_memo(m, m->memos); break;                         /* MEMOIZE */
    case 'h': get_memo(m, take_int(m, 1)); break;
    case 'j': get_memo(m, take_int(m, 4)); break;
    case 'c': global(m); break;
    case 0x93: stack_global(m); break;
    case 'Q': push_storage(m); break;
    case 'R': reduce(m); break;
    case 0x81: new_object(m, 2); break;                              /* NEWOBJ */
    case 0x92: new_object(m, 3); break;
    case 'b': pop(m); top(m); break;                                 /* BUILD drops the state */
    default: m->rc = m->rc ? m->rc : vc_fail(m->err, VC_EFORMAT, "opcode 0x%02x", op);
    }
}

int vf_pt_unpickle(vf_pt *p, const uint8_t *text, size_t n, vc_err *err)
{
    machine m = { .p = p, .at = text, .end = text + n, .err = err };
    while (!m.rc && m.at < m.end && *m.at != '.') {
        const uint8_t *at = m.at++;
        step(&m, *at);
        if (m.rc)
            vc_context(err, m.rc, "byte %zu", (size_t)(at - text));
    }
    if (!m.rc && m.at == m.end)
        m.rc = vc_fail(err, VC_EFORMAT, "no end");
    if (!m.rc)
        p->root = &pop(&m)->v;
    free(m.stack);
    free(m.memo);
    return m.rc;
}
