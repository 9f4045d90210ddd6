/* progress.c - see loop.h */
#include <math.h>
#include <stdio.h>

#include "train/optim/groups.h"
#include "train/output/report.h"
#include "train/vtrain/loop.h"
#include "train/vtrain/summary.h"

enum { ETA_AFTER = 5, WITHIN = 30 };         /* steps; seconds between reports within one step */

void vtrain_progress_within(void *state, double flops)
{
    vtrain_loop_state *l = state;
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

void vtrain_progress_step(const vtrain *t, const vtrain_loop_state *l, const vtrain_record *r)
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

/* ---- outputs ---- */

void vtrain_output_note(const vtrain *t, vtrain_loop_state *l, vtrain_other_output o, int rc,
                        const vc_err *why)
{
    vc_err *missing = &l->missing[o];
    if (rc && !missing->code)
        vc_warn(t->ui, "step %lld: %s; training continues", (long long)t->at.step, why->text);
    if (!rc && missing->code && o != VTRAIN_SAMPLES)
        vc_say(t->ui, "step %lld: written after all; the error was: %s", (long long)t->at.step,
               missing->text);
    if (rc || o != VTRAIN_SAMPLES)
        *missing = rc ? *why : (vc_err){ 0 };
}

void vtrain_output_report(vtrain *t, vtrain_loop_state *l)
{
    vc_err why = { 0 };
    double start = vc_seconds();
    l->report_live = !l->ending && t->at.step < t->plan.steps;
    vtrain_output_note(t, l, VTRAIN_REPORT, vtrain_write_report(t, l->report_live, &why), &why);
    l->report_at = vc_seconds();
    l->report_took = l->report_at - start;
}

bool vtrain_output_report_due(const vtrain_loop_state *l)
{
    return vc_seconds() - l->report_at > fmax(VTRAIN_REPORT_EACH, 100 * l->report_took);
}

int vtrain_outputs_check(const vtrain *t, vtrain_loop_state *l, vc_err *err)
{
    vc_err why = { 0 };
    if (vtrain_leads(t))
        vtrain_output_note(t, l, VTRAIN_METRICS, vtrain_metrics_sync(t->output.metrics, &why),
                           &why);
    for (int i = 0; i < VTRAIN_OUTPUTS; i++)
        if (l->missing[i].code)
            return vc_fail(err, l->missing[i].code, "all %lld steps are done and saved as "
                           "checkpoint-%lld, but another output is missing: %s",
                           (long long)t->at.step, (long long)t->at.step, l->missing[i].text);
    return 0;
}
