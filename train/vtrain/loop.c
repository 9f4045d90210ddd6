/* loop.c - the steps: gradients, clip, update, log; checkpoints, held-out loss, samples, and the
 * end of a run. See run.h and loop.h */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/os/file.h"
#include "common/os/map.h"
#include "train/optim/average.h"
#include "train/optim/groups.h"
#include "train/optim/rate.h"
#include "train/parallel/dist.h"
#include "train/parallel/state.h"
#include "train/plan/memory.h"
#include "train/plan/plan.h"
#include "train/samples/samples.h"
#include "train/samples/spans.h"
#include "train/sampling/sample.h"
#include "train/setup/encoders.h"
#include "train/steps/both.h"
#include "train/steps/step.h"
#include "train/steps/trace.h"
#include "train/vtrain/loop.h"
#include "train/vtrain/room.h"
#include "train/vtrain/run.h"
#include "train/vtrain/save.h"
#include "train/vtrain/summary.h"

/* ---- one step ---- */

static int bad_loss(const vtrain *t, const vtrain_loop_state *l, const char *what, double value,
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

static int update(vtrain *t, const vtrain_loop_state *l, vtrain_record *r, vc_err *err)
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
    if (vtrain_opt_spilled(t->optim.state))    /* a rank's disk may have failed */
        rc = vc_comm_agree(t->comm, vc_context(err, rc, "--offload_optimizer"), err);
    if (run && run->logged) {
        r->number_name = run->number[0];
        r->number = vtrain_opt_numbers(t->optim.state)[0];
    }
    vtrain_both_after(t, (bool[]){ r->of[0].n > 0, r->of[1].n > 0 });
    t->time.update += vc_seconds() - start;
    return rc;
}

/* Computes the held-out loss of the weights that a checkpoint would have. Collective. */
static int evaluate(vtrain *t, vtrain_loop_state *l, vtrain_record *r, vc_err *err)
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

static int write_record(vtrain *t, vtrain_loop_state *l, vtrain_record *r, uint64_t tokens,
                        double start, vc_err *err)
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
        vtrain_output_note(t, l, VTRAIN_METRICS, vtrain_metrics_step(t->output.metrics, r, &why),
                           &why);
    return 0;
}

/* ---- between steps ---- */

/* Collective; rank 0 writes. */
static int save(vtrain *t, vtrain_loop_state *l, vc_err *err)
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
        vtrain_output_note(t, l, VTRAIN_METRICS, vtrain_metrics_sync(t->output.metrics, &why),
                           &why);
    if (!rc)
        rc = vtrain_encoders_check(t, true, err);
    if (!rc && leads)
        rc = vtrain_save(t, err);
    vtrain_opt_part(t->optim.state);
    vtrain_dist_part(t->ranks.dist);
    t->time.save += vc_seconds() - start;
    if (!rc && leads)
        vtrain_output_report(t, l);
    vtrain_pause_end(&l->pauses, t, VTRAIN_PAUSE_SAVE);
    return rc;
}

/* Samples the validation prompts. A sample that is not finite, or cannot be written, is a warning
 * and does not end the run. */
static int validate(vtrain *t, vtrain_loop_state *l, vc_err *err)
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
        vtrain_output_note(t, l, VTRAIN_SAMPLES, rc, &why);
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
static int finish_checkpoint(vtrain *t, vtrain_loop_state *l, vc_err *err)
{
    vc_err why = { 0 };
    bool leads = vtrain_leads(t) && is_own(t), done = t->at.step >= t->plan.steps;
    int lacks = leads && vtrain_samples_due(t) && !vtrain_validated(t) ? VC_ENOENT : 0;
    int rc = vc_comm_agree(t->comm, lacks, &why) ? validate(t, l, err) : 0;
    if (rc || !done || !leads)
        return rc;
    vtrain_ckpt_prune(t->cfg.output_dir, t->at.step, t->cfg.checkpointing_limit,
                      t->cfg.keep_best);
    vtrain_output_report(t, l);
    return 0;
}

/* What --eval_at_first and --sample_at_first ask for before step 1. */
static int before_steps(vtrain *t, vtrain_loop_state *l, vc_err *err)
{
    vtrain_record r;
    int rc = t->cfg.eval_at_first ? evaluate(t, l, &r, err) : 0;
    rc = vc_comm_agree(t->comm, rc, err);
    if (!rc && t->cfg.sample_at_first)
        rc = validate(t, l, err);
    return rc;
}

static int after_step(vtrain *t, vtrain_loop_state *l, vc_err *err)
{
    bool samples = vtrain_samples_due(t);
    int rc = vtrain_save_due(t) ? vc_comm_agree(t->comm, save(t, l, err), err) : 0;
    if (!rc && samples)
        rc = validate(t, l, err);
    if (!rc && vtrain_leads(t) && (samples || vtrain_output_report_due(l)))
        vtrain_output_report(t, l);
    return rc;
}

/* Closes the trace after the last traced micro-batch. */
static void end_trace(vtrain *t)
{
    vtrain_trace_close(t->output.trace);
    t->output.trace = NULL;
}

/* Runs one step. All ranks return the same. */
static int one_step(vtrain *t, vtrain_loop_state *l, vc_err *err)
{
    vtrain_record r = { .device_waits = NAN, .graph_replays = NAN };
    uint64_t tokens = 0, rows = t->at.rows, dropped = t->at.dropped;
    double start = l->step_at = l->reported_at = vc_seconds();
    int rc = vtrain_samples_look(t, err);
    if (!rc)
        rc = vtrain_gradients(t, l, err);
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
        vtrain_progress_step(t, l, &r);
    return rc ? rc : after_step(t, l, err);
}

/* ---- the end ---- */

/* Saves the last whole step after a signal, and names the flag that resumes the run. */
static int stopped(vtrain *t, vtrain_loop_state *l, vc_err *err)
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
static void save_after_torn_file(vtrain *t, vtrain_loop_state *l)
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

int vtrain_loop(vtrain *t, vc_err *err)
{
    vtrain_loop_state l = { .saved = t->at.step > 0 ? t->at.step : -1, .count.begun = t->at.step,
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
        rc = vc_comm_agree(t->comm, vtrain_outputs_check(t, &l, err), err);
    l.ending = true;
    if (l.report_live)
        vtrain_output_report(t, &l);
    vc_progress_end(t->ui);
    if (!rc || rc == VC_ESTOP)
        vtrain_report_summary(t, &l.count);
    if (!rc)
        vtrain_report_result(t);
    vtrain_notes_close(&l.notes);
    return rc;
}
