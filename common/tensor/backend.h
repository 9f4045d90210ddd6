/* backend.h - what a device must be able to do: memory, transfers, the kernels of kernel_list.h.
 *
 * A device fault sticks to the vt_dev and surfaces in vt_step_end through `status`.
 * The same operands give the same bits on one machine, kernel set and thread count; on a GPU
 * attention's gradient only if vt_options.repeatable. */
#ifndef COMMON_TENSOR_BACKEND_H
#define COMMON_TENSOR_BACKEND_H

#include "common/kernels/formulas.h"
#include "common/tensor/ops.h"

typedef struct vt_dev vt_dev;

struct vt_buf {
    size_t offset, bytes;                     /* in the pool */
    int refs;                                 /* of scopes, the tape, gradients; 0: given back */
    int kept;                                 /* of these, the tape's */
    bool empty;                               /* nothing written yet */
    bool persistent;                          /* a parameter's gradient: not in the pool */
};
static inline bool vt_adds(const vt_tensor *t) { return !t->buf || !t->buf->empty; }
static inline void vt_wrote(vt_tensor *t) { if (t->buf) t->buf->empty = false; }

typedef enum { VT_ADD, VT_SUB, VT_MUL } vt_binary;
#define VT_UNARY(prefix, NAME, name) prefix##NAME,
typedef enum { VF_UNARIES(VT_UNARY, VT_) } vt_unary;
#undef VT_UNARY

/* Per-step numbers of AdamW, already reduced: see weights.h. */
typedef struct vt_adamw_args {
    float lr, beta1, beta2, eps, weight_decay, grad_scale;
    float correct1, correct2;                 /* 1 - beta1^step, sqrt(1 - beta2^step) */
    uint32_t key[2], step;                    /* of the draws that round */
    uint64_t first;                           /* w's first is the parameter's element: x 8 */
} vt_adamw_args;
static inline vf_adamw vt_adamw_numbers(const vt_adamw_args *a)
{
    return (vf_adamw){ .decay = 1.0f - a->lr * a->weight_decay, .step = a->lr / a->correct1,
                       .root = 1.0f / a->correct2, .eps = a->eps, .beta1 = a->beta1,
                       .beta2 = a->beta2, .grad_scale = a->grad_scale };
}

/* Memory that is copied from or to the host while kernels run elsewhere: two take turns with the
 * weights of swapped blocks, one has the next batch, one is any input of a block (offload.c). */
typedef enum {
    VT_PLACE_BLOCK, VT_PLACE_OTHER_BLOCK, VT_PLACE_BATCH, VT_PLACE_INPUT, VT_PLACES
} vt_place;

/* How ranks sum and gather from device to device (who calls them: common/comm/device.c): on a GPU
 * NCCL's calls. Sums and gathers queue on the stream of a vt_dev that `second` made; x and
 * mine as in comm.h. After a call look says VT_LINK_CALLING until the next may be made. */
typedef struct vt_link vt_link;
typedef enum vt_link_state { VT_LINK_IDLE, VT_LINK_RUNNING, VT_LINK_CALLING } vt_link_state;
enum { VT_LINK_ID = 128 };
typedef struct vt_links {
    const char *name;                         /* "NCCL": begins the errors */
    int (*id)(char id[VT_LINK_ID], vc_err *err);       /* by one rank, the same to open on all */
    int (*open)(vt_link **out, vt_dev *second, int rank, int size, const char id[VT_LINK_ID],
                vc_err *err);
    void (*close)(vt_link *l);                /* alone; what is queued ends at once, undone */
    int (*look)(vt_link *l, vt_link_state *state, vc_err *err);
    int (*sum)(vt_link *l, void *x, size_t n, vc_dtype type, vc_err *err);
    int (*sum_scatter)(vt_link *l, void *mine, const void *x, size_t n, vc_dtype type,
                       vc_err *err);
    int (*gather)(vt_link *l, void *all, const void *mine, size_t bytes, vc_err *err);
} vt_links;

typedef struct vt_event vt_event;             /* a place in a stream */
typedef struct vt_graph vt_graph;             /* kernels with their operands, to be queued at once */

typedef struct vt_backend {
    const char *name;                         /* "cpu", "cuda" */

    /* index: of the device ("cuda:1"), 0 if not said */
    int (*open)(vt_dev **dev, const vt_options *o, int index, vc_err *err);
    void (*close)(vt_dev *dev);               /* NULL is fine */
    const char *(*describe)(vt_dev *dev);     /* "avx2, oneDNN 2.6.3, 2 threads" */
    int (*status)(vt_dev *dev, vc_err *err);  /* waits; the first fault since the last call */

    /* The pool: one range of at most *bytes (0: what the machine has; set to what was reserved),
     * costing memory only where it is written. Closed with the device. */
    int (*reserve)(vt_dev *dev, void **range, size_t *bytes, vc_err *err);
    /* Makes the pool's first `bytes` usable, before the first kernel that needs them. NULL: the
     * whole range is. */
    int (*grow)(vt_dev *dev, size_t bytes, vc_err *err);
    /* Bytes of the device's own memory that a step may have, what it made usable included. NULL:
     * its memory is the host's. */
    size_t (*room)(vt_dev *dev);
    void *(*alloc)(vt_dev *dev, size_t bytes);         /* persistent: zeroed, 64-byte aligned */
    void (*free)(vt_dev *dev, void *p, size_t bytes);  /* NULL is fine */
    bool host_memory;                         /* device pointers are host pointers */
    void (*upload)(vt_dev *dev, void *dst, const void *src, size_t bytes);
    void (*download)(vt_dev *dev, void *dst, const void *src, size_t bytes);

    /* The turns of a place; all NULL where the device's memory is the host's.
     * fetch: copies into it beside the kernels, once those queued before its last `leave` have run;
     *        src may change when it returns. What `alloc` gave is left once before the first.
     * enter: kernels queued from now on find what was fetched.
     * leave: those queued so far are the last to read it. */
    void (*fetch)(vt_dev *dev, vt_place place, void *dst, const void *src, size_t bytes);
    void (*enter)(vt_dev *dev, vt_place place);
    void (*leave)(vt_dev *dev, vt_place place);
    /* A fetch between the device and host memory that `pin` gave, either way: neither may change
     * before `enter`. */
    void (*move)(vt_dev *dev, vt_place place, void *dst, const void *src, size_t bytes);
    void *(*pin)(vt_dev *dev, size_t bytes);           /* NULL: out of memory */
    void (*unpin)(vt_dev *dev, void *p);               /* NULL is fine; waits for its copies */
    /* After `status`: how often kernels stood at an `enter` since the last call, for what was not
     * there yet, and for how long. */
    int64_t (*waited)(vt_dev *dev, double *seconds);

    /* Around dry steps, may be NULL. While dry, kernels run by VT_RUN_HEAVY get operands without data
     * and only note the device's own memory that they would take. Returns what all of it would be
     * so far, with what was taken before. */
    size_t (*dry)(vt_dev *dev, bool dry);

    /* A second stream: a vt_dev on dev's memory whose kernels run beside dev's: alloc, free,
     * copy, fill and scale. Closed before dev. All NULL: kernels have run when they return. */
    int (*second)(vt_dev **out, vt_dev *dev, vc_err *err);
    /* First thing on another thread than the one that opened the device. */
    void (*adopt)(vt_dev *dev);
    vt_event *(*event_open)(vt_dev *dev);     /* NULL: a fault */
    void (*event_close)(vt_event *e);
    void (*record)(vt_dev *dev, vt_event *e); /* e is now what has been queued so far */
    void (*after)(vt_dev *dev, vt_event *e);  /* what is queued from now on runs after e */
    const vt_links *links;                    /* NULL: ranks cannot share what is on this device */

    /* What is queued, kept (replay.h). All NULL: cannot. Between a capture_begin that returned 0 and
     * capture_end kernels are kept with their operands' addresses and do not run; a transfer, a
     * place's turn, a fault or scratch that grows spoils it: capture_end then gives NULL and says
     * why, and the device is as if nothing had been queued. launch: false, and nothing queued, if
     * what the graph uses has moved. */
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
/* Opens "auto", "cpu", "cuda", "cuda:1": the one file that knows what was built is backend.c. "auto"
 * takes the first backend that opens; *passed says why a better one did not (code 0: none). */
int vt_backend_open(const vt_backend **be, vt_dev **dev, const vt_options *o, vc_err *passed,
                    vc_err *err);

extern const vt_backend vt_cpu, vt_cuda;

/* Those entries as a product and row kernels of the same table, for what a device cannot fuse
 * (epilogue.c). */
void vt_gelu_after(const vt_backend *be, vt_dev *d, vt_tensor *y, vt_tensor *pre,
                   const vt_tensor *a, const vt_tensor *b, bool tb, const vt_tensor *bias,
                   float alpha, float beta);
void vt_gelu_grad_after(const vt_backend *be, vt_dev *d, vt_tensor *dx, const vt_tensor *a,
                        const vt_tensor *b, bool tb, const vt_tensor *pre, float alpha,
                        float beta);
void vt_bias_grad_after(const vt_backend *be, vt_dev *d, vt_tensor *dw, vt_tensor *db,
                        const vt_tensor *dy, const vt_tensor *x, float beta);

#endif
