/* generator.c - see generator.h: the network as it runs */
#include "precompute/sound/generator.h"

#include "precompute/sound/generator_fields.h"

int gen_hop(const gen_fields *f)
{
    int hop = 1;
    for (int i = 0; i < f->n_factors; i++)
        hop *= f->factor[i];
    return hop;
}

/* The first n samples of x. */
static vt_tensor *first(vt_ctx *g, vt_tensor *x, int64_t n)
{
    return x && x->dim[2] > n ? vt_pack(g, vt_slice(g, x, 2, 0, n)) : x;
}

/* Convolves into a result as long as x among zeros. A dilation d is a convolution of each d-th
 * sample alone: the samples lie in rows of d. */
static vt_tensor *same(vt_ctx *g, const gen_conv *c, vt_tensor *x)
{
    if (!x)
        return NULL;
    const int64_t n = x->dim[2], width = x->dim[4], d = c->dilation;
    const int64_t rest = (d - n % d) % d, out = c->w->dim[0];
    const int half = (c->kernel - 1) / 2;

    if (rest) {
        vt_tensor *zero = vt_scale(g, vt_slice(g, x, 2, 0, 1), 0);
        vt_tensor *ends[GEN_MAX_DILATION] = { x };
        for (int64_t i = 1; i <= rest; i++)
            ends[i] = zero;
        x = vt_concat(g, 2, (int)rest + 1, ends);
    }
    x = vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, d, width });
    x = vt_conv3d(g, x, c->w, c->b, &(vt_conv){ .stride = { 1, 1, 1 }, .before = { 0, half, 0 },
                                                .after = { 0, c->kernel - 1 - half, 0 } });
    return first(g, vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, 1, out }), n);
}

/* x + sin^2(a x) b, or the leaky rectifier. */
static vt_tensor *bend(vt_ctx *g, const gen_act *a, vt_tensor *x)
{
    if (!a->a)
        return vt_add(g, vt_scale(g, x, a->slope), vt_scale(g, vt_relu(g, x), 1 - a->slope));
    return vt_add(g, x, vt_mul(g, vt_sin_squared(g, vt_mul(g, x, a->a)), a->b));
}

/* Multiplies the samples by the filter's phases: [1,1,L,1,C] -> [1,1,rL,1,C]. */
static vt_tensor *filter_up(vt_ctx *g, vt_tensor *w, vt_tensor *x)
{
    if (!x)
        return NULL;
    const int64_t c = x->dim[4];
    const int half = (int)(w->dim[3] / 2);

    x = vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, c, 1 });
    x = vt_conv3d(g, x, w, NULL, &(vt_conv){ .stride = { 1, 1, 1 }, .before = { 0, half, 0 },
                                             .after = { 0, half, 0 },
                                             .edge = { false, true, false } });
    x = vt_pack(g, vt_permute(g, x, (int[]){ 0, 1, 2, 4, 3 }));
    return vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, 1, c });
}

static vt_tensor *filter_down(vt_ctx *g, vt_tensor *w, int ratio, vt_tensor *x)
{
    if (!x)
        return NULL;
    const int64_t c = x->dim[4];
    const int k = (int)w->dim[3];

    x = vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, c, 1 });
    x = vt_conv3d(g, x, w, NULL, &(vt_conv){ .stride = { 1, ratio, 1 },
                                             .before = { 0, k / 2 + k % 2 - 1, 0 },
                                             .after = { 0, k / 2, 0 },
                                             .edge = { false, true, false } });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, 1, c });
}

static vt_tensor *activate(vt_ctx *g, const gen_act *a, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(g);
    const int ratio = a->up ? (int)a->up->dim[0] : 1;

    if (a->up)
        x = filter_up(g, a->up, x);
    x = bend(g, a, x);
    if (a->down)
        x = filter_down(g, a->down, ratio, x);
    vt_scope_end(g, s, 1, &x);
    return x;
}

static vt_tensor *run_stack(vt_ctx *g, const generator *m, const gen_stack *k, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(g);

    for (int i = 0; i < m->f.dilations; i++) {
        vt_tensor *h = same(g, &k->conv1[i], activate(g, &k->act1[i], x));
        h = same(g, &k->conv2[i], activate(g, &k->act2[i], h));
        x = vt_add(g, x, h);
        vt_scope_end(g, s, 1, &x);
    }
    return x;
}

/* The transposed convolution: the phases of each sample, one behind the other. */
static vt_tensor *run_up(vt_ctx *g, const gen_step *p, vt_tensor *x)
{
    if (!x)
        return NULL;
    const int64_t out = p->up.w->dim[0] / p->factor;

    x = vt_conv3d(g, x, p->up.w, p->up.b, &(vt_conv){ .stride = { 1, 1, 1 },
                                                      .before = { 0, p->before, 0 },
                                                      .after = { 0, p->after, 0 } });
    return vt_reshape(g, x, 5, (int64_t[]){ 1, 1, -1, 1, out });
}

static vt_tensor *run_step(vt_ctx *g, const generator *m, const gen_step *p, vt_tensor *x)
{
    const gen_act leaky = { .slope = (float)m->f.slope };
    vt_scope s = vt_scope_begin(g);
    vt_tensor *sum = NULL;

    if (m->f.act == GEN_LEAKY)
        x = bend(g, &leaky, x);
    x = run_up(g, p, x);
    vt_scope_end(g, s, 1, &x);
    for (int i = 0; i < m->f.stacks; i++) {
        vt_tensor *y = run_stack(g, m, &p->stack[i], x);
        sum = sum ? vt_add(g, sum, y) : y;
        vt_scope_end(g, s, 2, (vt_tensor *[]){ x, sum });
    }
    sum = vt_scale(g, sum, 1.0f / (float)m->f.stacks);
    vt_scope_end(g, s, 1, &sum);
    return sum;
}

vt_tensor *gen_run(vt_ctx *g, const generator *m, vt_tensor *x)
{
    vt_scope s = vt_scope_begin(g);

    x = same(g, &m->conv_in, x);
    for (int i = 0; i < m->f.n_factors; i++) {
        x = run_step(g, m, &m->step[i], x);
        vt_scope_end(g, s, 1, &x);
    }
    x = same(g, &m->conv_out, activate(g, &m->act_out, x));
    if (m->f.last == GEN_TANH)
        x = vt_tanh(g, x);
    return x;
}
