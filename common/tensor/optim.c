/* optim.c - gradients and moving averages of trained parameters, see weights.h; a rule's run on a
 * part of a parameter, see optimizer.h */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/os/spill.h"
#include "common/tensor/engine.h"
#include "common/tensor/host_grads.h"
#include "common/tensor/host_update.h"
#include "common/tensor/optimizer.h"
#include "common/tensor/params.h"

void vt_params_zero_grad(vt_params *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->at[i]->grad) {
            p->at[i]->grad->buf->empty = true;
            p->at[i]->grad->buf->unreached = false;
        }
    if (p->host_grads)
        vt_host_grads_reset(p->host_grads);
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
        if (p->host_grads && p->at[i]->block >= 0)
            vt_host_grads_need(p->host_grads, p->at[i]->block);
        p->g->be->fill(p->g->dev, d, 0.0f);
        vt_wrote(d);
        d->buf->unreached = true;
    }
}

void vt_squares_add(vt_squares *s, const vt_tensor *x)
{
    if (s->n == VT_SQUARES)
        vt_squares_sum(s);
    s->x[s->n++] = x;
}

double vt_squares_sum(vt_squares *s)
{
    double sums[VT_SQUARES];

    if (s->n)
        s->g->be->sumsq(s->g->dev, sums, s->x, s->n);
    for (int i = 0; i < s->n; i++)
        s->sum += sums[i];
    s->n = 0;
    return s->sum;
}

/* The same of gradients that are on the host, where it updates; the others are on the device. */
static double norm_there(vt_params *p)
{
    vt_squares s = { .g = p->g }, there = { .g = vt_host_update_context(p->host_update) };

    vt_host_update_finish(p->host_update);
    vt_host_grads_arrive(p->host_grads);
    for (int i = 0; i < p->n; i++) {
        if (!p->at[i]->trained || !vt_param_reached(p->at[i]))
            continue;
        const vt_tensor *d = vt_host_grads_of(p->host_grads, p->at[i]);
        vt_squares_add(d ? &there : &s, d ? d : p->at[i]->grad);
    }
    return sqrt(vt_squares_sum(&s) + vt_squares_sum(&there));
}

double vt_params_grad_norm(vt_params *p)
{
    vt_squares s = { .g = p->g };
    int block = -1;

    vt_params_settle(p);
    if (p->host_update)
        return norm_there(p);
    for (int i = 0; i < p->n; i++) {
        if (!p->at[i]->trained)
            continue;
        if (p->host_grads && p->at[i]->block != block) {
            vt_squares_sum(&s);                /* of other blocks, whose row may be taken */
            block = p->at[i]->block;
            vt_host_grads_need(p->host_grads, block);
        }
        vt_squares_add(&s, p->at[i]->grad);
    }
    return sqrt(vt_squares_sum(&s));
}

int vt_params_trained(const vt_params *p)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        n += p->at[i]->trained;
    return n;
}

/* ---- moving averages ---- */

size_t vt_ema_spill_bytes(const vt_params *p)
{
    size_t bytes = 0;

    for (int i = 0; i < p->n; i++)
        if (p->at[i]->trained)
            bytes += vc_spill_room((size_t)vt_count(p->at[i]->t) * sizeof(float));
    return bytes;
}

int vt_ema_open(vt_tensor ***out, vt_params *p, vc_spill *spill, vc_err *err)
{
    vt_tensor **ema = calloc((size_t)vt_params_trained(p) + 1, sizeof *ema);

    *out = NULL;
    if (!ema)
        return vc_fail(err, VC_ENOMEM, "moving averages: out of memory");
    VT_EACH_PART(p->g, finish, p->g);
    for (int i = 0, k = 0; i < p->n; i++) {
        const vt_tensor *t = p->at[i]->t;
        if (!p->at[i]->trained)
            continue;
        ema[k] = vt_param_spilled(p->g, spill, VC_F32, t->nd, t->dim, err);
        if (!ema[k]) {
            vt_ema_close(ema, p);
            return vc_context(err, VC_ENOMEM, "moving averages");
        }
        if (!p->g->sizes_only)
            p->g->be->copy(p->g->dev, ema[k], t);
        vt_param_rest(spill, ema[k++]);
    }
    *out = ema;
    return 0;
}

void vt_ema_values(vt_ctx *g, vt_tensor *ema, const vt_tensor *w, double decay)
{
    g->be->ema(g->dev, ema, w, (float)decay);
}

void vt_ema_update(vt_tensor **ema, vt_params *p, vc_spill *spill, double decay)
{
    VT_EACH_PART(p->g, finish, p->g);
    for (int i = 0, k = 0; i < p->n; i++) {
        if (!p->at[i]->trained)
            continue;
        if (ema[k + 1])
            vt_param_want(spill, ema[k + 1]);
        vt_ema_values(p->g, ema[k], p->at[i]->t, decay);
        vt_param_rest(spill, ema[k++]);
    }
}

/* Values and averages are private memory of one shape, so their pointers and types are swapped. */
void vt_ema_swap(vt_tensor **ema, vt_params *p)
{
    VT_EACH_PART(p->g, finish, p->g);
    for (int i = 0, k = 0; i < p->n; i++) {
        if (!p->at[i]->trained)
            continue;
        vt_tensor *t = p->at[i]->t, *e = ema[k++], old = *t;
        vt_param_changed(p->at[i]->t);
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

/* ---- a part of a step ---- */

vt_update_args vt_opt_update_args(const vt_opt_part *x, const vt_opt_step *o)
{
    uint64_t key = XXH3_64bits_withSeed(x->name, strlen(x->name), o->seed);

    return (vt_update_args){
        .lr = (float)o->lr, .beta1 = (float)o->beta1, .beta2 = (float)o->beta2,
        .eps = (float)o->eps, .weight_decay = (float)o->weight_decay,
        .grad_scale = (float)o->grad_scale,
        .correct1 = (float)(1.0 - pow(o->beta1, (double)o->step)),
        .correct2 = (float)sqrt(1.0 - pow(o->beta2, (double)o->step)),
        .step = (uint32_t)o->step, .key = { (uint32_t)key, (uint32_t)(key >> 32) },
        .first = x->first,
    };
}

void vt_opt_update(vt_ctx *g, const vt_opt_part *x, const vt_update_args *a)
{
    vt_tensor *state[VF_STATES];

    memcpy(state, x->state, sizeof state);
    g->be->update(g->dev, x->w, state, NULL, x->grad, a);
}

double vt_opt_length(vt_ctx *g, const vt_tensor *x)
{
    vt_squares s = { .g = g };

    vt_squares_add(&s, x);
    return sqrt(vt_squares_sum(&s));
}
