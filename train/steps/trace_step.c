/* trace_step.c - see trace_step.h */
#include "train/steps/trace_step.h"

#include <string.h>

#include "train/steps/trace.h"

void vtrain_trace_note(void *arg, const char *name, const vt_tensor *x)
{
    vtrain_tracing *j = arg;
    if (!j->rc)
        j->rc = vtrain_trace_tensor(j->t->output.trace, j->t->g, name, x, j->err);
}

/* [B,c,F,H,W] of x, which broadcasts to the latents x0. */
static vt_tensor *spread(vt_ctx *g, vt_tensor *x, vt_tensor *x0, int64_t c)
{
    if (x->dim[1] == c && !memcmp(x->dim + 2, x0->dim + 2, 3 * sizeof *x->dim))
        return x;
    return vt_add(g, vt_scale(g, vt_slice(g, x0, 1, 0, c), 0), x);
}

/* The tokens of x, which broadcast to those of x0: a patch of several places has all channels. */
static vt_tensor *as_tokens(vtrain *t, vt_tensor *x, vt_tensor *x0)
{
    const vtrain_fit fit = vtrain_fit_of(t);
    const int *p = fit.mult;
    x = spread(t->g, x, x0, p[0] * p[1] * p[2] > 1 ? x0->dim[1] : x->dim[1]);
    return vt_patchify(t->g, x, p[0], p[1], p[2], VT_C_FIRST);
}

/* A video in the layout of diffusers' forward(); others as they are. */
static const vt_tensor *as_forward(vtrain *t, vt_tensor *x, vt_tensor *x0)
{
    if (!x || x->nd != 5)
        return x;
    if (t->model.family->layout == VTRAIN_FRAMES_FIRST)
        return vt_permute(t->g, x, (int[]){ 0, 2, 1, 3, 4 });
    if (t->model.family->layout == VTRAIN_CHANNELS_LAST)
        return vt_permute(t->g, x, (int[]){ 0, 2, 3, 4, 1 });
    if (t->model.family->layout == VTRAIN_TOKENS)
        return as_tokens(t, x, x0);
    return x;
}

/* The timesteps that diffusers' forward() is given. */
static vt_tensor *forward_times(vtrain *t, const vtrain_in *in)
{
    const vtrain_time time = t->model.family->time;
    vt_tensor *x = time == VTRAIN_TIME_FRAMES && in->frame_t ? in->frame_t
                   : in->token_t ? in->token_t : in->t;
    const float one = 1, step = 1 / (float)VTRAIN_TIMES;
    if (time == VTRAIN_TIME_CLEAN)
        return vt_add(t->g, vt_scale(t->g, x, -step),
                      vt_from_host(t->g, VC_F32, 1, (int64_t[]){ 1 }, &one, VC_F32));
    return time == VTRAIN_TIME_LEVEL ? vt_scale(t->g, x, step) : x;
}

void vtrain_trace_forward(vtrain_tracing *j, const vtrain_tensors *p, const vtrain_levels *v)
{
    vtrain *t = j->t;
    const vtrain_noised *n = &p->n;
    int64_t rows = n->x0->dim[0];
    const struct { const char *name; vt_tensor *x; } tensors[] = {
        { "latents", n->x0 }, { "noise", n->noise }, { "timesteps", p->in.t },
        { "timestep", forward_times(t, &p->in) }, { "noisy_latents", n->noisy },
        { "model_output", p->pred }, { "target", n->target }, { "loss_weight", n->weight },
        { "loss", p->loss },
    };
    for (size_t i = 0; !j->rc && i < sizeof tensors / sizeof *tensors; i++)
        j->rc = vtrain_trace_tensor(t->output.trace, t->g, tensors[i].name,
                                    as_forward(t, tensors[i].x, n->x0), j->err);
    if (!j->rc && vtrain_objective_kind(t->objective) == VTRAIN_FLOW)
        j->rc = vtrain_trace_values(t->output.trace, "sigmas", 1, &rows, v->sigma, j->err);
    if (!j->rc)
        j->rc = vtrain_trace_values(t->output.trace, "fps", 1, &rows, p->in.fps, j->err);
    for (int i = 0; !j->rc && i < p->in.n_texts; i++)
        if (t->model.family->text_args[i])
            j->rc = vtrain_trace_tensor(t->output.trace, t->g, t->model.family->text_args[i],
                                        p->in.text[i].embeds, j->err);
}

int vtrain_trace_params(vtrain *t, bool grads, vc_err *err)
{
    int rc = 0;
    float scale = 1 / (float)vtrain_runs(t);
    if (grads)
        vt_params_settle(t->params);
    for (int i = 0; !rc && i < vt_params_count(t->params); i++) {
        const vt_param *x = vt_params_at(t->params, i);
        if (x->trained)
            rc = vtrain_trace_param(t->output.trace, t->g, x, grads, scale, err);
    }
    return rc;
}

int vtrain_trace_step(vtrain *t, vc_err *err)
{
    if (!t->output.trace)
        return 0;
    int rc = vtrain_trace_params(t, true, err);
    if (!rc)
        rc = vtrain_trace_write(t->output.trace, t->at.step + 1,
                                t->cfg.gradient_accumulation_steps - 1, err);
    return rc;
}
