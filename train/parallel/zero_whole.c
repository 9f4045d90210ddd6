/* zero_whole.c - the split state is gathered, and read from a checkpoint; see zero.h */
#include "train/parallel/zero_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

/* ---- whole state ---- */

/* The destination of the parameters' whole state of one kind. */
typedef struct whole {
    const vtrain_zero *z;
    const unit *u;
    state_kind what;
    vt_tensor **to;              /* one for each trained parameter, in their order */
} whole;

static vt_tensor *of_param(const whole *w, const vt_param *p)
{
    for (int i = 0, k = 0; i < vt_params_count(w->z->p); i++) {
        const vt_param *x = vt_params_at(w->z->p, i);
        if (x == p)
            return w->to[k];
        k += x->trained;
    }
    return NULL;
}

static void keep_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    const whole *w = arg;
    const vtrain_zero *z = w->z;
    vc_dtype type = vtrain_zero_type_of(z, w->u, w->what);
    size_t size = vc_dtype_size(type);
    const place s = vtrain_zero_place_of(z, w->u, w->what, p, from, n, at);
    vt_tensor *to = of_param(w, p);
    const char *row = (const char *)z->row + s.at * size;
    if (z->host && w->what != EMA)
        vt_values_get(z->g, (char *)vt_param_host_memory(z->g, to) + s.from * size, row,
                      s.n * size);
    else
        vt_values_cast(z->g, (char *)to->data + s.from * size, type, row, type, s.n);
}

/* Gathers the state of one kind into `to`; NULL: only sends this rank's shard. */
static int gather_kind(vtrain_zero *z, state_kind what, vt_tensor **to, vc_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        whole w = { z, u, what, to };
        if (!z->state[k][what])
            continue;
        if (what != EMA)
            vtrain_zero_fetch(z, k), vtrain_zero_arrive(z, k);
        rc = vtrain_gather_row(z->l, z->row, z->state[k][what]->data,
                               vtrain_zero_elements(z, u, what) *
                                   vc_dtype_size(vtrain_zero_type_of(z, u, what)), err);
        if (!rc && to)
            vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, keep_part, &w);
        if (what != EMA)
            vtrain_zero_give_back(z, k);
        vt_param_rest(z->spill, z->state[k][what]);
        for (int i = 0; to && i < u->n; i++)
            vt_param_rest(z->gathered, of_param(&w, u->param[i]));
    }
    vtrain_zero_all_back(z);
    return rc;
}

int vtrain_zero_gather(vtrain_zero *z, bool keep, vt_opt_state *state, vt_tensor ***ema,
                       vc_err *err)
{
    if (!z->ema)
        ema = NULL;
    if (z->gathered)
        vc_spill_take_back(z->gathered, SIZE_MAX);
    int rc = keep && state ? vt_opt_open(state, z->p, z->l->how,
                                         &(vt_opt_home){ .spill = z->gathered,
                                                          .host = z->host }, err) : 0;
    if (!rc && keep && ema)
        rc = vt_ema_open(ema, z->p, z->gathered, err);
    rc = vc_comm_agree(z->l->all, rc, err);
    for (state_kind i = 0; !rc && state && i < VT_OPT_STATES; i++)
        rc = gather_kind(z, i, keep ? state->of[i] : NULL, err);
    if (!rc && ema)
        rc = gather_kind(z, EMA, keep ? *ema : NULL, err);
    return vc_context(err, rc, "optimizer state");
}

int vtrain_zero_gather_state(vtrain_zero *z, int k, vt_tensor ***to, vc_err *err)
{
    int rc = vc_comm_agree(z->l->all, vt_ema_open(to, z->p, NULL, err), err);
    return vc_context(err, rc ? rc : gather_kind(z, k, *to, err), "optimizer state");
}

/* ---- from a checkpoint ---- */

typedef struct reading {
    const vtrain_zero *z;
    const vf_safetensors *file;
    const unit *u;
    state_kind what;
    char *to;                    /* the unit's shard of that kind */
    int rc;
    vc_err *err;
} reading;

static int shape_of(const reading *r, const vt_param *p, int64_t dim[VT_DIMS])
{
    if (r->what != EMA)
        return vt_opt_shape(vtrain_zero_row_of(r->z, r->u), r->what, p->t, dim);
    memcpy(dim, p->t->dim, sizeof p->t->dim);
    return p->t->nd;
}

static int get(reading *r, const vt_param *p, vf_view *v)
{
    char *name = vc_format("%s/%s", vtrain_zero_name_of(r->z, r->u, r->what), p->name);
    if (!name)
        return vc_fail(r->err, VC_ENOMEM, "out of memory");
    int rc = vf_safetensors_get(r->file, name, v, r->err);
    int64_t dim[VT_DIMS];
    bool same = !rc && v->nd == shape_of(r, p, dim);
    for (int i = 0; same && i < v->nd; i++)
        same = v->dim[i] == dim[i];
    const bool bytes = vtrain_zero_type_of(r->z, r->u, r->what) == VC_U8;
    if (!rc && (!same || (v->dtype == VC_U8) != bytes))
        rc = vc_fail(r->err, VC_EMISMATCH, "tensor \"%s\": another shape or type than the model's",
                     name);
    free(name);
    return rc;
}

static void read_state(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    reading *r = arg;
    vf_view v;
    if (!r->rc)
        r->rc = get(r, p, &v);
    if (r->rc)
        return;
    vc_dtype type = vtrain_zero_type_of(r->z, r->u, r->what);
    const place s = vtrain_zero_place_of(r->z, r->u, r->what, p, from, n, at);
    vt_values_put(r->z->g, r->to + s.at * vc_dtype_size(type), type,
                  (const char *)v.data + s.from * vc_dtype_size(v.dtype), v.dtype, s.n);
}

int vtrain_zero_read(vtrain_zero *z, const vf_safetensors *file, bool averages, vc_err *err)
{
    reading r = { .z = z, .file = file, .err = err };
    if (!averages)
        vtrain_zero_begin_as_values(z, EMA);
    for (int k = 0; k < z->l->n; k++) {
        r.u = &z->l->unit[k];
        vtrain_zero_fetch(z, k), vtrain_zero_arrive(z, k);
        for (r.what = 0; !r.rc && r.what < KINDS; r.what++) {
            if (!z->state[k][r.what] || (r.what == EMA && !averages))
                continue;
            r.to = z->state[k][r.what]->data;
            vtrain_each_part(r.u, vtrain_zero_first_of(z, r.u), r.u->shard, read_state, &r);
        }
        vtrain_zero_give_back(z, k);
        vtrain_zero_move_unit(z, k, vt_param_rest);
    }
    vtrain_zero_all_back(z);
    return r.rc;
}
