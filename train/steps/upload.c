/* upload.c - see upload.h */
#include "train/steps/upload.h"

void vtrain_upload_texts(vt_ctx *g, vtrain_in *in, int n, const vtrain_text *text, int64_t rows)
{
    in->n_texts = n;
    for (int i = 0; i < n; i++) {
        const int64_t dim[3] = { rows, text[i].n, text[i].width };
        const int64_t pooled[2] = { rows, text[i].pooled_width };
        in->text[i] = (vtrain_cond){
            .embeds = text[i].n ? vt_from_host(g, VC_F32, 3, dim, text[i].embeds, VC_F32) : NULL,
            .length = text[i].length,
            .pooled = text[i].pooled_width
                          ? vt_from_host(g, VC_F32, 2, pooled, text[i].pooled, VC_F32) : NULL,
        };
    }
}

void vtrain_upload_cond(const vtrain *t, vtrain_in *in, const int64_t dim[5], unsigned roles,
                        const vtrain_own *own, float *const cond[VC_ROLES])
{
    for (int i = 0; i < VC_ROLES; i++) {
        int64_t of[5];
        int nd = vtrain_data_role_dim(t->data, (vc_role)i, dim, own, of);
        if (roles & 1u << i)
            in->cond[i] = vt_from_host(t->g, VC_F32, nd, of, cond[i], VC_F32);
    }
}

void vtrain_upload_guidance(const vtrain *t, vtrain_in *in, int64_t rows, double guidance)
{
    float v[VTRAIN_ROWS];
    if (!t->model.guidance)
        return;
    for (int64_t i = 0; i < rows; i++)
        v[i] = (float)guidance;
    in->guidance = vt_from_host(t->g, VC_F32, 1, &rows, v, VC_F32);
}

void vtrain_upload(vtrain *t, vtrain_tensors *p, const vtrain_batch *b, const vtrain_levels *v,
                   uint64_t seed, uint64_t number)
{
    vt_ctx *g = t->g;
    vtrain_noised_load(t, &p->n, b, v, seed, number);
    p->in.x = p->n.noisy;
    p->in.fps = b->fps;
    p->in.control_kind = b->control_kind;
    p->walk = &v->walk;
    vtrain_walk_load(t, &p->walk_times, b->dim[0], &v->walk);
    vtrain_times_load(t, &p->in, b->dim, v);
    vtrain_heard_load(t, &p->heard, &p->in, b, v, seed, number);
    vtrain_upload_guidance(t, &p->in, b->dim[0], t->cfg.embedded_guidance);
    vtrain_upload_texts(g, &p->in, b->n_texts, b->text, b->dim[0]);
    vtrain_upload_cond(t, &p->in, b->dim, b->roles, &b->own, b->cond);
    t->model.family->prepare(g, t->model.dit, &p->in);
}

/* ---- ahead ---- */

static vt_host_data floats(const float *v, int nd, const int64_t *dim)
{
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    return (vt_host_data){ v, n * sizeof *v };
}

void vtrain_upload_ahead(const vtrain *t, const vtrain_batch *b)
{
    vt_host_data d[4 + VC_ROLES + 2 * VTRAIN_TEXTS];
    int64_t of[5];
    int n = 0;
    d[n++] = floats(b->latents, 5, b->dim);
    if (b->sound_dim[1])
        d[n++] = floats(b->sound, 5, b->sound_dim);
    if (b->noise)
        d[n++] = floats(b->noise, 5, b->dim);
    vtrain_data_role_dim(t->data, VC_ROLE_LOSS_MASK, b->dim, NULL, of);
    if (b->weighted)
        d[n++] = floats(b->loss_weight, 5, of);
    for (int i = 0; i < VC_ROLES; i++) {
        int nd = vtrain_data_role_dim(t->data, (vc_role)i, b->dim, &b->own, of);
        if (b->roles & 1u << i)
            d[n++] = floats(b->cond[i], nd, of);
    }
    for (int i = 0; i < b->n_texts; i++) {
        const vtrain_text *x = &b->text[i];
        if (x->n)
            d[n++] = floats(x->embeds, 3, (int64_t[]){ b->dim[0], x->n, x->width });
        if (x->pooled_width)
            d[n++] = floats(x->pooled, 2, (int64_t[]){ b->dim[0], x->pooled_width });
    }
    vt_prefetch(t->g, n, d);
}
