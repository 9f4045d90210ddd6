/* zero.c - see zero.h */
#include "train/zero.h"

#include <math.h>
#include <stdlib.h>

#include "common/file.h"
#include "train/dist_parts.h"

typedef vtrain_unit unit;

typedef enum { M, V, EMA, KINDS } kind;

static const char *const prefix[KINDS] = { "m/", "v/", "ema/" };

struct vtrain_zero {
    vtrain_layout *l;
    vt_ctx *g;
    vt_params *p;
    int kinds;                   /* KINDS, or EMA: without averages */
    vt_tensor *(*state)[KINDS];  /* [units] shards; NULL where a unit is empty */
    vt_tensor *values;           /* room for a shard of values */
    float *row;                  /* room for a whole row */
    size_t row_values, bytes;
};

/* ---- rows and shards ---- */

static size_t first_of(const vtrain_zero *z, const unit *u)
{
    return (size_t)z->l->shard * u->shard;
}

/* This rank's part of the unit's values, as a tensor that is good until the next call. */
static vt_tensor *own_values(vtrain_zero *z, const unit *u)
{
    vt_tensor *w = z->values;
    if (u->value) return u->value;
    w->dim[0] = (int64_t)u->shard;
    vt_values_zero(z->g, w->data, u->shard);
    vtrain_each_part(u, first_of(z, u), u->shard, vtrain_read_part,
                     &(vtrain_row){ z->g, w->data });
    return w;
}

/* ---- open, close ---- */

static vt_tensor *new_shard(vtrain_zero *z, size_t values, vc_err *err)
{
    const int64_t dim = (int64_t)values;
    z->bytes += values * sizeof(float);
    return vt_param_new(z->g, VC_F32, 1, &dim, NULL, VC_F32, false, err);
}

static int make_state(vtrain_zero *z, vc_err *err)
{
    size_t most = 1;
    int rc = 0;
    z->state = calloc((size_t)z->l->n, sizeof *z->state);
    if (!z->state) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (u->shard > most) most = u->shard;
        for (int i = 0; !rc && u->n && i < z->kinds; i++)
            if (!(z->state[k][i] = new_shard(z, u->shard, err))) rc = VC_ENOMEM;
    }
    if (!rc && !(z->values = new_shard(z, most, err))) rc = VC_ENOMEM;
    z->row_values = most * (size_t)z->l->shards;
    z->bytes += z->row_values * sizeof *z->row;
    if (!rc && !(z->row = vt_values_new(z->g, z->row_values, err))) rc = VC_ENOMEM;
    for (int k = 0; !rc && z->kinds == KINDS && k < z->l->n; k++)
        if (z->state[k][EMA])
            vt_values_copy(z->g, z->state[k][EMA]->data, own_values(z, &z->l->unit[k])->data,
                           z->l->unit[k].shard);
    return vc_context(err, rc, "optimizer state");
}

int vtrain_zero_open(vtrain_zero **out, vtrain_dist *d, vt_ctx *g, vt_params *p, bool ema,
                     vc_err *err)
{
    *out = NULL;
    vtrain_zero *z = calloc(1, sizeof *z);
    if (!z) return vc_fail(err, VC_ENOMEM, "out of memory");
    *z = (vtrain_zero){ .l = vtrain_dist_layout(d), .g = g, .p = p, .kinds = ema ? KINDS : EMA };
    int rc = make_state(z, err);
    if (rc) {
        vtrain_zero_close(z);
        return rc;
    }
    *out = z;
    return 0;
}

void vtrain_zero_close(vtrain_zero *z)
{
    if (!z) return;
    for (int k = 0; z->state && k < z->l->n; k++)
        for (int i = 0; i < KINDS; i++)
            vt_param_free(z->g, z->state[k][i]);
    vt_param_free(z->g, z->values);
    free(z->state);
    vt_values_free(z->g, z->row, z->row_values);
    free(z);
}

size_t vtrain_zero_bytes(const vtrain_zero *z)
{
    return z ? z->bytes : 0;
}

/* ---- a step ---- */

int vtrain_zero_norm(vtrain_zero *z, double *norm, vc_err *err)
{
    double sum = 0;
    for (int k = 0; k < z->l->n; k++)
        if (z->l->unit[k].n) sum += vt_sum_of_squares(z->g, z->l->unit[k].grad);
    int rc = vc_comm_reduce(z->l->group, &sum, 1, VC_COMM_SUM, err);
    *norm = sqrt(sum);
    return rc;
}

int vtrain_zero_step(vtrain_zero *z, const vt_adamw *o, vc_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (u->n == 0) continue;
        vt_tensor *w = own_values(z, u);
        vt_adamw_values(z->g, w, z->state[k][M], z->state[k][V], u->grad, o);
        if (u->value) continue;      /* gathered when its block is entered */
        rc = vtrain_gather_row(z->l, u, z->row, w->data, err);
        if (!rc)
            vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, vtrain_write_part,
                             &(vtrain_row){ z->g, z->row });
    }
    return vc_context(err, rc, "update");
}

void vtrain_zero_ema(vtrain_zero *z, double decay)
{
    for (int k = 0; z->kinds == KINDS && k < z->l->n; k++)
        if (z->state[k][EMA])
            vt_ema_values(z->g, z->state[k][EMA], own_values(z, &z->l->unit[k]), decay);
}

/* ---- whole state ---- */

/* Where a parameter's whole state goes: the n-th trained one's. */
typedef struct whole {
    const vtrain_zero *z;
    vt_tensor **to;              /* in trained order */
} whole;

static vt_tensor *of_param(const whole *w, const vt_param *p)
{
    for (int i = 0, k = 0; i < vt_params_count(w->z->p); i++) {
        const vt_param *x = vt_params_at(w->z->p, i);
        if (x == p) return w->to[k];
        k += x->trained;
    }
    return NULL;
}

static void keep_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    const whole *w = arg;
    vt_values_copy(w->z->g, (float *)of_param(w, p)->data + from, w->z->row + at, n);
}

/* All of one kind into `to`, NULL: only gives. */
static int gather_kind(vtrain_zero *z, kind what, vt_tensor **to, vc_err *err)
{
    whole w = { z, to };
    int rc = 0;
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (u->n == 0) continue;
        rc = vtrain_gather_row(z->l, u, z->row, z->state[k][what]->data, err);
        if (!rc && to) vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, keep_part, &w);
    }
    return rc;
}

int vtrain_zero_gather(vtrain_zero *z, bool keep, vt_adamw_state *adam, vt_tensor ***ema,
                       vc_err *err)
{
    if (z->kinds < KINDS) ema = NULL;
    int rc = keep && adam ? vt_adamw_open(adam, z->p, VT_ADAMW_F32, err) : 0;
    if (!rc && keep && ema) rc = vt_ema_open(ema, z->p, err);
    rc = vc_comm_agree(z->l->all, rc, err);
    if (!rc && adam) rc = gather_kind(z, M, keep ? adam->m : NULL, err);
    if (!rc && adam) rc = gather_kind(z, V, keep ? adam->v : NULL, err);
    if (!rc && ema) rc = gather_kind(z, EMA, keep ? *ema : NULL, err);
    return vc_context(err, rc, "optimizer state");
}

/* ---- from a checkpoint ---- */

typedef struct reading {
    vt_ctx *g;
    const vf_safetensors *file;
    const char *prefix;
    float *to;
    int rc;
    vc_err *err;
} reading;

static int get(reading *r, const vt_param *p, vf_view *v)
{
    char *name = vc_format("%s%s", r->prefix, p->name);
    if (!name) return vc_fail(r->err, VC_ENOMEM, "out of memory");
    int rc = vf_safetensors_get(r->file, name, v, r->err);
    bool same = !rc && v->nd == p->t->nd;
    for (int i = 0; same && i < v->nd; i++)
        same = v->dim[i] == p->t->dim[i];
    if (!rc && !same)
        rc = vc_fail(r->err, VC_EMISMATCH, "tensor \"%s\": another shape than the model's", name);
    free(name);
    return rc;
}

static void read_state(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    reading *r = arg;
    vf_view v;
    if (!r->rc) r->rc = get(r, p, &v);
    if (r->rc) return;
    vt_values_put(r->g, r->to + at, (const char *)v.data + from * vc_dtype_size(v.dtype), v.dtype,
                  n);
}

int vtrain_zero_read(vtrain_zero *z, const vf_safetensors *file, vc_err *err)
{
    reading r = { .g = z->g, .file = file, .err = err };
    for (int k = 0; k < z->l->n; k++)
        for (int i = 0; !r.rc && i < z->kinds; i++) {
            const unit *u = &z->l->unit[k];
            if (u->n == 0) continue;
            r.prefix = prefix[i];
            r.to = z->state[k][i]->data;
            vtrain_each_part(u, first_of(z, u), u->shard, read_state, &r);
        }
    return r.rc;
}
