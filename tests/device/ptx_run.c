/* ptx_run.c - runs PTX; see ptx.h */
#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/ptx_code.h"

typedef uint64_t lanes[PTX_LANES];

enum { END = INT32_MAX };                      /* the counter of a lane that has returned */

typedef struct warp {
    lanes *reg;                                /* [most_regs] */
    uint8_t *memory[PTX_LANES];                /* lane_bytes each: parameters and arrays */
    uint8_t carry[PTX_LANES];
    uint32_t alive;
    int pc[PTX_LANES], depth, back[PTX_DEPTH];
    const ptx_ins *call[PTX_DEPTH];
    bool waits;                                /* at a barrier */
} warp;

typedef struct machine {
    ptx *p;
    warp w[PTX_WARPS];
    uint8_t *memory;
    _Alignas(16) uint8_t args[4096];
    _Alignas(16) uint8_t shared[1 << 16];
    vc_err *err;
    int rc;
} machine;

__attribute__((format(printf, 3, 4))) static void fault(machine *m, const ptx_ins *x,
                                                        const char *fmt, ...)
{
    char text[200];
    va_list ap;

    if (m->rc)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    m->rc = vc_fail(m->err, VC_EFAIL, "%s:%d: %s", m->p->name, x->line, text);
}

/* ---- registers ---- */

static const uint64_t *in(const warp *w, const ptx *p, int operand)
{
    return operand >= 0 ? w->reg[operand] : p->constant[-1 - operand];
}

static void put(warp *w, int reg, const uint64_t *v, uint32_t mask)
{
    uint64_t *d = w->reg[reg];

    if (mask == UINT32_MAX)
        memcpy(d, v, sizeof(lanes));
    else
        for (int i = 0; i < PTX_LANES; i++)
            d[i] = mask >> i & 1 ? v[i] : d[i];
}

/* ---- memory and moves ---- */

static void shuffle(machine *m, const warp *w, const ptx_ins *x, uint32_t mask, uint64_t *v)
{
    const uint64_t *a = in(w, m->p, x->a), *b = in(w, m->p, x->b), *c = in(w, m->p, x->c);
    const uint64_t *members = in(w, m->p, x->callee);

    for (int i = 0; i < PTX_LANES; i++) {
        uint32_t segment = (uint32_t)c[i] >> 8 & 31, from = (uint32_t)i ^ (uint32_t)b[i];
        v[i] = 0;
        if (!(mask >> i & 1))
            continue;
        uint32_t team = (uint32_t)members[i], same = 0;
        for (int k = 0; k < PTX_LANES; k++)
            same |= (uint32_t)((mask >> k & 1) && (uint32_t)members[k] == team) << k;
        if (same != team || !(team >> i & 1)) {
            fault(m, x, "a shuffle of lanes %x is reached by lanes %x", team, mask);
            return;
        }
        if (from > (((uint32_t)i & segment) | ((uint32_t)c[i] & 31 & ~segment)))
            from = (uint32_t)i;
        if (!(team >> from & 1))
            fault(m, x, "lane %d of a shuffle reads lane %u, which takes no part", i, from);
        v[i] = (uint32_t)a[from];
    }
}

static uint8_t *memory_at(machine *m, const ptx_ins *x, uint64_t a, int bytes)
{
    uint64_t at = x->shared ? (uint32_t)a + (uint64_t)x->offset : a + (uint64_t)x->offset;

    if (at % (uint64_t)bytes)
        fault(m, x, "an access of %d bytes is at %#llx", bytes, (unsigned long long)at);
    if (x->shared && at + (uint64_t)bytes > sizeof m->shared)
        fault(m, x, "an access to shared memory is at %#llx", (unsigned long long)at);
    return x->shared ? m->shared + at : (uint8_t *)(uintptr_t)at;
}

static void load(machine *m, warp *w, const ptx_ins *x, uint32_t mask)
{
    const uint64_t *a = in(w, m->p, x->a);
    int size = ptx_size(x->type);
    lanes v[4];

    for (int i = 0; i < PTX_LANES; i++) {
        const uint8_t *from = mask >> i & 1 ? memory_at(m, x, a[i], size * x->parts) : NULL;
        for (int k = 0; k < x->parts && from && !m->rc; k++) {
            v[k][i] = 0;
            memcpy(&v[k][i], from + k * size, (size_t)size);
            v[k][i] = ptx_extend(v[k][i], x->type);
        }
    }
    for (int k = 0; k < x->parts; k++)
        put(w, x->v[k], v[k], mask);
}

static void store(machine *m, const warp *w, const ptx_ins *x, uint32_t mask)
{
    const uint64_t *a = in(w, m->p, x->a);
    int size = ptx_size(x->type);

    for (int i = 0; i < PTX_LANES; i++) {
        uint8_t *to = mask >> i & 1 ? memory_at(m, x, a[i], size * x->parts) : NULL;
        for (int k = 0; k < x->parts && to && !m->rc; k++)
            memcpy(to + k * size, &in(w, m->p, x->v[k])[i], (size_t)size);
    }
}

static void move(machine *m, warp *w, const ptx_ins *x, uint32_t mask)
{
    int bits = 8 * ptx_size(x->type);
    lanes v = { 0 };

    if (x->vector) {                           /* d of parts */
        bits /= x->vector;
        for (int k = 0; k < x->vector; k++)
            for (int i = 0; i < PTX_LANES; i++)
                v[i] |= (in(w, m->p, x->v[k])[i] & ((1ull << bits) - 1)) << bits * k;
        put(w, x->d, v, mask);
        return;
    }
    const uint64_t *a = in(w, m->p, x->a);
    if (x->parts == 1) {
        memcpy(v, a, sizeof v);
        put(w, x->d, v, mask);
        return;
    }
    bits /= x->parts;
    lanes whole;
    memcpy(whole, a, sizeof whole);
    for (int k = 0; k < x->parts; k++) {
        for (int i = 0; i < PTX_LANES; i++)
            v[i] = whole[i] >> bits * k & ((1ull << bits) - 1);
        put(w, x->v[k], v, mask);
    }
}

/* Runs an instruction that changes no counter, for the lanes of mask. */
static void execute(machine *m, warp *w, const ptx_ins *x, uint32_t mask)
{
    const ptx *p = m->p;
    lanes v;

    switch ((ptx_op)x->op) {
    case PTX_OP_ld: load(m, w, x, mask); return;
    case PTX_OP_st: store(m, w, x, mask); return;
    case PTX_OP_mov: move(m, w, x, mask); return;
    case PTX_OP_shfl:
        shuffle(m, w, x, mask, v);
        put(w, x->d, v, mask);
        return;
    default: break;
    }
    const uint64_t *a = in(w, p, x->a), *b = x->b == PTX_ABSENT ? a : in(w, p, x->b);
    const uint64_t *c = x->c == PTX_ABSENT ? a : in(w, p, x->c);
    const uint64_t *n = x->op == PTX_OP_bfi ? in(w, p, x->callee) : a;
    if (x->op == PTX_OP_cvta)
        for (int i = 0; i < PTX_LANES; i++)
            v[i] = x->shared ? (uint64_t)(uintptr_t)m->shared + a[i] : a[i];
    else if (!ptx_compute(x, a, b, c, n, w->carry, mask, v))
        fault(m, x, "the interpreter has no such operation of this type");
    put(w, x->d, v, mask);
}

/* ---- warps and blocks ---- */

static void enter(machine *m, warp *w, const ptx_ins *x, int after)
{
    const ptx_function *f = &m->p->function[x->callee], *from = NULL;

    for (int i = 0; i < m->p->functions; i++)
        if (x - m->p->ins >= m->p->function[i].begin && x - m->p->ins < m->p->function[i].end)
            from = &m->p->function[i];
    if (w->depth == PTX_DEPTH || x->params != f->params) {
        fault(m, x, "%s is called too deep or with other parameters", f->name);
        return;
    }
    for (int k = 0; k < x->params; k++)
        for (int i = 0; i < PTX_LANES; i++)
            memcpy(w->memory[i] + f->place[k].offset,
                   w->memory[i] + from->place[x->param[k]].offset, (size_t)f->place[k].bytes);
    w->call[w->depth] = x;
    w->back[w->depth++] = after;
}

/* All lanes have returned: copies the result, and goes on behind the call. */
static void leave(machine *m, warp *w)
{
    const ptx_ins *x = w->call[--w->depth];
    const ptx_function *f = &m->p->function[x->callee], *from = NULL;

    for (int i = 0; i < m->p->functions; i++)
        if (x - m->p->ins >= m->p->function[i].begin && x - m->p->ins < m->p->function[i].end)
            from = &m->p->function[i];
    for (int i = 0; i < PTX_LANES; i++) {
        if (x->result >= 0)
            memcpy(w->memory[i] + from->place[x->result].offset,
                   w->memory[i] + f->place[f->result].offset,
                   (size_t)f->place[f->result].bytes);
        w->pc[i] = w->back[w->depth];
    }
}

/* Returns the lanes at the lowest counter; *next is the lowest counter above. */
static uint32_t gather(const warp *w, int *pc, int *next)
{
    uint32_t mask = 0;

    *pc = *next = END;
    for (int i = 0; i < PTX_LANES; i++)
        if ((w->alive >> i & 1) && w->pc[i] < *pc)
            *pc = w->pc[i];
    for (int i = 0; i < PTX_LANES; i++) {
        if (!(w->alive >> i & 1))
            continue;
        if (w->pc[i] == *pc)
            mask |= 1u << i;
        else if (w->pc[i] < *next)
            *next = w->pc[i];
    }
    return mask;
}

static void set_pc(warp *w, uint32_t mask, int pc)
{
    for (int i = 0; i < PTX_LANES; i++)
        w->pc[i] = mask >> i & 1 ? pc : w->pc[i];
}

/* Runs the lanes of mask from pc on, until they meet or leave others; false: at a barrier. */
static bool run_lanes(machine *m, warp *w, ptx_function *f, uint32_t mask, int pc, int next)
{
    while (!m->rc && pc < next) {
        ptx_ins *x = &m->p->ins[pc];
        uint32_t active = mask;
        if (x->guard != PTX_ABSENT) {
            const uint64_t *g = in(w, m->p, x->guard);
            for (int i = 0; i < PTX_LANES; i++)
                if ((g[i] & 1) == x->not_guard)
                    active &= ~(1u << i);
        }
        x->hits++;
        f->executed++;
        f->weighed += (double)x->weight;
        pc++;
        if (x->op == PTX_OP_bra || x->op == PTX_OP_ret) {
            int to = x->op == PTX_OP_bra ? (int)x->offset : END;
            if (active == mask) {
                pc = to;
            } else if (active) {
                set_pc(w, mask & ~active, pc);
                set_pc(w, active, to);
                return true;
            }
        } else if (x->op == PTX_OP_bar || x->op == PTX_OP_call) {
            if (active != w->alive)
                fault(m, x, "a barrier or call is reached by lanes %x of %x", active, w->alive);
            set_pc(w, mask, pc);
            if (x->op == PTX_OP_bar)
                return false;
            enter(m, w, x, pc);
            pc = m->p->function[x->callee].begin;
        } else if (active) {
            execute(m, w, x, active);
        }
    }
    set_pc(w, mask, pc);
    return true;
}

/* Runs a warp to its next barrier or to its end. */
static void run_warp(machine *m, warp *w, ptx_function *f)
{
    int pc, next;

    while (w->alive && !m->rc) {
        uint32_t mask = gather(w, &pc, &next);
        if (pc != END) {
            if (!run_lanes(m, w, f, mask, pc, next))
                return;
        } else if (w->depth) {
            leave(m, w);
        } else {
            w->alive = 0;
        }
        for (int i = 0; i < PTX_LANES && !w->depth; i++)
            if (w->pc[i] == END)
                w->alive &= ~(1u << i);
    }
}

static void start_warp(machine *m, int number, const ptx_function *f, uint64_t block)
{
    warp *w = &m->w[number];

    w->alive = UINT32_MAX;
    w->depth = 0;
    set_pc(w, w->alive, f->begin);
    for (int k = 0; k < m->p->functions; k++) {
        const ptx_function *g = &m->p->function[k];
        for (int n = 0; n < (g == f || !g->entry ? g->givens : 0); n++)
            for (int i = 0; i < PTX_LANES; i++) {
                const ptx_given *v = &g->given[n];
                const uint64_t is[] = {
                    [PTX_LANE] = (uint64_t)(uintptr_t)(w->memory[i] + v->offset),
                    [PTX_ARGS] = (uint64_t)(uintptr_t)(m->args + v->offset),
                    [PTX_TID] = (uint64_t)(number * PTX_LANES + i), [PTX_CTAID] = block,
                    [PTX_NTID] = PTX_WARPS * PTX_LANES };
                w->reg[v->reg][i] = is[v->what];
            }
    }
}

static void run_block(machine *m, ptx_function *f, uint64_t block, bool backwards)
{
    bool more = true;

    memset(m->shared, 0xff, (size_t)f->shared);
    for (int i = 0; i < PTX_WARPS; i++)
        start_warp(m, i, f, block);
    while (more && !m->rc) {
        more = false;
        for (int i = 0; i < PTX_WARPS; i++) {
            warp *w = &m->w[backwards ? PTX_WARPS - 1 - i : i];
            run_warp(m, w, f);
            more = more || w->alive;
        }
    }
}

/* ---- kernels ---- */

static machine *machine_open(ptx *p)
{
    machine *m = aligned_alloc(64, (sizeof *m + 63) / 64 * 64);
    size_t each = (size_t)(p->lane_bytes + 63) / 64 * 64;

    memset(m, 0, sizeof *m);
    m->p = p;
    m->memory = aligned_alloc(64, each * PTX_LANES * PTX_WARPS + 64);
    for (int k = 0; k < PTX_WARPS; k++) {
        m->w[k].reg = calloc((size_t)p->most_regs, sizeof(lanes));
        for (int i = 0; i < PTX_LANES; i++)
            m->w[k].memory[i] = m->memory + each * (size_t)(k * PTX_LANES + i);
    }
    return p->machine = m;
}

void ptx_machine_close(void *of)
{
    machine *m = of;

    if (!m)
        return;
    for (int k = 0; k < PTX_WARPS; k++)
        free(m->w[k].reg);
    free(m->memory);
    free(m);
}

/* Is this _Z<n>vk_<name>_kernel<...>? */
static bool named(const ptx_function *f, const char *name)
{
    char all[128];
    int n = snprintf(all, sizeof all, "vk_%s_kernel", name);
    const char *at = strstr(f->name, all);

    return f->entry && at && (int)strtol(f->name + 2, NULL, 10) == n;
}

int ptx_run(ptx *p, const char *name, const void *args, size_t bytes, uint64_t first,
            uint64_t blocks, bool backwards, vc_err *err)
{
    machine *m = p->machine ? p->machine : machine_open(p);
    ptx_function *f = NULL;

    for (int i = 0; i < p->functions && !f; i++)
        f = named(&p->function[i], name) ? &p->function[i] : NULL;
    if (!f)
        return vc_fail(err, VC_ENOENT, "%s: there is no kernel vk_%s_kernel", p->name, name);
    if ((size_t)f->place[0].bytes != bytes)
        return vc_fail(err, VC_EFAIL, "%s: %s has %lld bytes of arguments, not %zu", p->name, name,
                       (long long)f->place[0].bytes, bytes);
    memcpy(m->args, args, bytes);
    m->err = err;
    m->rc = 0;
    f->runs++;
    fenv_t own;
    fegetenv(&own);
    fesetenv(FE_DFL_ENV);                    /* a GPU keeps subnormals, which this thread may not */
    for (uint64_t b = 0; b < blocks && !m->rc; b++)
        run_block(m, f, first + (backwards ? blocks - 1 - b : b), backwards);
    fesetenv(&own);
    return m->rc;
}

int ptx_kernels(const ptx *p)
{
    int n = 0;

    for (int i = 0; i < p->functions; i++)
        n += p->function[i].entry;
    return n;
}

ptx_kernel ptx_kernel_at(const ptx *p, int at)
{
    static char name[160];
    const ptx_function *f = p->function - 1;

    do
        at -= (++f)->entry;
    while (at >= 0);
    ptx_kernel k = { .name = name, .runs = f->runs, .executed = f->executed,
                     .weighed = f->weighed };
    const char *start = strstr(f->name, "vk_"), *end = strstr(f->name, "_kernel");
    snprintf(name, sizeof name, "%.*s", (int)(end - start - 3), start + 3);
    for (int i = f->begin; i < f->end; i++) {
        const ptx_ins *x = &p->ins[i];
        bool wide = x->global && (x->op == PTX_OP_ld || x->op == PTX_OP_st) &&
                    ptx_size(x->type) * x->parts == 16;
        k.wide += wide;
        k.wide_run += wide && x->hits;
        if (wide && !x->hits && !k.wide_line)
            k.wide_line = x->line;
    }
    return k;
}
