/* loop.c - the steps: accumulate, clip, update, log; checkpoints, held-out loss, samples, and the
 * end of a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory/replay.h"
#include "common/os/file.h"
#include "common/os/map.h"
#include "train/optim/average.h"
#include "train/optim/groups.h"
#include "train/optim/rate.h"
#include "train/output/report.h"
#include "train/parallel/dist.h"
#include "train/parallel/sequence.h"
#include "train/parallel/state.h"
#include "train/plan/memory.h"
#include "train/plan/plan.h"
#include "train/samples/samples.h"
#include "train/samples/spans.h"
#include "train/sampling/sample.h"
#include "train/setup/encoders.h"
#include "train/steps/both.h"
#include "train/steps/notes.h"
#include "train/steps/pauses.h"
#include "train/steps/step.h"
#include "train/steps/trace.h"
#include "train/vtrain.h"
#include "train/vtrain/room.h"
#include "train/vtrain/run.h"
#include "train/vtrain/save.h"
#include "train/vtrain/summary.h"

enum { ETA_AFTER = 5, WITHIN = 30 };         /* steps; seconds between reports within one step */

/* A run's outputs beside its checkpoints. An output that cannot be written is a warning while
 * training continues, and an error of the run if it is still missing at the end. */
typedef enum { METRICS, REPORT, SAMPLES, OUTPUTS } output;

/* State and buffers of the steps. */
typedef struct loop {
    vtrain_notes notes;                       /* of the step's micro-batches, on all ranks */
    int64_t saved;                            /* step of the last checkpoint, -1: none */
    vtrain_counts count;                      /* of this process, for the summary */
    vtrain_pauses pauses;                     /* of this process, between its steps */
    double begun_at;                          /* seconds: this process began its steps */
    double micro_flops;                       /* of the current micro-batch */
    int64_t micro;                            /* its place in this rank's part of the step */
    double step_at, reported_at;              /* seconds: the step began; was last reported */
    double report_at, report_took;            /* seconds: report.html was last written; that took */
    bool report_live, ending;                 /* report.html says that steps follow; none does */
    vtrain *t;
    vc_err missing[OUTPUTS];                  /* why an output is missing; code 0: it is not */
} loop;

/* ---- one step ---- */

static int bad_loss(const vtrain *t, const loop *l, const char *what, double value,
                    const vtrain_record *r, vc_err *err)
{
    char kept[96] = "there is no checkpoint yet";
    if (l->saved >= 0)
        snprintf(kept, sizeof kept, "checkpoint-%lld is the last good state", (long long)l->saved);
    bool first = t->at.step == l->count.begun;
    return vc_fail(err, VC_ENUMERIC, "step %lld: %s is %s (samples %s%s): training stops; %s; %s",
                   (long long)t->at.step + 1, what, isnan(value) ? "NaN" : "infinite",
                   r->n_samples ? r->sample[0] : "-", r->n_samples > 1 ? ", ..." : "", kept,
                   first ? "no rate has acted yet in this process, so the cause is in the weights "
                           "that it read or in these samples: try other weights, and look at the "
                           "samples with vlat show"
                         : "a lower --learning_rate or --max_grad_norm may help");
}

/* Reports the progress of a long step, by the arithmetic done. */
static void report_within(void *arg, double flops)
{
    loop *l = arg;
    double now = vc_seconds();
    if (now - l->reported_at < WITHIN)
        return;
    l->reported_at = now;
    char extra[96], left[32];
    double part = l->micro_flops > 0 ? fmin(flops / l->micro_flops, 1) : 0;
    double done = ((double)l->micro + part) / (double)l->t->cfg.gradient_accumulation_steps;
    if (done <= 0)
        return;
    snprintf(extra, sizeof extra, "step %lld: %.0f%%, %s left", (long long)l->t->at.step + 1,
             100 * done, vc_human_time(left, (now - l->step_at) * (1 - done) / done));
    vc_progress_at(l->t->ui, (uint64_t)l->t->at.step, extra);
}

/* Counts the device's waits and the replayed graphs of the micro-batch that has run. */
static void note_device(const vtrain *t, loop *l, vtrain_micro_note *own)
{
    vt_usage use = vt_usage_of(t->g);
    bool host = vt_host_memory(t->g);
    own->device_waits = host ? NAN : (double)use.waits;
    own->graph_replays = host ? NAN : use.replayed;
    if (t->at.step == l->count.begun)
        return;
    l->count.waits += use.waits;
    l->count.wait_s += use.waited;
}

/* Operations of a micro-batch on this rank: the mean for a group that joined since the plan was
 * made. */
static double flops_of(const vtrain *t, uint32_t group)
{
    if (t->plan.group_flops && t->plan.spans == t->samples.n_spans)
        return t->plan.group_flops[group];
    return t->plan.flops / (double)(vtrain_runs(t) * t->cfg.sp);
}

/* Waits for the batch of this rank's i-th micro-batch of the step. */
static int next_batch(vtrain *t, int64_t i, const vtrain_batch **b, double *waited, vc_err *err)
{
    if (*t->stop)
        return vc_fail(err, VC_ESTOP, "stopped");
    uint64_t parts = (uint64_t)vtrain_parts(t);
    uint64_t own = (uint64_t)(i * vtrain_dp_groups(t) + vtrain_dp_group(t));
    uint64_t number = t->at.micro * parts + own;
    int rc = vtrain_samples_upto(t, number / parts, number, err);
    if (!rc)
        rc = vtrain_loader_next(t->loader, b, waited, err);
    return rc || *b ? rc : vc_fail(err, VC_EFAIL, "the loader ended before the run");
}

/* Runs a micro-batch. A want of memory is noted in *lack, with its bare error. */
static int run_micro(vtrain *t, loop *l, int64_t i, const vtrain_batch *b, double waited,
                     vtrain_lack *lack, vc_err *err)
{
    vtrain_micro_note *own = vtrain_notes_batch(&l->notes, t, i, b, waited);
    vtrain_micro m = { .batch = b, .seed = (uint64_t)t->cfg.seed, .level = -1,
                       .number = b->micro, .place = (int)i };
    l->micro = i;
    l->micro_flops = flops_of(t, b->group);
    vt_watch(t->g, report_within, l);
    int rc = vtrain_micro_target(t, &m, err);
    vtrain_dist_begin(t->ranks.dist, i);
    if (!rc)
        rc = vtrain_micro_run(t, &m, true, err);
    vt_watch(t->g, NULL, NULL);
    *lack = (vtrain_lack){ rc == VC_ENOMEM, b->group };
    own->loss = (double)m.loss;
    own->low = m.low;
    memcpy(own->level, m.of_level, sizeof own->level);
    memcpy(own->kind, m.of_kind, sizeof own->kind);
    note_device(t, l, own);
    if (!rc || lack->memory)
        return rc;
    vc_context(err, rc, "bucket %s", vtrain_data_group(t->data, b->group)->name);
    return vc_context(err, rc, "step %lld", (long long)t->at.step + 1);
}

/* Runs this rank's micro-batches of one step; their gradients add up. A rank that fails still
 * notifies those that share the next micro-batch with it. */
static int accumulate(vtrain *t, loop *l, vtrain_lack *lack, vc_err *err)
{
    int64_t n = t->cfg.gradient_accumulation_steps;
    int rc = 0;
    vt_params_zero_grad(t->params);
    for (int64_t i = 0; i < n; i++) {
        const vtrain_batch *b = NULL;
        double waited = 0;
        if (!rc)
            rc = next_batch(t, i, &b, &waited, err);
        rc = vtrain_sequence_agree(t->ranks.sequence, rc, err);
        if (!rc)
            rc = run_micro(t, l, i, b, waited, lack, err);
        if (b)
            vtrain_loader_give_back(t->loader, b);
    }
    return rc;
}

/* Computes the gradients and sums them over the ranks. */
static int sum_gradients(vtrain *t, loop *l, vtrain_lack *lack, vc_err *err)
{
    vc_err why = { 0 };
    int rc = accumulate(t, l, lack, err), sum_rc = vtrain_dist_finish(t->ranks.dist, &why);
    lack->memory &= !sum_rc;                     /* ranks whose sums failed cannot go on */
    if (!rc && sum_rc) {
        rc = sum_rc;
        *err = why;
    }
    if (!rc)
        rc = vtrain_trace_step(t, err);
    return rc ? rc : vtrain_encoders_check(t, false, err);
}

/* The same, again and again while a rank lacks memory and less can be used. All ranks return the
 * same. */
static int gradients(vtrain *t, loop *l, vc_err *err)
{
    vc_err why;
    bool again;
    int rc;
    do {
        vtrain_lack lack = { 0 };
        why = (vc_err){ 0 };
        again = false;
        int own = sum_gradients(t, l, &lack, &why);
        rc = vc_comm_agree(t->comm, own, &why);
        if (rc == VC_ENOMEM)
            rc = vtrain_room_made(t, own, &lack, &again, &why);
    } while (!rc && again);
    if (rc && err)
        *err = why;
    return rc;
}

static int update(vtrain *t, const loop *l, vtrain_record *r, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vt_opt_run *run = vt_optimizers[c->optimizer].run;
    double mean = 1 / (double)vtrain_runs(t), start = vc_seconds();
    int rc = vtrain_opt_norm(t->optim.state, &r->grad_norm, err);
    rc = vtrain_device_agree(t, rc, err);
    if (rc)
        return rc;
    r->grad_norm *= mean;
    if (!isfinite(r->grad_norm))
        return bad_loss(t, l, "gradient norm", r->grad_norm, r, err);
    rc = vtrain_both_reached(t, err);
    if (rc)
        return rc;
    vtrain_both_before(t);
    vtrain_groups_at(t->optim.groups, t->at.step, t->plan.steps);
    r->lr = vtrain_group_lr(t->optim.groups, 0);
    r->group = vtrain_groups_notes(t->optim.groups, &r->n_groups);
    const vt_opt_step o = {
        .lr = r->lr, .beta1 = c->adam_beta1, .beta2 = c->adam_beta2, .eps = c->adam_epsilon,
        .weight_decay = c->adam_weight_decay, .step = t->at.step + 1, .seed = (uint64_t)c->seed,
        .grad_scale = mean * vtrain_clip_factor(r->grad_norm, c->max_grad_norm),
        .prodigy = { c->prodigy_d0, c->prodigy_d_coef, c->prodigy_growth_rate, c->prodigy_beta3,
                     c->prodigy_use_bias_correction, c->prodigy_safeguard_warmup },
        .adafactor = { c->adafactor_clip_threshold, c->adafactor_decay_rate,
                       c->adafactor_relative_step, c->adafactor_scale_parameter,
                       c->adafactor_warmup_init },
        .schedule_free = { c->schedule_free_r, c->schedule_free_weight_lr_power },
        .muon = { c->muon_momentum, c->muon_nesterov, (int)c->muon_iterations,
                  c->muon_adjust_lr_fn ? VT_MUON_ORIGINAL : VT_MUON_MATCH_RMS },
    };
    rc = vtrain_opt_step(t->optim.state, &o, vtrain_decay(t), err);
    if (run && run->logged) {
        r->number_name = run->number[0];
        r->number = vtrain_opt_numbers(t->optim.state)[0];
    }
    vtrain_both_after(t, (bool[]){ r->of[0].n > 0, r->of[1].n > 0 });
    t->time.update += vc_seconds() - start;
    return rc;
}

/* Records whether an output was written. Samples of a step that are missing stay missing. */
static void note_output(const vtrain *t, loop *l, output o, int rc, const vc_err *why)
{
    vc_err *missing = &l->missing[o];
    if (rc && !missing->code)
        vc_warn(t->ui, "step %lld: %s; training continues", (long long)t->at.step, why->text);
    if (!rc && missing->code && o != SAMPLES)
        vc_say(t->ui, "step %lld: written after all; the error was: %s", (long long)t->at.step,
               missing->text);
    if (rc || o != SAMPLES)
        *missing = rc ? *why : (vc_err){ 0 };
}

/* Computes the held-out loss of the weights that a checkpoint would have. Collective. */
static int evaluate(vtrain *t, loop *l, vtrain_record *r, vc_err *err)
{
    vtrain_pause_begin(&l->pauses, t, "held-out loss");
    int rc = vtrain_dist_whole(t->ranks.dist, true, err);
    if (!rc)
        rc = vtrain_opt_show_all(t->optim.state, err);
    if (!rc)
        rc = vtrain_eval(t, r, err);
    vtrain_opt_hide(t->optim.state);
    vtrain_dist_part(t->ranks.dist);
    vtrain_pause_end(&l->pauses, t, VTRAIN_PAUSE_EVAL);
    if (!rc && t->at.step)
        vc_say(t->ui, "step %lld: held-out loss %.5f", (long long)t->at.step,
               r->eval_loss);
    else if (!rc)
        vc_say(t->ui, "before step 1: held-out loss %.5f", r->eval_loss);
    return rc;
}

static int write_record(vtrain *t, loop *l, vtrain_record *r, uint64_t tokens, double start,
                        vc_err *err)
{
    r->step = t->at.step;
    r->epoch = vtrain_epoch(t);
    r->step_s = vc_seconds() - start;
    r->tokens_per_s = (double)tokens / r->step_s;
    r->caption_dropout = t->at.rows ? (double)t->at.dropped / (double)t->at.rows : 0;
    r->eval_loss = NAN;
    t->time.wait += r->data_wait_s;
    int64_t now = vtrain_private_bytes();
    if (now > t->memory.peak)
        t->memory.peak = now;
    r->peak_bytes = t->memory.peak;
    int rc = vtrain_eval_due(t) ? evaluate(t, l, r, err) : 0;
    if (rc)
        return rc;
    t->at.eval_loss = r->eval_loss;
    vc_err why = { 0 };
    if (vtrain_leads(t))
        note_output(t, l, METRICS, vtrain_metrics_step(t->output.metrics, r, &why), &why);
    return 0;
}

/* Reports a step and, after the first few, how long the rest of the run will take. */
static void report_progress(const vtrain *t, const loop *l, const vtrain_record *r)
{
    char extra[160], rates[120], time[32], pauses[96] = "";
    vtrain_groups_text(t->optim.groups, rates, sizeof rates);
    int n = snprintf(extra, sizeof extra, "loss %.4f, lr %s", r->loss, rates);
    if (r->kind[VTRAIN_LOSS_PRIOR].n && (size_t)n < sizeof extra)
        n += snprintf(extra + n, sizeof extra - (size_t)n, ", priors %.4f",
                      r->kind[VTRAIN_LOSS_PRIOR].sum / (double)r->kind[VTRAIN_LOSS_PRIOR].n);
    if (r->number_name && (size_t)n < sizeof extra)
        snprintf(extra + n, sizeof extra - (size_t)n, ", %s %.3g", r->number_name, r->number);
    int64_t done = t->at.step - l->count.begun, left = t->plan.steps - t->at.step;
    double each = (vc_seconds() - l->begun_at - vtrain_pauses_spent(&l->pauses)) / (double)done;
    double ahead = vtrain_pauses_ahead(&l->pauses, t, each);
    vc_progress_ahead(t->ui, ahead);
    vc_progress_at(t->ui, (uint64_t)t->at.step, extra);
    if (done != ETA_AFTER || left <= 0)
        return;
    if (ahead >= 1)
        snprintf(pauses, sizeof pauses, ", with %s for checkpoints, held-out losses and samples",
                 vc_human_time(time, ahead));
    vc_say(t->ui, "%.3g s a step: %lld step%s left, done in about %s%s", each, (long long)left,
           vc_s((double)left), vc_human_time(time, each * (double)left + ahead), pauses);
}

/* ---- between steps ---- */

static void report(vtrain *t, loop *l)
{
    vc_err why = { 0 };
    double start = vc_seconds();
    l->report_live = !l->ending && t->at.step < t->plan.steps;
    note_output(t, l, REPORT, vtrain_write_report(t, l->report_live, &why), &why);
    l->report_at = vc_seconds();
    l->report_took = l->report_at - start;
}

/* True after the first step, and whenever report.html is old. The page of a long run takes longer
 * to write, so it is written less often: about 1 % of the time is spent with it. */
static bool report_due(const loop *l)
{
    return vc_seconds() - l->report_at > fmax(VTRAIN_REPORT_EACH, 100 * l->report_took);
}

/* Collective; rank 0 writes. */
static int save(vtrain *t, loop *l, vc_err *err)
{
    vc_err why = { 0 };
    if (l->saved == t->at.step)
        return 0;
    l->saved = t->at.step;
    double start = vc_seconds();
    vtrain_pause_begin(&l->pauses, t, "checkpoint");
    bool leads = vtrain_leads(t);
    int rc = vtrain_dist_whole(t->ranks.dist, leads, err);
    if (!rc)
        rc = vtrain_opt_whole(t->optim.state, leads, err);
    if (!rc && leads)
        note_output(t, l, METRICS, vtrain_metrics_sync(t->output.metrics, &why), &why);
    if (!rc)
        rc = vtrain_encoders_check(t, true, err);
    if (!rc && leads)
        rc = vtrain_save(t, err);
    vtrain_opt_part(t->optim.state);
    vtrain_dist_part(t->ranks.dist);
    t->time.save += vc_seconds() - start;
    if (!rc && leads)
        report(t, l);
    vtrain_pause_end(&l->pauses, t, VTRAIN_PAUSE_SAVE);
    return rc;
}

/* Samples the validation prompts. A sample that is not finite, or cannot be written, is a warning
 * and does not end the run. */
static int validate(vtrain *t, loop *l, vc_err *err)
{
    double start = vc_seconds();
    vc_err why = { 0 };
    vtrain_pause_begin(&l->pauses, t, "validation samples");
    int rc = vtrain_dist_whole(t->ranks.dist, true, &why);
    if (!rc)
        rc = vtrain_validate(t, &why);
    vtrain_dist_part(t->ranks.dist);
    rc = vc_comm_agree(t->comm, rc, &why);
    t->time.sample += vc_seconds() - start;
    vtrain_pause_end(&l->pauses, t, VTRAIN_PAUSE_SAMPLES);
    if (rc == VC_ENUMERIC) {
        vc_warn(t->ui, "step %lld: %s", (long long)t->at.step, why.text);
        return 0;
    }
    if (rc == VC_EFULL || rc == VC_EIO || rc == VC_ENOENT) {
        note_output(t, l, SAMPLES, rc, &why);
        return 0;
    }
    if (rc && err)
        *err = why;
    return rc;
}

/* True if the run resumed from a checkpoint of this folder, not of another run. */
static bool is_own(const vtrain *t)
{
    char *own = vc_format("%s/checkpoint-%lld", t->cfg.output_dir, (long long)t->at.step);
    bool yes = own && t->from.dir && vc_file_exists(own);
    free(own);
    return yes;
}

/* Finishes the work that a run killed after its checkpoint had left: samples and, after the last
 * step, the report and the removal of old checkpoints. Before the last step the next checkpoint
 * does the latter two. */
static int finish_checkpoint(vtrain *t, loop *l, vc_err *err)
{
    vc_err why = { 0 };
    bool leads = vtrain_leads(t) && is_own(t), done = t->at.step >= t->plan.steps;
    int lacks = leads && vtrain_samples_due(t) && !vtrain_validated(t) ? VC_ENOENT : 0;
    int rc = vc_comm_agree(t->comm, lacks, &why) ? validate(t, l, err) : 0;
    if (rc || !done || !leads)
        return rc;
    vtrain_ckpt_prune(t->cfg.output_dir, t->at.step, t->cfg.checkpointing_limit,
                      t->cfg.keep_best);
    report(t, l);
    return 0;
}

/* What --eval_at_first and --sample_at_first ask for before step 1. */
static int before_steps(vtrain *t, loop *l, vc_err *err)
{
    vtrain_record r;
    int rc = t->cfg.eval_at_first ? evaluate(t, l, &r, err) : 0;
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc && t->cfg.sample_at_first)
        rc = validate(t, l, err);
    return rc;
}

static int after_step(vtrain *t, loop *l, vc_err *err)
{
    bool samples = vtrain_samples_due(t);
    int rc = vtrain_save_due(t) ? vc_comm_agree(t->comm, save(t, l, err), err) : 0;
    if (!rc && samples)
        rc = validate(t, l, err);
    if (!rc && vtrain_leads(t) && (samples || report_due(l)))
        report(t, l);
    return rc;
}

/* Closes the trace after the last traced micro-batch. */
static void end_trace(vtrain *t)
{
    vtrain_trace_close(t->output.trace);
    t->output.trace = NULL;
}

/* Runs one step. All ranks return the same. */
static int one_step(vtrain *t, loop *l, vc_err *err)
{
    vtrain_record r = { .device_waits = NAN, .graph_replays = NAN };
    uint64_t tokens = 0, rows = t->at.rows, dropped = t->at.dropped;
    double start = l->step_at = l->reported_at = vc_seconds();
    int rc = vtrain_samples_look(t, err);
    if (!rc)
        rc = gradients(t, l, err);
    if (!rc)
        rc = vtrain_notes_gather(&l->notes, t, &r, &l->count, &tokens, err);
    if (!rc && !isfinite(r.loss))
        rc = bad_loss(t, l, "loss", r.loss, &r, err);
    if (!rc)
        rc = update(t, l, &r, err);
    if (rc) {
        t->at.rows = rows;                       /* the step was not taken */
        t->at.dropped = dropped;
        return rc;
    }
    t->at.step++;
    vc_comm_note(t->comm, "its last step was %lld", (long long)t->at.step);
    t->at.micro += (uint64_t)vtrain_micros(t);
    if (t->output.trace && (int64_t)t->at.micro >= t->cfg.trace_steps)
        end_trace(t);
    rc = vtrain_samples_upto(t, t->at.micro, t->at.micro * (uint64_t)vtrain_parts(t) +
                                          (uint64_t)vtrain_dp_group(t), err);
    if (t->cfg.follow)
        rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)
        rc = vtrain_epochs_move(t, err);
    if (!rc)
        rc = vtrain_plan_again(t, err);
    rc = vc_comm_agree(t->comm, rc ? rc : write_record(t, l, &r, tokens, start, err), err);
    if (!rc)
        report_progress(t, l, &r);
    return rc ? rc : after_step(t, l, err);
}

/* ---- the end ---- */

/* Saves the last whole step after a signal, and names the flag that resumes the run. */
static int stopped(vtrain *t, loop *l, vc_err *err)
{
    vc_err why = { 0 };
    int rc = t->at.step > 0 ? save(t, l, &why) : 0;
    if (rc) {
        if (err)
            *err = why;
        return rc;
    }
    return vc_fail(err, VC_ESTOP, "stopped after step %lld; continue with --resume_from_checkpoint "
                   "latest", (long long)t->at.step);
}

/* Saves the last whole step where a mapped file could not be read. The step that needed the file
 * was not taken, so the trained weights are whole; the run still ends with its error. */
static void save_after_torn_file(vtrain *t, loop *l)
{
    vc_err why = { 0 };
    /* The thread that hashes text encoders may still read the file: its marks would fail the
     * save. */
    int rc = vc_comm_agree(t->comm, vtrain_encoders_check(t, true, &why), &why);
    vc_maps_reported();
    if (!rc)
        rc = t->at.step > l->count.begun ? vtrain_check_weights(t, &why) : VC_ENOENT;
    if (!rc)
        rc = vc_comm_agree(t->comm, save(t, l, &why), &why);
    if (!rc)
        vc_warn(t->ui, "a file in use could not be read: step %lld is saved; when the file is "
                "whole again, continue with --resume_from_checkpoint latest",
                (long long)t->at.step);
    else if (rc != VC_ENOENT)
        vc_warn(t->ui, "a file in use could not be read, and step %lld could not be saved: %s",
                (long long)t->at.step, why.text);
}

/* Where another rank is lost: each living rank has the last whole step, if ranks split nothing, and
 * the one that leads saves it. err has the names of the lost ranks. */
static int save_without_lost(vtrain *t, vc_err *err)
{
    vc_err lost = { 0 }, why = { 0 };
    char *last = NULL;
    int64_t before = t->at.step + 1;
    int rc = vc_comm_lost(t->comm, &lost);
    if (!vc_comm_leads(t->comm))
        return vc_fail(err, rc, "%s", lost.text);
    vtrain_ckpt_before(&last, t->cfg.output_dir, &before, NULL);
    bool split = t->cfg.dp_shards > 1, saved = last && before == t->at.step;
    if (!split && !saved && t->at.step > 0)
        saved = !vtrain_encoders_check(t, true, &why) && !vtrain_save(t, &why);
    if (saved)
        vc_fail(err, rc, "%s; step %lld is saved: continue with --resume_from_checkpoint latest",
                lost.text, (long long)t->at.step);
    else
        vc_fail(err, rc, "%s; step %lld could not be saved%s%s; %s%s", lost.text,
                (long long)t->at.step,
                split ? ", as its part of the state (--parallel zero2 and fsdp) is lost with a rank"
                      : t->at.step ? ": " : ", as no step is done", split ? "" : why.text,
                last ? "continue with --resume_from_checkpoint latest: the last whole checkpoint "
                       "is " : "there is no whole checkpoint yet", last ? last : "");
    free(last);
    return rc;
}

/* After the last step: an error if one of the other outputs is missing. */
static int check_outputs(const vtrain *t, loop *l, vc_err *err)
{
    vc_err why = { 0 };
    if (vtrain_leads(t))
        note_output(t, l, METRICS, vtrain_metrics_sync(t->output.metrics, &why), &why);
    for (int i = 0; i < OUTPUTS; i++)
        if (l->missing[i].code)
            return vc_fail(err, l->missing[i].code, "all %lld steps are done and saved as "
                           "checkpoint-%lld, but another output is missing: %s",
                           (long long)t->at.step, (long long)t->at.step, l->missing[i].text);
    return 0;
}

int vtrain_loop(vtrain *t, vc_err *err)
{
    loop l = { .saved = t->at.step > 0 ? t->at.step : -1, .count.begun = t->at.step,
               .begun_at = vc_seconds(), .report_at = -INFINITY, .t = t };
    int rc = vtrain_notes_open(&l.notes, t, err);
    if (t->cfg.profile)
        vt_profile_begin(t->g);
    if (t->at.step >= t->plan.steps)
        vc_warn(t->ui, "nothing is left to do: %lld of %lld steps are done "
                "(--max_train_steps, --num_train_epochs)", (long long)t->at.step,
                (long long)t->plan.steps);
    if (!vt_host_memory(t->g))
        vtrain_report_graphs(t);
    vc_progress_begin(t->ui, "training", "steps", (uint64_t)t->plan.steps);
    vc_progress_at(t->ui, (uint64_t)t->at.step, NULL);
    vc_comm_note(t->comm, "its last step was %lld", (long long)t->at.step);
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc)
        rc = finish_checkpoint(t, &l, err);
    if (!rc && t->at.step == 0)
        rc = before_steps(t, &l, err);
    while (!rc && t->at.step < t->plan.steps)
        rc = one_step(t, &l, err);
    if (rc && vc_comm_lost(t->comm, NULL))
        rc = save_without_lost(t, err);
    else if (rc == VC_ESTOP)
        rc = vc_comm_agree(t->comm, stopped(t, &l, err), err);
    if (rc == VC_ETORN)
        save_after_torn_file(t, &l);
    else if (!rc)
        rc = vc_comm_agree(t->comm, check_outputs(t, &l, err), err);
    l.ending = true;
    if (l.report_live)
        report(t, &l);
    vc_progress_end(t->ui);
    if (!rc || rc == VC_ESTOP)
        vtrain_report_summary(t, &l.count);
    if (!rc)
        vtrain_report_result(t);
    vtrain_notes_close(&l.notes);
    return rc;
}
