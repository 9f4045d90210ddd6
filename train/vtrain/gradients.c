/* gradients.c - the micro-batches of a step; see loop.h */
#include <math.h>
#include <string.h>

#include "train/parallel/dist.h"
#include "train/parallel/sequence.h"
#include "train/samples/samples.h"
#include "train/setup/encoders.h"
#include "train/steps/step.h"
#include "train/steps/trace_step.h"
#include "train/vtrain/loop.h"
#include "train/vtrain/room.h"

/* Counts the device's waits and the replayed graphs of the micro-batch that has run. */
static void note_device(const vtrain *t, vtrain_loop_state *l, vtrain_micro_note *own)
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
static int run_micro(vtrain *t, vtrain_loop_state *l, int64_t i, const vtrain_batch *b,
                     double waited, vtrain_lack *lack, vc_err *err)
{
    vtrain_micro_note *own = vtrain_notes_batch(&l->notes, t, i, b, waited);
    vtrain_micro m = { .batch = b, .seed = (uint64_t)t->cfg.seed, .level = -1,
                       .number = b->micro, .place = (int)i };
    l->micro = i;
    l->micro_flops = flops_of(t, b->group);
    vt_watch(t->g, vtrain_progress_within, l);
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
static int accumulate(vtrain *t, vtrain_loop_state *l, vtrain_lack *lack, vc_err *err)
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
static int sum_gradients(vtrain *t, vtrain_loop_state *l, vtrain_lack *lack, vc_err *err)
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

int vtrain_gradients(vtrain *t, vtrain_loop_state *l, vc_err *err)
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
