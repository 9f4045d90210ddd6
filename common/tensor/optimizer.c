/* optimizer.c - the table of optimisers, their state and their steps; see optimizer.h */
#include "common/tensor/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/kernels/moments.h"
#include "common/os/spill.h"
#include "common/tensor/engine.h"
#include "common/tensor/host_grads.h"
#include "common/tensor/host_update.h"
#include "common/tensor/hosted.h"
#include "common/tensor/params.h"

_Static_assert((int)VT_OPT_BLOCK == (int)VK_MOMENT_BLOCK, "who splits states knows the block");

/* ---- the table ---- */

const vt_optimizer_row vt_optimizers[] = {
#define OPTIMIZER(NAME, name_, about, ...) [VT_##NAME] = { .name = #name_, __VA_ARGS__ },
#define SERVING(NAME, name_, ...) [VT_##NAME] = { .name = #name_, __VA_ARGS__ },
#include "common/tensor/optimizers.def"
};

const char vt_optimizer_words[] =
#define OPTIMIZER(NAME, name, about, ...) "|" #name
#include "common/tensor/optimizers.def"
#define ALIAS(name, NAME) "|" #name
#include "common/tensor/optimizers.def"
    ;

const vt_optimizer_alias vt_optimizer_aliases[] = {
#define ALIAS(name, NAME) { #name, VT_##NAME },
#include "common/tensor/optimizers.def"
};

const char vt_optimizer_help[] =
#define OPTIMIZER(NAME, name, about, ...) about
#include "common/tensor/optimizers.def"
    ;

static int codes_of(const vt_optimizer_row *o)
{
    int n = 0;

    for (int k = 0; k < VT_OPT_STATES; k++)
        n += o->state[k].name && o->state[k].type == VC_U8;
    return n;
}

size_t vt_opt_elements(const vt_optimizer_row *o, int k, size_t n)
{
    return o->state[k].shape == VT_OF_BLOCKS ? VK_MOMENT_BLOCKS(n) * (size_t)codes_of(o) : n;
}

int vt_opt_shape(const vt_optimizer_row *o, int k, const vt_tensor *t, int64_t dim[VT_DIMS])
{
    const vt_state_shape shape = o->state[k].shape;
    int nd = 0;

    if (shape == VT_OF_BLOCKS) {
        dim[0] = (int64_t)VK_MOMENT_BLOCKS(vt_count(t));
        dim[1] = codes_of(o);
        return 2;
    }
    for (int i = 0; i < t->nd; i++)
        if (!(shape == VT_OF_ROWS && i == t->nd - 1) && !(shape == VT_OF_COLUMNS && i == t->nd - 2))
            dim[nd++] = t->dim[i];
    return nd;
}

vt_optimizer vt_opt_of(vt_optimizer how, const vt_tensor *t)
{
    const vt_optimizer_row *o = &vt_optimizers[how];

    if (o->least_axes)
        return t->nd < o->least_axes || t->nd > o->most_axes ? o->small : how;
    return vt_count(t) < VT_OPT_SMALL ? o->small : how;
}

bool vt_opt_whole(vt_optimizer how)
{
    return vt_optimizers[how].run && vt_optimizers[how].run->whole;
}

int vt_opt_scratch_new(vt_tensor **out, vt_params *p, vt_optimizer how, vc_err *err)
{
    int64_t most = 0;

    *out = NULL;
    for (int i = 0; i < p->n; i++) {
        const vt_opt_run *run = vt_optimizers[vt_opt_of(how, p->at[i]->t)].run;
        int64_t n = p->at[i]->trained && run && run->scratch ? run->scratch(p->at[i]->t) : 0;
        most = n > most ? n : most;
    }
    if (!most)
        return 0;
    *out = vt_param_new(p->g, VC_F32, 1, &most, NULL, VC_F32, false, err);
    return *out ? 0 : VC_ENOMEM;
}

/* ---- whole state ---- */

int vt_opt_convert(vt_params *p, vt_optimizer how, vc_err *err)
{
    for (int i = 0; i < p->n; i++) {
        vt_param *w = p->at[i];
        vc_dtype type = vt_optimizers[vt_opt_of(how, w->t)].value;
        int rc = w->trained && w->t->dtype != type ? vt_param_train(p->g, w->t, type, err) : 0;
        if (rc)
            return vc_context(err, rc, "%s", w->name);
    }
    return 0;
}

/* Gives a state that is on the host the values of a parameter. */
static int begin_on_host(vt_ctx *g, vt_tensor *x, const vt_tensor *t, vc_err *err)
{
    void *values = malloc(vc_dtype_bytes(t->dtype, (size_t)vt_count(t)));

    if (!values)
        return vc_no_memory(err);
    vt_param_set(g, x, vt_param_get(g, t, values), t->dtype);
    free(values);
    return 0;
}

/* Makes the states of a trained parameter, the i-th. */
static int open_states(vt_opt_state *s, int i, vt_params *p, const vt_tensor *t, bool host,
                       vc_err *err)
{
    const vt_optimizer_row *o = &vt_optimizers[vt_opt_of(s->how, t)];
    int64_t dim[VT_DIMS];

    for (int k = 0; k < VT_OPT_STATES; k++) {
        const vt_state_row *r = &o->state[k];
        if (!r->name)
            continue;
        int nd = vt_opt_shape(o, k, t, dim);
        s->of[k][i] = host ? vt_param_hosted(p->g, r->type, nd, dim, err)
                           : vt_param_spilled(p->g, s->spill, r->type, nd, dim, err);
        if (!s->of[k][i])
            return VC_ENOMEM;
        int rc = r->as_values && host && !p->g->sizes_only
                 ? begin_on_host(p->g, s->of[k][i], t, err) : 0;
        if (rc)
            return rc;
        if (r->as_values && !host && !p->g->sizes_only)
            p->g->be->copy(p->g->dev, s->of[k][i], t);
        vt_param_rest(s->spill, s->of[k][i]);
    }
    return 0;
}

size_t vt_opt_spill_bytes(const vt_params *p, vt_optimizer how)
{
    size_t bytes = 0;

    for (int i = 0; i < p->n; i++) {
        const vt_tensor *t = p->at[i]->t;
        const vt_optimizer_row *o = &vt_optimizers[vt_opt_of(how, t)];
        for (int k = 0; p->at[i]->trained && k < VT_OPT_STATES; k++) {
            int64_t dim[VT_DIMS], n = vc_dtype_size(o->state[k].type);
            for (int d = o->state[k].name ? vt_opt_shape(o, k, t, dim) : 0; d-- > 0;)
                n *= dim[d];
            bytes += o->state[k].name ? vc_spill_room((size_t)n) : 0;
        }
    }
    return bytes;
}

static size_t state_bytes(const vt_tensor *x)
{
    return x ? vc_dtype_bytes(x->dtype, (size_t)vt_count(x)) : 0;
}

/* Makes the places of states on the host, for the largest of a parameter. */
static int open_places(vt_opt_state *s, vt_ctx *g, vc_err *err)
{
    size_t most = 0;

    for (int i = 0; i < s->n; i++) {
        size_t bytes = 0;
        for (int k = 0; k < VT_OPT_STATES; k++)
            bytes += vt_hosted_room(state_bytes(s->of[k][i]));
        most = bytes > most ? bytes : most;
    }
    return vt_hosted_open(&s->hosted, g, most, vt_param_host_memory, err);
}

/* A step on the host, which has the rows without a run of their own (vt_host_rule). */
static void apply_there(vt_ctx *cpu, const vt_opt_part *x, const vt_opt_step *o)
{
    vt_opt_apply_part(cpu, x, o, NULL);
}

int vt_opt_open(vt_opt_state *s, vt_params *p, vt_optimizer how, const vt_opt_home *home,
                vc_err *err)
{
    const bool host = home && home->host;
    size_t n = (size_t)vt_params_trained(p) + 1;
    int rc = 0;

    *s = (vt_opt_state){ .how = how, .spill = home ? home->spill : NULL };
    for (int k = 0; !rc && k < VT_OPT_STATES; k++)
        rc = (s->of[k] = calloc(n, sizeof *s->of[k])) ? 0 : vc_no_memory(err);
    if (!rc)
        rc = vt_opt_convert(p, how, err);
    for (int i = 0; i < p->n && !rc; i++) {
        const vt_param *w = p->at[i];
        if (w->trained)
            rc = vc_context(err, open_states(s, s->n++, p, w->t, host, err), "%s", w->name);
    }
    if (!rc && host)
        rc = home->update ? vt_host_update_open(&s->update, p, apply_there, home->threads, err)
                          : open_places(s, p->g, err);
    p->host_update = s->update;
    if (!rc)
        rc = vt_opt_scratch_new(&s->scratch, p, how, err);
    if (rc)
        vt_opt_close(s, p);
    return vc_context(err, rc, "optimizer state");
}

void vt_opt_close(vt_opt_state *s, vt_params *p)
{
    if (s->update)
        p->host_update = NULL;
    vt_host_update_close(s->update);           /* it may be changing states */
    for (int k = 0; k < VT_OPT_STATES; k++) {
        for (int i = 0; i < s->n; i++)
            vt_param_free(p->g, s->of[k][i]);
        free(s->of[k]);
    }
    vt_param_free(p->g, s->scratch);
    vt_hosted_close(s->hosted);
    *s = (vt_opt_state){ 0 };
}

static size_t all_bytes(const vt_opt_state *s)
{
    size_t bytes = 0;

    for (int k = 0; k < VT_OPT_STATES; k++)
        for (int i = 0; i < s->n; i++)
            bytes += state_bytes(s->of[k][i]);
    return bytes;
}

size_t vt_opt_host_bytes(const vt_opt_state *s)
{
    return s->hosted || s->update ? all_bytes(s) : 0;
}

size_t vt_opt_copies_bytes(const vt_opt_state *s) { return vt_host_update_bytes(s->update); }

size_t vt_opt_bytes(const vt_opt_state *s)
{
    size_t bytes = s->scratch ? (size_t)vt_count(s->scratch) * sizeof(float) : 0;

    return bytes + (s->hosted ? vt_hosted_bytes(s->hosted)
                    : s->spill || s->update ? 0 : all_bytes(s));
}

/* ---- a step ---- */

/* Runs the rule of the part's row. */
static void update(vt_ctx *g, const vt_opt_part *x, const vt_update_args *a)
{
    const vt_optimizer_row *row = &vt_optimizers[x->how];
    vt_tensor *state[VF_STATES] = { 0 }, *peak = NULL;

    for (int k = 0; k < VT_OPT_STATES; k++) {
        if (row->state[k].name && row->state[k].shape == VT_OF_BLOCKS)
            peak = x->state[k];
        else if (row->state[k].name && k < VF_STATES)
            state[k] = x->state[k];
    }
    g->be->update(g->dev, x->w, state, peak, x->grad, a);
}

void vt_opt_measure(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o, const double *number,
                    double *sum)
{
    const vt_opt_run *run = vt_optimizers[x->how].run;

    if (run && run->measure)
        run->measure(g, x, o, number, sum);
}

bool vt_opt_settle(vt_optimizer how, const vt_opt_step *o, const double *sum, double *number)
{
    const vt_opt_run *run = vt_optimizers[how].run;

    return !run || !run->settle || run->settle(o, sum, number);
}

void vt_opt_apply_part(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o, const double *number)
{
    const vt_opt_run *run = vt_optimizers[x->how].run;
    vt_update_args a = vt_opt_update_args(x, o);

    if (run && run->whole) {
        run->whole(g, x, o, number);
        return;
    }
    a.rule = vt_optimizers[x->how].rule;
    if (run && run->adjust)
        run->adjust(&a, o, number);
    update(g, x, &a);
}

vt_opt_step vt_opt_step_of(const vt_param *p, const vt_opt_step *o)
{
    vt_opt_step own = *o;

    own.step -= p->missed;
    if (p->rate) {
        own.lr = p->rate->lr;
        own.weight_decay = p->rate->weight_decay;
    }
    return own;
}

/* Lists the states of the i-th trained parameter; false: there is none. */
static bool states_of(const vt_opt_state *s, int i, vt_tensor *of[VT_OPT_STATES])
{
    for (int k = 0; i < s->n && k < VT_OPT_STATES; k++)
        of[k] = s->of[k][i];
    return i < s->n;
}

/* Begins to fetch the states of the i-th trained parameter, if they are elsewhere. */
static void fetch(vt_opt_state *s, int i)
{
    vt_tensor *of[VT_OPT_STATES];

    if (!states_of(s, i, of))
        return;
    for (int k = 0; s->spill && k < VT_OPT_STATES; k++)
        if (of[k])
            vt_param_want(s->spill, of[k]);
    if (s->hosted)
        vt_hosted_begin(s->hosted, i, VT_OPT_STATES, of);
}

/* Lets them go back. */
static void give_back(vt_opt_state *s, int i)
{
    vt_tensor *of[VT_OPT_STATES];

    states_of(s, i, of);
    for (int k = 0; s->spill && k < VT_OPT_STATES; k++)
        if (of[k])
            vt_param_rest(s->spill, of[k]);
    if (s->hosted)
        vt_hosted_leave(s->hosted, i, VT_OPT_STATES, of);
}

/* The i-th trained parameter, w, whole. */
static vt_opt_part part_of(const vt_opt_state *s, int i, const vt_param *w)
{
    vt_opt_part x = { .how = vt_opt_of(s->how, w->t), .name = w->name, .w = w->t, .grad = w->grad,
                      .scratch = s->scratch };

    states_of(s, i, x.state);
    return x;
}

/* Measures all parameters that a backward reached, if sum is not NULL, or else updates them. */
static void each_reached(vt_params *p, vt_opt_state *s, const vt_opt_step *o, double *sum)
{
    fetch(s, 0);
    for (int i = 0, at = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        if (!w->trained)
            continue;
        vt_opt_part x = part_of(s, at, w);
        const vt_opt_step own = vt_opt_step_of(w, o);
        if (p->host_grads && w->block >= 0)
            vt_host_grads_need(p->host_grads, w->block);
        fetch(s, at + 1);
        if (s->hosted)
            vt_hosted_enter(s->hosted, at, VT_OPT_STATES, x.state);
        if (vt_param_reached(w) && sum)
            vt_opt_measure(p->g, &x, &own, s->number, sum);
        else if (vt_param_reached(w))
            vt_opt_apply_part(p->g, &x, &own, s->number);
        give_back(s, at++);
    }
    if (s->hosted)
        vt_hosted_end(s->hosted);
}

/* Lets the host update all parameters that a backward reached. */
static void hand_over(vt_params *p, vt_opt_state *s, const vt_opt_step *o)
{
    vt_host_update_begin(s->update);
    for (int i = 0, at = 0; i < p->n; i++) {
        const vt_param *w = p->at[i];
        if (!w->trained)
            continue;
        const vt_opt_part x = part_of(s, at++, w);
        const vt_opt_step own = vt_opt_step_of(w, o);
        if (vt_param_reached(w))
            vt_host_update_add(s->update, i, &x, &own);
    }
    vt_host_update_start(s->update);
}

void vt_opt_apply(vt_params *p, vt_opt_state *s, const vt_opt_step *o)
{
    double sum[VT_OPT_SUMS] = { 0 };

    vt_params_settle(p);
    if (s->update) {
        hand_over(p, s, o);
        return;
    }
    if (vt_optimizers[s->how].run)
        each_reached(p, s, o, sum);
    if (vt_opt_settle(s->how, o, sum, s->number))
        each_reached(p, s, o, NULL);
}
