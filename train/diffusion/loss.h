/* loss.h - the loss of a prediction: a mean over all its elements.
 *
 * With the error e = |prediction - target| of an element,
 *
 *     mse         e^2
 *     huber       e^2 / 2 up to delta, then delta (e - delta / 2)
 *     smooth_l1   huber / delta
 *
 * each times the element's weight. An element with e above the cutoff counts as 0 and has no
 * gradient, but counts in the mean's number of elements. huber and smooth_l1 are those of PyTorch,
 * whose beta is smooth_l1's delta. */
#ifndef TRAIN_DIFFUSION_LOSS_H
#define TRAIN_DIFFUSION_LOSS_H

#include "common/tensor/ops.h"

typedef enum vtrain_loss_type { VTRAIN_MSE, VTRAIN_HUBER, VTRAIN_SMOOTH_L1 } vtrain_loss_type;

typedef struct vtrain_loss_opts {
    vtrain_loss_type type;
    double delta;                /* above 0; unused by mse */
    double cutoff;               /* 0: none */
} vtrain_loss_opts;

/* pred, target [..] of one shape; weight broadcasts or is NULL -> scalar f32. Gradient to pred
 * only. */
vt_tensor *vtrain_loss(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight,
                       const vtrain_loss_opts *o);

#endif
