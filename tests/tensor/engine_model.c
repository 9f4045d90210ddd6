/* engine_model.c - see engine_model.h */
#include "tests/lib/ok.h"
#include "tests/tensor/engine_model.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIN(field, name, o, i, init) \
    { name, VT_W_LINEAR, offsetof(em_layer, field), { o, i }, init }
static const vt_weight layer_table[] = {
    LIN(q, "attn.q", -1, -1, VT_INIT_XAVIER),
    LIN(k, "attn.k", -1, -1, VT_INIT_XAVIER),
    LIN(v, "attn.v", -1, -1, VT_INIT_XAVIER),
    LIN(out, "attn.out", -1, -1, VT_INIT_KAIMING),
    LIN(mod, "mod", -3, -1, VT_INIT_NORMAL),
    LIN(up, "ff.up", -2, -1, VT_INIT_KAIMING),
    LIN(down, "ff.down", -1, -2, VT_INIT_KAIMING),
    { "norm.weight", VT_W_TENSOR, offsetof(em_layer, norm_w), { -1 }, VT_INIT_ONE },
    { "norm.bias", VT_W_TENSOR, offsetof(em_layer, norm_b), { -1 }, VT_INIT_ZERO },
    { 0 }
};
static const vt_weight model_table[] = {
    { "in", VT_W_LINEAR_NO_BIAS, offsetof(em_model, in), { -1, 7 }, VT_INIT_KAIMING },
    { "head", VT_W_LINEAR, offsetof(em_model, head), { 7, -1 }, VT_INIT_KAIMING },
    { 0 }
};
static const int64_t sizes[] = { 0, WIDTH, 4 * WIDTH, 3 * WIDTH };

static vt_tensor *heads(vt_ctx *g, vt_tensor *x)
{
    return vt_reshape(g, x, 4, (int64_t[]){ BATCH, -1, HEADS, WIDTH / HEADS });
}

/* in: video [B,N,D], text [B,L,D], time [B,1,D]; out: video and text of the same shapes */
static void run_layer(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out)
{
    const em_layer *w = arg;
    vt_tensor *e[3], *y[2], *x;

    vt_chunk(g, vt_linear(g, vt_silu(g, in[2]), &w->mod), -1, 3, e);
    for (int i = 0; i < 2; i++)
        y[i] = vt_layer_norm_modulate(g, in[i], w->norm_w, w->norm_b, e[0], e[1], 1e-5f);
    x = vt_concat(g, 1, 2, (vt_tensor *[]){ y[1], y[0] });
    x = vt_attention(g, heads(g, vt_linear(g, x, &w->q)), heads(g, vt_linear(g, x, &w->k)),
                     heads(g, vt_linear(g, x, &w->v)), NULL);
    x = vt_linear(g, vt_reshape(g, x, 3, (int64_t[]){ BATCH, -1, WIDTH }), &w->out);
    x = vt_feed_forward(g, x, &w->up, &w->down);
    out[0] = vt_gated_add(g, in[0], vt_slice(g, x, 1, TEXT, TEXT + TOKENS), e[2]);
    out[1] = vt_add(g, in[1], vt_slice(g, x, 1, 0, TEXT));
}

void em_open(em_model *m, vt_ctx *g, uint64_t seed)
{
    em_open_from(m, g, &(vt_source){ .seed = seed });
}

void em_open_from(em_model *m, vt_ctx *g, const vt_source *src)
{
    vc_err err = { 0 };
    int rc;

    *m = (em_model){ 0 };
    rc = vt_params_open(&m->p, g, &err);
    if (!rc)
        rc = vt_params_bind(m->p, model_table, "", 0, m, sizes, src, &err);
    for (int i = 0; i < LAYERS && !rc; i++) {
        rc = vt_params_bind(m->p, layer_table, "blocks.%d.", i, &m->layer[i], sizes, src, &err);
        m->block[i] = (vt_block){ run_layer, &m->layer[i], 3, 2, i };
    }
    assert_ok(rc, &err);
}

const float *em_data(size_t n)
{
    static float z[8192];

    assert_between(n, 1, 8192);
    for (size_t i = 0; i < n; i++)
        z[i] = sinf(0.7f * (float)i) + 0.3f * cosf(0.113f * (float)i);
    return z;
}

vt_tensor *em_input(vt_ctx *g, int nd, const int64_t *dim)
{
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    return vt_from_host(g, vt_compute(g), nd, dim, em_data(n), VC_F32);
}

vt_tensor *em_loss(vt_ctx *g, em_model *m, vt_remat how, int layers)
{
    vt_tensor *x[3];

    x[0] = vt_linear(g, em_input(g, 3, (int64_t[]){ BATCH, TOKENS, 7 }), &m->in);
    x[1] = em_input(g, 3, (int64_t[]){ BATCH, TEXT, WIDTH });
    x[2] = vt_reshape(g, vt_timestep(g, vt_from_host(g, VC_F32, 1, (int64_t[]){ BATCH },
                                                     (float[]){ 3, 700 }, VC_F32), WIDTH, 1e4f),
                      3, (int64_t[]){ BATCH, 1, WIDTH });
    vt_scope s = vt_scope_begin(g);
    for (int i = 0; i < layers; i++) {
        vt_run_block(g, &m->block[i % LAYERS], how, x, x);
        vt_scope_end(g, s, 2, x);
    }
    vt_tensor *v = vt_linear(g, x[0], &m->head);
    return vt_mse(g, v, em_input(g, 3, (int64_t[]){ BATCH, TOKENS, 7 }), NULL);
}

float em_step(vt_ctx *g, em_model *m, vt_remat how, int flags)
{
    vc_err err = { 0 };

    vt_step_begin(g, VT_RECORD | flags);
    vt_tensor *loss = em_loss(g, m, how, LAYERS);
    vt_backward(g, loss);
    float l = vt_item(g, loss);
    assert_ok(vt_step_end(g, &err), &err);
    return l;
}

vt_ctx *em_context_of(vc_dtype compute, int threads, size_t limit)
{
    vt_options o = { .device = "cpu", .threads = threads, .compute = compute,
                     .pool_limit = limit };
    vt_ctx *g;
    vc_err err = { 0 };

    assert_ok(vt_open(&g, &o, &err), &err);
    return g;
}

vt_ctx *em_context(vc_dtype compute)
{
    return em_context_of(compute, 2, 64 << 20);
}

float *em_gradients(em_model *m, size_t *n)
{
    float *v = NULL;

    *n = 0;
    vt_params_settle(m->p);
    for (int i = 0; i < vt_params_count(m->p); i++) {
        const vt_tensor *d = vt_params_at(m->p, i)->grad;
        if (!d)
            continue;
        size_t c = (size_t)vt_count(d);
        v = realloc(v, (*n + c) * sizeof *v);
        memcpy(v + *n, d->data, c * sizeof *v);
        *n += c;
    }
    return v;
}
