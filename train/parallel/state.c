/* state.c - the optimiser's state, whole or split over ranks; see state.h */
#include "train/parallel/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory/second_stream.h"
#include "common/os/file.h"
#include "common/os/spill.h"
#include "formats/tensors/values.h"
#include "train/parallel/zero.h"

struct vtrain_opt {
    vt_ctx *g;
    vt_params *p;
    vt_optimizer how;
    bool average;                /* an average is kept */
    double beta1;
    vc_spill *spill;             /* the file of whole state and average; NULL: in memory */
    vtrain_zero *zero;           /* the state that is split; NULL: it is whole */
    vt_opt_state state;          /* the whole state; if it is split, only while it is gathered */
    vt_tensor **ema;             /* the average, likewise */
    vt_tensor **found;           /* weights that the optimiser finds, while they are shown; those of
                                  * a whole state are in the gradients' memory */
    vt_tensor **shown;           /* which of both is in the values' place; NULL: none */
};

/* ---- open, close ---- */

static int open_file(vtrain_opt *o, const vtrain_opt_opts *opts, vc_err *err)
{
    size_t bytes = vt_opt_spill_bytes(o->p, o->how);
    bytes += o->average ? vt_ema_spill_bytes(o->p) : 0;
    return opts->folder ? vc_spill_open(&o->spill, opts->folder, bytes, "optimizer state",
                                        opts->dry, err) : 0;
}

static int open_whole(vtrain_opt *o, const vtrain_opt_opts *opts, vc_err *err)
{
    int rc = open_file(o, opts, err);
    if (!rc)
        rc = vt_opt_open(&o->state, o->p, o->how, &(vt_opt_home){
                             o->spill, opts->host, opts->update, opts->threads }, err);
    return rc || !o->average ? rc : vt_ema_open(&o->ema, o->p, o->spill, err);
}

static void close_whole(vtrain_opt *o)
{
    vt_opt_close(&o->state, o->p);
    vt_ema_close(o->ema, o->p);
    o->ema = NULL;
}

int vtrain_opt_open(vtrain_opt **out, vtrain_dist *d, vt_ctx *g, vt_params *p,
                    const vtrain_opt_opts *opts, vc_err *err)
{
    vtrain_opt *o = calloc(1, sizeof *o);
    *out = o;
    if (!o)
        return vc_no_memory(err);
    *o = (vtrain_opt){ .g = g, .p = p, .how = opts->how, .average = opts->average,
                       .beta1 = opts->beta1 };
    if (d)
        return vtrain_zero_open(&o->zero, d, g, p, &(vtrain_zero_opts){
                                    o->average, opts->folder, opts->host, opts->dry }, err);
    return open_whole(o, opts, err);
}

void vtrain_opt_close(vtrain_opt *o)
{
    if (!o)
        return;
    close_whole(o);
    vtrain_zero_close(o->zero);
    vc_spill_close(o->spill);
    free(o);
}

double *vtrain_opt_numbers(vtrain_opt *o)
{
    return o->zero ? vtrain_zero_numbers(o->zero) : o->state.number;
}

size_t vtrain_opt_bytes(const vtrain_opt *o)
{
    size_t averages = o->average && !o->spill
                      ? (size_t)vt_params_bytes(o->p).trained * sizeof(float) : 0;
    return o->zero ? vtrain_zero_bytes(o->zero) : vt_opt_bytes(&o->state) + averages;
}

size_t vtrain_opt_spilled(const vtrain_opt *o)
{
    return o->zero ? vtrain_zero_spilled(o->zero) : vc_spill_bytes(o->spill);
}

size_t vtrain_opt_hosted(const vtrain_opt *o)
{
    return o->zero ? vtrain_zero_hosted(o->zero) : vt_opt_host_bytes(&o->state);
}

size_t vtrain_opt_copies(const vtrain_opt *o)
{
    return vt_opt_copies_bytes(&o->state);
}

int vtrain_opt_check(const vtrain_opt *o, vc_err *err)
{
    return o->zero ? vtrain_zero_check(o->zero, err) : vc_spill_check(o->spill, err);
}

void vtrain_opt_rest(vtrain_opt *o, const vt_tensor *x)
{
    vt_param_rest(o->zero ? vtrain_zero_gathered(o->zero) : o->spill, x);
}

/* ---- a step ---- */

int vtrain_opt_norm(vtrain_opt *o, double *norm, vc_err *err)
{
    if (o->zero)
        return vtrain_zero_norm(o->zero, norm, err);
    *norm = vt_params_grad_norm(o->p);
    return 0;
}

int vtrain_opt_step(vtrain_opt *o, const vt_opt_step *s, double decay, vc_err *err)
{
    if (o->zero) {
        int rc = vtrain_zero_step(o->zero, s, err);
        vtrain_zero_ema(o->zero, decay);
        return rc ? rc : vtrain_opt_check(o, err);
    }
    vt_opt_apply(o->p, &o->state, s);
    if (o->ema)
        vt_ema_update(o->ema, o->p, o->spill, decay);
    return vtrain_opt_check(o, err);
}

/* ---- checkpoints ---- */

int vtrain_opt_whole(vtrain_opt *o, bool keep, vc_err *err)
{
    return o->zero ? vtrain_zero_gather(o->zero, keep, &o->state, &o->ema, err) : 0;
}

void vtrain_opt_part(vtrain_opt *o)
{
    if (o->zero)
        close_whole(o);
}

bool vtrain_opt_is_whole(const vtrain_opt *o)
{
    return !o->zero || o->state.n;
}

/* Calls f for a tensor of p, unless there is none. */
static int each_of(vtrain_opt_fn f, void *arg, const char *kind, const vt_param *p, vt_tensor *x,
                   vc_err *err)
{
    char prefix[64];
    if (!x)
        return 0;
    snprintf(prefix, sizeof prefix, "%s/%s", kind, p->model ? "transformer_2." : "");
    return f(arg, prefix, p, x, err);
}

int vtrain_opt_each(vtrain_opt *o, vtrain_opt_fn f, void *arg, vc_err *err)
{
    const vt_opt_state *state = &o->state;
    int rc = 0, k = 0;
    for (int i = 0; !rc && i < vt_params_count(o->p); i++) {
        const vt_param *p = vt_params_at(o->p, i);
        if (!p->trained)
            continue;
        const vt_state_row *row = vt_optimizers[vt_opt_of(state->how, p->t)].state;
        rc = each_of(f, arg, "master", p, p->t, err);
        for (int s = 0; !rc && state->n && s < VT_OPT_STATES; s++)
            rc = each_of(f, arg, row[s].name, p, state->of[s][k], err);
        if (!rc)
            rc = each_of(f, arg, "ema", p, o->ema ? o->ema[k] : NULL, err);
        k++;
    }
    return rc;
}

/* ---- from a checkpoint ---- */

typedef struct stored { vtrain_opt *o; const vf_safetensors *file; } stored;

static int set_state(void *arg, const char *prefix, const vt_param *p, vt_tensor *x, vc_err *err)
{
    const stored *s = arg;
    char *name = vc_format("%s%s", prefix, p->name);
    if (!name)
        return vc_no_memory(err);
    vf_view v;
    int rc = vf_safetensors_get(s->file, name, &v, err);
    if (!rc)
        rc = vf_values_set(s->o->g, x, &v, err);
    vtrain_opt_rest(s->o, x);
    free(name);
    return rc;
}

static bool has_averages(const vf_safetensors *file)
{
    for (int i = 0; i < vf_safetensors_count(file); i++)
        if (!strncmp(vf_safetensors_at(file, i)->name, "ema/", 4))
            return true;
    return false;
}

/* Makes the average anew in its place, which are the last bytes that were taken of a file. */
static int begin_average(vtrain_opt *o, vc_err *err)
{
    if (o->spill)
        vc_spill_take_back(o->spill, vt_ema_spill_bytes(o->p));
    return vt_ema_open(&o->ema, o->p, o->spill, err);
}

int vtrain_opt_read(vtrain_opt *o, const vf_safetensors *file, bool *averages, vc_err *err)
{
    stored s = { o, file };
    vt_tensor **ema = o->ema;
    *averages = has_averages(file);
    if (!*averages)
        o->ema = NULL;
    int rc = vtrain_opt_each(o, set_state, &s, err);
    if (!rc && o->zero)
        rc = vtrain_zero_read(o->zero, file, *averages, err);
    o->ema = ema;
    if (rc || *averages || !ema)
        return rc;
    vt_ema_close(o->ema, o->p);
    return begin_average(o, err);
}

/* ---- the weights that files and samples have ---- */

/* The state from which the optimiser finds its weights; -1: it has none. */
static int found_from(const vtrain_opt *o)
{
    const vt_opt_run *run = vt_optimizers[o->how].run;
    return run ? run->shown - 1 : -1;
}

/* Lists the gradients of the trained parameters. */
static int list_gradients(vt_tensor ***out, const vtrain_opt *o, vc_err *err)
{
    vt_tensor **list = calloc((size_t)vt_params_count(o->p) + 1, sizeof *list);
    *out = list;
    for (int i = 0, k = 0; list && i < vt_params_count(o->p); i++) {
        const vt_param *p = vt_params_at(o->p, i);
        if (p->trained)
            list[k++] = p->grad;
    }
    return list ? 0 : vc_no_memory(err);
}

/* Finds the optimiser's weights from its whole state. */
static int find(vtrain_opt *o, vc_err *err)
{
    int rc = o->zero ? vt_ema_open(&o->found, o->p, NULL, err) : list_gradients(&o->found, o, err);
    for (int k = 0; !rc && k < o->state.n; k++) {
        const vt_tensor *z = o->state.of[found_from(o)][k];
        vt_values_cast(o->g, o->found[k]->data, VC_F32, z->data, z->dtype, (size_t)vt_count(z));
        vtrain_opt_rest(o, z);
    }
    return rc;
}

static void show(vtrain_opt *o, vt_tensor **weights)
{
    o->shown = weights;
    if (weights && weights == o->found)
        vt_ema_update(weights, o->p, NULL, 1 - 1 / o->beta1);
    if (weights)
        vt_ema_swap(weights, o->p);
}

bool vtrain_opt_has_plain(const vtrain_opt *o)
{
    return o->average;
}

int vtrain_opt_show(vtrain_opt *o, vc_err *err)
{
    int rc = found_from(o) < 0 ? 0 : find(o, err);
    if (!rc)
        show(o, o->found ? o->found : o->ema);
    return rc;
}

void vtrain_opt_hide(vtrain_opt *o)
{
    if (!o)
        return;
    if (o->shown)
        vt_ema_swap(o->shown, o->p);
    for (int k = 0; o->shown && o->shown == o->ema && o->ema[k]; k++)
        vtrain_opt_rest(o, o->ema[k]);
    o->shown = NULL;
    if (o->zero)
        vt_ema_close(o->found, o->p);
    else
        free(o->found);
    o->found = NULL;
    if (o->zero && !o->state.n) {              /* gathered for _show_all alone */
        vt_ema_close(o->ema, o->p);
        o->ema = NULL;
    }
}

int vtrain_opt_show_all(vtrain_opt *o, vc_err *err)
{
    if (!o)
        return 0;
    if (!o->zero)
        return vtrain_opt_show(o, err);
    int rc = found_from(o) < 0 ? vtrain_zero_gather(o->zero, true, NULL, &o->ema, err)
                               : vtrain_zero_gather_state(o->zero, found_from(o), &o->found, err);
    if (!rc)
        show(o, o->found ? o->found : o->ema);
    return rc;
}
