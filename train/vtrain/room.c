/* room.c - see room.h */
#include "train/vtrain/room.h"

#include "train/plan/memory.h"

/* Returns true if the failed micro-batch can run again, with fewer bytes. */
static bool again(vtrain *t, const vtrain_micro *m)
{
    bool whole = m->place == 0 || !m->backward;
    return whole && !t->output.trace && vtrain_memory_less(t, m->batch->group);
}

static void say(const vtrain *t, uint32_t group, const vc_err *why)
{
    const vtrain_recompute r = vtrain_recomputed(t, group);
    vc_say(t->ui, "bucket %s: %s; backward recomputes %d of %d blocks%s from now on",
           vtrain_data_group(t->data, group)->name, why->text, r.blocks, t->plan.blocks,
           r.how == VT_KEEP_ATTENTION ? ", but not their attention," : "");
}

int vtrain_micro_in_room(vtrain *t, vtrain_micro *m, vc_err *err)
{
    vc_err why = { 0 };
    int rc = vtrain_micro_run(t, m, true, &why);
    while (rc == VC_ENOMEM && again(t, m)) {
        say(t, m->batch->group, &why);
        vt_give_back(t->g);
        if (m->place == 0)
            vt_params_zero_grad(t->params);
        why = (vc_err){ 0 };
        rc = vtrain_micro_run(t, m, true, &why);
    }
    if (rc && err)
        *err = why;
    return rc;
}

int vtrain_device_agree(vtrain *t, int rc, vc_err *err)
{
    vt_step_begin(t->g, 0);                      /* a step of no work has the faults before it */
    int fault = vt_step_end(t->g, rc ? NULL : err);
    return vc_comm_agree(t->comm, rc ? rc : vc_context(err, fault, "gradients' norm"), err);
}
