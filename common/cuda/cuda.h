/* cuda.h - the CUDA device; inside common/cuda only. Design and measurements to come: docs/cuda.md
 *
 * cuda.c, memory.c and transfer.c hold device, memory and streams; elem.c,
 * rows.c and video.c turn tensors into the arguments of common/kernels; blas.c has
 * matmul, cuda_dnn*.c attention and convolution. This header needs none of CUDA's, and neither do
 * the files that only launch kernels: the tests run those, with kernels compiled for the CPU, on a
 * device of their own.
 *
 * All kernels are queued on one stream: what an op frees may be reused by the next at once. */
#ifndef COMMON_CUDA_CUDA_H
#define COMMON_CUDA_CUDA_H

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

/* ---- the kernels of tensor/kernel_list.h ---- */

#define VT_KERNEL(result, name, args) result cuda_##name args;
#include "common/tensor/kernel_list.h"

/* ---- grid.c ---- */

/* A library's convolution knows padding with zeros alone. What it is to read instead of x, with
 * c's front and repeated edges around it and `wide` channels, the last ones zeros: a packed tensor
 * without data, and *rest, the convolution that is left. */
vt_tensor cuda_conv_input(vt_conv *rest, vc_dtype type, int64_t wide, const vt_tensor *x,
                          const vt_conv *c);
/* Its data: x's own where nothing is added, else an area. NULL after a fault. */
const void *cuda_conv_fill(vt_dev *d, vt_tensor *in, const vt_tensor *x, const vt_conv *c,
                           const vt_conv *rest);

/* A fault if some kernel since the last call was given an id outside its table. Waits. */
void cuda_look_for_lost(vt_dev *d);
/* Attention by the kernels of attend.h: any type, strides and length. cuda_attention's last
 * resort. */
void cuda_attend(vt_dev *, vt_tensor *o, vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                 const vt_tensor *v, const vt_attn *how);
void cuda_attend_grad(vt_dev *, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                      const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                      const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                      const vt_attn *how);

#endif
