/* step.c - runs one micro-batch: levels and noise, forward, loss, backward. */
#include "train/steps/step.h"

#include <math.h>
#include <string.h>

#include "common/memory/replay.h"
#include "train/parallel/sequence.h"
#include "train/steps/both.h"
#include "train/steps/losses.h"
#include "train/steps/trace.h"
#include "train/steps/trace_step.h"
#include "train/steps/upload.h"

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

static void forward(vtrain *t, vtrain_tensors *p)
{
    p->pred = p->walk->n ? vtrain_walk_run(t->g, t->model.dit, &p->in, p->walk, &p->walk_times)
                         : vtrain_dit_forward(t->g, t->model.dit, &p->in, &p->heard.pred);
    if (p->pred)
        p->loss = vtrain_loss_of(t, p);
}

static vt_tensor *backward(const vtrain *t, const vtrain_tensors *p)
{
    vt_tensor *losses = vtrain_losses_of(t, p);
    vt_backward(t->g, p->loss);
    return losses;
}

/* Prefetches the next batch, if it is ready, while the device runs this batch's backward. */
static void prefetch_next(const vtrain *t)
{
    const vtrain_batch *b = vtrain_loader_peek(t->loader);
    if (b)
        vtrain_upload_ahead(t, b);
}

/* ---- running ---- */

/* A micro-batch being run. */
typedef struct micro_run {
    vtrain *t;
    vtrain_tensors p;
    vtrain_levels v;
    bool record, traced;
    double forward_end;                       /* seconds; 0: it was replayed */
    vtrain_tracing trace;
} micro_run;

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

/* Queues all work after vtrain_upload(); the kernels' operands are the same for each batch of a
 * shape. */
static vt_tensor *queue(void *arg)
{
    micro_run *j = arg;
    vt_ctx *g = j->t->g;
    forward(j->t, &j->p);
    j->forward_end = vc_seconds();
    if (!j->trace.rc && j->traced && !vt_failed(g))
        vtrain_trace_forward(&j->trace, &j->p, &j->v);
    return j->record ? backward(j->t, &j->p) : j->p.loss;
}

/* The number of a sequence of kernels: of these recomputed blocks, in the first or second of two
 * transformers. */
static int variant_of(const vtrain_recompute *r, bool low)
{
    return VTRAIN_HALVES * (2 * r->blocks + (r->how == VT_KEEP_ATTENTION)) + low;
}

static void read_losses(micro_run *j, vtrain_micro *m, const vt_tensor *losses)
{
    float v[1 + VTRAIN_ROW_LOSSES * VTRAIN_ROWS];
    const bool good = losses && !vt_to_host(j->t->g, losses, v, NULL);
    m->loss = good ? v[0] : NAN;
    if (good && j->record)
        vtrain_losses_note(j->t, &j->v, m, v);
}

/* Returns the step's own error, if any: j->trace.rc is the trace's. */
static int run_job(micro_run *j, vtrain_micro *m, vc_err *err)
{
    vtrain *t = j->t;
    const vt_work w = { .queue = queue, .arg = j, .watched = j->traced,
                        .variant = variant_of(&j->p.in.recompute, j->v.low) };
    if (j->record && !vt_prefetched(t->g, m->batch->latents))
        vtrain_upload_ahead(t, m->batch);
    double start = vc_seconds();
    vt_step_begin(t->g, flags_of(t, j->record));
    vtrain_upload(t, &j->p, m->batch, &j->v, m->seed, m->number);
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
    vtrain_tensors p = { .in.shared = t->ranks.sequence };
    vtrain_levels v;
    vc_err step = { 0 };
    if (!b->base)
        return 0;
    vtrain_levels_draw(&v, t, m);
    vtrain_both_use(t, v.low);
    vt_step_begin(t->g, 0);
    vt_leave_out_lora(t->g);
    vtrain_upload(t, &p, b, &v, m->seed, m->number);
    p.pred = vt_cast(t->g, vtrain_dit_forward(t->g, t->model.dit, &p.in, &p.heard.pred), VC_F32);
    int rc = p.pred ? vt_to_host(t->g, p.pred, b->target, &step) : 0, step_rc;
    if (!rc && p.heard.pred)
        rc = vt_to_host(t->g, vt_cast(t->g, p.heard.pred, VC_F32), b->sound_target, &step);
    step_rc = vt_step_end(t->g, rc ? NULL : &step);
    rc = vtrain_sequence_end(t->ranks.sequence, rc ? rc : step_rc, &step);
    if (rc && err)
        *err = step;
    return vc_context(err, rc, "the base's prediction");
}

int vtrain_micro_run(vtrain *t, vtrain_micro *m, bool record, vc_err *err)
{
    micro_run j = { .t = t, .record = record, .traced = t->output.trace && record,
                    .trace = { .t = t, .err = err } };
    vc_err step = { 0 };
    if (j.traced) {
        j.p.in.note = vtrain_trace_note;
        j.p.in.note_arg = &j.trace;
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
    rc = j.trace.rc;
    if (!rc && j.traced)
        rc = vtrain_trace_params(t, false, err);
    if (!rc && j.traced && !last)
        rc = vtrain_trace_write(t->output.trace, t->at.step + 1, m->place, err);
    return rc;
}

/* ---- without data ---- */

/* The most rows of a slot's texts beside latents of sizes dim: those of the bucket, or of the
 * slot's longest text. */
static int64_t most_rows(const vtrain *t, int slot, const int64_t dim[5])
{
    const vtrain_slot *s = vtrain_data_slot(t->data, slot);
    const bool full = vtrain_full_texts(&t->cfg);
    int64_t rows = vtrain_data_longest(s, 0, full);
    for (uint32_t i = 0; s->embeds && i < vtrain_data_groups(t->data); i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        if (g->padded != dim[2] || g->h != dim[3] || g->w != dim[4])
            continue;
        if (slot == 0 && g->text_rows)
            return g->text_rows;
        if (g->segments > 1)
            rows = vtrain_data_longest(s, g->segments, full);
    }
    rows = rows < vtrain_least_rows(t) ? vtrain_least_rows(t) : rows;
    return s->embeds ? rows : 0;
}

int vtrain_micro_dry(vtrain *t, const int64_t dim[5], const vtrain_own *own, bool record,
                     vtrain_recompute recompute, const vtrain_paced *paced, vt_usage *use,
                     vc_err *err)
{
    vtrain_levels v;
    int32_t length[VTRAIN_TEXTS][VTRAIN_ROWS];
    float fps[VTRAIN_ROWS];
    int32_t kind[VTRAIN_ROWS] = { 0 };
    vtrain_batch b = { .rows = (int)dim[0], .fps = fps, .control_kind = kind,
                       .n_texts = vtrain_data_slots(t->data),
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
    vtrain_heard_dry(t, &b, heard);
    vtrain_tensors p = { .in.recompute = recompute, .in.shared = record && t->ranks.sequence };
    vtrain_levels_dry(&v, t, dim);
    if (paced) {
        v.frames = (int)(dim[2] / vtrain_fit_of(t).mult[0]);
        p.in.causal = paced->causal;
    }
    vt_step_begin(t->g, VT_DRY | flags_of(t, record));
    vtrain_upload(t, &p, &b, &v, 0, 0);
    if (record)
        begin_dropout(t, &b, 0);
    forward(t, &p);
    if (record)
        backward(t, &p);
    *use = vt_usage_of(t->g);
    return vt_step_end(t->g, err);
}
