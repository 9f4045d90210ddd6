/* room.c - see room.h */
#include "train/vtrain/room.h"

#include "train/parallel/sequence.h"
#include "train/plan/memory.h"
#include "train/samples/samples.h"
#include "train/steps/step.h"

static void say(const vtrain *t, uint32_t group, const vc_err *why)
{
    const vtrain_recompute r = vtrain_recomputed(t, group);
    vc_say(t->ui, "bucket %s: %s; backward recomputes %d of %d blocks%s from now on",
           vtrain_data_group(t->data, group)->name, why->text, r.blocks, t->plan.blocks,
           r.how == VT_KEEP_ATTENTION ? ", but not their attention," : "");
}

/* Returns all ranks to the step's first micro-batch: the loader makes its batches again, and ranks
 * that share sequences connect anew, since exchanges of the failed step may be under way. */
static int return_to_first(vtrain *t, vc_err *err)
{
    uint64_t own = t->at.micro * (uint64_t)vtrain_parts(t) + (uint64_t)vtrain_dp_group(t);
    int rc = vtrain_samples_begin(t, t->at.micro, err);
    vtrain_loader_close(t->loader);
    t->loader = NULL;
    if (!rc)
        rc = vtrain_start_loader(t, own, err);
    rc = vc_comm_agree(t->comm, rc, err);
    return rc ? rc : vtrain_sequence_again(t->ranks.sequence, t->comm, err);
}

int vtrain_room_made(vtrain *t, int own, const vtrain_lack *lack, bool *again, vc_err *err)
{
    vc_err lost = { 0 };
    bool other = own && own != VC_ESTOP && !lack->memory;
    double all[2] = { other || t->output.trace, lack->memory ? lack->group + 1.0 : 0 };
    *again = false;
    int rc = vc_comm_reduce(t->comm, all, 2, VC_COMM_MAX, &lost);
    if (!rc && all[1] < 0.5)
        return VC_ENOMEM;                        /* no micro-batch lacked it */
    uint32_t group = rc ? 0 : (uint32_t)all[1] - 1;
    if (!rc && all[0] < 0.5)
        rc = vtrain_memory_less(t, group, lack->memory && lack->group == group, again, &lost);
    if (rc) {
        *err = lost;
        return rc;
    }
    if (!*again)
        return vc_context(err, vtrain_memory_remedy(t, group, VC_ENOMEM, err), "step %lld",
                          (long long)t->at.step + 1);
    say(t, group, err);
    *err = (vc_err){ 0 };
    if (lack->memory)
        vt_give_back(t->g);
    return return_to_first(t, err);
}

int vtrain_device_agree(vtrain *t, int rc, vc_err *err)
{
    vt_step_begin(t->g, 0);                      /* a step of no work has the faults before it */
    int fault = vt_step_end(t->g, rc ? NULL : err);
    return vc_comm_agree(t->comm, rc ? rc : vc_context(err, fault, "gradients' norm"), err);
}
