/* fold.h - moves places of channels-last video into channels and back, without gradients. */
#ifndef COMMON_NN_FOLD_H
#define COMMON_NN_FOLD_H

#include "common/tensor/ops.h"

/* Moves places into channels, which are then in the order C, t, h, w: x [1,t,h,w,C] with t = by[0]
 * -> [1,1,h/by[1],w/by[2],C*t*by[1]*by[2]]. */
vt_tensor *nn_fold(vt_ctx *g, vt_tensor *x, const int by[3]);
/* Moves them back: x [1,1,h,w,C*t*..] -> [1,t,h*by[1],w*by[2],C]. */
vt_tensor *nn_unfold(vt_ctx *g, vt_tensor *x, const int by[3]);
/* Takes means of n neighbouring channels, in f32: [1,1,h,w,n*C] -> [1,1,h,w,C]. */
vt_tensor *nn_group_means(vt_ctx *g, vt_tensor *x, int64_t c);

/* Makes channels of squares of p * p pixels, in the order c, column, row: [1,t,h,w,3] ->
 * [1,t,h/p,w/p,3*p*p]; and pixels of such channels. */
vt_tensor *nn_squares(vt_ctx *g, vt_tensor *x, int64_t p);
vt_tensor *nn_unsquares(vt_ctx *g, vt_tensor *x, int64_t p);

#endif
