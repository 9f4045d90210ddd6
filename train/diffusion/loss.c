/* loss.c - see loss.h */
#include "train/diffusion/loss.h"

vt_tensor *vtrain_loss(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight,
                       const vtrain_loss_opts *o)
{
    bool squared = o->type == VTRAIN_MSE;
    const vt_bounds how = { squared ? 0 : (float)o->delta, (float)o->cutoff };
    vt_tensor *loss = vt_mse_bounded(g, pred, target, weight, &how);
    if (squared)
        return loss;
    return vt_scale(g, loss, (float)(o->type == VTRAIN_HUBER ? 0.5 : 0.5 / o->delta));
}
