/* cuda.h - the CUDA device; inside common/cuda only. docs/cuda.md describes the design.
 *
 * cuda.c, fault.c, status.c, memory.c and transfer.c have device, memory and streams; elem.c,
 * rows.c, video.c, attend.c and grid.c convert tensors to the arguments of common/kernels; blas.c
 * has matmul, dnn.c attention and convolution. This header needs none of CUDA's, and neither do
 * fault.c and the files that only launch kernels: the tests run those files, with kernels compiled
 * for the CPU, on a device of their own.
 *
 * All kernels are queued on one stream, so memory that an op frees can be used by the next op at
 * once. */
#ifndef COMMON_CUDA_CUDA_H
#define COMMON_CUDA_CUDA_H

#include "common/kernels/kernels.h"
#include "common/tensor/backend.h"
#include "common/tensor/walk.h"

/* Areas of scratch memory, kept between calls. A call uses each area for one purpose only. */
typedef enum cuda_area {
    CUDA_PARTS, CUDA_SUMS,                     /* partial sums; sums of several calls */
    CUDA_LEFT, CUDA_RIGHT, CUDA_OUT, CUDA_BIAS, /* converted operands of matmul and convolution */
    CUDA_DQ, CUDA_DK, CUDA_DV, CUDA_DSUM,      /* for attention's gradient, or its products */
    CUDA_WORKSPACE,                            /* for libraries */
    CUDA_AREAS
} cuda_area;

typedef struct cuda_runtime cuda_runtime;      /* cuda.c */
typedef struct cuda_blas cuda_blas;            /* blas.c */
typedef struct cuda_dnn cuda_dnn;              /* dnn.c */

struct vt_dev {
    void *stream;                              /* cudaStream_t of all kernels */
    vc_dtype compute;
    bool repeatable;                           /* vt_options.repeatable */
    uint64_t *bad_id;                          /* device memory: vk_embedding_args.fault */
    void *area[CUDA_AREAS];
    size_t area_bytes[CUDA_AREAS];
    bool dry;                                  /* a dry step: scratch is counted, nothing runs */
    size_t area_need[CUDA_AREAS];              /* bytes that the dry step has asked for */
    unsigned moves;                            /* times that an area has moved */
    bool capturing;                            /* between capture_begin and capture_end */
    int fault;                                 /* first VC_E*, or 0 */
    char fault_text[240];
    char describe[240];
    cuda_runtime *runtime;
    cuda_blas *blas;
    cuda_dnn *dnn;
    const vt_dev *of;                          /* of a second stream: the device, which owns runtime
                                                * and bad_id; else NULL */
};

/* ---- fault.c, status.c, memory.c, transfer.c ---- */

/* Returns at least `bytes` of 256-byte aligned device memory, or NULL with a fault when memory is
 * out. An area that grows loses its contents. In a dry step it returns NULL without a fault, and
 * only notes the bytes. */
void *cuda_scratch(vt_dev *d, cuda_area area, size_t bytes);
/* Records the first fault. */
void cuda_fault(vt_dev *d, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Returns true, and records a fault, during a capture, for an operation that no graph can repeat.
 * operation: "an upload". */
static inline bool cuda_in_capture(vt_dev *d, const char *operation)
{
    if (d->capturing)
        cuda_fault(d, VC_EINVAL, "%s cannot be captured", operation);
    return d->capturing;
}
/* Returns true if rc (a cudaError_t) is 0; else records a fault that names the op. */
bool cuda_ok(vt_dev *d, int rc, const char *op);
/* Queues a copy on the device. */
void cuda_copy_bytes(vt_dev *d, void *dst, const void *src, size_t bytes);
void cuda_upload(vt_dev *d, void *dst, const void *src, size_t bytes);
void cuda_download(vt_dev *d, void *dst, const void *src, size_t bytes);

/* ---- walk.c ---- */

/* Describes vt_walk_of's rows as rows of packs. False with a fault for more than 2^31 packs. */
bool cuda_walk(vt_dev *d, vk_walk *w, const char *op, int k, const vt_tensor *const *t, bool join);

/* ---- elem.c ---- */

/* Returns x's values packed and of type `type`: x's own data if x is so already, else a copy in
 * the area; NULL after a fault. */
const void *cuda_convert(vt_dev *d, cuda_area area, vc_dtype type, const vt_tensor *x);

/* ---- the kernels of tensor/kernel_list.h ---- */

#define VT_KERNEL(result, name, args) result cuda_##name args;
#include "common/tensor/kernel_list.h"

/* ---- grid.c ---- */

/* cuDNN's convolution pads with zeros only. Returns, as a packed tensor without data, the shape of
 * the input that it reads instead of x: x with c's front and repeated edges around it, and `wide`
 * channels, of which the added ones are zeros. *rest becomes the convolution of that input. */
vt_tensor cuda_conv_input(vt_conv *rest, vc_dtype type, int64_t wide, const vt_tensor *x,
                          const vt_conv *c);
/* Returns the data of that input: x's own if it adds nothing to x, else an area filled from x. NULL
 * after a fault. */
const void *cuda_conv_fill(vt_dev *d, vt_tensor *in, const vt_tensor *x, const vt_conv *c,
                           const vt_conv *rest);

/* Waits, and records a fault if a kernel since the last call read an id outside its table. */
void cuda_check_ids(vt_dev *d);

/* ---- attend.c: attention where cuDNN cannot serve a type, strides or a shape ---- */

/* As `matmul` of kernel_list.h: the library's products. */
typedef void cuda_product(vt_dev *, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                          bool tb, const vt_tensor *bias, float alpha, float beta);
/* Attention by two products and a softmax for each head, of as many queries at once as scores in
 * f32 fit into `room` bytes, and at least one; bf16 probabilities need half as much more. */
void cuda_attend_products(vt_dev *, cuda_product *product, size_t room, vt_tensor *o,
                          vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                          const vt_tensor *v, const vt_attn *how);
/* By products if heads are wider than the kernels of attend.h take, or sequences too long for them;
 * else by those kernels. */
void cuda_attend_either(vt_dev *, cuda_product *product, vt_tensor *o, vt_tensor *lse,
                        const vt_tensor *q, const vt_tensor *k, const vt_tensor *v,
                        const vt_attn *how);
/* The kernels of attend.h: heads of up to VK_HEAD, of the gradient too. */
void cuda_attend(vt_dev *, vt_tensor *o, vt_tensor *lse, const vt_tensor *q, const vt_tensor *k,
                 const vt_tensor *v, const vt_attn *how);
void cuda_attend_grad(vt_dev *, vt_tensor *dq, vt_tensor *dk, vt_tensor *dv,
                      const vt_tensor *dout, const vt_tensor *q, const vt_tensor *k,
                      const vt_tensor *v, const vt_tensor *o, const vt_tensor *lse,
                      const vt_attn *how);

#endif
