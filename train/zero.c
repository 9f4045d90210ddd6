/* zero.c - see zero.h */
#include "train/zero.h"

#include <math.h>
#include <stdlib.h>

#include "common/file.h"
#include "train/dist_parts.h"

typedef vtrain_unit unit;

/* Of moments in eight bits M and V are codes, and small parameters have theirs in f32. */
typedef enum { M, V, EMA, PEAK, SMALL_M, SMALL_V, KINDS } kind;

static const char *const prefix[KINDS] = { "m/", "v/", "ema/", "peak/", "m/", "v/" };

struct vtrain_zero {
    vtrain_layout *l;
    vt_ctx *g;
    vt_params *p;
    vt_adamw_kind how;
    bool ema;                    /* there are averages */
    vt_tensor *(*state)[KINDS];  /* [units] shards; NULL where a unit has nothing of a kind */
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

/* ---- kinds ---- */

static vc_dtype type_of(const vtrain_zero *z, kind k)
{
    return z->how == VT_ADAMW_8BIT && (k == M || k == V) ? VC_U8 : VC_F32;
}

/* Elements of a kind for n values that begin with a block. */
static size_t elements(kind k, size_t n)
{
    return k == PEAK ? 2 * ((n + VT_ADAMW_BLOCK - 1) / VT_ADAMW_BLOCK) : n;
}

static size_t bytes_of(const vtrain_zero *z, kind k, size_t n)
{
    return elements(k, n) * vc_dtype_size(type_of(z, k));
}

/* Values of a unit's shard that have the kind: the first so many. */
static size_t covered(const vtrain_zero *z, const unit *u, kind k)
{
    if (k == EMA) return z->ema ? u->shard : 0;
    if (k == M || k == V) return u->shard;
    if (z->how != VT_ADAMW_8BIT) return 0;
    return k == PEAK || u->small > u->shard ? u->shard : u->small;
}

/* Whether the parameter's state has it. */
static bool has(const vtrain_zero *z, const vt_param *p, kind k)
{
    bool small = z->how == VT_ADAMW_8BIT && vt_count(p->t) < VT_ADAMW_SMALL;
    return k == EMA || (k == SMALL_M || k == SMALL_V) == small;
}

/* ---- open, close ---- */

static vt_tensor *new_shard(vtrain_zero *z, vc_dtype type, size_t n, vc_err *err)
{
    const int64_t dim = (int64_t)n;
    z->bytes += n * vc_dtype_size(type);
    return vt_param_new(z->g, type, 1, &dim, NULL, type, false, err);
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
        for (kind i = 0; !rc && u->n && i < KINDS; i++) {
            size_t n = elements(i, covered(z, u, i));
            if (n && !(z->state[k][i] = new_shard(z, type_of(z, i), n, err))) rc = VC_ENOMEM;
        }
    }
    if (!rc && !(z->values = new_shard(z, VC_F32, most, err))) rc = VC_ENOMEM;
    z->row_values = most * (size_t)z->l->shards;
    z->bytes += z->row_values * sizeof *z->row;
    if (!rc && !(z->row = vt_values_new(z->g, z->row_values, err))) rc = VC_ENOMEM;
    for (int k = 0; !rc && k < z->l->n; k++)
        if (z->state[k][EMA])
            vt_values_copy(z->g, z->state[k][EMA]->data, own_values(z, &z->l->unit[k])->data,
                           z->l->unit[k].shard);
    return vc_context(err, rc, "optimizer state");
}

int vtrain_zero_open(vtrain_zero **out, vtrain_dist *d, vt_ctx *g, vt_params *p, vt_adamw_kind how,
                     bool ema, vc_err *err)
{
    *out = NULL;
    vtrain_zero *z = calloc(1, sizeof *z);
    if (!z) return vc_fail(err, VC_ENOMEM, "out of memory");
    *z = (vtrain_zero){ .l = vtrain_dist_layout(d), .g = g, .p = p, .how = how, .ema = ema };
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

typedef struct update {
    vtrain_zero *z;
    vt_tensor *const *state;     /* the unit's */
    vt_tensor *w;
    const vt_tensor *grad;
    const vt_adamw *o;
} update;

/* What begins at value `at` of a shard's tensor; NULL: there is none. */
static vt_tensor *part_of(vt_tensor *out, const vt_tensor *x, kind k, size_t at, size_t n)
{
    if (!x) return NULL;
    *out = *x;
    out->data = (char *)x->data + elements(k, at) * vc_dtype_size(x->dtype);
    out->dim[0] = (int64_t)elements(k, n);
    return out;
}

static void update_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    const update *x = arg;
    bool small = has(x->z, p, SMALL_M);
    vt_tensor w, m, v, peak, grad;
    (void)from;
    vt_adamw_values(x->z->g, part_of(&w, x->w, M, at, n),
                    part_of(&m, x->state[small ? SMALL_M : M], M, at, n),
                    part_of(&v, x->state[small ? SMALL_V : V], V, at, n),
                    small ? NULL : part_of(&peak, x->state[PEAK], PEAK, at, n),
                    part_of(&grad, x->grad, M, at, n), x->o);
}

int vtrain_zero_step(vtrain_zero *z, const vt_adamw *o, vc_err *err)
{
    int rc = 0;
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (u->n == 0) continue;
        vt_tensor *w = own_values(z, u);
        if (z->how == VT_ADAMW_8BIT)
            vtrain_each_part(u, first_of(z, u), u->shard, update_part,
                             &(update){ z, z->state[k], w, u->grad, o });
        else
            vt_adamw_values(z->g, w, z->state[k][M], z->state[k][V], NULL, u->grad, o);
        if (u->value) continue;      /* gathered when its block is entered */
        rc = vtrain_gather_row(z->l, z->row, w->data, u->shard * sizeof *z->row, err);
        if (!rc)
            vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, vtrain_write_part,
                             &(vtrain_row){ z->g, z->row });
    }
    return vc_context(err, rc, "update");
}

void vtrain_zero_ema(vtrain_zero *z, double decay)
{
    for (int k = 0; k < z->l->n; k++)
        if (z->state[k][EMA])
            vt_ema_values(z->g, z->state[k][EMA], own_values(z, &z->l->unit[k]), decay);
}

/* ---- whole state ---- */

/* Where a parameter's whole state goes: the n-th trained one's. */
typedef struct whole {
    const vtrain_zero *z;
    kind what;
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
    const vtrain_zero *z = w->z;
    vc_dtype type = type_of(z, w->what);
    if (has(z, p, w->what))
        vt_values_cast(z->g, (char *)of_param(w, p)->data + bytes_of(z, w->what, from), type,
                       (const char *)z->row + bytes_of(z, w->what, at), type,
                       elements(w->what, n));
}

/* All of one kind into `to`, NULL: only gives. */
static int gather_kind(vtrain_zero *z, kind what, vt_tensor **to, vc_err *err)
{
    whole w = { z, what, to };
    int rc = 0;
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (!z->state[k][what]) continue;
        rc = vtrain_gather_row(z->l, z->row, z->state[k][what]->data,
                               bytes_of(z, what, covered(z, u, what)), err);
        if (!rc && to) vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, keep_part, &w);
    }
    return rc;
}

int vtrain_zero_gather(vtrain_zero *z, bool keep, vt_adamw_state *adam, vt_tensor ***ema,
                       vc_err *err)
{
    if (!z->ema) ema = NULL;
    int rc = keep && adam ? vt_adamw_open(adam, z->p, z->how, err) : 0;
    if (!rc && keep && ema) rc = vt_ema_open(ema, z->p, err);
    rc = vc_comm_agree(z->l->all, rc, err);
    const struct { kind what; vt_tensor **to; } all[] = {
        { M, keep && adam ? adam->m : NULL }, { V, keep && adam ? adam->v : NULL },
        { PEAK, keep && adam ? adam->peak : NULL },
        { SMALL_M, keep && adam ? adam->m : NULL }, { SMALL_V, keep && adam ? adam->v : NULL },
    };
    for (size_t i = 0; !rc && adam && i < sizeof all / sizeof *all; i++)
        rc = gather_kind(z, all[i].what, all[i].to, err);
    if (!rc && ema) rc = gather_kind(z, EMA, keep ? *ema : NULL, err);
    return vc_context(err, rc, "optimizer state");
}

/* ---- from a checkpoint ---- */

typedef struct reading {
    const vtrain_zero *z;
    const vf_safetensors *file;
    kind what;
    char *to;
    int rc;
    vc_err *err;
} reading;

static int get(reading *r, const vt_param *p, vf_view *v)
{
    char *name = vc_format("%s%s", prefix[r->what], p->name);
    if (!name) return vc_fail(r->err, VC_ENOMEM, "out of memory");
    int rc = vf_safetensors_get(r->file, name, v, r->err);
    const int64_t peaks[] = { (int64_t)elements(PEAK, (size_t)vt_count(p->t)) / 2, 2 };
    const int64_t *dim = r->what == PEAK ? peaks : p->t->dim;
    bool same = !rc && v->nd == (r->what == PEAK ? 2 : p->t->nd);
    for (int i = 0; same && i < v->nd; i++)
        same = v->dim[i] == dim[i];
    if (!rc && (!same || (v->dtype == VC_U8) != (type_of(r->z, r->what) == VC_U8)))
        rc = vc_fail(r->err, VC_EMISMATCH, "tensor \"%s\": another shape or type than the model's",
                     name);
    free(name);
    return rc;
}

static void read_state(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    reading *r = arg;
    vf_view v;
    if (r->rc || !has(r->z, p, r->what)) return;
    r->rc = get(r, p, &v);
    if (r->rc) return;
    vt_values_put(r->z->g, r->to + bytes_of(r->z, r->what, at), type_of(r->z, r->what),
                  (const char *)v.data + elements(r->what, from) * vc_dtype_size(v.dtype), v.dtype,
                  elements(r->what, n));
}

int vtrain_zero_read(vtrain_zero *z, const vf_safetensors *file, vc_err *err)
{
    reading r = { .z = z, .file = file, .err = err };
    for (int k = 0; k < z->l->n; k++)
        for (r.what = 0; !r.rc && r.what < KINDS; r.what++) {
            const unit *u = &z->l->unit[k];
            if (!z->state[k][r.what]) continue;
            r.to = z->state[k][r.what]->data;
            vtrain_each_part(u, first_of(z, u), u->shard, read_state, &r);
        }
    return r.rc;
}
