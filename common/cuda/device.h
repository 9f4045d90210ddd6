/* device.h - the parts of the CUDA device that need CUDA's headers; inside common/cuda only.
 *
 * Memory: the pool is a range of addresses as large as the device's memory; `grow` maps physical
 * memory into it from the bottom, which stays mapped. So parameters, allocated one by one, and the
 * pool share the device without a division fixed in advance, and a step's addresses never move.
 *
 * Transfers: host data is copied through rings of pinned slots. `upload` queues on the stream of
 * the kernels, in order with every use of the memory before and after; `fetch` queues on a stream
 * of copies, which events synchronise with the kernels at `enter` and `leave` (backend.h). */
#ifndef COMMON_CUDA_DEVICE_H
#define COMMON_CUDA_DEVICE_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "common/cuda/cuda.h"

/* The driver's functions for virtual memory, looked up when the device opens, so that programs
 * start on machines without a driver. */
typedef struct cuda_driver {
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *,
                            CUmemAllocationGranularity_flags);
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*give_back)(CUdeviceptr, size_t);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*device)(CUdevice *, int);
    CUresult (*in_use)(CUdevice, unsigned *, int *);
} cuda_driver;

enum { CUDA_SLOTS = 4, CUDA_SLOT_BYTES = 4 << 20 };

typedef struct cuda_ring {
    cudaStream_t stream;                       /* of its copies */
    char *slots;                               /* CUDA_SLOTS pinned slots */
    cudaEvent_t sent[CUDA_SLOTS];              /* the end of a slot's copies */
    int slot;                                  /* the slot that is being filled */
    size_t used;                               /* bytes used of that slot */
} cuda_ring;

/* The data that one `enter` of a place waits for. `filled` is the end of its copies, `reached` the
 * moment when the kernels arrived at the `enter`. */
typedef struct cuda_place_fill {
    cudaEvent_t filled, reached;
    enum { CUDA_FILL_FREE, CUDA_FILL_FETCHED, CUDA_FILL_ENTERED } state;
} cuda_place_fill;

struct cuda_runtime {
    int index;                                 /* of the device */
    struct cudaDeviceProp about;
    cudaStream_t stream;
    cudaStream_t copies;
    cuda_ring up, beside;                      /* of `stream`, of `copies` */
    cudaEvent_t left[VT_PLACES];               /* the last kernels that read a place's data */
    int filling[VT_PLACES];                    /* index of the fill not entered yet, or -1 */
    cuda_place_fill *fills;
    int n_fills;
    cuda_driver driver;
    CUdeviceptr range;                         /* the pool's addresses */
    size_t range_bytes, mapped, granule;
};

/* memory.c: the entries of backend.h by these names */
int cuda_memory_open(vt_dev *d, vc_err *err);
void cuda_memory_close(vt_dev *d);             /* also after a failed open */
int cuda_reserve(vt_dev *d, void **range, size_t *bytes, vc_err *err);
int cuda_grow(vt_dev *d, size_t bytes, vc_err *err);
void cuda_shrink(vt_dev *d);
size_t cuda_room(vt_dev *d);
size_t cuda_dry(vt_dev *d, bool dry);
void *cuda_alloc(vt_dev *d, size_t bytes);
void cuda_free(vt_dev *d, void *p, size_t bytes);

/* transfer.c */
int cuda_transfer_open(vt_dev *d, vc_err *err);
void cuda_transfer_close(vt_dev *d);           /* also after a failed open */
void cuda_fetch(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes);
void cuda_move(vt_dev *d, vt_place place, void *dst, const void *src, size_t bytes);
void *cuda_pin(vt_dev *d, size_t bytes);
void cuda_unpin(vt_dev *d, void *p);
void cuda_enter(vt_dev *d, vt_place place);
void cuda_leave(vt_dev *d, vt_place place);
int64_t cuda_waited(vt_dev *d, double *seconds);

/* capture.c */
int cuda_capture_begin(vt_dev *d, vc_err *err);
int cuda_capture_end(vt_dev *d, vt_graph **graph, vc_err *err);
bool cuda_launch(vt_dev *d, vt_graph *graph);
void cuda_drop(vt_dev *d, vt_graph *graph);

/* blas.c, dnn.c: opened with the device, closed before the stream */
int cuda_blas_open(vt_dev *d, vc_err *err);
void cuda_blas_close(cuda_blas *b);            /* NULL is fine */
int cuda_dnn_open(vt_dev *d, vc_err *err);
void cuda_dnn_close(cuda_dnn *c);              /* NULL is fine */
const char *cuda_dnn_version(char text[24]);   /* "cuDNN 9.19.0" */

/* blas.c: matmul_gelu, matmul_gelu_grad and matmul_bias_grad of kernel_list.h as one product.
 * False: the library has no such product, and cuda.c computes them by several ops. */
bool cuda_fused_gelu(vt_dev *d, vt_tensor *y, vt_tensor *pre, const vt_tensor *a,
                     const vt_tensor *b, bool tb, const vt_tensor *bias, float alpha, float beta);
bool cuda_fused_gelu_grad(vt_dev *d, vt_tensor *dx, const vt_tensor *a, const vt_tensor *b, bool tb,
                          const vt_tensor *pre, float alpha, float beta);
bool cuda_fused_bias_grad(vt_dev *d, vt_tensor *dw, vt_tensor *db, const vt_tensor *dy,
                          const vt_tensor *x, float beta);

extern const vt_links cuda_links;              /* nccl.c, in a build with NCCL */

#endif
