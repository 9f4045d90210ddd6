/* zero.c - a step of the optimiser on shards of its state; see zero.h */
#include "train/parallel/zero.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"
#include "common/os/spill.h"
#include "train/parallel/dist_parts.h"

typedef vtrain_unit unit;

/* The kinds of state: those of the optimiser's row, then the averages. */
enum { EMA = VT_OPT_STATES, KINDS };
typedef int state_kind;

struct vtrain_zero {
    vtrain_layout *l;
    vt_ctx *g;
    vt_params *p;
    bool ema;                    /* averages are kept */
    vt_tensor *(*state)[KINDS];  /* [units] shards; NULL where a unit has no state of a kind */
    float *values;               /* buffer for a shard of values */
    float *row;                  /* buffer for a whole row */
    vt_tensor *scratch;          /* of a step, or NULL */
    double number[VT_OPT_NUMBERS];           /* of the run, equal on all ranks */
    size_t most, bytes;          /* values of the largest shard; bytes held in all */
    vc_spill *spill, *gathered;  /* files of the shards and of whole state; NULL: in memory */
};

/* ---- rows and shards ---- */

static size_t first_of(const vtrain_zero *z, const unit *u)
{
    return (size_t)z->l->shard * u->shard;
}

/* This rank's part of the unit's values, valid until the next call. */
static vt_tensor own_values(vtrain_zero *z, const unit *u)
{
    vt_tensor w = { .dtype = vtrain_unit_type(u), .nd = 1, .dim = { (int64_t)u->shard },
                    .stride = { 1 }, .data = z->values };
    if (u->value)
        return *u->value;
    vt_values_zero(z->g, z->values, vtrain_shard_bytes(u) / sizeof *z->values);
    vtrain_each_part(u, first_of(z, u), u->shard, vtrain_read_part,
                     &(vtrain_row){ z->g, z->values });
    return w;
}

/* ---- kinds ---- */

static const vt_optimizer_row *row_of(const vtrain_zero *z, const unit *u)
{
    return &vt_optimizers[vtrain_unit_optimizer(z->l, u)];
}

static bool has(const vtrain_zero *z, const unit *u, state_kind k)
{
    return u->n && (k == EMA ? z->ema : row_of(z, u)->state[k].name != NULL);
}

static const char *name_of(const vtrain_zero *z, const unit *u, state_kind k)
{
    return k == EMA ? "ema" : row_of(z, u)->state[k].name;
}

static vc_dtype type_of(const vtrain_zero *z, const unit *u, state_kind k)
{
    return k == EMA ? VC_F32 : row_of(z, u)->state[k].type;
}

/* Number of elements of a kind for n values, which begin at a block of VT_OPT_BLOCK. */
static size_t elements(const vtrain_zero *z, const unit *u, state_kind k, size_t n)
{
    return k == EMA ? n : vt_opt_elements(row_of(z, u), k, n);
}

/* True if the state of a kind is laid out by parameters, one after the other, and not by values. */
static bool by_params(const vtrain_zero *z, const unit *u, state_kind k)
{
    return k != EMA && vt_opt_whole(vtrain_unit_optimizer(z->l, u));
}

static size_t count_of(const vtrain_zero *z, const unit *u, state_kind k, const vt_param *p)
{
    int64_t dim[VT_DIMS];
    int nd = vt_opt_shape(row_of(z, u), k, p->t, dim);
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    return n;
}

/* Number of elements of a kind before parameter p in its shard, or, with p NULL, in `shard`. */
static size_t before(const vtrain_zero *z, const unit *u, state_kind k, const vt_param *p,
                     size_t shard)
{
    size_t n = 0;
    for (int i = 0; p && i < u->n; i++)
        if (u->param[i] == p)
            shard = u->at[i] / u->shard;
    for (int i = 0; i < u->n && u->param[i] != p; i++)
        if (u->at[i] / u->shard == shard)
            n += count_of(z, u, k, u->param[i]);
    return n;
}

/* Number of elements of a kind in a shard. */
static size_t shard_elements(const vtrain_zero *z, const unit *u, state_kind k)
{
    size_t most = 1;
    if (!by_params(z, u, k))
        return elements(z, u, k, u->shard);
    for (size_t i = 0; i < (size_t)z->l->shards; i++) {
        size_t n = before(z, u, k, NULL, i);
        most = n > most ? n : most;
    }
    return most;
}

/* A part of a parameter's state of a kind: its place in the parameter's state and in the shards'
 * states that follow each other, and its number of elements. `from`, n and `at` are those of the
 * values; `at` counts from a shard's begin on. */
typedef struct place { size_t from, at, n; } place;

static place place_of(const vtrain_zero *z, const unit *u, state_kind k, const vt_param *p,
                      size_t from, size_t n, size_t at)
{
    if (!by_params(z, u, k))
        return (place){ elements(z, u, k, from), elements(z, u, k, at), elements(z, u, k, n) };
    return (place){ 0, at / u->shard * shard_elements(z, u, k) + before(z, u, k, p, 0),
                    count_of(z, u, k, p) };
}

/* ---- open, close ---- */

static vt_tensor *new_shard(vtrain_zero *z, vc_dtype type, size_t n, vc_err *err)
{
    const int64_t dim = (int64_t)n;
    z->bytes += z->spill ? 0 : n * vc_dtype_size(type);
    return vt_param_spilled(z->g, z->spill, type, 1, &dim, err);
}

/* Lets the shards of a unit leave the memory, if they are in a file, or reads them ahead. */
static void move_unit(const vtrain_zero *z, int k, void (*how)(vc_spill *, const vt_tensor *))
{
    for (state_kind i = 0; z->spill && k < z->l->n && i < KINDS; i++)
        if (z->state[k][i])
            how(z->spill, z->state[k][i]);
}

static size_t row_values(const vtrain_zero *z)
{
    return z->most * (size_t)z->l->shards;
}

/* Sets the shards of a kind that begins as the values; the averages, if z keeps some. */
static void begin_as_values(vtrain_zero *z, state_kind what)
{
    for (int k = 0; k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (!z->state[k][what] || !(what == EMA || row_of(z, u)->state[what].as_values))
            continue;
        const vt_tensor w = own_values(z, u);
        vt_values_cast(z->g, z->state[k][what]->data, type_of(z, u, what), w.data, w.dtype,
                       (size_t)w.dim[0]);
        move_unit(z, k, vt_param_rest);
    }
}

/* Makes the files of the shards and, on the rank that writes checkpoints, of whole state. */
static int open_files(vtrain_zero *z, const char *folder, bool dry, vc_err *err)
{
    size_t bytes = 0, whole = vt_opt_spill_bytes(z->p, z->l->how);
    for (int k = 0; folder && k < z->l->n; k++)
        for (state_kind i = 0; i < KINDS; i++)
            if (has(z, &z->l->unit[k], i))
                bytes += vc_spill_room(shard_elements(z, &z->l->unit[k], i) *
                                       vc_dtype_size(type_of(z, &z->l->unit[k], i)));
    int rc = folder ? vc_spill_open(&z->spill, folder, bytes, "optimizer state of a rank", dry, err)
                    : 0;
    if (rc || !folder || vc_comm_rank(z->l->all))
        return rc;
    whole += z->ema ? vt_ema_spill_bytes(z->p) : 0;
    return vc_spill_open(&z->gathered, folder, whole, "optimizer state of all ranks", dry, err);
}

static int make_state(vtrain_zero *z, const char *folder, bool dry, vc_err *err)
{
    int rc = vt_opt_convert(z->p, z->l->how, err);
    if (!rc)
        rc = open_files(z, folder, dry, err);
    z->most = VT_OPT_BLOCK;
    z->state = calloc((size_t)z->l->n, sizeof *z->state);
    if (!rc && !z->state)
        rc = vc_no_memory(err);
    for (int k = 0; !rc && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (u->shard > z->most)
            z->most = u->shard;
        for (state_kind i = 0; !rc && i < KINDS; i++)
            if (has(z, u, i) && !(z->state[k][i] = new_shard(z, type_of(z, u, i),
                                                             shard_elements(z, u, i), err)))
                rc = VC_ENOMEM;
    }
    if (!rc)
        rc = vt_opt_scratch_new(&z->scratch, z->p, z->l->how, err);
    z->bytes += z->scratch ? (size_t)vt_count(z->scratch) * sizeof(float) : 0;
    if (!rc && !(z->values = vt_values_new(z->g, z->most, err)))
        rc = VC_ENOMEM;
    if (!rc && !(z->row = vt_values_new(z->g, row_values(z), err)))
        rc = VC_ENOMEM;
    z->bytes += (z->most + row_values(z)) * sizeof *z->row;
    for (state_kind i = 0; !rc && i < KINDS; i++)
        begin_as_values(z, i);
    return vc_context(err, rc, "optimizer state");
}

int vtrain_zero_open(vtrain_zero **out, vtrain_dist *d, vt_ctx *g, vt_params *p, bool ema,
                     const char *folder, bool dry, vc_err *err)
{
    *out = NULL;
    vtrain_zero *z = calloc(1, sizeof *z);
    if (!z)
        return vc_no_memory(err);
    *z = (vtrain_zero){ .l = vtrain_dist_layout(d), .g = g, .p = p, .ema = ema };
    int rc = make_state(z, folder, dry, err);
    if (rc) {
        vtrain_zero_close(z);
        return rc;
    }
    *out = z;
    return 0;
}

void vtrain_zero_close(vtrain_zero *z)
{
    if (!z)
        return;
    for (int k = 0; z->state && k < z->l->n; k++)
        for (int i = 0; i < KINDS; i++)
            vt_param_free(z->g, z->state[k][i]);
    free(z->state);
    vt_param_free(z->g, z->scratch);
    vt_values_free(z->g, z->values, z->most);
    vt_values_free(z->g, z->row, row_values(z));
    vc_spill_close(z->spill);
    vc_spill_close(z->gathered);
    free(z);
}

size_t vtrain_zero_bytes(const vtrain_zero *z)
{
    return z ? z->bytes : 0;
}

size_t vtrain_zero_spilled(const vtrain_zero *z)
{
    return vc_spill_bytes(z->spill) + vc_spill_bytes(z->gathered);
}

int vtrain_zero_check(const vtrain_zero *z, vc_err *err)
{
    return vc_spill_check(z->spill, err);
}

vc_spill *vtrain_zero_gathered(const vtrain_zero *z)
{
    return z->gathered;
}

/* ---- a step ---- */

int vtrain_zero_norm(vtrain_zero *z, double *norm, vc_err *err)
{
    vt_squares s = { .g = z->g };
    for (int k = 0; k < z->l->n; k++)
        if (z->l->unit[k].n)
            vt_squares_add(&s, z->l->unit[k].grad);
    double sum = vt_squares_sum(&s);
    int rc = vc_comm_reduce(z->l->group, &sum, 1, VC_COMM_SUM, err);
    *norm = sqrt(sum);
    return rc;
}

typedef struct shard_update {
    const vtrain_zero *z;
    const unit *u;
    vt_tensor *const *state;     /* the unit's */
    const vt_tensor *w;
    const vt_opt_step *o;
    double *sum;                 /* measures the parts; NULL: updates them */
} shard_update;

/* A view of n elements of x, a tensor of a shard, from `at` on. */
static vt_tensor part_of(const vt_tensor *x, size_t at, size_t n)
{
    vt_tensor part = *x;
    part.data = (char *)x->data + at * vc_dtype_size(x->dtype);
    part.dim[0] = (int64_t)n;
    return part;
}

/* Gives a packed tensor the shape of a parameter. */
static void shape_as(vt_tensor *x, const vt_tensor *like)
{
    x->nd = like->nd;
    for (int64_t i = like->nd - 1, n = 1; i >= 0; n *= like->dim[i--]) {
        x->dim[i] = like->dim[i];
        x->stride[i] = n;
    }
}

static void update_part(void *arg, const vt_param *p, size_t from, size_t n, size_t at)
{
    const shard_update *x = arg;
    if (!vt_param_reached(p))
        return;
    vt_tensor w = part_of(x->w, at, n), grad = part_of(x->u->grad, at, n), state[VT_OPT_STATES];
    vt_opt_part part = { .how = vtrain_unit_optimizer(x->z->l, x->u), .name = p->name,
                         .first = from, .w = &w, .grad = &grad, .scratch = x->z->scratch };
    if (vt_opt_whole(part.how))
        shape_as(&w, p->t), shape_as(&grad, p->t);
    for (state_kind k = 0; k < VT_OPT_STATES; k++) {
        if (!x->state[k])
            continue;
        const place s = place_of(x->z, x->u, k, p, from, n, at);
        state[k] = part_of(x->state[k], s.at, s.n);
        part.state[k] = &state[k];
    }
    const vt_opt_step own = vt_opt_step_of(p, x->o);
    if (x->sum)
        vt_opt_measure(x->z->g, &part, &own, x->z->number, x->sum);
    else
        vt_opt_apply_part(x->z->g, &part, &own, x->z->number);
}

/* Measures or updates this rank's part of a unit, whose values come in *w. */
static void each_own_part(vtrain_zero *z, int k, const vt_opt_step *o, double *sum, vt_tensor *w)
{
    const unit *u = &z->l->unit[k];
    *w = own_values(z, u);
    move_unit(z, k + 1, vt_param_want);
    vtrain_each_part(u, first_of(z, u), u->shard, update_part,
                     &(shard_update){ z, u, z->state[k], w, o, sum });
    move_unit(z, k, vt_param_rest);
}

/* Measures all parts, and settles the numbers of the run. */
static int settle(vtrain_zero *z, const vt_opt_step *o, bool *updates, vc_err *err)
{
    double sum[VT_OPT_SUMS] = { 0 };
    vt_tensor w;
    int rc = 0;
    bool measured = vt_optimizers[z->l->how].run;
    for (int k = 0; measured && k < z->l->n; k++)
        if (z->l->unit[k].n)
            each_own_part(z, k, o, sum, &w);
    if (measured)
        rc = vc_comm_reduce(z->l->group, sum, VT_OPT_SUMS, VC_COMM_SUM, err);
    *updates = !rc && vt_opt_settle(z->l->how, o, sum, z->number);
    return rc;
}

int vtrain_zero_step(vtrain_zero *z, const vt_opt_step *o, vc_err *err)
{
    bool updates;
    vt_tensor w;
    int rc = settle(z, o, &updates, err);
    for (int k = 0; !rc && updates && k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (u->n == 0)
            continue;
        each_own_part(z, k, o, NULL, &w);
        if (u->value)
            continue;                /* gathered when its block is entered */
        rc = vtrain_gather_row(z->l, z->row, w.data, vtrain_shard_bytes(u), err);
        if (!rc)
            vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, vtrain_write_part,
                             &(vtrain_row){ z->g, z->row });
    }
    return vc_context(err, rc, "update");
}

void vtrain_zero_ema(vtrain_zero *z, double decay)
{
    for (int k = 0; k < z->l->n; k++) {
        if (!z->state[k][EMA])
            continue;
        const vt_tensor w = own_values(z, &z->l->unit[k]);
        vt_ema_values(z->g, z->state[k][EMA], &w, decay);
        vt_param_rest(z->spill, z->state[k][EMA]);
    }
}

double *vtrain_zero_numbers(vtrain_zero *z)
{
    return z->number;
}

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
    vc_dtype type = type_of(z, w->u, w->what);
    size_t size = vc_dtype_size(type);
    const place s = place_of(z, w->u, w->what, p, from, n, at);
    vt_values_cast(z->g, (char *)of_param(w, p)->data + s.from * size, type,
                   (const char *)z->row + s.at * size, type, s.n);
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
        rc = vtrain_gather_row(z->l, z->row, z->state[k][what]->data,
                               shard_elements(z, u, what) * vc_dtype_size(type_of(z, u, what)),
                               err);
        if (!rc && to)
            vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, keep_part, &w);
        vt_param_rest(z->spill, z->state[k][what]);
        for (int i = 0; to && i < u->n; i++)
            vt_param_rest(z->gathered, of_param(&w, u->param[i]));
    }
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
                                         &(vt_opt_home){ .spill = z->gathered }, err) : 0;
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
        return vt_opt_shape(row_of(r->z, r->u), r->what, p->t, dim);
    memcpy(dim, p->t->dim, sizeof p->t->dim);
    return p->t->nd;
}

static int get(reading *r, const vt_param *p, vf_view *v)
{
    char *name = vc_format("%s/%s", name_of(r->z, r->u, r->what), p->name);
    if (!name)
        return vc_fail(r->err, VC_ENOMEM, "out of memory");
    int rc = vf_safetensors_get(r->file, name, v, r->err);
    int64_t dim[VT_DIMS];
    bool same = !rc && v->nd == shape_of(r, p, dim);
    for (int i = 0; same && i < v->nd; i++)
        same = v->dim[i] == dim[i];
    if (!rc && (!same || (v->dtype == VC_U8) != (type_of(r->z, r->u, r->what) == VC_U8)))
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
    vc_dtype type = type_of(r->z, r->u, r->what);
    const place s = place_of(r->z, r->u, r->what, p, from, n, at);
    vt_values_put(r->z->g, r->to + s.at * vc_dtype_size(type), type,
                  (const char *)v.data + s.from * vc_dtype_size(v.dtype), v.dtype, s.n);
}

int vtrain_zero_read(vtrain_zero *z, const vf_safetensors *file, bool averages, vc_err *err)
{
    reading r = { .z = z, .file = file, .err = err };
    if (!averages)
        begin_as_values(z, EMA);
    for (int k = 0; k < z->l->n; k++) {
        r.u = &z->l->unit[k];
        for (r.what = 0; !r.rc && r.what < KINDS; r.what++) {
            if (!z->state[k][r.what] || (r.what == EMA && !averages))
                continue;
            r.to = z->state[k][r.what]->data;
            vtrain_each_part(r.u, first_of(z, r.u), r.u->shard, read_state, &r);
        }
        move_unit(z, k, vt_param_rest);
    }
    return r.rc;
}
