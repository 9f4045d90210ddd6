/* optim.c - gradient norm, AdamW and moving averages of trained parameters; see weights.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/kernels/moments.h"
#include "common/tensor/engine.h"
#include "common/tensor/params.h"

_Static_assert((int)VT_ADAMW_BLOCK == (int)VK_MOMENT_BLOCK, "who splits moments knows the block");

void vt_params_zero_grad(vt_params *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->grad) {
            p->at[i]->grad->buf->empty = true;
            p->at[i]->grad->buf->unreached = false;
        }
}

bool vt_param_reached(const vt_param *p)
{
    return p->grad && !p->grad->buf->unreached;
}

void vt_param_reach(const vt_param *p)
{
    p->grad->buf->unreached = false;
}

void vt_params_settle(vt_params *p)
{
    for (int i = 0; i < p->n; i++) {
        vt_tensor *d = p->at[i]->grad;
        if (!d || !d->buf->empty)
            continue;
        p->g->be->fill(p->g->dev, d, 0.0f);
        vt_wrote(d);
        d->buf->unreached = true;
    }
}

double vt_params_grad_norm(vt_params *p)
{
    double sum = 0;

    vt_params_settle(p);
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->trained)
            sum += p->g->be->sumsq(p->g->dev, p->at[i]->grad);
    return sqrt(sum);
}

static int count_trained(const vt_params *p)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        n += p->at[i]->trained;
    return n;
}

/* ---- AdamW ---- */

static vt_tensor *zeros_like(vt_params *p, const vt_tensor *t, vc_dtype dtype, vc_err *err)
{
    return vt_param_new(p->g, dtype, t->nd, t->dim, NULL, dtype, false, err);
}

int vt_adamw_train(vt_params *p, vt_adamw_kind kind, vc_err *err)
{
    for (int i = 0; i < p->n && kind == VT_ADAMW_BF16; i++) {
        vt_param *w = p->at[i];
        bool small = vt_count(w->t) < VT_ADAMW_SMALL;
        int rc = w->trained && !small ? vt_param_train(p->g, w->t, VC_BF16, err) : 0;
        if (rc)
            return vc_context(err, rc, "%s", w->name);
    }
    return 0;
}

static int open_moments(vt_adamw_state *s, int k, vt_params *p, vt_tensor *t, vt_adamw_kind kind,
                        vc_err *err)
{
    int64_t blocks[] = { (int64_t)VK_MOMENT_BLOCKS(vt_count(t)), 2 };
    vc_dtype type = kind == VT_ADAMW_BF16 ? VC_BF16 : kind == VT_ADAMW_8BIT ? VC_U8 : VC_F32;

    s->m[k] = zeros_like(p, t, type, err);
    s->v[k] = s->m[k] ? zeros_like(p, t, type, err) : NULL;
    if (!s->v[k] || kind != VT_ADAMW_8BIT)
        return s->v[k] ? 0 : VC_ENOMEM;
    s->peak[k] = vt_param_new(p->g, VC_F32, 2, blocks, NULL, VC_F32, false, err);
    return s->peak[k] ? 0 : VC_ENOMEM;
}

int vt_adamw_open(vt_adamw_state *s, vt_params *p, vt_adamw_kind kind, vc_err *err)
{
    size_t n = (size_t)count_trained(p) + 1;

    *s = (vt_adamw_state){ .m = calloc(n, sizeof *s->m), .v = calloc(n, sizeof *s->v),
                           .peak = calloc(n, sizeof *s->peak) };
    int rc = s->m && s->v && s->peak ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vt_adamw_train(p, kind, err);
    for (int i = 0; i < p->n && !rc; i++) {
        vt_param *w = p->at[i];
        bool small = vt_count(w->t) < VT_ADAMW_SMALL;
        if (w->trained)
            rc = vc_context(err, open_moments(s, s->n++, p, w->t, small ? VT_ADAMW_F32 : kind, err),
                            "%s", w->name);
    }
    if (rc)
        vt_adamw_close(s, p);
    return vc_context(err, rc, "optimizer state");
}

void vt_adamw_close(vt_adamw_state *s, vt_params *p)
{
    for (int i = 0; i < s->n; i++) {
        vt_param_free(p->g, s->m[i]);
        vt_param_free(p->g, s->v[i]);
        vt_param_free(p->g, s->peak[i]);
    }
    free(s->m);
    free(s->v);
    free(s->peak);
    *s = (vt_adamw_state){ 0 };
}

size_t vt_adamw_bytes(const vt_adamw_state *s)
{
    size_t bytes = 0;

    for (int i = 0; i < s->n; i++) {
        bytes += 2 * (size_t)vt_count(s->m[i]) * vc_dtype_size(s->m[i]->dtype);
        if (s->peak[i])
            bytes += (size_t)vt_count(s->peak[i]) * sizeof(float);
    }
    return bytes;
}

void vt_adamw_update(vt_ctx *g, const vt_adamw_part *x, const vt_adamw *o)
{
    uint64_t key = XXH3_64bits_withSeed(x->name, strlen(x->name), o->seed);
    const vt_update_args a = {
        .rule = VF_ADAMW, .lr = (float)o->lr, .beta1 = (float)o->beta1, .beta2 = (float)o->beta2,
        .eps = (float)o->eps, .weight_decay = (float)o->weight_decay,
        .grad_scale = (float)o->grad_scale,
        .correct1 = (float)(1.0 - pow(o->beta1, (double)o->step)),
        .correct2 = (float)sqrt(1.0 - pow(o->beta2, (double)o->step)),
        .step = (uint32_t)o->step, .key = { (uint32_t)key, (uint32_t)(key >> 32) },
        .first = x->first,
    };

    g->be->update(g->dev, x->w, (vt_tensor *[]){ x->m, x->v }, x->peak, x->grad, &a);
}

vt_adamw vt_adamw_of(const vt_param *p, const vt_adamw *o)
{
    vt_adamw own = *o;

    own.step -= p->missed;
    if (p->rate) {
        own.lr = p->rate->lr;
        own.weight_decay = p->rate->weight_decay;
    }
    return own;
}

void vt_adamw_step(vt_params *p, vt_adamw_state *s, const vt_adamw *o)
{
    vt_params_settle(p);
    for (int i = 0, k = 0; i < p->n; i++) {
        vt_param *w = p->at[i];
        if (!w->trained)
            continue;
        const vt_adamw_part x = { w->name, 0, w->t, s->m[k], s->v[k], s->peak[k], w->grad };
        const vt_adamw own = vt_adamw_of(w, o);
        if (vt_param_reached(w))
            vt_adamw_update(p->g, &x, &own);
        k++;
    }
}

double vt_sum_of_squares(vt_ctx *g, const vt_tensor *x) { return g->be->sumsq(g->dev, x); }

/* ---- moving averages ---- */

int vt_ema_open(vt_tensor ***out, vt_params *p, vc_err *err)
{
    vt_tensor **ema = calloc((size_t)count_trained(p) + 1, sizeof *ema);

    *out = NULL;
    if (!ema)
        return vc_fail(err, VC_ENOMEM, "moving averages: out of memory");
    for (int i = 0, k = 0; i < p->n; i++) {
        const vt_tensor *t = p->at[i]->t;
        if (!p->at[i]->trained)
            continue;
        ema[k] = vt_param_new(p->g, VC_F32, t->nd, t->dim, NULL, VC_F32, false, err);
        if (!ema[k]) {
            vt_ema_close(ema, p);
            return vc_context(err, VC_ENOMEM, "moving averages");
        }
        if (!p->g->sizes_only)
            p->g->be->copy(p->g->dev, ema[k], t);
        k++;
    }
    *out = ema;
    return 0;
}

void vt_ema_values(vt_ctx *g, vt_tensor *ema, const vt_tensor *w, double decay)
{
    g->be->ema(g->dev, ema, w, (float)decay);
}

void vt_ema_update(vt_tensor **ema, vt_params *p, double decay)
{
    for (int i = 0, k = 0; i < p->n; i++)
        if (p->at[i]->trained)
            vt_ema_values(p->g, ema[k++], p->at[i]->t, decay);
}

/* Values and averages are private memory of one shape, so their pointers and types are swapped. */
void vt_ema_swap(vt_tensor **ema, vt_params *p)
{
    for (int i = 0, k = 0; i < p->n; i++) {
        if (!p->at[i]->trained)
            continue;
        vt_tensor *t = p->at[i]->t, *e = ema[k++], old = *t;
        t->data = e->data;
        t->dtype = e->dtype;
        e->data = old.data;
        e->dtype = old.dtype;
    }
}

void vt_ema_close(vt_tensor **ema, vt_params *p)
{
    for (int k = 0; ema && ema[k]; k++)
        vt_param_free(p->g, ema[k]);
    free(ema);
}
