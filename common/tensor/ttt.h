/* ttt.h - the memory of vt_ttt_scan, shared by the op and the kernels of both devices.
 *
 * Numbers are counted in f32. A state is the inner model of one pair of sample and head: w1
 * [d][ep], b1 [ep] and, of two layers, w2 [e][dp], b2 [dp], one after another; dp and ep are d and
 * e rounded up to VT_TTT_STEP, so that vectors and panels divide the rows. */
#ifndef COMMON_TENSOR_TTT_H
#define COMMON_TENSOR_TTT_H

#include "common/tensor/ops.h"

enum { VT_TTT_STEP = 32 };
#define VT_TTT_EPS 1e-8f                       /* of the inner norm's variance */

typedef struct vt_ttt_size {
    bool mlp;                                  /* two layers */
    size_t samples, heads, pairs, length;
    size_t m, steps, group, groups;            /* mini-batches; states kept: one for each group */
    size_t d, e, dp, ep;
    size_t b1, w2, b2, state;                  /* offsets in a state, and its size */
    size_t slope, gamma, beta, work;           /* offsets in a pair's memory of the gradient, which
                                                * begins with group + 1 states; and its size */
} vt_ttt_size;

static inline size_t vt_ttt_round(size_t n)
{
    return (n + VT_TTT_STEP - 1) / VT_TTT_STEP * VT_TTT_STEP;
}

/* group is set, and the shapes are right. */
static inline vt_ttt_size vt_ttt_size_of(const vt_ttt *t)
{
    vt_ttt_size s = {
        .mlp = t->w2, .samples = (size_t)t->q->dim[0], .heads = (size_t)t->q->dim[2],
        .length = (size_t)t->q->dim[1], .m = (size_t)t->mini_batch, .group = (size_t)t->group,
        .d = (size_t)t->q->dim[3], .e = (size_t)vt_last(t->w1),
    };

    s.pairs = s.samples * s.heads;
    s.steps = s.length / s.m;
    s.groups = (s.steps + s.group - 1) / s.group;
    s.dp = vt_ttt_round(s.d);
    s.ep = vt_ttt_round(s.e);
    s.b1 = s.d * s.ep;
    s.w2 = s.b1 + s.ep;
    s.b2 = s.w2 + (s.mlp ? s.e * s.dp : 0);
    s.state = s.b2 + (s.mlp ? s.dp : 0);
    s.slope = (s.group + 1) * s.state;
    s.gamma = s.slope + s.state;
    s.beta = s.gamma + s.dp;
    s.work = s.beta + s.dp;
    return s;
}

#endif
