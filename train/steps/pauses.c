/* pauses.c - see pauses.h */
#include "train/steps/pauses.h"

#include <math.h>

#include "train/steps/step.h"

void vtrain_pause_begin(vtrain_pauses *p, const vtrain *t, const char *note)
{
    p->begun = vc_seconds();
    vc_progress_pause(t->ui);
    vc_progress_at(t->ui, (uint64_t)t->at.step, note);
}

void vtrain_pause_end(vtrain_pauses *p, const vtrain *t, vtrain_pause kind)
{
    p->spent[kind] += vc_seconds() - p->begun;
    p->n[kind]++;
    vc_progress_go_on(t->ui);
}

double vtrain_pauses_spent(const vtrain_pauses *p)
{
    double all = 0;
    for (int i = 0; i < VTRAIN_PAUSE_KINDS; i++)
        all += p->spent[i];
    return all;
}

/* Times that something happens in the rest of the run, every so many steps and epochs, and after
 * the last step. */
static double times_left(const vtrain *t, int64_t steps, int64_t epochs)
{
    int64_t end = t->plan.steps;
    double n = 0, micros = (double)(end - t->at.step) * (double)vtrain_micros(t);
    if (steps)
        n += (double)(end / steps - t->at.step / steps) + (end % steps != 0);
    if (epochs && t->plan.epoch_batches)
        n += floor(micros / (double)t->plan.epoch_batches / (double)epochs);
    if (!steps && epochs)
        n++;
    return n;
}

/* Seconds of the samples of all prompts, which the ranks divide. */
static double guess_samples(const vtrain *t, double each)
{
    double ranks = vc_comm_size(t->comm), n = vtrain_data_prompts(t->data);
    double share = n > 0 ? ceil(n / ranks) / n * ranks : 0;
    return t->plan.flops > 0 ? each * t->plan.sample_flops / t->plan.flops * share : 0;
}

/* Seconds of a held-out loss: a forward is a third of a micro-batch. */
static double guess_eval(const vtrain *t, double each)
{
    double rows = (double)vtrain_data_held_out(t->data) * VTRAIN_NOISE_LEVELS;
    return each * rows / (double)(vtrain_runs(t) * t->cfg.train_batch_size) / 3;
}

double vtrain_pauses_ahead(const vtrain_pauses *p, const vtrain *t, double each)
{
    const vtrain_config *c = &t->cfg;
    const double guess[VTRAIN_PAUSE_KINDS] = { 0, guess_eval(t, each), guess_samples(t, each) };
    double left[VTRAIN_PAUSE_KINDS], all = 0;
    left[VTRAIN_PAUSE_SAVE] = fmax(1, times_left(t, c->checkpointing_steps,
                                                 c->checkpointing_epochs));
    left[VTRAIN_PAUSE_EVAL] = c->keep_best ? left[VTRAIN_PAUSE_SAVE] : 0;
    left[VTRAIN_PAUSE_EVAL] = fmax(left[VTRAIN_PAUSE_EVAL],
                                   times_left(t, c->eval_steps, c->eval_epochs));
    left[VTRAIN_PAUSE_SAMPLES] = times_left(t, c->validation_steps, c->validation_epochs);
    for (int i = 0; t->at.step < t->plan.steps && i < VTRAIN_PAUSE_KINDS; i++)
        all += left[i] * (p->n[i] ? p->spent[i] / (double)p->n[i] : guess[i]);
    return all;
}
