/* step.c - runs one micro-batch: levels and noise, forward, loss, backward. */
#include "train/steps/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory/replay.h"
#include "train/diffusion/loss.h"
#include "train/parallel/sequence.h"
#include "train/steps/both.h"
#include "train/steps/noised.h"
#include "train/steps/sound.h"
#include "train/steps/trace.h"

/* Tensors that a micro-batch makes in its step. */
typedef struct parts {
    vtrain_noised n;
    vtrain_heard heard;
    const vtrain_walk *walk;                  /* n 0: one forward at the rows' levels */
    vtrain_walk_times walk_times;
    vt_tensor *pred, *loss;
    vtrain_in in;
} parts;

/* Copies the texts of a batch into tensors of the forward. */
static void load_texts(vt_ctx *g, vtrain_in *in, int n, const vtrain_text *text, int64_t rows)
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

/* Copies the conditions of the bits of `roles` into tensors. */
static void load_cond(const vtrain *t, vtrain_in *in, const int64_t dim[5], unsigned roles,
                      const vtrain_own *own, float *const cond[VC_ROLES])
{
    for (int i = 0; i < VC_ROLES; i++) {
        int64_t of[5];
        int nd = vtrain_data_role_dim(t->data, (vc_role)i, dim, own, of);
        if (roles & 1u << i)
            in->cond[i] = vt_from_host(t->g, VC_F32, nd, of, cond[i], VC_F32);
    }
}

/* v[:,:,1:] - v[:,:,:-1]: the difference of each latent frame from the frame before. */
static vt_tensor *frame_steps(vt_ctx *g, vt_tensor *v)
{
    int64_t f = v ? v->dim[2] : 1;
    return vt_sub(g, vt_slice(g, v, 2, 1, f), vt_slice(g, v, 2, 0, f - 1));
}

static vtrain_loss_opts loss_opts(const vtrain *t)
{
    return (vtrain_loss_opts){ (vtrain_loss_type)t->cfg.loss_type, t->cfg.loss_delta,
                               t->cfg.loss_cutoff };
}

/* The loss of the video; with --motion_sub_loss, and at least three latent frames, blended with the
 * mean squared error of the frames' differences. */
static vt_tensor *video_loss(const vtrain *t, const parts *p)
{
    vt_ctx *g = t->g;
    const vtrain_noised *n = &p->n;
    const vtrain_loss_opts o = loss_opts(t);
    vt_tensor *loss = vtrain_loss(g, p->pred, n->target, n->weight, &o);
    if (!n->motion_weight)
        return loss;
    vt_tensor *motion = vt_mse(g, frame_steps(g, vt_cast(g, p->pred, VC_F32)),
                               frame_steps(g, n->target), n->motion_weight);
    double ratio = t->cfg.motion_sub_loss_ratio;
    return vt_add(g, vt_scale(g, loss, (float)(1 - ratio)), vt_scale(g, motion, (float)ratio));
}

static vt_tensor *sound_loss(const vtrain *t, const parts *p)
{
    const vtrain_loss_opts o = loss_opts(t);
    return vtrain_heard_loss(t->g, &p->heard, &o);
}

/* The loss; of a model with sound, the sum of those of both streams. */
static vt_tensor *loss_of(const vtrain *t, const parts *p)
{
    vt_ctx *g = t->g;
    if (!p->heard.pred)
        return video_loss(t, p);
    return vt_add(g, vt_scale(g, video_loss(t, p), (float)t->cfg.video_loss_weight),
                  vt_scale(g, sound_loss(t, p), (float)t->cfg.audio_loss_weight));
}

/* Sets the same guidance for all rows, if the model takes guidance as an input. */
static void load_guidance(const vtrain *t, vtrain_in *in, int64_t rows, double guidance)
{
    float v[VTRAIN_ROWS];
    if (!t->model.guidance)
        return;
    for (int64_t i = 0; i < rows; i++)
        v[i] = (float)guidance;
    in->guidance = vt_from_host(t->g, VC_F32, 1, &rows, v, VC_F32);
}

/* Copies a micro-batch's inputs from the host. All work queued after depends on shapes only. */
static void load(vtrain *t, parts *p, const vtrain_batch *b, const vtrain_levels *v, uint64_t seed,
                 uint64_t number)
{
    vt_ctx *g = t->g;
    vtrain_noised_load(t, &p->n, b, v, seed, number);
    p->in.x = p->n.noisy;
    p->in.fps = b->fps;
    p->walk = &v->walk;
    vtrain_walk_load(t, &p->walk_times, b->dim[0], &v->walk);
    vtrain_times_load(t, &p->in, b->dim, v);
    vtrain_heard_load(t, &p->heard, &p->in, b, v, seed, number);
    load_guidance(t, &p->in, b->dim[0], t->cfg.embedded_guidance);
    load_texts(g, &p->in, b->n_texts, b->text, b->dim[0]);
    load_cond(t, &p->in, b->dim, b->roles, &b->own, b->cond);
    t->model.family->prepare(g, t->model.dit, &p->in);
}

/* Lets the LoRA of a training step drop, by draws of the samples' places in the micro-batch. */
static void begin_dropout(const vtrain *t, const vtrain_batch *b, uint64_t number)
{
    const vtrain_config *c = &t->cfg;
    const vt_dropout p = { (float)c->lora_dropout, (float)c->network_dropout,
                           (float)c->rank_dropout, (float)c->module_dropout,
                           c->rank_dropout_scale };
    if (c->training_type == VTRAIN_LORA)
        vt_dropout_begin(t->g, &p, (uint64_t)c->seed, b->dim[0], b->first, (uint32_t)number);
}

static void forward(vtrain *t, parts *p)
{
    p->pred = p->walk->n ? vtrain_walk_run(t->g, t->model.dit, &p->in, p->walk, &p->walk_times)
                         : vtrain_dit_forward(t->g, t->model.dit, &p->in, &p->heard.pred);
    if (p->pred)
        p->loss = loss_of(t, p);
}

/* ---- losses of rows ---- */

static vt_tensor *row_of(vt_ctx *g, vt_tensor *x, int64_t row)
{
    return x && x->dim[0] > 1 ? vt_slice(g, x, 0, row, row + 1) : x;
}

/* The losses of a row: its own and, of a model with sound, those of its streams. */
enum { OF_ROW, OF_VIDEO, OF_SOUND, ROW_LOSSES };

static vt_tensor *row_loss(const vtrain *t, const parts *p, int64_t row, int which)
{
    vt_ctx *g = t->g;
    const vtrain_heard *h = &p->heard;
    const parts one = {
        .pred = vt_detach(g, row_of(g, p->pred, row)),
        .n = { .target = row_of(g, p->n.target, row), .weight = row_of(g, p->n.weight, row),
               .motion_weight = row_of(g, p->n.motion_weight, row) },
        .heard = { .pred = h->pred ? vt_detach(g, row_of(g, h->pred, row)) : NULL,
                   .target = row_of(g, h->target, row), .weight = row_of(g, h->weight, row) },
    };
    return which == OF_ROW ? loss_of(t, &one)
           : which == OF_VIDEO ? video_loss(t, &one) : sound_loss(t, &one);
}

/* Returns the loss and behind it the losses of each row, [1 + rows] or [1 + rows * ROW_LOSSES], or
 * the loss of a single row without sound. The gradient goes through the loss alone. */
static vt_tensor *losses_of(const vtrain *t, const parts *p)
{
    vt_ctx *g = t->g;
    const int64_t each = p->heard.pred ? ROW_LOSSES : 1, one = 1;
    const int64_t rows = p->pred ? p->pred->dim[0] : 0, n = 1 + rows * each;
    if ((rows < 2 && each == 1) || !p->loss)
        return p->loss;
    vt_tensor *all = vt_new_for_step(g, VC_F32, 1, &n);
    for (int64_t i = 0; i < n && all; i++) {
        vt_tensor *loss = i ? row_loss(t, p, (i - 1) / each, (int)((i - 1) % each))
                            : vt_detach(g, p->loss);
        vt_assign(g, vt_slice(g, all, 0, i, i + 1), vt_reshape(g, loss, 1, &one));
    }
    return all;
}

static vt_tensor *backward(const vtrain *t, const parts *p)
{
    vt_tensor *losses = losses_of(t, p);
    vt_backward(t->g, p->loss);
    return losses;
}

/* ---- prefetching ---- */

static vt_host_data floats(const float *v, int nd, const int64_t *dim)
{
    size_t n = 1;
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    return (vt_host_data){ v, n * sizeof *v };
}

/* Starts copying to the device all data of a batch that load() will copy. */
static void prefetch(const vtrain *t, const vtrain_batch *b)
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

/* Prefetches the next batch, if it is ready, while the device runs this batch's backward. */
static void prefetch_next(const vtrain *t)
{
    const vtrain_batch *b = vtrain_loader_peek(t->loader);
    if (b)
        prefetch(t, b);
}

/* ---- trace ---- */

/* A micro-batch being run. */
typedef struct micro_run {
    vtrain *t;
    parts p;
    vtrain_levels v;
    bool record, traced;
    double forward_end;                       /* seconds; 0: it was replayed */
    int rc;                                   /* of the trace */
    vc_err *err;
} micro_run;

/* Receives the tensors that a model's forward adds to the trace. */
static void note(void *arg, const char *name, const vt_tensor *x)
{
    micro_run *j = arg;
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
    vtrain_fit fit;
    t->model.family->fit(t->model.dit, &fit);
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
    if (t->model.family->layout == VTRAIN_TOKENS)
        return as_tokens(t, x, x0);
    return x;
}

/* The timesteps that diffusers' forward() is given. */
static vt_tensor *forward_times(vtrain *t, const vtrain_in *in)
{
    vt_tensor *x = in->token_t ? in->token_t : in->t;
    const vtrain_time time = t->model.family->time;
    const float one = 1, step = 1 / (float)VTRAIN_TIMES;
    if (time == VTRAIN_TIME_CLEAN)
        return vt_add(t->g, vt_scale(t->g, x, -step),
                      vt_from_host(t->g, VC_F32, 1, (int64_t[]){ 1 }, &one, VC_F32));
    return time == VTRAIN_TIME_LEVEL ? vt_scale(t->g, x, step) : x;
}

static int trace_forward(vtrain *t, const parts *p, const vtrain_levels *v, vc_err *err)
{
    const vtrain_noised *n = &p->n;
    int64_t rows = n->x0->dim[0];
    const struct { const char *name; vt_tensor *x; } tensors[] = {
        { "latents", n->x0 }, { "noise", n->noise }, { "timesteps", p->in.t },
        { "timestep", forward_times(t, &p->in) }, { "noisy_latents", n->noisy },
        { "model_output", p->pred }, { "target", n->target }, { "loss_weight", n->weight },
        { "loss", p->loss },
    };
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof tensors / sizeof *tensors; i++)
        rc = vtrain_trace_tensor(t->output.trace, t->g, tensors[i].name,
                                 as_forward(t, tensors[i].x, n->x0), err);
    if (!rc && vtrain_objective_kind(t->objective) == VTRAIN_FLOW)
        rc = vtrain_trace_values(t->output.trace, "sigmas", 1, &rows, v->sigma, err);
    if (!rc)
        rc = vtrain_trace_values(t->output.trace, "fps", 1, &rows, p->in.fps, err);
    for (int i = 0; !rc && i < p->in.n_texts; i++)
        if (t->model.family->text_args[i])
            rc = vtrain_trace_tensor(t->output.trace, t->g, t->model.family->text_args[i],
                                     p->in.text[i].embeds, err);
    return rc;
}

static int trace_params(vtrain *t, bool grads, vc_err *err)
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

/* ---- running ---- */

vtrain_recompute vtrain_recomputed(const vtrain *t, uint32_t group)
{
    const int how = t->cfg.gradient_checkpointing;
    if (!t->plan.recompute || (t->plan.spans != t->samples.n_spans && how == VTRAIN_REMAT_NONE))
        return (vtrain_recompute){ 0, VT_KEEP };
    if (t->plan.spans == t->samples.n_spans)
        return t->plan.recompute[group];
    return (vtrain_recompute){ t->plan.blocks, VT_RECOMPUTE };
}

static int flags_of(const vtrain *t, bool record)
{
    int offload = t->cfg.gradient_checkpointing_offload ? VT_OFFLOAD : 0;
    return record ? VT_RECORD | offload : 0;
}

/* Queues all work after load(); the kernels' operands are the same for each batch of a shape. */
static vt_tensor *queue(void *arg)
{
    micro_run *j = arg;
    vt_ctx *g = j->t->g;
    forward(j->t, &j->p);
    j->forward_end = vc_seconds();
    if (!j->rc && j->traced && !vt_failed(g))
        j->rc = trace_forward(j->t, &j->p, &j->v, j->err);
    return j->record ? backward(j->t, &j->p) : j->p.loss;
}

/* The number of a sequence of kernels: of these recomputed blocks, in the first or second of two
 * transformers. */
static int variant_of(const vtrain_recompute *r, bool low)
{
    return VTRAIN_HALVES * (2 * r->blocks + (r->how == VT_KEEP_ATTENTION)) + low;
}

bool vtrain_noise_grows(const vtrain *t)
{
    const vtrain_level first = vtrain_level_of(t->objective, 1, 0.5 / VTRAIN_NOISE_LEVELS);
    const vtrain_level last = vtrain_level_of(t->objective, 1, 1 - 0.5 / VTRAIN_NOISE_LEVELS);
    return first.sigma < last.sigma;
}

static void add_loss(vtrain_part_loss *p, double loss)
{
    p->sum += loss;
    p->n++;
}

/* Adds the losses of the rows to those of their kind and, where they are learned, to the quarters
 * of the levels that their noise is in; a part of a micro-batch weighs its rows' losses by its
 * share. */
static void note_rows(const micro_run *j, vtrain_micro *m, const float *losses)
{
    const vtrain_batch *b = m->batch;
    const bool grows = vtrain_noise_grows(j->t), heard = b->sound_dim[1];
    for (int row = 0; row < b->counted; row++) {
        const float *of = b->rows > 1 || heard ? losses + 1 + row * (heard ? ROW_LOSSES : 1)
                                               : losses;
        const double loss = (double)of[OF_ROW] / b->share;
        if (heard && !b->held[row])
            add_loss(&m->of_kind[VTRAIN_LOSS_VIDEO], (double)of[OF_VIDEO] / b->share);
        if (heard && !b->held[row] && b->sound_length[row])
            add_loss(&m->of_kind[VTRAIN_LOSS_AUDIO], (double)of[OF_SOUND] / b->share);
        add_loss(&m->of_kind[b->held[row] ? VTRAIN_LOSS_PRIOR : VTRAIN_LOSS_OWN], loss);
        if (b->held[row] || isnan(j->v.quantile[row]))
            continue;
        const int at = (int)(VTRAIN_NOISE_LEVELS * j->v.quantile[row]);
        const int q = at < VTRAIN_NOISE_LEVELS ? at : VTRAIN_NOISE_LEVELS - 1;
        add_loss(&m->of_level[grows ? q : VTRAIN_NOISE_LEVELS - 1 - q], loss);
    }
}

static void read_losses(micro_run *j, vtrain_micro *m, const vt_tensor *losses)
{
    float v[1 + ROW_LOSSES * VTRAIN_ROWS];
    const bool good = losses && !vt_to_host(j->t->g, losses, v, NULL);
    m->loss = good ? v[0] : NAN;
    if (good && j->record)
        note_rows(j, m, v);
}

/* Returns the step's own error, if any: j->rc is the trace's. */
static int run_job(micro_run *j, vtrain_micro *m, vc_err *err)
{
    vtrain *t = j->t;
    const vt_work w = { .queue = queue, .arg = j, .watched = j->traced,
                        .variant = variant_of(&j->p.in.recompute, j->v.low) };
    if (j->record && !vt_prefetched(t->g, m->batch->latents))
        prefetch(t, m->batch);
    double start = vc_seconds();
    vt_step_begin(t->g, flags_of(t, j->record));
    load(t, &j->p, m->batch, &j->v, m->seed, m->number);
    if (j->record)
        begin_dropout(t, m->batch, m->number);
    const vt_tensor *losses = vt_replay(t->g, t->params, &w);
    if (j->record)
        prefetch_next(t);
    read_losses(j, m, losses);
    double middle = j->forward_end > 0 ? j->forward_end : start;
    t->time.forward += middle - start;
    t->time.backward += vc_seconds() - middle;
    return vt_step_end(t->g, err);
}

int vtrain_micro_target(vtrain *t, const vtrain_micro *m, vc_err *err)
{
    const vtrain_batch *b = m->batch;
    parts p = { .in.shared = t->ranks.sequence };
    vtrain_levels v;
    vc_err step = { 0 };
    if (!b->base)
        return 0;
    vtrain_levels_draw(&v, t, m);
    vtrain_both_use(t, v.low);
    vt_step_begin(t->g, 0);
    vt_leave_out_lora(t->g);
    load(t, &p, b, &v, m->seed, m->number);
    p.pred = vt_cast(t->g, vtrain_dit_forward(t->g, t->model.dit, &p.in, NULL), VC_F32);
    int rc = p.pred ? vt_to_host(t->g, p.pred, b->target, &step) : 0, step_rc;
    step_rc = vt_step_end(t->g, rc ? NULL : &step);
    rc = vtrain_sequence_end(t->ranks.sequence, rc ? rc : step_rc, &step);
    if (rc && err)
        *err = step;
    return vc_context(err, rc, "the base's prediction");
}

int vtrain_micro_run(vtrain *t, vtrain_micro *m, bool record, vc_err *err)
{
    micro_run j = { .t = t, .record = record, .traced = t->output.trace && record, .err = err };
    vc_err step = { 0 };
    if (j.traced) {
        j.p.in.note = note;
        j.p.in.note_arg = &j;
    }
    j.p.in.recompute = vtrain_recomputed(t, m->batch->group);
    j.p.in.shared = t->ranks.sequence;
    vtrain_levels_draw(&j.v, t, m);
    m->low = j.v.low;
    vtrain_both_use(t, m->low);
    int rc = run_job(&j, m, &step);
    if (rc && vt_replay_gave_up(t->g)) {
        vc_warn(t->ui, "graphs: off: %s", vt_replay_off(t->g));
        rc = run_job(&j, m, &step);
    }
    rc = vtrain_sequence_end(t->ranks.sequence, rc, &step);
    if (rc) {
        if (err)
            *err = step;
        return rc;
    }
    bool last = m->place == t->cfg.gradient_accumulation_steps - 1;
    if (!j.rc && j.traced)
        j.rc = trace_params(t, false, err);
    if (!j.rc && j.traced && !last)
        j.rc = vtrain_trace_write(t->output.trace, t->at.step + 1, m->place, err);
    return j.rc;
}

int vtrain_trace_step(vtrain *t, vc_err *err)
{
    if (!t->output.trace)
        return 0;
    int rc = trace_params(t, true, err);
    if (!rc)
        rc = vtrain_trace_write(t->output.trace, t->at.step + 1,
                                t->cfg.gradient_accumulation_steps - 1, err);
    return rc;
}

/* The most rows of a slot's texts beside latents of sizes dim: those of the bucket, or of the
 * slot. */
static int64_t most_rows(const vtrain *t, int slot, const int64_t dim[5])
{
    const vtrain_slot *s = vtrain_data_slot(t->data, slot);
    int64_t rows = s->rows ? s->rows : s->max_length;
    for (uint32_t i = 0; s->embeds && i < vtrain_data_groups(t->data); i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        if (g->padded != dim[2] || g->h != dim[3] || g->w != dim[4])
            continue;
        if (slot == 0 && g->text_rows)
            return g->text_rows;
        if (g->segments > 1)
            rows = g->segments * s->max_length;
    }
    rows = rows < vtrain_least_rows(t) ? vtrain_least_rows(t) : rows;
    return s->embeds ? rows : 0;
}

int vtrain_micro_dry(vtrain *t, const int64_t dim[5], const vtrain_own *own, bool record,
                     vtrain_recompute recompute, vt_usage *use, vc_err *err)
{
    vtrain_levels v;
    int32_t length[VTRAIN_TEXTS][VTRAIN_ROWS];
    float fps[VTRAIN_ROWS];
    vtrain_batch b = { .rows = (int)dim[0], .fps = fps, .n_texts = vtrain_data_slots(t->data),
                       .roles = vtrain_data_roles_of(t->data, own), .own = *own,
                       .weighted = vtrain_data_weighted(t->data) };
    memcpy(b.dim, dim, sizeof b.dim);
    for (int64_t row = 0; row < dim[0]; row++)
        fps[row] = 1 + (float)row;            /* rates that differ take the most memory */
    for (int i = 0; i < b.n_texts; i++) {
        const vtrain_slot *s = vtrain_data_slot(t->data, i);
        int64_t n = most_rows(t, i, dim);
        b.text[i] = (vtrain_text){ .n = n, .width = s->width, .length = length[i],
                                   .pooled_width = s->pooled };
        for (int64_t row = 0; row < dim[0]; row++)
            length[i][row] = (int32_t)n;
    }
    int32_t heard[VTRAIN_ROWS];
    b.sound_length = heard;
    vtrain_heard_dry(t, dim, b.sound_dim);
    for (int64_t row = 0; row < dim[0]; row++)
        heard[row] = (int32_t)b.sound_dim[2];
    parts p = { .in.recompute = recompute, .in.shared = record && t->ranks.sequence };
    vtrain_levels_dry(&v, t, dim);
    vt_step_begin(t->g, VT_DRY | flags_of(t, record));
    load(t, &p, &b, &v, 0, 0);
    if (record)
        begin_dropout(t, &b, 0);
    forward(t, &p);
    if (record)
        backward(t, &p);
    *use = vt_usage_of(t->g);
    return vt_step_end(t->g, err);
}

int vtrain_predict(vtrain *t, const vtrain_question *q, float *out, vc_err *err)
{
    vtrain_levels v;
    float fps[VTRAIN_ROWS];
    for (int64_t i = 0; i < q->dim[0]; i++)
        fps[i] = (float)q->fps;
    vtrain_levels_set(&v, t, q->dim[0], q->level, q->clean_first);
    vtrain_both_use(t, v.low);
    vt_step_begin(t->g, 0);
    vtrain_in in = { .x = vt_from_host(t->g, VC_F32, 5, q->dim, q->x, VC_F32), .fps = fps };
    vtrain_times_load(t, &in, q->dim, &v);
    load_guidance(t, &in, q->dim[0], q->guidance);
    load_texts(t->g, &in, vtrain_data_slots(t->data), q->text, q->dim[0]);
    load_cond(t, &in, q->dim, q->roles, q->own, q->cond);
    if (q->sound_dim)
        in.sound = vt_from_host(t->g, VC_F32, 5, q->sound_dim, q->sound, VC_F32);
    in.sound_length = q->sound_length;
    vt_tensor *sound = NULL, *y = vtrain_forward(t->g, t->model.dit, &in, &sound);
    int rc = y ? vt_to_host(t->g, y, out, err) : 0;
    if (!rc && sound && q->sound_out)
        rc = vt_to_host(t->g, sound, q->sound_out, err);
    vc_err step = { 0 };
    int step_rc = vt_step_end(t->g, &step);
    if (step_rc && err)
        *err = step;
    return step_rc ? step_rc : rc;
}
