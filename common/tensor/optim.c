/* optim.c - gradients' sums, AdamW, moving averages over trained parameters. See weights.h */
#include <math.h>
#include <stdlib.h>

#include "common/tensor/engine.h"
#include "common/tensor/params.h"

void vt_params_zero_grad(vt_params *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->grad)
            p->at[i]->grad->buf->empty = true;
}

void vt_params_settle(vt_params *p)
{
    for (int i = 0; i < p->n; i++) {
        vt_tensor *d = p->at[i]->grad;
        if (!d || !d->buf->empty)
            continue;
        p->g->be->fill(p->g->dev, d, 0.0f);
        vt_wrote(d);
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

int vt_adamw_open(vt_adamw_state *s, vt_params *p, vc_err *err)
{
    int n = count_trained(p);

    *s = (vt_adamw_state){ .m = calloc((size_t)n + 1, sizeof *s->m),
                           .v = calloc((size_t)n + 1, sizeof *s->v) };
    int rc = s->m && s->v ? 0 : vc_fail(err, VC_ENOMEM, "out of memory");
    for (int i = 0; i < p->n && !rc; i++) {
        const vt_tensor *t = p->at[i]->t;
        if (!p->at[i]->trained)
            continue;
        int k = s->n++;
        s->m[k] = vt_param_new(p->g, VC_F32, t->nd, t->dim, NULL, VC_F32, false, err);
        if (s->m[k])
            s->v[k] = vt_param_new(p->g, VC_F32, t->nd, t->dim, NULL, VC_F32, false, err);
        rc = s->v[k] ? 0 : VC_ENOMEM;
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
    }
    free(s->m);
    free(s->v);
    *s = (vt_adamw_state){ 0 };
}

void vt_adamw_step(vt_params *p, vt_adamw_state *s, const vt_adamw *o)
{
    vt_adamw_args a = {
        .lr = (float)o->lr, .beta1 = (float)o->beta1, .beta2 = (float)o->beta2,
        .eps = (float)o->eps, .weight_decay = (float)o->weight_decay,
        .grad_scale = (float)o->grad_scale,
        .correct1 = (float)(1.0 - pow(o->beta1, (double)o->step)),
        .correct2 = (float)sqrt(1.0 - pow(o->beta2, (double)o->step)),
    };

    vt_params_settle(p);
    for (int i = 0, k = 0; i < p->n; i++) {
        vt_param *w = p->at[i];
        if (!w->trained)
            continue;
        p->g->be->adamw(p->g->dev, w->t, s->m[k], s->v[k], w->grad, &a);
        k++;
    }
}

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
        p->g->be->copy(p->g->dev, ema[k++], t);
    }
    *out = ema;
    return 0;
}

void vt_ema_update(vt_tensor **ema, vt_params *p, double decay)
{
    for (int i = 0, k = 0; i < p->n; i++)
        if (p->at[i]->trained)
            p->g->be->ema(p->g->dev, ema[k++], p->at[i]->t, (float)decay);
}

/* Both are private f32 memory of one size: the pointers change places. */
void vt_ema_swap(vt_tensor **ema, vt_params *p)
{
    for (int i = 0, k = 0; i < p->n; i++) {
        if (!p->at[i]->trained)
            continue;
        void *data = p->at[i]->t->data;
        p->at[i]->t->data = ema[k]->data;
        ema[k++]->data = data;
    }
}

void vt_ema_close(vt_tensor **ema, vt_params *p)
{
    for (int k = 0; ema && ema[k]; k++)
        vt_param_free(p->g, ema[k]);
    free(ema);
}
