/* kernel_list.h - the list of a device's kernels: each row is a prototype below its contract.
 *
 * A file defines VT_KERNEL(result, name, arguments) and includes this list: backend.h makes the
 * fields of the table from it, each backend its declarations and the table's values. A new kernel
 * needs a row here and functions of its name with the prefixes cpu_ and cuda_.
 *
 * The op has checked, typed and allocated the operands; a kernel only computes. It never allocates
 * tensors or fails on shapes. Operands are packed unless marked: "strided" allows any strides with
 * the last axis packed, "any" all strides, of which 0 repeats an element (as broadcasting needs).
 * Element types: f32 or bf16 for activations and their gradients; weights and tables also f16 and
 * fp8; gradients of weights f32. Arithmetic is f32.
 *
 * (+)= overwrites an empty target and adds to any other (vt_adds), and marks it as not empty
 * (vt_wrote). Gradients and fresh results start empty. Targets that are NULL are skipped. */

/* y = x: any strides, types f32, bf16, f16, fp8, or equal ones (also i32). An x that has scales is
 * multiplied by them; it and y, f32 or bf16, are packed then. */
VT_KERNEL(void, copy, (vt_dev *, vt_tensor *y, const vt_tensor *x))
/* y = rows ids of table; ids i32, any table type. An id outside the table is a fault. */
VT_KERNEL(void, embedding, (vt_dev *, vt_tensor *y, const vt_tensor *table,
                            const vt_tensor *ids))
/* y = value; any */
VT_KERNEL(void, fill, (vt_dev *, vt_tensor *y, float value))
/* y (+)= a x; any */
VT_KERNEL(void, scale, (vt_dev *, vt_tensor *y, const vt_tensor *x, float a))
/* dx (+)= scale * sum of dy * other over the axes along which dx has stride 0; dx and other are
 * given in dy's shape; other NULL is 1; any */
VT_KERNEL(void, reduce, (vt_dev *, vt_tensor *dx, const vt_tensor *dy, const vt_tensor *other,
                         float scale))
/* y = a op b; any */
VT_KERNEL(void, binary, (vt_dev *, vt_binary op, vt_tensor *y, const vt_tensor *a,
                         const vt_tensor *b))
/* da (+)= dy * b; any */
VT_KERNEL(void, mul_grad, (vt_dev *, vt_tensor *da, const vt_tensor *dy, const vt_tensor *b))
/* y = f(x); any */
VT_KERNEL(void, unary, (vt_dev *, vt_unary op, vt_tensor *y, const vt_tensor *x))
/* dx (+)= dy f'(x); any */
VT_KERNEL(void, unary_grad, (vt_dev *, vt_unary op, vt_tensor *dx, const vt_tensor *dy,
                             const vt_tensor *x))
/* y = x + gate * h; any */
VT_KERNEL(void, gated_add, (vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *h,
                            const vt_tensor *gate))
/* y = a x + c n, a and c f32 [B] given in x's shape; any */
VT_KERNEL(void, mix, (vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *n,
                      const vt_tensor *a, const vt_tensor *c))
/* y = mean + exp(logvar / 2) noise; any */
VT_KERNEL(void, posterior, (vt_dev *, vt_tensor *y, const vt_tensor *mean,
                            const vt_tensor *logvar, const vt_tensor *noise))
/* randn computes vt_randn's y, timestep vt_timestep's (ops.h): packed f32 */
VT_KERNEL(void, randn, (vt_dev *, vt_tensor *y, uint64_t seed, uint32_t row0, uint32_t micro,
                        uint32_t purpose))
VT_KERNEL(void, timestep, (vt_dev *, vt_tensor *y, const vt_tensor *t, float max_period))
/* drops elements of y [M,n], in place (vt_drop): packed f32 or bf16. draw i32 [2]: the first
 * sample's number in the micro-batch, and the micro-batch's. */
VT_KERNEL(void, dropout, (vt_dev *, vt_tensor *y, const vt_tensor *draw, const vt_drop *how))
/* as vt_patchify and vt_unpatchify in ops.h; both (+)= */
VT_KERNEL(void, patchify, (vt_dev *, vt_tensor *tokens, const vt_tensor *x, int pt, int ph,
                           int pw, vt_patch_order order))
VT_KERNEL(void, unpatchify, (vt_dev *, vt_tensor *x, const vt_tensor *tokens, int pt, int ph,
                             int pw, vt_patch_order order))

/* the norms of ops.h; rms has neither mean nor b. stats f32 [rows,2] gets mean and rstd, or is
 * NULL. y, x strided; shift, scale NULL or in x's shape, strided. */
VT_KERNEL(void, norm, (vt_dev *, vt_tensor *y, vt_tensor *stats, const vt_tensor *x,
                       const vt_tensor *w, const vt_tensor *b, const vt_tensor *shift,
                       const vt_tensor *scale, float eps, bool rms))
/* all (+)=; dx, dy, x strided; dshift, dscale in x's shape, equal strides, sums over stride 0 */
VT_KERNEL(void, norm_grad, (vt_dev *, vt_tensor *dx, vt_tensor *dw, vt_tensor *db,
                            vt_tensor *dshift, vt_tensor *dscale, const vt_tensor *dy,
                            const vt_tensor *x, const vt_tensor *stats, const vt_tensor *w,
                            const vt_tensor *b, const vt_tensor *scale, bool rms))

/* c = alpha * op(a) op(b) + beta * c + bias; 2-D, rows may be strided (lda = stride[0]).
 * op(a) [m,k], op(b) [k,n]; ta, tb: the operand is stored transposed. bias [n] or NULL. Any
 * mix of types; products accumulate in f32; beta 0 never reads c. b may have codes and scales, here
 * and in the products with GELU: its rows are then packed, and unpacked as they are read. */
VT_KERNEL(void, matmul, (vt_dev *, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                         bool tb, const vt_tensor *bias, float alpha, float beta))
/* Products with fused epilogues, where the device has them; a is not transposed. These serve a
 * feed-forward's GELU (tanh form): y = gelu(z), z = alpha a op(b) + beta y + bias; pre gets z
 * rounded to y's type, for the gradient, or is NULL. gelu may be computed from the unrounded z. */
VT_KERNEL(void, matmul_gelu, (vt_dev *, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                              const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha,
                              float beta))
/* dx = (alpha a op(b) + beta dx) * gelu'(pre); pre is packed and has dx's type. */
VT_KERNEL(void, matmul_gelu_grad, (vt_dev *, vt_tensor *dx, const vt_tensor *a,
                                   const vt_tensor *b, bool tb, const vt_tensor *pre,
                                   float alpha, float beta))
/* dw = dy' x + beta dw, f32; db [n], f32, (+)= the sum of dy's rows */
VT_KERNEL(void, matmul_bias_grad, (vt_dev *, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                                   const vt_tensor *x, float beta))

/* lse f32 [B,H,Sq] gets the natural log-sum-exp of the scaled scores, for backward. how->scale is
 * set, how->bias has [B,H,Sq,Sk]'s shape. q, k, v, bias strided. */
VT_KERNEL(void, attention, (vt_dev *, vt_tensor *o, vt_tensor *lse, const vt_tensor *q,
                            const vt_tensor *k, const vt_tensor *v, const vt_attn *how))
/* dq, dk, dv (+)=, each may be NULL; all strided, but o, lse and dout packed. how has a length and
 * a scale only, k as many heads as q, D is at most 256. */
VT_KERNEL(void, attention_grad, (vt_dev *, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                                 const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                                 const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                                 const vt_attn *how))
/* y (+)= x rotated, in pairs of neighbours or of elements D/2 apart; sign -1 rotates back, for the
 * gradient. x, y strided. */
VT_KERNEL(void, rope, (vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *c,
                       const vt_tensor *s, int64_t begin, bool halves, float sign))

/* vt_ttt_scan of ops.h; t->group is set. states f32 [groups, pairs, state] (ttt.h) gets the state
 * at the start of each group of mini-batches, or is NULL. q, k and target strided, eta any, the
 * others packed. */
VT_KERNEL(void, ttt_scan, (vt_dev *, vt_tensor *o, vt_tensor *states, const vt_ttt *t))
/* The fields of `grad` that are tensors (+)=, each may be NULL; types and strides as t's, dout any
 * type, strided. work f32 [pairs, work] (ttt.h) holds any values. */
VT_KERNEL(void, ttt_scan_grad, (vt_dev *, const vt_ttt *grad, const vt_tensor *dout,
                                const vt_tensor *states, vt_tensor *work, const vt_ttt *t))

/* weight NULL or in pred's shape; any */
VT_KERNEL(void, mse, (vt_dev *, vt_tensor *loss, const vt_tensor *pred, const vt_tensor *target,
                      const vt_tensor *weight))
/* dpred (+)= */
VT_KERNEL(void, mse_grad, (vt_dev *, vt_tensor *dpred, const vt_tensor *dloss,
                           const vt_tensor *pred, const vt_tensor *target,
                           const vt_tensor *weight))
/* y = the factor of vt_mse_bounded's errors: of their squares, or (slope) of their gradients. The
 * bounds are above 0 (INFINITY: none); any */
VT_KERNEL(void, error_factor, (vt_dev *, vt_tensor *y, const vt_tensor *pred,
                               const vt_tensor *target, vt_bounds how, bool slope))
/* x any */
VT_KERNEL(void, sum, (vt_dev *, vt_tensor *y, const vt_tensor *x))

/* c->front is NULL or packed; c->edge is set only on axes where x itself is padded. */
VT_KERNEL(void, conv3d, (vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                         const vt_tensor *b, const vt_conv *c))
/* as vt_group_norm in ops.h; x, y, n->scale and n->shift are packed. */
VT_KERNEL(void, group_norm, (vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                             const vt_tensor *b, const vt_group *n))
/* as vt_nearest and vt_pool_frames in ops.h, to y's size. */
VT_KERNEL(void, nearest, (vt_dev *, vt_tensor *y, const vt_tensor *x))
VT_KERNEL(void, pool_frames, (vt_dev *, vt_tensor *y, const vt_tensor *x))

/* The optimiser's kernels work on packed parameters with f32 gradients. sums[i] becomes the sum of
 * x[i]'s squares, of n tensors, on the host: the call waits for the device once. */
VT_KERNEL(void, sumsq, (vt_dev *, double *sums, const vt_tensor *const *x, int n))
/* The sum of |x|, and of x (a - b); all packed f32. */
VT_KERNEL(double, sum_magnitudes, (vt_dev *, const vt_tensor *x))
VT_KERNEL(double, sum_along, (vt_dev *, const vt_tensor *x, const vt_tensor *a,
                              const vt_tensor *b))
/* A step of the rule a->rule (formulas.h), whose state is s [VF_STATES], NULL beyond the rule's
 * states. w and s f32; or all bf16, rounded stochastically; or w f32, s codes of eight bits (u8)
 * and peak f32 [blocks,states], else NULL (common/kernels/moments.h). */
VT_KERNEL(void, update, (vt_dev *, vt_tensor *w, vt_tensor *const *s, vt_tensor *peak,
                         const vt_tensor *grad, const vt_update_args *a))
/* ema = decay ema + (1 - decay) w */
VT_KERNEL(void, ema, (vt_dev *, vt_tensor *ema, const vt_tensor *w, float decay))

#undef VT_KERNEL
