/* tensor.h - tensors, the context that owns them, steps, and their memory.
 *
 * Define-by-run with a tape. A vt_ctx is the only state: device, tape, step arena, pool, first
 * error. Between vt_step_begin and vt_step_end ops (ops.h) make tensors; the first failure sticks
 * to the context, an op given NULL returns NULL, and vt_step_end returns the error once, naming op
 * and shapes. So a forward needs no checks.
 *
 *     vt_step_begin(g, VT_RECORD);
 *     vt_tensor *loss = vt_mse(g, model(g, x), target, NULL);
 *     vt_backward(g, loss);
 *     float l = vt_item(g, loss);                 // NaN if anything failed
 *     rc = vt_step_end(g, err);                   // "add: shapes differ: [2,7,64] f32, ..."
 *
 * Memory. Descriptors and tape nodes come from a step arena that is rewound by vt_step_begin. Bytes
 * come from a pool: best fit over one range, counted, and given back the moment nothing needs
 * them: a scope's temporaries when the scope ends, what the tape kept when backward has used it.
 * No malloc in the steady state. In a dry step (VT_DRY) shapes are checked, buffers placed and
 * FLOPs counted, but no kernel runs and no data exists: vt_usage_of tells the peak beforehand.
 *
 * A context belongs to one thread at a time (kernels use several); contexts are independent. */
#ifndef COMMON_TENSOR_TENSOR_H
#define COMMON_TENSOR_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/base/err.h"

enum { VT_DIMS = 6 };

typedef struct vt_ctx vt_ctx;
typedef struct vt_buf vt_buf;                 /* counted bytes of the pool (backend.h) */
typedef struct vt_tensor vt_tensor;

/* Outermost axis first, the order PyTorch and safetensors print. Video is [B,C,T,H,W], tokens are
 * [B,N,D]. Tensors made by ops are packed (row-major, no holes) unless the op says it gives a
 * view. Every size is at least 1. */
struct vt_tensor {
    vc_dtype dtype;
    int nd;
    int64_t dim[VT_DIMS];
    int64_t stride[VT_DIMS];                  /* in elements; 0 repeats */
    void *data;                               /* first element, on the device; NULL in a dry step */
    vt_buf *buf;                              /* what holds data; NULL: a parameter's own memory */
    vt_tensor *base;                          /* the tensor this is a view of (no view), or NULL */
    int64_t offset;                           /* of a view, in elements of base */
    vt_tensor *grad;                          /* made by vt_grad; of a view: NULL, ask vt_grad */
    bool needs_grad;                          /* something below it is trained */
    bool param;                               /* persistent: lives until vt_param_free */
};

static inline int64_t vt_count(const vt_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->nd; i++)
        n *= t->dim[i];
    return n;
}
static inline int64_t vt_last(const vt_tensor *t) { return t->nd ? t->dim[t->nd - 1] : 1; }
bool vt_packed(const vt_tensor *t);
bool vt_same_shape(const vt_tensor *a, const vt_tensor *b);

/* ---- context ---- */

typedef struct vt_options {
    const char *device;                       /* "auto", "cpu", "cuda", "cuda:1"; NULL: auto */
    int index;                                /* of the device where that gives no number */
    int threads;                              /* CPU threads; 0: OMP_NUM_THREADS, else as many as
                                               * CPUs that the process may use */
    vc_dtype compute;                         /* of activations: VC_F32 or VC_BF16 */
    const char *kernels;                      /* CPU kernel set forced by name ("plain", "avx2",
                                               * "avx512", "amx"); NULL: the best */
    size_t pool_limit;                        /* most bytes of the pool; 0: what the machine has */
    bool repeatable;                          /* same bits from attention's gradient on a GPU too,
                                               * for time and memory; a CPU's always are */
} vt_options;

/* VC_EINVAL: an option this build or machine cannot do, with what it can; VC_ENOMEM. */
int vt_open(vt_ctx **g, const vt_options *o, vc_err *err);
void vt_close(vt_ctx *g);                     /* NULL is fine; after all parameters were freed */
vc_dtype vt_compute(const vt_ctx *g);
/* "cpu: avx2, oneDNN 2.6.3, 2 threads, activations bf16": one line, borrowed. Where "auto" wanted a
 * GPU and got none, it ends with the reason; "1 thread of 2 (OMP_THREAD_LIMIT)" where OpenMP gives fewer
 * than asked for. */
const char *vt_describe(const vt_ctx *g);
/* Tensors' data are host pointers. */
bool vt_host_memory(const vt_ctx *g);

/* ---- steps ---- */

/* VT_OFFLOAD: what a block that is recomputed was given, and no other block is, waits for backward
 * in the host's memory, if the device has its own. The same bits, for memory. */
enum { VT_RECORD = 1, VT_DRY = 2, VT_OFFLOAD = 4 };

/* Discards what an unfinished step left. */
void vt_step_begin(vt_ctx *g, int flags);
/* Frees everything the step made; 0 or the step's first error. */
int vt_step_end(vt_ctx *g, vc_err *err);
bool vt_failed(const vt_ctx *g);
/* Makes the step fail from outside (a model that finds its input odd). Returns NULL. */
vt_tensor *vt_fail(vt_ctx *g, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Runs the tape from a scalar loss (gradient 1) back to the parameters and frees what it has used.
 * Once per step, and outside scopes: first of all it gives back whatever only scopes hold, so that
 * of the step's tensors the loss alone can be read afterwards. Gradients of parameters accumulate
 * over steps until vt_params_zero_grad. */
void vt_backward(vt_ctx *g, vt_tensor *loss);
/* A scalar's value on the host (waits for the device); NaN if anything failed, 0 in a dry step. */
float vt_item(vt_ctx *g, const vt_tensor *t);

typedef struct vt_usage {
    size_t pool_peak;                         /* bytes of the pool this step reached, gaps included:
                                               * a dry step tells the real step's exactly */
    size_t saved;                             /* bytes held for backward when forward ended */
    size_t scratch;                           /* the device's own memory beside the pool, packed
                                               * operands and the like, as taken so far; of a dry
                                               * step: as the step would need it */
    size_t offloaded;                         /* bytes of blocks' inputs that went to the host */
    double flops;                             /* of matmul, attention and convolution, forward,
                                               * backward and recomputation */
    int64_t waits;                            /* of an ended step: how often the device stood still
                                               * for data of the host: swapped weights, a batch */
    double waited;                            /* and for how long: seconds */
    bool replayed;                            /* its work was launched at once (replay.h) */
} vt_usage;
vt_usage vt_usage_of(const vt_ctx *g);        /* of the step in progress or the last one */
/* Tells the step's flops so far after every kernel (where kernels are queued: given to the device),
 * in the thread of the step, for progress within long steps. NULL: nobody watches. */
void vt_watch(vt_ctx *g, void (*seen)(void *arg, double flops), void *arg);

/* Bytes that a step may take now, parameters not counted; 0 where the device's memory is the
 * host's. */
size_t vt_room(const vt_ctx *g);

/* Where the time goes: one row per op and direction. flops counts matmul, attention, convolution. */
typedef struct vt_op_time {
    const char *op;                           /* "linear"; borrowed, lives as long as the program */
    bool grad;                                /* its gradient; recomputation counts as the op */
    int64_t calls;                            /* kernels run */
    double seconds, flops;
} vt_op_time;
/* From now on every kernel is timed (which waits for the device each time); rows start empty. */
void vt_profile_begin(vt_ctx *g);
/* *rows: most seconds first, borrowed until the next step; returns how many. */
int vt_profile_rows(vt_ctx *g, const vt_op_time **rows);

/* ---- scopes: temporaries of a block ---- */

/* Everything made after vt_scope_begin is given back at vt_scope_end, but for the n tensors in
 * keep (NULL entries are skipped) and what the tape needs. Scopes nest. keep[i] stay valid in the
 * enclosing scope; an op given any other tensor of an ended scope fails the step. A scope may be
 * ended again, which gives back what it kept before: a loop over layers that has no tape needs the
 * memory of one layer if it says
 *
 *     vt_scope s = vt_scope_begin(g);
 *     for (int i = 0; i < layers; i++) {
 *         vt_run_block(g, &block[i], how, &x, &x);
 *         vt_scope_end(g, s, 1, &x);
 *     }
 */
typedef struct vt_scope { int mark; } vt_scope;
vt_scope vt_scope_begin(vt_ctx *g);
void vt_scope_end(vt_ctx *g, vt_scope s, int n, vt_tensor *const *keep);

/* ---- blocks: the unit of recomputation, and where sharding, swapping and prefetch hang on ---- */

enum { VT_BLOCK_IO = 12 };

/* fn reads n_in tensors (some may be NULL) and sets n_out outputs; it may run twice and must do the
 * same both times: no state of its own. It reads parameters and host data through arg, which live
 * until vt_step_end; tensors of the step must be among its inputs. */
typedef void (*vt_block_fn)(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out);
typedef struct vt_block {
    vt_block_fn fn;
    const void *arg;
    int n_in, n_out;                          /* at most VT_BLOCK_IO each */
    int index;                                /* of the block in its model */
} vt_block;
typedef enum { VT_KEEP, VT_RECOMPUTE } vt_remat;
/* Runs a block in a scope of its own. VT_RECOMPUTE: the tape keeps only its inputs, and backward
 * runs fn again (gradient checkpointing, Chen et al. 2016); the gradients are the same bits.
 * Outputs are set to NULL on failure. */
void vt_run_block(vt_ctx *g, const vt_block *b, vt_remat how, vt_tensor *const *in,
                  vt_tensor **out);
/* enter and leave surround each use of a block's weights: its forward (backward false), and its
 * backward with the recomputation in it (backward true). grads_ready follows the latter: all
 * gradients of the block's parameters are complete. NULL members are skipped. The block passed is
 * a copy that lives until vt_step_end. A hook reports trouble by vt_fail. */
typedef struct vt_hooks {
    void *arg;
    void (*enter)(void *arg, const vt_block *b, bool backward);
    void (*leave)(void *arg, const vt_block *b, bool backward);
    void (*grads_ready)(void *arg, const vt_block *b);
} vt_hooks;
void vt_set_hooks(vt_ctx *g, const vt_hooks *h);       /* NULL: none */

/* ---- making tensors, moving data ---- */

/* Uninitialised, packed, from the pool. */
vt_tensor *vt_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
vt_tensor *vt_new_like(vt_ctx *g, const vt_tensor *t);
/* The same, but no scope gives it back: it lasts until the step ends. */
vt_tensor *vt_new_for_step(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
/* The same, but no scope gives it back: it lasts until the step ends. */
vt_tensor *vt_new_for_step(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
/* Copies packed host data of type `from` (any alignment) and converts it to dtype. */
vt_tensor *vt_from_host(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                        vc_dtype from);
/* Data that calls of vt_from_host will be given in the next step: goes to the device beside what
 * that is doing, so that they find it there. Each serves one call, of the same address and as many
 * bytes, that converts nothing; until then it must not change. Data prefetched before is
 * forgotten (n 0: no more than that). Does nothing where the device's memory is the host's, or has
 * no room. */
typedef struct vt_host_data { const void *data; size_t bytes; } vt_host_data;
void vt_prefetch(vt_ctx *g, int n, const vt_host_data *data);
bool vt_prefetched(const vt_ctx *g, const void *data);
/* Copies a tensor of any strides to packed f32 on the host (waits). Zeros in a dry step. Packed
 * parameters can be read outside steps too. */
int vt_to_host(vt_ctx *g, const vt_tensor *t, float *out, vc_err *err);
/* A persistent tensor outside steps; the owner frees it with vt_param_free. data NULL: zeros; map:
 * borrow `data` (kept alive by the caller) instead of copying it, which is done where the device
 * reads host memory, from == dtype and data is aligned to its element. vt_param_mapped tells. */
vt_tensor *vt_param_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                        vc_dtype from, bool map, vc_err *err);
bool vt_param_mapped(const vt_tensor *t);
/* A frozen one that stays on the host for now, for a device with memory of its own: it has data
 * only while its block is entered (vt_params_place). Its values are borrowed from `data` if
 * `borrow` says so and from == dtype, else a copy. */
vt_tensor *vt_param_on_host(vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                         vc_dtype from, bool borrow, vc_err *err);
bool vt_param_is_on_host(const vt_tensor *t);
/* Onto the device for good. */
int vt_param_place(vt_ctx *g, vt_tensor *t, vc_err *err);
void vt_param_free(vt_ctx *g, vt_tensor *t);           /* with its gradient; NULL is fine */
/* A packed parameter's values, outside steps: as they are held, where the host can read them (to:
 * room for them, used where the device's memory is not the host's); and set from packed host data
 * of type `from`, converted to the parameter's. */
const void *vt_param_get(vt_ctx *g, const vt_tensor *t, void *to);
void vt_param_set(vt_ctx *g, vt_tensor *t, const void *data, vc_dtype from);
/* Makes a parameter trained: values become private, f32 or bf16, with an f32 gradient. Of a trained
 * one it changes the type. */
int vt_param_train(vt_ctx *g, vt_tensor *t, vc_dtype dtype, vc_err *err);
/* From now on the gradient's values are at `data`, which stays the caller's and may serve several
 * parameters in turn; the gradient's own memory is given back. Outside steps. */
void vt_param_lend_grad(vt_ctx *g, vt_tensor *t, float *data);
bool vt_param_grad_lent(const vt_tensor *t);
/* The same for the values of a trained parameter, of its type, which are not copied. */
void vt_param_lend_values(vt_ctx *g, vt_tensor *t, void *data);
bool vt_param_values_lent(const vt_tensor *t);

/* ---- for ops ---- */

/* The gradient to accumulate into, made on first use (packed, in the tensor's own type, f32 for
 * parameters); NULL if t needs none. A view's gradient is the same view of its base's. Its buffer
 * is `empty` until a kernel has written it: kernels overwrite an empty gradient, add to any other;
 * the base of a view that covers it only in part is filled with zeros first. */
vt_tensor *vt_grad(vt_ctx *g, vt_tensor *t);

typedef struct vt_node vt_node;
typedef void (*vt_grad_fn)(vt_ctx *g, const vt_node *n);
enum { VT_SAVED = 10 };
struct vt_node {
    vt_grad_fn fn;
    const char *op;
    vt_tensor *out;                           /* n->out->grad is set when fn runs */
    vt_tensor *in[VT_SAVED];                  /* where gradients go, and what fn reads */
    int n_in;
    unsigned keep;                            /* bit i: fn reads the values of in[i] */
    bool keep_out;                            /* fn reads the values of out */
    float f[4];                               /* small numbers of the op */
    int64_t i[8];
    void *block;                              /* of block nodes: tape.c */
    vt_node *prev;
};
/* Records y = op(in...) if the tape is on and some input needs a gradient; returns y. NULL inputs
 * are allowed and stay NULL. *node (if not NULL) gives the node for filling f and i, or NULL if
 * nothing was recorded. */
vt_tensor *vt_record(vt_ctx *g, vt_tensor *y, const char *op, vt_grad_fn fn, int n,
                     vt_tensor *const *in, unsigned keep, bool keep_out, vt_node **node);
/* Fails the step with "op: why: [shapes of the n tensors]" and returns NULL. */
vt_tensor *vt_bad(vt_ctx *g, const char *op, const char *why, int n, vt_tensor *const *t);

#endif
