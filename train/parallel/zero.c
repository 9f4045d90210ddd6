/* zero.c - a step of the optimiser on shards of its state; see zero.h */
#include "train/parallel/zero_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/os/file.h"

/* ---- rows and shards ---- */

size_t vtrain_zero_first_of(const vtrain_zero *z, const unit *u)
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
    vtrain_each_part(u, vtrain_zero_first_of(z, u), u->shard, vtrain_read_part,
                     &(vtrain_row){ z->g, z->values });
    return w;
}

/* ---- kinds ---- */

const vt_optimizer_row *vtrain_zero_row_of(const vtrain_zero *z, const unit *u)
{
    return &vt_optimizers[vtrain_unit_optimizer(z->l, u)];
}

static bool has(const vtrain_zero *z, const unit *u, state_kind k)
{
    return u->n && (k == EMA ? z->ema : vtrain_zero_row_of(z, u)->state[k].name != NULL);
}

const char *vtrain_zero_name_of(const vtrain_zero *z, const unit *u, state_kind k)
{
    return k == EMA ? "ema" : vtrain_zero_row_of(z, u)->state[k].name;
}

vc_dtype vtrain_zero_type_of(const vtrain_zero *z, const unit *u, state_kind k)
{
    return k == EMA ? VC_F32 : vtrain_zero_row_of(z, u)->state[k].type;
}

/* Number of elements of a kind for n values, which begin at a block of VT_OPT_BLOCK. */
static size_t elements(const vtrain_zero *z, const unit *u, state_kind k, size_t n)
{
    return k == EMA ? n : vt_opt_elements(vtrain_zero_row_of(z, u), k, n);
}

/* True if the state of a kind is laid out by parameters, one after the other, and not by values. */
static bool by_params(const vtrain_zero *z, const unit *u, state_kind k)
{
    return k != EMA && vt_opt_whole(vtrain_unit_optimizer(z->l, u));
}

static size_t count_of(const vtrain_zero *z, const unit *u, state_kind k, const vt_param *p)
{
    int64_t dim[VT_DIMS];
    int nd = vt_opt_shape(vtrain_zero_row_of(z, u), k, p->t, dim);
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
size_t vtrain_zero_elements(const vtrain_zero *z, const unit *u, state_kind k)
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

place vtrain_zero_place_of(const vtrain_zero *z, const unit *u, state_kind k, const vt_param *p,
                      size_t from, size_t n, size_t at)
{
    if (!by_params(z, u, k))
        return (place){ elements(z, u, k, from), elements(z, u, k, at), elements(z, u, k, n) };
    return (place){ 0, at / u->shard * vtrain_zero_elements(z, u, k) + before(z, u, k, p, 0),
                    count_of(z, u, k, p) };
}

/* ---- open, close ---- */

static vt_tensor *new_shard(vtrain_zero *z, state_kind kind, vc_dtype type, size_t n, vc_err *err)
{
    const int64_t dim = (int64_t)n;
    if (z->host && kind != EMA) {
        z->on_host += n * vc_dtype_size(type);
        return vt_param_hosted(z->g, type, 1, &dim, err);
    }
    z->bytes += z->spill ? 0 : n * vc_dtype_size(type);
    return vt_param_spilled(z->g, z->spill, type, 1, &dim, err);
}

void vtrain_zero_move_unit(const vtrain_zero *z, int k, void (*how)(vc_spill *, const vt_tensor *))
{
    for (state_kind i = 0; z->spill && k < z->l->n && i < KINDS; i++)
        if (z->state[k][i])
            how(z->spill, z->state[k][i]);
}

void vtrain_zero_fetch(vtrain_zero *z, int k)
{
    if (z->hosted && k < z->l->n)
        vt_hosted_begin(z->hosted, k, VT_OPT_STATES, z->state[k]);
}

void vtrain_zero_arrive(vtrain_zero *z, int k)
{
    if (z->hosted)
        vt_hosted_enter(z->hosted, k, VT_OPT_STATES, z->state[k]);
}

void vtrain_zero_give_back(vtrain_zero *z, int k)
{
    if (z->hosted)
        vt_hosted_leave(z->hosted, k, VT_OPT_STATES, z->state[k]);
}

void vtrain_zero_all_back(vtrain_zero *z)
{
    if (z->hosted)
        vt_hosted_end(z->hosted);
}

static int open_places(vtrain_zero *z, vc_err *err)
{
    size_t most = 0;
    for (int k = 0; k < z->l->n; k++) {
        size_t bytes = 0;
        for (state_kind i = 0; i < VT_OPT_STATES; i++)
            bytes += z->state[k][i] ? vt_hosted_room((size_t)vt_count(z->state[k][i]) *
                                                     vc_dtype_size(z->state[k][i]->dtype)) : 0;
        most = bytes > most ? bytes : most;
    }
    int rc = vt_hosted_open(&z->hosted, z->g, most, vt_param_host_memory, err);
    z->bytes += vt_hosted_bytes(z->hosted);
    return rc;
}

static size_t row_values(const vtrain_zero *z)
{
    return z->most * (size_t)z->l->shards;
}

void vtrain_zero_begin_as_values(vtrain_zero *z, state_kind what)
{
    for (int k = 0; k < z->l->n; k++) {
        const unit *u = &z->l->unit[k];
        if (!z->state[k][what] || !(what == EMA || vtrain_zero_row_of(z, u)->state[what].as_values))
            continue;
        const vt_tensor w = own_values(z, u);
        const bool away = what != EMA;
        if (away)
            vtrain_zero_fetch(z, k), vtrain_zero_arrive(z, k);
        vt_values_cast(z->g, z->state[k][what]->data, vtrain_zero_type_of(z, u, what), w.data,
                       w.dtype, (size_t)w.dim[0]);
        if (away)
            vtrain_zero_give_back(z, k);
        vtrain_zero_move_unit(z, k, vt_param_rest);
    }
    vtrain_zero_all_back(z);
}

/* Makes the files of the shards and, on the rank that writes checkpoints, of whole state. */
static int open_files(vtrain_zero *z, const char *folder, bool dry, vc_err *err)
{
    size_t bytes = 0, whole = vt_opt_spill_bytes(z->p, z->l->how);
    for (int k = 0; folder && k < z->l->n; k++)
        for (state_kind i = 0; i < KINDS; i++)
            if (has(z, &z->l->unit[k], i))
                bytes += vc_spill_room(vtrain_zero_elements(z, &z->l->unit[k], i) *
                                       vc_dtype_size(vtrain_zero_type_of(z, &z->l->unit[k], i)));
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
            if (has(z, u, i) && !(z->state[k][i] = new_shard(z, i, vtrain_zero_type_of(z, u, i),
                                                             vtrain_zero_elements(z, u, i), err)))
                rc = VC_ENOMEM;
    }
    if (!rc && z->host)
        rc = open_places(z, err);
    if (!rc)
        rc = vt_opt_scratch_new(&z->scratch, z->p, z->l->how, err);
    z->bytes += z->scratch ? (size_t)vt_count(z->scratch) * sizeof(float) : 0;
    if (!rc && !(z->values = vt_values_new(z->g, z->most, err)))
        rc = VC_ENOMEM;
    if (!rc && !(z->row = vt_values_new(z->g, row_values(z), err)))
        rc = VC_ENOMEM;
    z->bytes += (z->most + row_values(z)) * sizeof *z->row;
    for (state_kind i = 0; !rc && i < KINDS; i++)
        vtrain_zero_begin_as_values(z, i);
    return vc_context(err, rc, "optimizer state");
}

int vtrain_zero_open(vtrain_zero **out, vtrain_dist *d, vt_ctx *g, vt_params *p,
                     const vtrain_zero_opts *opts, vc_err *err)
{
    *out = NULL;
    vtrain_zero *z = calloc(1, sizeof *z);
    if (!z)
        return vc_no_memory(err);
    *z = (vtrain_zero){ .l = vtrain_dist_layout(d), .g = g, .p = p, .ema = opts->ema,
                         .host = opts->host };
    int rc = make_state(z, opts->folder, opts->dry, err);
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
    vt_hosted_close(z->hosted);
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

size_t vtrain_zero_hosted(const vtrain_zero *z)
{
    return z->on_host;
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
        const place s = vtrain_zero_place_of(x->z, x->u, k, p, from, n, at);
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
    if (k == 0)
        vtrain_zero_fetch(z, k);
    vtrain_zero_fetch(z, k + 1);
    vtrain_zero_arrive(z, k);
    if (u->n) {
        *w = own_values(z, u);
        vtrain_zero_move_unit(z, k + 1, vt_param_want);
        vtrain_each_part(u, vtrain_zero_first_of(z, u), u->shard, update_part,
                         &(shard_update){ z, u, z->state[k], w, o, sum });
        vtrain_zero_move_unit(z, k, vt_param_rest);
    }
    vtrain_zero_give_back(z, k);
}

/* Measures all parts, and settles the numbers of the run. */
static int settle(vtrain_zero *z, const vt_opt_step *o, bool *updates, vc_err *err)
{
    double sum[VT_OPT_SUMS] = { 0 };
    vt_tensor w;
    int rc = 0;
    bool measured = vt_optimizers[z->l->how].run;
    for (int k = 0; measured && k < z->l->n; k++)
        each_own_part(z, k, o, sum, &w);
    vtrain_zero_all_back(z);
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
        each_own_part(z, k, o, NULL, &w);
        if (u->n == 0 || u->value)
            continue;                /* gathered when its block is entered */
        rc = vtrain_gather_row(z->l, z->row, w.data, vtrain_shard_bytes(u), err);
        if (!rc)
            vtrain_each_part(u, 0, (size_t)z->l->shards * u->shard, vtrain_write_part,
                             &(vtrain_row){ z->g, z->row });
    }
    vtrain_zero_all_back(z);
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
