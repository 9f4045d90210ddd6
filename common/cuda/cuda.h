/* cuda.h - the CUDA device; inside common/cuda only. Design and measurements to come: docs/cuda.md
 *
 * cuda.c, memory.c and transfer.c hold device, memory and streams; elem.c,
 * rows.c and video.c turn tensors into the arguments of common/kernels; blas.c has
 * matmul, cuda_dnn*.c attention and convolution. This header needs none of CUDA's, and neither do
 * the files that only launch kernels: the tests run those, with kernels compiled for the CPU, on a
 * device of their own.
 *
 * All kernels are queued on one stream: what an op frees may be reused by the next at once. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "common/kernels/kernels.h"
#include "common/tensor/backend.h"

/* What kernels need beside their operands, one area each: kept between calls, so a call uses an
 * area for one thing. */
typedef enum cuda_area {
    CUDA_PARTS,                                /* partial sums */
    CUDA_LEFT, CUDA_RIGHT, CUDA_OUT, CUDA_BIAS, /* converted operands of matmul and convolution */
    CUDA_DQ, CUDA_DK, CUDA_DV, CUDA_DSUM,      /* of attention's gradient */
    CUDA_WORKSPACE,                            /* of libraries */
    CUDA_AREAS
} cuda_area;

typedef struct cuda_runtime cuda_runtime;      /* cuda.c */
typedef struct cuda_blas cuda_blas;            /* blas.c */
typedef struct cuda_dnn cuda_dnn;              /* dnn.c */

struct vt_dev {
    void *stream;                              /* cudaStream_t: of all kernels */
    vc_dtype compute;
    bool repeatable;                           /* vt_options.repeatable */
    uint64_t *lost;                            /* device memory: see vk_embedding */
    void *area[CUDA_AREAS];
    size_t area_bytes[CUDA_AREAS];
    unsigned moves;                            /* how often an area has moved */
    bool keeping;                              /* between capture_begin and capture_end */
    int fault;                                 /* first VC_E*, 0: none */
    char fault_text[240];
    char describe[240];
    cuda_runtime *runtime;
    cuda_blas *blas;
    cuda_dnn *dnn;
    const vt_dev *of;                          /* of a second stream: the device, whose runtime and
                                                * `lost` are lent; else NULL */
};

/* ---- cuda.c, memory.c, transfer.c ---- */

/* At least `bytes` of 256-byte aligned device memory; NULL and a fault when memory is out. What
 * the area held is lost when it grows. */
void *cuda_scratch(vt_dev *d, cuda_area area, size_t bytes);
/* Remembers the first fault. */
void cuda_fault(vt_dev *d, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A fault, and true, within a capture: for what cannot be done again as it is. */
static inline bool cuda_kept_from(vt_dev *d, const char *what)
{
    if (d->keeping)
        cuda_fault(d, VC_EINVAL, "%s within what is kept", what);
    return d->keeping;
}
/* True if rc (a cudaError_t) is 0; else a fault that names the op. */
bool cuda_ok(vt_dev *d, int rc, const char *op);
/* On the device, queued. */
void cuda_copy_bytes(vt_dev *d, void *dst, const void *src, size_t bytes);
void cuda_upload(vt_dev *d, void *dst, const void *src, size_t bytes);
void cuda_download(vt_dev *d, void *dst, const void *src, size_t bytes);

/* ---- walk.c ---- */

/* k operands of one shape (t[0]'s; NULL ones are skipped) as rows of packs. Axes that all operands
 * run through evenly are joined; join: the last one too. False and a fault past 2^31 packs. */
bool cuda_walk(vt_dev *d, vk_walk *w, const char *op, int k, const vt_tensor *const *t, bool join);
/* Copies of k descriptors with their axes before the last in another order: first those along
 * which `by` has a stride (NULL: none), then the others. Returns the number of indices of the
 * first: targets that successive rows share. */
int64_t cuda_kept_first(const vt_tensor *by, int k, const vt_tensor *const *t, vt_tensor *out,
                        const vt_tensor **ordered);
/* t [n] along the last axis of x's shape, or t [] everywhere: repeated along all other axes. */
vt_tensor cuda_repeat(const vt_tensor *t, const vt_tensor *x);
/* Stats [rows,2] by rows of x: the pair is read at each. */
vt_tensor cuda_stats(const vt_tensor *stats, const vt_tensor *x);
/* y = x, a packed copy of another type in an area: x itself if it has the type (and, copies:
 * is packed). NULL after a fault. */
const void *cuda_convert(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x);

/* ---- backend.h's entries of the same names ---- */

void cuda_copy(vt_dev *, vt_tensor *y, const vt_tensor *x);
void cuda_embedding(vt_dev *, vt_tensor *y, const vt_tensor *table, const vt_tensor *ids);
void cuda_fill(vt_dev *, vt_tensor *y, float value);
void cuda_scale(vt_dev *, vt_tensor *y, const vt_tensor *x, float a);
void cuda_reduce(vt_dev *, vt_tensor *dx, const vt_tensor *dy, const vt_tensor *other,
                 float scale);
void cuda_binary(vt_dev *, vt_binary op, vt_tensor *y, const vt_tensor *a, const vt_tensor *b);
void cuda_mul_grad(vt_dev *, vt_tensor *da, const vt_tensor *dy, const vt_tensor *b);
void cuda_unary(vt_dev *, vt_unary op, vt_tensor *y, const vt_tensor *x);
void cuda_unary_grad(vt_dev *, vt_unary op, vt_tensor *dx, const vt_tensor *dy,
                     const vt_tensor *x);
void cuda_gated_add(vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *h,
                    const vt_tensor *gate);
void cuda_mix(vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *n, const vt_tensor *a,
              const vt_tensor *c);
void cuda_posterior(vt_dev *, vt_tensor *y, const vt_tensor *mean, const vt_tensor *logvar,
                    const vt_tensor *noise);
void cuda_randn(vt_dev *, vt_tensor *y, uint64_t seed, uint32_t row0, uint32_t micro,
                uint32_t purpose);
void cuda_timestep(vt_dev *, vt_tensor *y, const vt_tensor *t, float max_period);
void cuda_patchify(vt_dev *, vt_tensor *tokens, const vt_tensor *x, int pt, int ph, int pw,
                   vt_patch_order order);
void cuda_unpatchify(vt_dev *, vt_tensor *x, const vt_tensor *tokens, int pt, int ph, int pw,
                     vt_patch_order order);
void cuda_norm(vt_dev *, vt_tensor *y, vt_tensor *stats, const vt_tensor *x, const vt_tensor *w,
               const vt_tensor *b, const vt_tensor *shift, const vt_tensor *scale, float eps,
               bool rms);
void cuda_norm_grad(vt_dev *, vt_tensor *dx, vt_tensor *dw, vt_tensor *db, vt_tensor *dshift,
                    vt_tensor *dscale, const vt_tensor *dy, const vt_tensor *x,
                    const vt_tensor *stats, const vt_tensor *w, const vt_tensor *b,
                    const vt_tensor *scale, bool rms);
void cuda_matmul(vt_dev *, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b, bool tb,
                 const vt_tensor *bias, float alpha, float beta);
void cuda_matmul_gelu(vt_dev *, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                      const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha, float beta);
void cuda_matmul_gelu_grad(vt_dev *, vt_tensor *dx, const vt_tensor *a, const vt_tensor *b,
                           bool tb, const vt_tensor *pre, float alpha, float beta);
void cuda_matmul_bias_grad(vt_dev *, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                           const vt_tensor *x, float beta);
void cuda_attention(vt_dev *, vt_tensor *o, vt_tensor *lse, const vt_tensor *q,
                    const vt_tensor *k, const vt_tensor *v, const vt_tensor *kv_len,
                    const vt_tensor *bias, float scale);
void cuda_attention_grad(vt_dev *, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                         const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                         const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                         const vt_tensor *kv_len, float scale);
void cuda_rope(vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *cos,
               const vt_tensor *sin, int64_t begin, float sign);
void cuda_mse(vt_dev *, vt_tensor *loss, const vt_tensor *pred, const vt_tensor *target,
              const vt_tensor *weight);
void cuda_mse_grad(vt_dev *, vt_tensor *dpred, const vt_tensor *dloss, const vt_tensor *pred,
                   const vt_tensor *target, const vt_tensor *weight);
void cuda_sum(vt_dev *, vt_tensor *y, const vt_tensor *x);
void cuda_conv3d(vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                 const vt_tensor *b, const vt_conv *c);
void cuda_group_norm(vt_dev *, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                     const vt_tensor *b, const vt_group *n);
void cuda_nearest(vt_dev *, vt_tensor *y, const vt_tensor *x);
void cuda_pool_frames(vt_dev *, vt_tensor *y, const vt_tensor *x);
double cuda_sumsq(vt_dev *, const vt_tensor *x);
void cuda_adamw(vt_dev *, vt_tensor *w, vt_tensor *m, vt_tensor *v, vt_tensor *peak,
                const vt_tensor *grad, const vt_adamw_args *a);
void cuda_ema(vt_dev *, vt_tensor *ema, const vt_tensor *w, float decay);

/* A fault if some kernel since the last call was given an id outside its table. Waits. */
void cuda_look_for_lost(vt_dev *d);
/* Attention by the kernels of attend.h: any type, strides and length. cuda_attention's last
 * resort. */
void cuda_attend(vt_dev *, vt_tensor *o, vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                 const vt_tensor *v, const vt_tensor *kv_len, const vt_tensor *bias, float scale);
void cuda_attend_grad(vt_dev *, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                      const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                      const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                      const vt_tensor *kv_len, float scale);

#endif
