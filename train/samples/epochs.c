/* epochs.c - says what falls due after a step, by its number and by the epochs that end in it; see
 * samples.h */
#include <math.h>

#include "train/samples/samples.h"
#include "train/samples/spans.h"

/* True if something that the run does depends on the end of an epoch. */
static bool counts_epochs(const vtrain_config *c)
{
    return c->checkpointing_epochs || c->eval_epochs || c->validation_epochs;
}

static int find(vtrain *t, vc_err *err)
{
    int rc = vtrain_epoch_at(&t->samples, t->data, t->at.micro, &t->at.epoch.now,
                             &t->at.epoch.end, err);
    t->at.epoch.spans = t->samples.n_spans;
    return vc_context(err, rc, "--latents");
}

int vtrain_epochs_begin(vtrain *t, vc_err *err)
{
    const vtrain_state *had = &t->from.state;
    t->at.eval_loss = t->from.dir && had->evaluated ? had->eval_loss : NAN;
    if (!counts_epochs(&t->cfg))
        return 0;
    int rc = find(t, err);
    t->at.epoch.before = t->from.dir && had->counted ? (uint64_t)had->step_epoch
                                                    : t->at.epoch.now;
    return rc;
}

/* Finding the end of an epoch costs as much as planning the epoch, so it is found once. */
int vtrain_epochs_move(vtrain *t, vc_err *err)
{
    bool same = t->at.epoch.spans == t->samples.n_spans;
    t->at.epoch.before = t->at.epoch.now;
    if (!counts_epochs(&t->cfg) || (t->at.micro < t->at.epoch.end && same))
        return 0;
    return find(t, err);
}

/* True if the last step ended an epoch whose number is a multiple of `each`. */
static bool ended(const vtrain *t, int64_t each)
{
    uint64_t n = (uint64_t)each;
    return each > 0 && t->at.epoch.now / n != t->at.epoch.before / n;
}

static bool is_due(const vtrain *t, int64_t steps, int64_t epochs)
{
    if (!steps && !epochs)
        return false;
    return t->at.step == t->plan.steps || (steps && t->at.step % steps == 0) || ended(t, epochs);
}

bool vtrain_save_due(const vtrain *t)
{
    return t->at.step == t->plan.steps ||
           is_due(t, t->cfg.checkpointing_steps, t->cfg.checkpointing_epochs);
}

/* The best checkpoints are chosen by their losses, so each has one. */
bool vtrain_eval_due(const vtrain *t)
{
    return is_due(t, t->cfg.eval_steps, t->cfg.eval_epochs) ||
           (t->cfg.keep_best && vtrain_save_due(t));
}

bool vtrain_samples_due(const vtrain *t)
{
    return t->at.step > 0 && is_due(t, t->cfg.validation_steps, t->cfg.validation_epochs);
}
