/* host_update.c - see host_update.h */
#include "common/tensor/host_update.h"

#include <stdlib.h>

#include "common/tensor/engine.h"
#include "common/tensor/host_grads.h"

enum { POOL = 1 << 20 };                       /* kernels of updates take nothing of it */

typedef struct copy {
    vt_tensor *w;                              /* vt_param_hosted; NULL: the parameter is frozen */
    unsigned of;                               /* vt_param_changes of the values that it has */
    bool is;                                   /* it has values */
} copy;

struct vt_host_update {
    vt_ctx *g, *cpu;
    vt_params *p;
    copy *of;                                  /* [params] */
    vt_tensor grad;                            /* of a parameter outside of blocks */
    float *staged;                             /* its values; pinned */
    size_t bytes;
};

static size_t bytes_of(const vt_tensor *t)
{
    return vc_dtype_bytes(t->dtype, (size_t)vt_count(t));
}

static int make(vt_host_update *h, int threads, vc_err *err)
{
    vt_ctx *g = h->g;
    size_t staged = 0;
    const vt_options o = { .device = "cpu", .threads = threads, .pool_limit = POOL };
    int rc = vt_open(&h->cpu, &o, err);

    h->of = calloc((size_t)h->p->n + 1, sizeof *h->of);
    if (rc || !h->of)
        return rc ? rc : vc_no_memory(err);
    for (int i = 0; i < h->p->n; i++) {
        const vt_param *w = h->p->at[i];
        const size_t n = w->trained ? (size_t)vt_count(w->t) * sizeof(float) : 0;
        if (!w->trained)
            continue;
        h->of[i].w = vt_param_hosted(g, w->t->dtype, w->t->nd, w->t->dim, err);
        if (!h->of[i].w)
            return vc_context(err, VC_ENOMEM, "%s, on the host", w->name);
        h->bytes += bytes_of(w->t);
        staged = n > staged && !vt_host_grads_of(h->p->host_grads, w) ? n : staged;
    }
    h->bytes += staged;
    h->staged = staged && !g->sizes_only ? g->be->pin(g->dev, staged) : NULL;
    return !staged || g->sizes_only || h->staged ? 0 : vc_no_memory(err);
}

int vt_host_update_open(vt_host_update **out, vt_params *p, int threads, vc_err *err)
{
    vt_host_update *h = *out = calloc(1, sizeof *h);

    if (!h)
        return vc_no_memory(err);
    *h = (vt_host_update){ .g = p->g, .p = p };
    return make(h, threads, err);
}

void vt_host_update_close(vt_host_update *h)
{
    if (!h)
        return;
    for (int i = 0; h->of && i < h->p->n; i++)
        vt_param_free(h->g, h->of[i].w);
    if (h->staged)
        h->g->be->unpin(h->g->dev, h->staged);
    vt_close(h->cpu);
    free(h->of);
    free(h);
}

size_t vt_host_update_bytes(const vt_host_update *h) { return h ? h->bytes : 0; }
vt_ctx *vt_host_update_context(vt_host_update *h) { return h->cpu; }

void vt_host_update_begin(vt_host_update *h)
{
    vt_host_grads_arrive(h->p->host_grads);
    h->g->be->leave(h->g->dev, VT_PLACE_STATE);
}

void vt_host_update_enter(vt_host_update *h, int i, vt_tensor **w, const vt_tensor **grad)
{
    const vt_param *p = h->p->at[i];
    const vt_tensor *there = vt_host_grads_of(h->p->host_grads, p);
    copy *c = &h->of[i];

    c->w->data = vt_param_host_memory(h->g, c->w);
    if (!c->is || c->of != vt_param_changes(p->t))
        h->g->be->download(h->g->dev, c->w->data, p->t->data, bytes_of(p->t));
    if (!there) {
        h->grad = *p->grad;
        h->grad.data = h->staged;
        h->g->be->download(h->g->dev, h->staged, p->grad->data, bytes_of(p->grad));
    }
    *w = c->w;
    *grad = there ? there : &h->grad;
}

void vt_host_update_leave(vt_host_update *h, int i)
{
    vt_tensor *t = h->p->at[i]->t;
    copy *c = &h->of[i];

    h->g->be->move(h->g->dev, VT_PLACE_STATE, t->data, c->w->data, bytes_of(t));
    c->w->data = NULL;
    vt_param_changed(t);
    c->of = vt_param_changes(t);
    c->is = true;
}

void vt_host_update_end(vt_host_update *h)
{
    h->g->be->enter(h->g->dev, VT_PLACE_STATE);
}
