/* ops.h - the contract of every op; read this page first.
 *
 * All ops take and return step tensors (tensor.h), return NULL after a failure, and have a gradient
 * for every differentiable input unless marked (no gradient). D is the last axis. "Broadcasts"
 * means: aligned at the last axis, sizes equal or 1, missing leading axes are 1. Inputs may be
 * views with any strides. Statistics, softmax and sums are f32 (at least) whatever the tensors'
 * type. Results have the type of the first input if that is f32 or bf16, else the compute type;
 * other inputs may be f32 or bf16, frozen parameters also f16 or fp8, as stored. A weight that has
 * scales is read by linear layers alone. */
#ifndef COMMON_TENSOR_OPS_H
#define COMMON_TENSOR_OPS_H

#include "common/tensor/tensor.h"

/* ---- shape (op_shape.c) ---- */

/* Returns x's elements in their order under other sizes, one of which may be -1: a view where the
 * strides allow it, else a view of a packed copy. */
vt_tensor *vt_reshape(vt_ctx *g, vt_tensor *x, int nd, const int64_t *dim);
/* Returns a view whose axis i is axis order[i] of x. */
vt_tensor *vt_permute(vt_ctx *g, vt_tensor *x, const int *order);
/* Returns a view of begin <= index < end on one axis (a negative axis counts from the last). */
vt_tensor *vt_slice(vt_ctx *g, vt_tensor *x, int axis, int64_t begin, int64_t end);
/* Sets out to n views of equal size along one axis, or to NULLs after a failure. */
void vt_chunk(vt_ctx *g, vt_tensor *x, int axis, int n, vt_tensor **out);
/* Joins n tensors along one axis; the result has the type of the first. */
vt_tensor *vt_concat(vt_ctx *g, int axis, int n, vt_tensor *const *x);
/* Returns x itself if it is packed, else a packed copy. */
vt_tensor *vt_pack(vt_ctx *g, vt_tensor *x);
/* Returns a view of x through which no gradient passes. */
vt_tensor *vt_detach(vt_ctx *g, vt_tensor *x);
/* Writes x over y, a tensor of the step (or a view of one) that has the same shape and needs no
 * gradient: for results made in parts, and for state carried over a loop. (no gradient) */
void vt_assign(vt_ctx *g, vt_tensor *y, vt_tensor *x);
/* Converts to f32 or bf16; returns x itself if it has that type. */
vt_tensor *vt_cast(vt_ctx *g, vt_tensor *x, vc_dtype dtype);
/* Returns a view for values that depend only on the distance from query i to key j:
 * x [..,Sq+Sk-1] -> [..,Sq,Sk], element i,j is x's element Sq-1 + j-i. (no gradient) */
vt_tensor *vt_distances(vt_ctx *g, vt_tensor *x, int64_t sq);
/* Looks up rows of a table: table [V,D] as stored, ids i32 [..] -> [..,D] in the compute type. An
 * id outside 0..V-1 fails the step (VC_EINVAL). (no gradient) */
vt_tensor *vt_embedding(vt_ctx *g, vt_tensor *table, vt_tensor *ids);
/* Moves rows, which lie along the last axis: row i of the result is row order[i] of x [..,D]. order
 * and inverse are i32 with a number for each row; order is a permutation, inverse its inverse. A
 * number outside of the rows fails the step (VC_EINVAL). */
vt_tensor *vt_reorder(vt_ctx *g, vt_tensor *x, vt_tensor *order, vt_tensor *inverse);

/* These convert video to patch tokens and back. x [B,C,T,H,W] with T, H, W multiples of pt, ph, pw
 * <-> tokens [B, (T/pt)(H/ph)(W/pw), C*pt*ph*pw], frames outermost, rows before columns. Elements
 * of a token are ordered (c,pt,ph,pw) by VT_C_FIRST and (pt,ph,pw,c) by VT_C_LAST. dim: [C,T,H,W]
 * of the result. */
typedef enum { VT_C_FIRST, VT_C_LAST } vt_patch_order;
vt_tensor *vt_patchify(vt_ctx *g, vt_tensor *x, int pt, int ph, int pw, vt_patch_order order);
vt_tensor *vt_unpatchify(vt_ctx *g, vt_tensor *tokens, const int64_t dim[4], int pt, int ph,
                         int pw, vt_patch_order order);

/* ---- element by element (op_elem.c) ---- */

vt_tensor *vt_add(vt_ctx *g, vt_tensor *a, vt_tensor *b);           /* b broadcasts to a */
vt_tensor *vt_sub(vt_ctx *g, vt_tensor *a, vt_tensor *b);           /* b broadcasts to a */
vt_tensor *vt_mul(vt_ctx *g, vt_tensor *a, vt_tensor *b);           /* b broadcasts to a */
vt_tensor *vt_scale(vt_ctx *g, vt_tensor *x, float a);              /* a * x */
vt_tensor *vt_silu(vt_ctx *g, vt_tensor *x);
vt_tensor *vt_gelu(vt_ctx *g, vt_tensor *x);                        /* tanh form */
vt_tensor *vt_gelu_erf(vt_ctx *g, vt_tensor *x);
vt_tensor *vt_quick_gelu(vt_ctx *g, vt_tensor *x);                  /* x sigmoid(1.702 x) */
vt_tensor *vt_sigmoid(vt_ctx *g, vt_tensor *x);
vt_tensor *vt_tanh(vt_ctx *g, vt_tensor *x);
vt_tensor *vt_relu(vt_ctx *g, vt_tensor *x);                        /* max(x, 0) */
vt_tensor *vt_sin_squared(vt_ctx *g, vt_tensor *x);                 /* sin(x)^2, |x| below 1e6 */
/* x + gate * y: the gated residual of adaLN-Zero (Peebles & Xie, 3.2). gate broadcasts to x, whose
 * shape y has. */
vt_tensor *vt_gated_add(vt_ctx *g, vt_tensor *x, vt_tensor *y, vt_tensor *gate);
/* a_b * x + c_b * n, one pair per outermost index: x, n [B,..], a, c [B]. (no gradient) */
vt_tensor *vt_mix(vt_ctx *g, vt_tensor *x, vt_tensor *n, vt_tensor *a, vt_tensor *c);
/* mean + exp(logvar / 2) * noise -> f32. logvar and noise broadcast to mean. (no gradient) */
vt_tensor *vt_posterior(vt_ctx *g, vt_tensor *mean, vt_tensor *logvar, vt_tensor *noise);
/* Returns f32 standard normals of the training draw (seed, row0 + b, micro, purpose) for each
 * outermost index b; vc_train_normals (rng.h) gives the same on every device. (no gradient) */
vt_tensor *vt_randn(vt_ctx *g, int nd, const int64_t *dim, uint64_t seed, uint32_t row0,
                    uint32_t micro, uint32_t purpose);
/* Returns the sinusoid of t f32 [B] -> [B,D] f32: cos(t w_k), then sin(t w_k), k < D/2,
 * w_k = max_period^(-k/(D/2)), as diffusers' Timesteps with flip_sin_to_cos and
 * downscale_freq_shift 0. w_k and t w_k are rounded to f32, as PyTorch rounds them: the angles of
 * t = 6000, a guidance of 6, would differ by 4e-4 otherwise. D must be even. (no gradient) */
vt_tensor *vt_timestep(vt_ctx *g, vt_tensor *t, int64_t dim, float max_period);

/* ---- norms over the last axis (op_norm.c) ---- */

/* y = ((x - mean) * rstd * w + b) * (1 + scale) + shift. w, b [D] or NULL; shift and scale both
 * NULL, or of equal shape, last axis D, broadcasting to x: [B,1,D] per sample, [B,N,D] per token.
 */
vt_tensor *vt_layer_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, float eps);
vt_tensor *vt_layer_norm_modulate(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                                  vt_tensor *shift, vt_tensor *scale, float eps);
/* These do the same with x * rsqrt(mean(x^2) + eps) * w as the norm. */
vt_tensor *vt_rms_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, float eps);
vt_tensor *vt_rms_norm_modulate(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *shift,
                                vt_tensor *scale, float eps);

/* y = x / sqrt(sum(x^2) + eps^2) * w, whose rows before w have length 1; F.normalize gives the same
 * for rows longer than eps, which is at least 1e-15. The result times sqrt(D), as in Wan's VAE,
 * equals vt_rms_norm with eps^2/D. */
vt_tensor *vt_l2_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, float eps);

/* ---- modulation of two groups of tokens (op_norm.c) ---- */

/* These serve sequences of two kinds of tokens, such as text and video, or a clean first frame and
 * noisy ones. In x [B,N,D] tokens below `split` use the first of each pair and the others the
 * second; 0 < split < N. The entries of a pair are [D], [B,1,D], or have a row for each token of
 * their kind: [B,split,D], [B,N-split,D]. All else is as in vt_layer_norm_modulate and
 * vt_gated_add. */
vt_tensor *vt_layer_norm_modulate_two(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b,
                                      int64_t split, vt_tensor *const shift[2],
                                      vt_tensor *const scale[2], float eps);
vt_tensor *vt_gated_add_two(vt_ctx *g, vt_tensor *x, vt_tensor *y, int64_t split,
                            vt_tensor *const gate[2]);

/* ---- matrix products (op_matmul.c) ---- */

/* A linear layer: w [out,in] as checkpoints store it, b [out] or NULL; with LoRA a [r,in],
 * lb [out,r]: y = x w' + b + lora_scale * (x a') lb'. Frozen parts get no gradient. w may be
 * codes with scales (vt_tensor.scale), which the kernels of products unpack. lora_key tells the
 * module's dropout from others'; 0: the module drops nothing, as its input is that of all samples.
 * An adapter (adapter.h) changes the layer as its row says, by its factors; the first two of a LoRA
 * and its kin are lora_a and lora_b too. */
enum { VT_FACTORS = 7 };
struct vt_lin;
typedef vt_tensor *vt_apply(vt_ctx *g, vt_tensor *x, const struct vt_lin *l, vc_dtype type);
typedef struct vt_lin {
    vt_tensor *w, *b, *lora_a, *lora_b;
    float lora_scale;
    uint64_t lora_key;
    const struct vt_adapter *adapter;         /* NULL: none, or the LoRA of lora_a and lora_b */
    vt_apply *apply;                          /* the adapter's; NULL: it has the pair alone */
    vt_tensor *factor[VT_FACTORS];            /* NULL: the layer does not have it */
} vt_lin;
/* Probabilities of dropout in LoRA, each from 0 to below 1. What stays is divided by 1 - p, except
 * for modules:
 *     y = x w' + b + lora_scale * M (R N ((I x) a')) lb'
 * I: of each value of x, as PEFT's lora_dropout; N: of each value of x a', as kohya's
 * network_dropout; R: of each column of x a' in a sample, as its rank_dropout; M: of all of a
 * module in a sample, as its module_dropout. An adapter that adds x d' of a matrix d [out,in]
 * (adapter.h: LoHa, LoKr) has no x a', and adds
 *     M (R N ((I x) d'))
 * I: as in musubi-tuner's LoHaModule; N: of each value, as the dropout of LyCORIS's modules; R: of
 * each output in a sample, which is a row of d, as their rank_dropout, whose others are not
 * divided, or with `share` (their rank_dropout_scale) by the share of the outputs that stay. */
typedef struct vt_dropout {
    float input, neuron, rank, module;
    bool share;
} vt_dropout;
/* Drops in the linear layers with LoRA from here to the end of the step, whose batch has `rows`
 * samples. The draws are training draws (rng.h) of seed xor lora_key, (row0 + b, micro) and the
 * element in the sample, so they are the same when a block is recomputed and however a micro-batch
 * is divided. An x whose rows are not a multiple of `rows` counts as one sample. A module that a
 * step uses twice drops the same both times. Fails the step if a probability is out of range. */
void vt_dropout_begin(vt_ctx *g, const vt_dropout *p, uint64_t seed, int64_t rows, uint32_t row0,
                      uint32_t micro);
/* The dropout of an adapter's function (vt_lin.apply): I x, and M (R N y) of what it adds,
 * y [..,out]. Each returns its operand where nothing drops. */
vt_tensor *vt_drop_input(vt_ctx *g, vt_tensor *x, const vt_lin *l);
vt_tensor *vt_drop_change(vt_ctx *g, vt_tensor *y, const vt_lin *l);
/* Leaves out the LoRA of all linear layers from here to the end of the step: the model is then its
 * base. */
void vt_leave_out_lora(vt_ctx *g);
/* x [..,in] -> [..,out] in the compute type; one op with or without LoRA. */
vt_tensor *vt_linear(vt_ctx *g, vt_tensor *x, const vt_lin *l);
/* The same with a result in f32, for modulation: every token is scaled and shifted by these few
 * numbers, and would share their rounding. */
vt_tensor *vt_linear_f32(vt_ctx *g, vt_tensor *x, const vt_lin *l);
/* down(gelu(up(x))) with gelu's tanh form (Vaswani et al. 2017, 3.3, with Hendrycks & Gimpel's
 * GELU): x [..,in] -> [..,out]. As one op it lets devices fuse GELU and its slope with the
 * products, and it keeps up(x) alone for its gradient, which computes gelu again: a fifth of the
 * activations of a block that is trained whole. */
vt_tensor *vt_feed_forward(vt_ctx *g, vt_tensor *x, const vt_lin *up, const vt_lin *down);

/* ---- attention and positions (op_attn.c) ---- */

/* The scale, bias and mask of attention's scores. With all zeros every query sees every key, and
 * the scale is 1/sqrt(D). */
typedef struct vt_attn {
    vt_tensor *kv_len;          /* i32 [B]: sample b has kv_len[b] keys, 1..Sk; NULL: all */
    vt_tensor *bias;            /* f32, finite, broadcasts to [B,H,Sq,Sk], last axis Sk; or NULL */
    int64_t causal;             /* n > 0: query i sees the keys before the end of its own run of n;
                                 * n is 1 for text, H*W for video that is causal by frames */
    float scale;                /* 0: 1/sqrt(D) */
} vt_attn;
/* softmax(scale * q k' + bias) v over the keys that a query sees, in flash form, which never
 * holds an S x S matrix. q [B,Sq,H,D], k, v [B,Sk,K,D] -> [B,Sq,H,D]; H is a multiple of K, and
 * each key head serves H/K adjacent query heads. how NULL means all zeros. D is a multiple of 8,
 * at most 1024, on a GPU 512. (no gradient) with a bias, causal, fewer key heads than query
 * heads, or D above 256. */
vt_tensor *vt_attention(vt_ctx *g, vt_tensor *q, vt_tensor *k, vt_tensor *v, const vt_attn *how);
/* Interleaved-pair rotation (RoFormer): pair j of the last axis of x [B,N,H,D] is rotated by the
 * angle with cos[n,j], sin[n,j] (f32 [N', D/2]): (a,b) -> (a cos - b sin, b cos + a sin); tokens
 * begin..begin+N'-1 are rotated, the others copied. */
vt_tensor *vt_rope(vt_ctx *g, vt_tensor *x, vt_tensor *cos, vt_tensor *sin, int64_t begin);
/* The same where pair j consists of elements j and j + D/2, as in LLaMA. */
vt_tensor *vt_rope_halves(vt_ctx *g, vt_tensor *x, vt_tensor *cos, vt_tensor *sin, int64_t begin);

/* ---- test-time training (op_ttt.c) ---- */

/* The operands of vt_ttt_scan. D is the width of a head, and E that of the inner model's hidden
 * layer, which is D if there is one layer. b1 and b2 may have an axis of size 1 between their two,
 * as in checkpoints. */
typedef struct vt_ttt {
    vt_tensor *q, *k, *target;  /* [B,L,H,D] */
    vt_tensor *eta;             /* [B,L,H]: the step size of each token, with all its factors */
    vt_tensor *gamma, *beta;    /* [H,D], of the inner layer norm */
    vt_tensor *w1, *b1;         /* [H,D,E], [H,E]: where each sequence starts */
    vt_tensor *w2, *b2;         /* [H,E,D], [H,D]; NULL: f is one layer */
    int64_t mini_batch;         /* m, which divides L */
    int64_t group;              /* mini-batches between the states that are kept for backward, which
                                 * computes the others again; 0: the root of their number */
} vt_ttt;
/* Trains an inner model f along each sequence, for each head alone (Sun et al. 2024, "Learning to
 * (Learn at Test Time)"; Dalal et al. 2025, "One-Minute Video Generation with Test-Time Training").
 * f(x) is x w1 + b1, or gelu(x w1 + b1) w2 + b2 with gelu's tanh form. N is the layer norm with
 * gamma and beta (eps 1e-8). Each mini-batch of m tokens begins with the weights that the one
 * before left:
 *
 *     loss_j = |N(f(k_j)) - target_j|^2 / 2
 *     each weight w of f -= sum over the m tokens of eta_j * the slope of loss_j in w
 *     o_j = q_j + N(f(q_j)), by the new weights
 *
 * Returns o [B,L,H,D]. The weights along the scan are f32. The gradient with respect to all
 * operands runs through the inner steps. For it forward keeps L / (m group) states of each sample
 * and head; backward needs memory for group + 2 more. */
vt_tensor *vt_ttt_scan(vt_ctx *g, const vt_ttt *in);

/* ---- loss (op_loss.c) ---- */

/* mean(weight * (pred - target)^2) in f32 -> scalar [] f32. weight broadcasts or NULL. The mean is
 * over all elements of pred. Gradient to pred only. */
vt_tensor *vt_mse(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight);
/* The same, where an error e = |pred - target| above `linear` counts as linear (2 e - linear)
 * instead of e^2, which is twice Huber's loss, and an error above `dropped` counts as 0, with no
 * gradient. 0: no such bound; how may be NULL. */
typedef struct vt_bounds {
    float linear, dropped;
} vt_bounds;
vt_tensor *vt_mse_bounded(vt_ctx *g, vt_tensor *pred, vt_tensor *target, vt_tensor *weight,
                          const vt_bounds *how);
vt_tensor *vt_sum(vt_ctx *g, vt_tensor *x);                         /* scalar f32 */

/* ---- channels-last video [N,T,H,W,C] (op_conv.c); no gradients: VAEs are not trained ---- */

/* 3-D convolution: x [N,T,H,W,C], w [K,C,kt,kh,kw] as checkpoints store it (sides up to 64), b [K]
 * or NULL; padding before and after each axis -> [N,T',H',W',K]. A 2-D convolution has kt = 1.
 * Padding is zeros, or on axes with `edge` repeats of the first and last elements. A causal
 * convolution is padded in front of time only; `front` gives frames instead of that padding, which
 * are read in place, so that x is not copied. */
typedef struct vt_conv {
    int stride[3], before[3], after[3];       /* t, h, w */
    vt_tensor *front;                         /* [N,F,H,W,C] of x's type; F = before[0], or 1, which
                                               * repeats that frame; NULL: padding by edge */
    bool edge[3];
} vt_conv;
vt_tensor *vt_conv3d(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, const vt_conv *c);

/* Group norm (Wu & He 2018): x [N,T,H,W,C] normalised over (T,H,W) and each of `groups` runs of
 * channels, then * w + b, both [C]; in spatial form (Zheng et al. 2022) then * scale + shift, which
 * are [N,t,h,w,C] and taken at the nearest place below, as vt_nearest does; then SiLU if `silu`.
 * first: frame 0 of scale and shift serves frame 0 alone, their other frames the rest (T and t
 * above 1). */
typedef struct vt_group {
    int groups;
    float eps;
    bool silu, first;
    vt_tensor *scale, *shift;                 /* both or neither */
} vt_group;
vt_tensor *vt_group_norm(vt_ctx *g, vt_tensor *x, vt_tensor *w, vt_tensor *b, const vt_group *n);

/* x [N,T,H,W,C] -> [N,t,h,w,C]: element i of an axis is element floor(i * n_in / n_out) of x's. */
vt_tensor *vt_nearest(vt_ctx *g, vt_tensor *x, int64_t t, int64_t h, int64_t w);
/* Averages neighbouring frames: [N,T,H,W,C] -> [N,ceil(T/2),H,W,C]. With an odd T frame 0 stays
 * alone and the pairs follow. */
vt_tensor *vt_pool_frames(vt_ctx *g, vt_tensor *x);

#endif
