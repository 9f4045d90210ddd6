/* kernels.h - launchers of the kernels of bodies.h, which common/cuda calls without CUDA's headers.
 *
 * common/cuda/kernels.cu runs the kernels on a GPU; the tests compile the same bodies for the CPU.
 * Every launcher queues its work on `stream` (a cudaStream_t) and returns 0 or a cudaError_t. The
 * callers have checked and allocated the operands; a walk with data[o] NULL has no operand o.
 * (+)= adds if `adds` is set, else overwrites. The parts and the order of sums depend on shapes
 * alone, so the same operands give the same bits. */
#ifndef COMMON_KERNELS_KERNELS_H
#define COMMON_KERNELS_KERNELS_H

#include "common/kernels/elements.h"
#include "common/kernels/moments.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- element by element (elements.h) ---- */

typedef struct vk_map_args {
    vk_walk w;                                 /* y, x[0], .. */
    int adds;
    float a[2];
} vk_map_args;
int vk_map(void *stream, vk_element f, const vk_map_args *s);

/* y = x, copied unchanged; elements of 1, 2, 4 or 8 bytes */
typedef struct vk_move_args { vk_walk w; } vk_move_args;
int vk_move(void *stream, const vk_move_args *s);

/* y = the codes w times their scales: n elements, all packed, `block` of which share a scale. type
 * is VK_F8E4M3, VK_F8E5M2, VK_I8 or VK_NF4; to is VK_BF16 or VK_F32. */
typedef struct vk_unpack_args {
    char *y;
    const char *w;
    const float *scale;
    uint64_t n, block;
    int type, to;
} vk_unpack_args;
int vk_unpack(void *stream, const vk_unpack_args *s);

/* ---- rows ---- */

/* teams is the number of teams in a block: 1, or up to VK_THREADS / 8 for short rows. */
enum { VK_NORM_Y, VK_NORM_X, VK_NORM_W, VK_NORM_B, VK_NORM_SHIFT, VK_NORM_SCALE, VK_NORM_STATS,
       VK_NORM_OPERANDS };
typedef struct vk_norm_args {
    vk_walk w;                                 /* stats: pairs, step 0 */
    float eps;
    int rms;
    uint32_t teams;
} vk_norm_args;
int vk_norm(void *stream, const vk_norm_args *s);
int vk_norm_whole(void *stream, const vk_norm_args *s);        /* the same, if w.whole */

/* Computes dx; vk_columns computes the gradients that are sums over rows. */
enum { VK_DX_DX, VK_DX_DY, VK_DX_X, VK_DX_W, VK_DX_SCALE, VK_DX_STATS, VK_DX_OPERANDS };
typedef struct vk_norm_dx_args {
    vk_walk w;
    int rms, adds;
    uint32_t teams;
} vk_norm_dx_args;
int vk_norm_dx(void *stream, const vk_norm_dx_args *s);
int vk_norm_dx_whole(void *stream, const vk_norm_dx_args *s);

/* ---- sums over rows: each target is the sum of `per` successive rows ---- */

enum { VK_COL_OUT, VK_COL_OUT2, VK_COL_DY, VK_COL_X, VK_COL_W, VK_COL_B, VK_COL_SCALE,
       VK_COL_STATS, VK_COL_OPERANDS };
typedef enum vk_column_terms {
    VK_PRODUCT,                                /* out: dy x (x NULL: 1) */
    VK_AFFINE,                                 /* out: dw, out2: db of a norm */
    VK_MODULATION                              /* out: dshift, out2: dscale */
} vk_column_terms;
typedef struct vk_columns_args {
    vk_walk w;
    vk_column_terms terms;
    uint32_t targets, per, slices;             /* slices: partial sums of a target */
    float *part;                               /* [2, targets, slices, n] */
    float scale;
    int adds, adds2;
} vk_columns_args;
int vk_columns(void *stream, const vk_columns_args *s);
/* out (+)= scale * the sum of the parts, in their order */
int vk_columns_end(void *stream, const vk_columns_args *s);

/* ---- sums over all elements of `per` successive rows ---- */

enum { VK_SUM_OUT, VK_SUM_X, VK_SUM_Y, VK_SUM_W, VK_SUM_OPERANDS };
typedef enum vk_sum_terms {
    VK_VALUES,                                 /* x, or x y */
    VK_SQUARES,                                /* x^2 */
    VK_ERRORS,                                 /* (x - y)^2, times w */
    VK_MAGNITUDES,                             /* |x| */
    VK_ALONG                                   /* x (y - w) */
} vk_sum_terms;
typedef struct vk_sums_args {
    vk_walk w;
    vk_sum_terms terms;
    uint32_t targets, per, slices, teams;
    double *part;                              /* [targets, slices] */
    double scale;
    int adds;
    double *result;                            /* not NULL: [targets], instead of out */
} vk_sums_args;
int vk_sums(void *stream, const vk_sums_args *s);
int vk_sums_end(void *stream, const vk_sums_args *s);

/* ---- video ---- */

typedef struct vk_rope_args {
    vk_walk w;                                 /* y, x: rows [B,N,H], in order */
    const float *c, *s;                        /* [end - begin, n / 2] */
    uint32_t tokens, heads, begin, end;
    float sign;
    int halves, adds;
} vk_rope_args;
int vk_rope(void *stream, const vk_rope_args *s);

typedef struct vk_patch_args {
    char *x, *tokens;
    int x_type, token_type, pt, ph, pw, c_first, to_tokens, adds;
    int64_t count, c, t, h, w;                 /* number of elements; sizes of x */
} vk_patch_args;
int vk_patch(void *stream, const vk_patch_args *s);

typedef struct vk_randn_args {
    float *y;
    int64_t n, quads;                          /* per outermost index */
    uint32_t batch, key[2], row0, micro, purpose;
} vk_randn_args;
int vk_randn(void *stream, const vk_randn_args *s);

typedef struct vk_dropout_args {
    char *y;
    int type;
    const int32_t *draw;                       /* the first sample's number, the micro-batch's */
    int64_t n, quads;                          /* elements of a row; of a sample, in fours */
    int64_t count;                             /* elements of a sample */
    uint32_t batch, element, column, sample, purpose, column_purpose, sample_purpose, key[2];
    float factor;
} vk_dropout_args;
int vk_dropout(void *stream, const vk_dropout_args *s);

typedef struct vk_timestep_args {
    float *y;
    const float *t;
    uint32_t batch, half;
    double log_period;
} vk_timestep_args;
int vk_timestep(void *stream, const vk_timestep_args *s);

/* An id outside the table gives zeros, and *fault = index of the id * 2^32 + id. */
typedef struct vk_embedding_args {
    char *y;
    const char *table;
    const int32_t *ids;
    int y_type, table_type;
    uint32_t count, rows;
    int64_t n;
    uint64_t *fault;
} vk_embedding_args;
int vk_embedding(void *stream, const vk_embedding_args *s);

/* ---- channels-last video ---- */

/* vt_group_norm of ops.h: x [n,t,h,w,c] packed; scale and shift [n,mt,mh,mw,c] or NULL. */
typedef struct vk_group_args {
    char *y;
    const char *x, *weight, *bias, *scale, *shift;
    int y_type, x_type, w_type, b_type, m_type, first, silu;
    uint32_t n, t, h, w, c, groups, positions, mt, mh, mw, parts;
    float eps;
    double *part;                              /* [n, groups, parts, 2] */
    float *stats;                              /* [n, groups, 2] */
} vk_group_args;
int vk_group_sums(void *stream, const vk_group_args *s);
int vk_group_stats(void *stream, const vk_group_args *s);
int vk_group_apply(void *stream, const vk_group_args *s);

/* y [n,t,h,w,c] from x [n,xt,xh,xw,c], packed */
typedef struct vk_resize_args {
    char *y;
    const char *x;
    int y_type, x_type;
    uint32_t n, t, h, w, c, xt, xh, xw;
} vk_resize_args;
int vk_nearest(void *stream, const vk_resize_args *s);
int vk_pool_frames(void *stream, const vk_resize_args *s);

/* ---- optimiser ---- */

/* Takes a step of a rule of formulas.h. Without peak, w and the states have one type, f32 or bf16.
 * With it w is f32, the states are codes of eight bits, and peak holds the largest magnitude of
 * each block and state. Each rule has a kernel vk_NAME, and those of VF_CODED_RULES a kernel
 * vk_NAME8 for such codes. */
typedef struct vk_update_args {
    char *w, *state[VF_STATES];
    char *rounded;                             /* of an f32 w: its values in bf16; or NULL */
    int type;
    float *peak;                               /* [blocks,states], or NULL */
    const float *grad;
    int64_t n;
    vf_step step;
    vk_draws draws;
} vk_update_args;
int vk_update(void *stream, vf_rule rule, const vk_update_args *s);
#define VK_RULE(with, NAME, name, states, squares)                                                 \
    int vk_##name(void *stream, const vk_update_args *s);
#define VK_CODED_RULE(with, NAME, name, states, squares)                                           \
    int vk_##name##8(void *stream, const vk_update_args *s);
VF_RULES(VK_RULE, )
VF_CODED_RULES(VK_CODED_RULE, )
#undef VK_RULE
#undef VK_CODED_RULE

/* ---- attention of f32 and of shapes that cuDNN cannot read; one team per row ---- */

typedef struct vk_heads {                      /* [B,S,H,D], D packed */
    char *data;                                /* NULL: not computed */
    int type, adds;
    int64_t b, s, h;                           /* strides */
} vk_heads;
enum { VK_HEAD = 512 };                        /* the largest head size of these kernels */
typedef struct vk_attend_args {
    vk_heads q, k, v, o, dout, dq, dk, dv;
    float *lse;                                /* [B,H,Sq] */
    const int32_t *kv_len;                     /* [B] or NULL */
    const float *bias;                         /* NULL, or with strides of [B,H,Sq,Sk] */
    int64_t bias_stride[4];
    uint32_t batch, heads, shared, sq, sk, d;  /* shared: query heads per key head */
    uint32_t causal;                           /* vt_attn.causal, at most sk */
    float scale;
} vk_attend_args;
int vk_attend(void *stream, const vk_attend_args *s);
int vk_attend_dq(void *stream, const vk_attend_args *s);
int vk_attend_dkv(void *stream, const vk_attend_args *s);

/* Turns the scores q k' scale of `rows` queries of a head, from query `first` on, into
 * probabilities, for attention by products; one team per row. `of` needs no q, k, v, o. */
typedef struct vk_softmax_args {
    vk_attend_args of;
    float *scores;                             /* [rows,wide] */
    char *weights;                             /* [rows,wide] of `type`, may be scores; columns that
                                                * a query does not see become 0 */
    int type;
    uint32_t b, h, first, rows, wide;
} vk_softmax_args;
int vk_softmax(void *stream, const vk_softmax_args *s);

/* ---- the inner scan of test-time training; a block per pair of sample and head ---- */

/* Numbers of buffers of a block that are as wide as a head, and as the hidden layer. */
enum { VK_TTT_NARROW = 15, VK_TTT_HIDDEN = 14 };
/* The sizes and offsets are those of common/tensor/ttt.h, in f32. eta has rows of one number;
 * gamma to start_b2, and their gradients, are packed: [heads, ..]. */
typedef struct vk_ttt_args {
    vk_heads q, k, target, eta, gamma, beta, start_w1, start_b1, start_w2, start_b2;
    vk_heads o;                                /* the result; for the gradient its gradient */
    vk_heads dq, dk, dtarget, deta, dgamma, dbeta, dw1, db1, dw2, db2;
    float *states;                             /* [groups,pairs,state], or NULL */
    float *work;                               /* [pairs,each], of the gradient */
    float *scratch;                            /* [pairs,buffers] */
    uint64_t each, buffers, slope;
    uint32_t pairs, heads, m, steps, group, groups, d, e, dp, ep, b1, w2, b2, state;
    int mlp;
    float eps;
} vk_ttt_args;
int vk_ttt_scan(void *stream, const vk_ttt_args *s);
int vk_ttt_scan_grad(void *stream, const vk_ttt_args *s);
/* Sums the gradients of the parameters over samples, after vk_ttt_scan_grad. */
int vk_ttt_sums(void *stream, const vk_ttt_args *s);

#ifdef __cplusplus
}
#endif
#endif
