/* ttt.c - the inner scan of test-time training; see kernel_list.h */
#include "common/cuda/cuda.h"
#include "common/tensor/ttt.h"

/* Describes rows of tokens [B,L,H,..], or a packed parameter; no tensor: no data. */
static vk_heads heads(const vt_tensor *t)
{
    if (!t)
        return (vk_heads){ 0 };
    return (vk_heads){ t->data, (int)t->dtype, vt_adds(t), t->stride[0], t->stride[1],
                       t->stride[2] };
}

/* Sets the arguments but for the result and gradients; false: memory is out. */
static bool arguments(vt_dev *d, vk_ttt_args *a, const vt_ttt *t, const vt_tensor *states)
{
    const vt_ttt_size s = vt_ttt_size_of(t);
    size_t wide = s.mlp ? s.ep : s.dp;

    *a = (vk_ttt_args){
        .q = heads(t->q), .k = heads(t->k), .target = heads(t->target), .eta = heads(t->eta),
        .gamma = heads(t->gamma), .beta = heads(t->beta), .start_w1 = heads(t->w1),
        .start_b1 = heads(t->b1), .start_w2 = heads(t->w2), .start_b2 = heads(t->b2),
        .states = states ? states->data : NULL, .slope = s.slope, .each = s.work,
        .pairs = (uint32_t)s.pairs, .heads = (uint32_t)s.heads, .m = (uint32_t)s.m,
        .steps = (uint32_t)s.steps, .group = (uint32_t)s.group, .groups = (uint32_t)s.groups,
        .d = (uint32_t)s.d, .e = (uint32_t)s.e, .dp = (uint32_t)s.dp, .ep = (uint32_t)s.ep,
        .b1 = (uint32_t)s.b1, .w2 = (uint32_t)s.w2, .b2 = (uint32_t)s.b2,
        .state = (uint32_t)s.state, .mlp = s.mlp, .eps = VT_TTT_EPS,
    };
    a->buffers = s.m * (VK_TTT_NARROW * s.dp + (s.mlp ? VK_TTT_HIDDEN : 0) * s.ep +
                        (wide > s.dp ? wide : s.dp) + 4) + s.state;
    if (s.pairs && s.steps)
        a->scratch = cuda_scratch(d, CUDA_PARTS, s.pairs * a->buffers * sizeof *a->scratch);
    return a->scratch;
}

void cuda_ttt_scan(vt_dev *d, vt_tensor *o, vt_tensor *states, const vt_ttt *t)
{
    vk_ttt_args a;

    if (!arguments(d, &a, t, states))
        return;
    a.o = heads(o);
    cuda_ok(d, vk_ttt_scan(d->stream, &a), "ttt_scan");
}

void cuda_ttt_scan_grad(vt_dev *d, const vt_ttt *grad, const vt_tensor *dout,
                        const vt_tensor *states, vt_tensor *work, const vt_ttt *t)
{
    vt_tensor *const all[] = { grad->q, grad->k, grad->target, grad->eta, grad->gamma, grad->beta,
                               grad->w1, grad->b1, grad->w2, grad->b2 };
    vk_ttt_args a;

    if (!arguments(d, &a, t, states))
        return;
    a.o = heads(dout);
    a.work = work->data;
    vk_heads *const to[] = { &a.dq, &a.dk, &a.dtarget, &a.deta, &a.dgamma, &a.dbeta, &a.dw1,
                             &a.db1, &a.dw2, &a.db2 };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *to[i] = heads(all[i]);
    if (cuda_ok(d, vk_ttt_scan_grad(d->stream, &a), "ttt_scan_grad"))
        cuda_ok(d, vk_ttt_sums(d->stream, &a), "ttt_scan_grad");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            vt_wrote(all[i]);
}
