/* The steps: accumulate, clip, update, log; checkpoints, held-out loss, samples, stopping. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/report.h"
#include "train/sample.h"
#include "train/vtrain.h"

enum { ETA_AFTER = 5, BUCKETS_TEXT = 512 };

/* What the steps reuse. */
typedef struct loop {
    char (*key)[VTRAIN_KEY];                  /* of a step's rows */
    const char **keys;
    char bucket[BUCKETS_TEXT];
    int64_t saved;                            /* step of the last checkpoint, -1: none */
    int64_t begun;                            /* step this process began at */
    double begun_at;
    uint64_t rows, zeroed;                    /* since then: of conditions that became zeros */
} loop;

static int loop_open(loop *l, const vtrain *t, vc_err *err)
{
    size_t rows = (size_t)(t->cfg.train_batch_size * t->cfg.gradient_accumulation_steps);
    *l = (loop){ .saved = t->step > 0 ? t->step : -1, .begun = t->step,
                 .begun_at = vc_seconds() };
    l->key = calloc(rows, sizeof *l->key);
    l->keys = calloc(rows, sizeof *l->keys);
    if (!l->key || !l->keys) return vc_fail(err, VC_ENOMEM, "out of memory");
    for (size_t i = 0; i < rows; i++)
        l->keys[i] = l->key[i];
    return 0;
}

static void loop_close(loop *l)
{
    free(l->key);
    free(l->keys);
}

/* ---- one step ---- */

static void add_bucket(loop *l, const char *name)
{
    size_t n = strlen(name), used = strlen(l->bucket);
    for (const char *p = l->bucket; (p = strstr(p, name)); p += n)
        if ((p == l->bucket || p[-1] == ',') && (p[n] == ',' || !p[n])) return;
    if (used + n + 2 > sizeof l->bucket) return;
    snprintf(l->bucket + used, sizeof l->bucket - used, "%s%s", used ? "," : "", name);
}

/* Notes a batch in the record of its step. */
static void note_batch(vtrain *t, loop *l, vtrain_record *r, const vtrain_batch *b,
                       uint64_t *tokens)
{
    for (int i = 0; i < b->rows; i++) {
        memcpy(l->key[r->n_samples++], b->key[i], VTRAIN_KEY);
        t->dropped += b->dropped[i];
        l->zeroed += b->cond_dropped[i];
    }
    t->rows += (uint64_t)b->rows;
    l->rows += (uint64_t)b->rows;
    *tokens += b->tokens;
    add_bucket(l, vtrain_data_group(t->data, b->group)->name);
}

static int bad_loss(const vtrain *t, const loop *l, const char *what, double value,
                    const vtrain_record *r, vc_err *err)
{
    char kept[96] = "there is no checkpoint yet";
    if (l->saved >= 0)
        snprintf(kept, sizeof kept, "checkpoint-%lld is the last good state", (long long)l->saved);
    return vc_fail(err, VC_ENUMERIC, "step %lld: %s is %s (samples %s%s): training stops; %s; a "
                   "lower --learning_rate or --max_grad_norm may help", (long long)t->step + 1,
                   what, isnan(value) ? "NaN" : "infinite", r->n_samples ? l->key[0] : "-",
                   r->n_samples > 1 ? ", ..." : "", kept);
}

/* Micro-batches of one step: gradients add up, the losses' mean goes into r. */
static int accumulate(vtrain *t, loop *l, vtrain_record *r, uint64_t *tokens, vc_err *err)
{
    int64_t n = t->cfg.gradient_accumulation_steps;
    double sum = 0;
    vt_params_zero_grad(t->params);
    for (int64_t i = 0; i < n; i++) {
        if (*t->stop) return vc_fail(err, VC_ESTOP, "stopped");
        const vtrain_batch *b;
        double waited;
        int rc = vtrain_loader_next(t->loader, &b, &waited, err);
        if (rc) return rc;
        if (!b) return vc_fail(err, VC_EFAIL, "the loader ended before the run");
        r->data_wait_s += waited;
        note_batch(t, l, r, b, tokens);
        vtrain_micro m = { .batch = b, .seed = (uint64_t)t->cfg.seed, .level = -1,
                           .number = b->micro, .place = (int)i };
        rc = vtrain_micro_run(t, &m, true, err);
        if (rc) rc = vtrain_memory_remedy(t, b->group, rc, err);
        vtrain_loader_give_back(t->loader, b);
        if (!rc && m.number + 1 == vtrain_loader_epoch_end(t->loader))
            rc = vtrain_samples_next(t, m.number + 1, err);
        if (rc) return vc_context(err, rc, "step %lld", (long long)t->step + 1);
        sum += (double)m.loss;
    }
    r->loss = sum / (double)n;
    return isfinite(r->loss) ? 0 : bad_loss(t, l, "loss", r->loss, r, err);
}

static int update(vtrain *t, const loop *l, vtrain_record *r, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    double mean = 1 / (double)c->gradient_accumulation_steps, start = vc_seconds();
    r->grad_norm = vt_params_grad_norm(t->params) * mean;
    if (!isfinite(r->grad_norm)) return bad_loss(t, l, "gradient norm", r->grad_norm, r, err);
    r->lr = c->learning_rate * vtrain_lr_factor((vtrain_schedule)c->lr_scheduler, t->step,
                                                c->lr_warmup_steps, t->plan.steps);
    const vt_adamw o = {
        .lr = r->lr, .beta1 = c->adam_beta1, .beta2 = c->adam_beta2, .eps = c->adam_epsilon,
        .weight_decay = c->adam_weight_decay, .step = t->step + 1, .seed = (uint64_t)c->seed,
        .grad_scale = mean * vtrain_clip_factor(r->grad_norm, c->max_grad_norm),
    };
    vt_adamw_step(t->params, &t->adam, &o);
    if (t->ema) vt_ema_update(t->ema, t->params, c->ema_decay);
    t->time.update += vc_seconds() - start;
    return 0;
}

static int write_record(vtrain *t, const loop *l, vtrain_record *r, uint64_t tokens, double start,
                        vc_err *err)
{
    r->step = t->step;
    r->epoch = vtrain_epoch(t);
    r->step_s = vc_seconds() - start;
    r->tokens_per_s = (double)tokens / r->step_s;
    r->bucket = l->bucket;
    r->sample = l->keys;
    r->caption_dropout = t->rows ? (double)t->dropped / (double)t->rows : 0;
    r->eval_loss = NAN;
    t->time.wait += r->data_wait_s;
    int64_t now = vtrain_private_bytes();
    if (now > t->peak_bytes) t->peak_bytes = now;
    r->peak_bytes = t->peak_bytes;
    bool last = t->step == t->plan.steps;
    if (t->cfg.eval_steps && (last || t->step % t->cfg.eval_steps == 0)) {
        int rc = vtrain_eval(t, &r->eval_loss, err);
        if (rc) return rc;
        vc_say(t->ui, "step %lld: held-out loss %.5f", (long long)t->step, r->eval_loss);
    }
    return vtrain_metrics_step(t->metrics, r, err);
}

static void tell_progress(const vtrain *t, const loop *l, const vtrain_record *r)
{
    char extra[96], time[32];
    snprintf(extra, sizeof extra, "loss %.4f, lr %.3g", r->loss, r->lr);
    vc_progress_at(t->ui, (uint64_t)t->step, extra);
    int64_t done = t->step - l->begun, left = t->plan.steps - t->step;
    if (done != ETA_AFTER || left <= 0) return;
    double each = (vc_seconds() - l->begun_at) / (double)done;
    vc_say(t->ui, "%.3g s a step: %lld steps left, done in about %s", each, (long long)left,
           vc_human_time(time, each * (double)left));
}

/* ---- between steps ---- */

static int write_report(const vtrain *t, vc_err *err)
{
    const vtrain_report r = {
        .title = t->cfg.output_dir, .model = t->about_model, .data = t->about_data,
        .settings = t->settings, .predicted_bytes = t->plan.predicted,
        .peak_bytes = t->peak_bytes,
        .samples = vtrain_data_samples(t->data) - vtrain_data_held_out(t->data),
    };
    return vtrain_report_write(&r, t->cfg.output_dir, err);
}

static int save(vtrain *t, loop *l, vc_err *err)
{
    if (l->saved == t->step) return 0;
    double start = vc_seconds();
    int rc = vtrain_metrics_sync(t->metrics, err);
    if (!rc) rc = vtrain_save(t, err);
    if (rc) return rc;
    l->saved = t->step;
    t->time.save += vc_seconds() - start;
    return write_report(t, err);
}

/* A sample that is not finite is worth a warning, not the end of a long run. */
static int validate(vtrain *t, vc_err *err)
{
    double start = vc_seconds();
    vc_err why = { 0 };
    int rc = vtrain_validate(t, &why);
    t->time.sample += vc_seconds() - start;
    if (rc == VC_ENUMERIC) {
        vc_warn(t->ui, "step %lld: %s", (long long)t->step, why.text);
        return 0;
    }
    if (rc && err) *err = why;
    return rc;
}

static int after_step(vtrain *t, loop *l, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    bool last = t->step == t->plan.steps;
    int rc = 0;
    if (last || t->step % c->checkpointing_steps == 0) rc = save(t, l, err);
    if (rc || !c->validation_steps) return rc;
    if (!last && t->step % c->validation_steps) return 0;
    rc = validate(t, err);
    return rc ? rc : write_report(t, err);
}

static int one_step(vtrain *t, loop *l, vc_err *err)
{
    vtrain_record r = { 0 };
    uint64_t tokens = 0, rows = t->rows, dropped = t->dropped;
    double start = vc_seconds();
    l->bucket[0] = '\0';
    int rc = accumulate(t, l, &r, &tokens, err);
    if (!rc) rc = update(t, l, &r, err);
    if (rc) {
        t->rows = rows;                       /* the step was not taken */
        t->dropped = dropped;
        return rc;
    }
    t->step++;
    t->micro += (uint64_t)t->cfg.gradient_accumulation_steps;
    if (t->trace && (int64_t)t->micro >= t->cfg.trace_steps) vtrain_end_trace(t);
    rc = write_record(t, l, &r, tokens, start, err);
    if (!rc) tell_progress(t, l, &r);
    return rc ? rc : after_step(t, l, err);
}

/* ---- the end ---- */

static void tell_memory(const vtrain *t)
{
    char real[32], predicted[32];
    if (!t->plan.predicted || !t->peak_bytes) return;
    vc_say(t->ui, "memory: peak %s, %s were predicted (%+.1f%%)",
           vc_human_bytes(real, (double)t->peak_bytes),
           vc_human_bytes(predicted, (double)t->plan.predicted),
           100 * ((double)t->plan.predicted / (double)t->peak_bytes - 1));
}

static void tell_captions(const vtrain *t)
{
    if (t->rows && t->cfg.caption_dropout_p > 0)
        vc_say(t->ui, "captions: %.2f%% dropped, %.4g%% asked",
               100 * (double)t->dropped / (double)t->rows, 100 * t->cfg.caption_dropout_p);
}

/* A line per op: its kernels of all steps, samples and evaluations included. */
static void tell_ops(const vtrain *t, double steps)
{
    const vt_op_time *row;
    double sum = 0;
    int n = vt_profile_rows(t->g, &row);
    for (int i = 0; i < n; i++)
        sum += row[i].seconds;
    vc_say(t->ui, "%-28s %9s %10s %9s %7s", "op", "calls", "ms a step", "GFLOP/s", "share");
    for (int i = 0; i < n; i++) {
        char name[40], rate[16] = "";
        snprintf(name, sizeof name, "%s%s", *row[i].op ? row[i].op : "other",
                 row[i].grad ? ", gradient" : "");
        if (row[i].flops > 0) snprintf(rate, sizeof rate, "%.1f", row[i].flops / row[i].seconds / 1e9);
        vc_say(t->ui, "%-28s %9lld %10.2f %9s %6.1f%%", name, (long long)row[i].calls,
               1e3 * row[i].seconds / steps, rate, 100 * row[i].seconds / sum);
    }
}

static void tell_conditions(const vtrain *t, const loop *l)
{
    if (vtrain_data_roles(t->data) && l->rows)
        vc_say(t->ui, "conditions: %.2f%% of %llu became zeros", 100 * (double)l->zeroed /
               (double)l->rows, (unsigned long long)l->rows);
}

static void tell_profile(const vtrain *t, const loop *l)
{
    double steps = (double)(t->step - l->begun);
    double work = t->time.forward + t->time.backward;
    if (!t->cfg.profile || steps <= 0) return;
    vc_say(t->ui, "profile, ms a step: data wait %.2f, forward %.2f, backward %.2f, update %.2f; "
           "in all: checkpoints %.2f s, samples %.2f s; %.1f GFLOP/s in forward and backward",
           1e3 * t->time.wait / steps, 1e3 * t->time.forward / steps,
           1e3 * t->time.backward / steps, 1e3 * t->time.update / steps, t->time.save,
           t->time.sample, work > 0 ? t->plan.flops * steps / work / 1e9 : 0);
    tell_ops(t, steps);
}

/* A stop loses nothing: the last whole step is saved and the way back is told. */
static int stopped(vtrain *t, loop *l, vc_err *err)
{
    vc_err why = { 0 };
    int rc = t->step > 0 ? save(t, l, &why) : 0;
    if (rc) {
        if (err) *err = why;
        return rc;
    }
    return vc_fail(err, VC_ESTOP, "stopped after step %lld; go on with --resume_from_checkpoint "
                   "latest", (long long)t->step);
}

int vtrain_loop(vtrain *t, vc_err *err)
{
    loop l;
    int rc = loop_open(&l, t, err);
    if (t->cfg.profile) vt_profile_begin(t->g);
    vc_progress_begin(t->ui, "training", "steps", (uint64_t)t->plan.steps);
    vc_progress_at(t->ui, (uint64_t)t->step, NULL);
    while (!rc && t->step < t->plan.steps)
        rc = one_step(t, &l, err);
    if (rc == VC_ESTOP) rc = stopped(t, &l, err);
    vc_progress_end(t->ui);
    if (!rc || rc == VC_ESTOP) {
        tell_captions(t);
        tell_conditions(t, &l);
        tell_memory(t);
        tell_profile(t, &l);
    }
    loop_close(&l);
    return rc;
}
