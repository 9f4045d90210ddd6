/* backend.h - the interface of a device: memory, transfers, the kernels of kernel_list.h.
 *
 * A device fault sticks to the vt_dev, and vt_step_end reports it through `status`.
 * The same operands give the same bits on one machine, kernel set and thread count; a GPU's
 * gradient of attention does so only with vt_options.repeatable. */
#ifndef COMMON_TENSOR_BACKEND_H
#define COMMON_TENSOR_BACKEND_H

#include "common/kernels/formulas.h"
#include "common/tensor/exchange.h"
#include "common/tensor/ops.h"

typedef struct vt_dev vt_dev;

struct vt_buf {
    size_t offset, bytes;                     /* in the pool */
    int refs;                                 /* of scopes, the tape, gradients; 0: released */
    int kept;                                 /* those of refs that the tape holds */
    bool empty;                               /* no kernel has written it yet */
    bool unreached;                           /* a gradient that is zero because no backward wrote
                                               * it (vt_param_reached) */
    bool persistent;                          /* a parameter's gradient: not in the pool */
};
static inline bool vt_adds(const vt_tensor *t) { return !t->buf || !t->buf->empty; }
static inline void vt_wrote(vt_tensor *t)
{
    if (t->buf)
        t->buf->empty = t->buf->unreached = false;
}

typedef enum { VT_ADD, VT_SUB, VT_MUL } vt_binary;
#define VT_UNARY(prefix, NAME, name) prefix##NAME,
typedef enum { VF_UNARIES(VT_UNARY, VT_) } vt_unary;
#undef VT_UNARY

/* Numbers of an optimiser's step that are the same for all elements; see optimizer.h. */
typedef struct vt_update_args {
    vf_rule rule;
    float lr, beta1, beta2, eps, weight_decay, grad_scale;
    float correct1, correct2;                 /* 1 - beta1^step, sqrt(1 - beta2^step) */
    float beta3, gain[VF_GAINS];              /* as vf_step's */
    uint32_t key[2], step;                    /* keys of the draws that round */
    uint64_t first;                           /* index in the parameter of w's first element, a
                                               * multiple of 8 */
} vt_update_args;
static inline vf_step vt_step_factors(const vt_update_args *a)
{
    return (vf_step){ .decay = 1.0f - a->lr * a->weight_decay, .rate = a->lr,
                      .step = a->lr / a->correct1, .root = 1.0f / a->correct2, .eps = a->eps,
                      .beta1 = a->beta1, .beta2 = a->beta2, .grad_scale = a->grad_scale,
                      .beta3 = a->beta3, .gain = { a->gain[0], a->gain[1], a->gain[2] } };
}

/* A dropout of a matrix of a batch's samples: what a draw below one of the bounds drops is zero,
 * and the rest is multiplied by the factor. */
typedef struct vt_drop {
    uint32_t element, column, sample;         /* p * 2^32: of an element, of a sample's column, of
                                               * a sample; 0: none is dropped */
    uint32_t purpose;                         /* of an element's draw */
    float factor;
    uint32_t key[2];
    int64_t rows;                             /* of a sample */
} vt_drop;

/* Device memory that is copied from or to the host while kernels use other memory: two places hold
 * the weights of swapped blocks alternately, one holds the next batch, and one stands for the block
 * inputs that offload.c moves. The last two hold the optimiser's state alternately (hosted.h). */
typedef enum {
    VT_PLACE_BLOCK, VT_PLACE_OTHER_BLOCK, VT_PLACE_BATCH, VT_PLACE_INPUT, VT_PLACE_STATE,
    VT_PLACE_OTHER_STATE, VT_PLACES
} vt_place;

/* Collective operations of ranks from device to device, called by common/comm/device.c: on a GPU
 * they are NCCL's. Sums and gathers queue on the stream of a vt_dev that `second` made; x and mine
 * are as in comm.h. After a call `look` gives VT_LINK_CALLING until the next call may be made. */
typedef struct vt_link vt_link;
typedef enum vt_link_state { VT_LINK_IDLE, VT_LINK_RUNNING, VT_LINK_CALLING } vt_link_state;
enum { VT_LINK_ID = 128 };
typedef struct vt_links {
    const char *name;                         /* "NCCL"; errors begin with this name */
    int (*id)(char id[VT_LINK_ID], vc_err *err);       /* made by one rank, used by all to open */
    int (*open)(vt_link **out, vt_dev *second, int rank, int size, const char id[VT_LINK_ID],
                vc_err *err);
    void (*close)(vt_link *l);                /* by one rank alone; queued work is aborted */
    int (*look)(vt_link *l, vt_link_state *state, vc_err *err);
    int (*sum)(vt_link *l, void *x, size_t n, vc_dtype type, vc_err *err);
    int (*sum_scatter)(vt_link *l, void *mine, const void *x, size_t n, vc_dtype type,
                       vc_err *err);
    int (*gather)(vt_link *l, void *all, const void *mine, size_t bytes, vc_err *err);
    /* in, out: one piece for each rank, read before the call returns */
    int (*exchange)(vt_link *l, void *to, const vc_piece *in, const void *from,
                    const vc_piece *out, vc_err *err);
} vt_links;

typedef struct vt_event vt_event;             /* a point in a stream */
typedef struct vt_graph vt_graph;             /* captured kernels, launched by one call */

typedef struct vt_backend {
    const char *name;                         /* "cpu", "cuda" */

    /* index: number of the device ("cuda:1"), 0 by default */
    int (*open)(vt_dev **dev, const vt_options *o, int index, vc_err *err);
    void (*close)(vt_dev *dev);               /* NULL is fine */
    const char *(*describe)(vt_dev *dev);     /* "avx2, oneDNN 2.6.3, 2 threads" */
    int (*threads)(const vt_dev *dev);        /* of a loop on the host's memory; NULL: one */
    /* of vt_batch_keeps_bits; NULL: false */
    bool (*batch_keeps_bits)(const vt_dev *dev, vc_dtype compute);
    int (*status)(vt_dev *dev, vc_err *err);  /* waits; gives the first fault since the last call */

    /* Reserves the pool: one range of at most *bytes (0: the machine's memory), which costs memory
     * only where it is written; *bytes becomes the bytes reserved. It is freed with the device. */
    int (*reserve)(vt_dev *dev, void **range, size_t *bytes, vc_err *err);
    /* Makes the pool's first `bytes` usable, before the first kernel that needs them. NULL: the
     * whole range is usable. */
    int (*grow)(vt_dev *dev, size_t bytes, vc_err *err);
    /* Takes the pool's memory back, of which no kernel uses any; `grow` makes it usable again. NULL
     * with grow. */
    void (*shrink)(vt_dev *dev);
    /* Hint: steps use the pool's first `bytes` alone. NULL: no use is made of it. */
    void (*expect)(vt_dev *dev, size_t bytes);
    /* Returns the bytes of device memory that a step may use, those already made usable included.
     * NULL: the device's memory is the host's. */
    size_t (*room)(vt_dev *dev);
    void *(*alloc)(vt_dev *dev, size_t bytes);         /* persistent: zeroed, 64-byte aligned */
    void (*free)(vt_dev *dev, void *p, size_t bytes);  /* NULL is fine */
    /* Returns the bytes of `alloc` that are malloc's; larger areas are mapped. NULL: none are. */
    size_t (*on_heap)(const vt_dev *dev);
    bool host_memory;                         /* device pointers are host pointers */
    bool rounds_products;                     /* a product with bf16 and f32 operands is computed
                                               * in bf16 */
    void (*upload)(vt_dev *dev, void *dst, const void *src, size_t bytes);
    /* Waits for what is queued, then copies; of 0 bytes it waits alone, and dst may be NULL. */
    void (*download)(vt_dev *dev, void *dst, const void *src, size_t bytes);

    /* The use of a place; all NULL where the device's memory is the host's.
     * fetch: copies into the place while kernels run, once the kernels queued before its last
     *        `leave` have run; src may change when fetch returns. After `alloc` the caller calls
     *        `leave` once before the first fetch.
     * enter: kernels queued from now on read the fetched data.
     * leave: kernels queued so far are the last to read the place's data. What is copied after an
     *        `enter` without it goes to other memory than they read. */
    void (*fetch)(vt_dev *dev, vt_place place, void *dst, const void *src, size_t bytes);
    void (*enter)(vt_dev *dev, vt_place place);
    void (*leave)(vt_dev *dev, vt_place place);
    /* As fetch, but in either direction between the device and host memory of `pin`; src must not
     * change, nor dst be read, before `enter`. */
    void (*move)(vt_dev *dev, vt_place place, void *dst, const void *src, size_t bytes);
    void *(*pin)(vt_dev *dev, size_t bytes);           /* NULL: out of memory */
    void (*unpin)(vt_dev *dev, void *p);               /* NULL is fine; waits for its copies */
    /* Called after `status`; returns the number of times since the last call that kernels waited at
     * an `enter` for data still being copied, and the seconds of these waits. */
    int64_t (*waited)(vt_dev *dev, double *seconds);

    /* Begins and ends dry steps; may be NULL. While dry, kernels run by VT_RUN_HEAVY get operands
     * without data and only add up the device memory that they would allocate. Returns the bytes of
     * that memory so far, those allocated before included. */
    size_t (*dry)(vt_dev *dev, bool dry);

    /* Opens a second stream: a vt_dev on dev's memory whose alloc, free, copy, fill and scale run
     * concurrently with dev's kernels. It is closed before dev. `second` to `links` are all NULL on
     * a device whose kernels have run when their calls return. */
    int (*second)(vt_dev **out, vt_dev *dev, vc_err *err);
    /* The first call on a thread other than the one that opened the device. */
    void (*adopt)(vt_dev *dev);
    vt_event *(*event_open)(vt_dev *dev);     /* NULL: a fault */
    void (*event_close)(vt_event *e);
    void (*record)(vt_dev *dev, vt_event *e); /* e becomes the end of all work queued so far */
    void (*after)(vt_dev *dev, vt_event *e);  /* work queued from now on runs after e */
    const vt_links *links;                    /* NULL: ranks cannot communicate on this device */

    /* Capture of queued work (replay.h); all NULL if the device has none. Between a capture_begin
     * that returned 0 and capture_end, kernels are captured with their operands' addresses and do
     * not run. A transfer, a fetch, enter or leave, a fault or growing scratch invalidates the
     * capture: capture_end then sets *graph to NULL and reports the reason, and the device is as if
     * nothing had been queued. launch queues nothing and returns false if memory that the graph
     * uses has moved. */
    int (*capture_begin)(vt_dev *dev, vc_err *err);
    int (*capture_end)(vt_dev *dev, vt_graph **graph, vc_err *err);
    bool (*launch)(vt_dev *dev, vt_graph *graph);
    void (*drop)(vt_dev *dev, vt_graph *graph);

    /* The kernels, with their contracts: kernel_list.h. */
#define VT_KERNEL(result, name, args) result (*name) args;
#include "common/tensor/kernel_list.h"
} vt_backend;

/* The backends of this build, best first, NULL-ended. */
const vt_backend *const *vt_backends(void);
/* Opens "auto", "cpu", "cuda" or "cuda:1". "auto" takes the first backend that opens; *passed gets
 * the reason why a better one did not open (code 0 if the first one opened). */
int vt_backend_open(const vt_backend **be, vt_dev **dev, const vt_options *o, vc_err *passed,
                    vc_err *err);

extern const vt_backend vt_cpu, vt_cuda;

/* These compute the table's entries matmul_gelu, matmul_gelu_grad and matmul_bias_grad by matmul
 * and row kernels, for products that a device cannot fuse (epilogue.c). */
void vt_gelu_after(const vt_backend *be, vt_dev *d, vt_tensor *y, vt_tensor *pre,
                   const vt_tensor *a, const vt_tensor *b, bool tb, const vt_tensor *bias,
                   float alpha, float beta);
void vt_gelu_grad_after(const vt_backend *be, vt_dev *d, vt_tensor *dx, const vt_tensor *a,
                        const vt_tensor *b, bool tb, const vt_tensor *pre, float alpha,
                        float beta);
void vt_bias_grad_after(const vt_backend *be, vt_dev *d, vt_tensor *dw, vt_tensor *db,
                        const vt_tensor *dy, const vt_tensor *x, float beta);

#endif
