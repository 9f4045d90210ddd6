/* tensor.h - tensors, the context that owns them, steps, and their memory.
 *
 * Ops are defined by running them and are recorded on a tape. A vt_ctx holds all state: device,
 * tape, step arena, pool, first error. Between vt_step_begin and vt_step_end ops (ops.h) make
 * tensors; the first failure sticks to the context, an op given NULL returns NULL, and vt_step_end
 * returns the error once, naming op and shapes. So a forward pass needs no checks.
 *
 *     vt_step_begin(g, VT_RECORD);
 *     vt_tensor *loss = vt_mse(g, model(g, x), target, NULL);
 *     vt_backward(g, loss);
 *     float l = vt_item(g, loss);                 // NaN if anything failed
 *     rc = vt_step_end(g, err);                   // "add: shapes differ: [2,7,64] f32, ..."
 *
 * Memory: descriptors and tape nodes come from a step arena that vt_step_begin rewinds. Tensor
 * bytes come from a counted best-fit pool over one range, and return to the pool as soon as nothing
 * needs them: a scope's temporaries when the scope ends, saved tensors when backward has used them.
 * A steady state calls no malloc. A dry step (VT_DRY) checks shapes, places buffers and counts
 * FLOPs, but runs no kernel and has no data: vt_usage_of then reports the peak in advance.
 *
 * A context belongs to one thread at a time (kernels use several); contexts are independent, but
 * all contexts of a process that use a GPU use the same one: vt_open refuses a second. A context on
 * a GPU belongs to the thread that opened it; another thread calls vt_adopt (second_stream.h)
 * first. */
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

/* Axes are listed outermost first, as PyTorch and safetensors print them. Video is [B,C,T,H,W],
 * tokens are [B,N,D]. Tensors made by ops are packed (row-major, no holes) unless the op's contract
 * says that it returns a view. Every size is at least 1. */
struct vt_tensor {
    vc_dtype dtype;
    int nd;
    int64_t dim[VT_DIMS];
    int64_t stride[VT_DIMS];                  /* in elements; 0 repeats */
    void *data;                               /* first element, on the device; NULL in a dry step */
    vt_buf *buf;                              /* holds the data; NULL: a parameter's own memory */
    vt_tensor *base;                          /* of a view: the tensor viewed, itself no view */
    int64_t offset;                           /* of a view, in elements of base */
    vt_tensor *grad;                          /* made by vt_grad; always NULL in a view */
    bool needs_grad;                          /* it depends on a trained parameter */
    bool param;                               /* persistent: lives until vt_param_free */
    const vt_tensor *scale;                   /* of a frozen weight [out,in] of codes (packing.h):
                                               * f32 [out] or [out,n], by which its rows, or n equal
                                               * blocks of each, are multiplied; NULL in a view */
    void *rounded;                            /* of vt_param_round: the values in bf16; or NULL,
                                               * as in a view */
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
    int index;                                /* of the device if `device` has no number */
    int threads;                              /* CPU threads; 0: OMP_NUM_THREADS, or else the number
                                               * of CPUs that the process may use */
    vc_dtype compute;                         /* type of activations: VC_F32 or VC_BF16 */
    const char *kernels;                      /* CPU kernel set forced by name ("plain", "avx2",
                                               * "avx512", "avx512_bf16", "amx"); NULL: the best */
    size_t pool_limit;                        /* most bytes of the pool; 0: the machine's memory,
                                               * or half of what a limit of the process leaves */
    bool repeatable;                          /* attention's gradient has the same bits in each run
                                               * on a GPU too, which costs time and memory; on a
                                               * CPU it always has */
    bool batches;                             /* a row of a product is to have the same bits alone
                                               * as in a batch, where batches save more time than
                                               * this costs (vt_batch_keeps_bits) */
    bool int8_activations;                    /* what is multiplied by a weight of int8 codes with
                                               * a scale a row is rounded to int8 too, a row at a
                                               * time; on a CPU alone */
    bool sizes_only;                          /* parameters have their sizes, but no values: nothing
                                               * is read, converted or drawn. All steps are dry, and
                                               * may need more memory than the machine has */
} vt_options;

/* Returns VC_EINVAL for an option that this build or machine does not support, naming the supported
 * values, or VC_ENOMEM. */
int vt_open(vt_ctx **g, const vt_options *o, vc_err *err);
/* Returns what this build can compute on, for --version: "cpu", or "cpu, CUDA 13.0.88, cuDNN
 * 9.19.0, NCCL 2.28.9, for GPUs 80, 90". */
const char *vt_built_for(void);
void vt_close(vt_ctx *g);                     /* NULL is fine; after all parameters were freed */
vc_dtype vt_compute(const vt_ctx *g);
/* Returns true if a product whose left operand has the compute type gives each of its rows the same
 * bits, however many rows there are, from 8 on: so a sample is the same alone and in a batch. This
 * holds in bf16 with AVX512-BF16 or AMX, and, with vt_options.batches, with AVX2. */
bool vt_batch_keeps_bits(const vt_ctx *g);
/* Returns one borrowed line: "cpu: avx2, oneDNN 2.6.3, 2 threads, activations bf16". The line ends
 * with the reason if "auto" found no usable GPU, and says "1 thread of 2 (OMP_THREAD_LIMIT)" if
 * OpenMP grants fewer threads than were asked for. */
const char *vt_describe(const vt_ctx *g);
/* Returns true if the data of tensors are host pointers. */
bool vt_host_memory(const vt_ctx *g);
/* Returns the bytes of parameters, their gradients and copies that malloc gave. */
size_t vt_heap_bytes(const vt_ctx *g);

/* ---- steps ---- */

/* VT_OFFLOAD: inputs that only one recomputed block reads are offloaded to host memory until
 * backward needs them, if the device has its own memory. Results keep the same bits. A context
 * needs vt_offload_open before its first such step, which fails without. */
enum { VT_RECORD = 1, VT_DRY = 2, VT_OFFLOAD = 4 };
int vt_offload_open(vt_ctx *g, vc_err *err);

/* Begins a step and discards an unfinished one. */
void vt_step_begin(vt_ctx *g, int flags);
/* Frees everything that the step made; returns 0 or the step's first error. */
int vt_step_end(vt_ctx *g, vc_err *err);
bool vt_failed(const vt_ctx *g);
/* Makes the step fail from outside an op, as a model does that rejects its input. Returns NULL. */
vt_tensor *vt_fail(vt_ctx *g, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Runs the tape from a scalar loss (gradient 1) back to the parameters and frees the tape's tensors
 * as their last use passes. A step calls it once, outside scopes. All tensors that only scopes hold
 * are released first, so the loss is the only tensor of the step that can be read afterwards.
 * Gradients of parameters accumulate over steps until vt_params_zero_grad. */
void vt_backward(vt_ctx *g, vt_tensor *loss);
/* Waits for the device and returns a scalar's value; NaN if anything failed, 0 in a dry step. */
float vt_item(vt_ctx *g, const vt_tensor *t);

typedef struct vt_usage {
    size_t pool_peak;                         /* most bytes of the pool in this step, gaps included;
                                               * a dry step has exactly the real step's */
    size_t saved;                             /* bytes held for backward when forward ended */
    size_t scratch;                           /* bytes of device memory beside the pool (packed
                                               * operands and the like), allocated so far; in a dry
                                               * step: those that the step would need */
    size_t offloaded;                         /* bytes of block inputs offloaded to the host */
    double flops;                             /* of matmul, attention and convolution, forward,
                                               * backward and recomputation */
    int64_t waits;                            /* of an ended step: times that the device waited for
                                               * data of the host: swapped weights, a batch */
    double waited;                            /* seconds of these waits */
    bool replayed;                            /* its kernels were launched as a graph (replay.h) */
} vt_usage;
vt_usage vt_usage_of(const vt_ctx *g);        /* of the step in progress or the last one */
/* Calls `seen` after every kernel (where kernels are queued: after queueing it) with the step's
 * FLOPs so far, in the thread of the step, for progress within long steps. seen may be NULL. */
void vt_watch(vt_ctx *g, void (*seen)(void *arg, double flops), void *arg);

/* Says that the largest pool_peak of all steps is likely to be `bytes`, so that the pool takes no
 * memory beyond them for the sake of huge pages. More remains possible. */
void vt_expect(vt_ctx *g, size_t bytes);
/* Outside steps: gives the pool's memory back to the device, where that is its own, so that a step
 * which had no room for other memory can run with a smaller pool. Captured graphs are dropped. */
void vt_give_back(vt_ctx *g);
/* Returns the bytes that a step may allocate now, parameters not counted; 0 where the device's
 * memory is the host's. */
size_t vt_room(const vt_ctx *g);

/* The time of one op in one direction. flops counts matmul, attention and convolution. */
typedef struct vt_op_time {
    const char *op;                           /* "linear"; borrowed, lives as long as the program */
    bool grad;                                /* its gradient; recomputation counts as the op */
    int64_t calls;                            /* kernels run */
    double seconds, flops;
} vt_op_time;
/* Clears the rows; from now on every kernel is timed, which waits for the device each time. */
void vt_profile_begin(vt_ctx *g);
/* Returns the number of rows; *rows is sorted by seconds, most first, and borrowed until the next
 * step. */
int vt_profile_rows(vt_ctx *g, const vt_op_time **rows);

/* ---- scopes: temporaries of a block ---- */

/* vt_scope_end releases all tensors made after vt_scope_begin, except the n tensors in keep (NULL
 * entries are skipped) and tensors that the tape needs. Scopes nest. keep[i] stay valid in the
 * enclosing scope; an op given any other tensor of an ended scope fails the step. A scope may be
 * ended again, which releases the tensors that it kept before: so a loop over layers without a tape
 * needs the memory of one layer:
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

/* ---- blocks: the unit of recomputation, sharding, swapping and prefetch ---- */

enum { VT_BLOCK_IO = 28 };

/* fn reads n_in tensors (some may be NULL) and sets n_out outputs; it may run twice and must do the
 * same both times, so it has no state of its own. It reads parameters and host data through arg,
 * which live until vt_step_end; tensors of the step must be among its inputs. */
typedef void (*vt_block_fn)(vt_ctx *g, const void *arg, vt_tensor *const *in, vt_tensor **out);
typedef struct vt_block {
    vt_block_fn fn;
    const void *arg;
    int n_in, n_out;                          /* at most VT_BLOCK_IO each */
    int index;                                /* of the block in its model */
} vt_block;
typedef enum { VT_KEEP, VT_RECOMPUTE, VT_KEEP_ATTENTION } vt_remat;
/* Runs a block in a scope of its own. VT_RECOMPUTE: the tape keeps only its inputs, and backward
 * runs fn again (gradient checkpointing, Chen et al. 2016); the gradients are the same bits.
 * VT_KEEP_ATTENTION: the same, but the tape also keeps the results of vt_attention, which the
 * second run takes instead of computing them. Outputs are set to NULL on failure. */
void vt_run_block(vt_ctx *g, const vt_block *b, vt_remat how, vt_tensor *const *in,
                  vt_tensor **out);
/* enter and leave surround each use of a block's weights: its forward (backward false), and its
 * backward with the recomputation in it (backward true). grads_ready is called after the backward,
 * when all gradients of the block's parameters are complete. Of a block that runs several times in
 * a step it is called after the backward of each run, the last run's first; the gradients are
 * complete with the last call. NULL members are skipped. The block
 * passed is a copy that lives until vt_step_end. A hook reports a failure by vt_fail. */
typedef struct vt_hooks {
    void *arg;
    void (*enter)(void *arg, const vt_block *b, bool backward);
    void (*leave)(void *arg, const vt_block *b, bool backward);
    void (*grads_ready)(void *arg, const vt_block *b);
} vt_hooks;
void vt_set_hooks(vt_ctx *g, const vt_hooks *h);       /* NULL removes them */

/* ---- making tensors, moving data ---- */

/* Returns a packed tensor of the pool with undefined values. */
vt_tensor *vt_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
vt_tensor *vt_new_like(vt_ctx *g, const vt_tensor *t);
/* Returns a tensor as vt_new does, but one that no scope releases: it lives until the step ends. */
vt_tensor *vt_new_for_step(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
/* Copies packed host data of type `from` (any alignment) and converts it to dtype. */
vt_tensor *vt_from_host(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                        vc_dtype from);
/* Returns an f32 tensor [rows,width] whose rows `fill` writes: n of them, from row `first` on. They
 * are written in place where the device's memory is the host's, else in parts of a few rows that
 * are then copied. A dry step does not call fill. */
typedef void (*vt_fill_fn)(const void *arg, int64_t first, int64_t n, float *rows);
vt_tensor *vt_from_rows(vt_ctx *g, int64_t rows, int64_t width, vt_fill_fn fill, const void *arg);
/* Copies data that vt_from_host will be given in the next step to the device, while the device is
 * still computing. Each entry serves one call of vt_from_host with the same address and size that
 * converts nothing; its data must not change until then. Entries of an earlier vt_prefetch are
 * dropped, which is all that a call with n 0 does. Nothing is copied where the device's memory is
 * the host's, or has no room. */
typedef struct vt_host_data { const void *data; size_t bytes; } vt_host_data;
void vt_prefetch(vt_ctx *g, int n, const vt_host_data *data);
bool vt_prefetched(const vt_ctx *g, const void *data);
/* Copies a tensor of any strides to packed f32 on the host, after waiting for the device; a dry
 * step gives zeros. Packed parameters can be read outside steps too. */
int vt_to_host(vt_ctx *g, const vt_tensor *t, float *out, vc_err *err);
/* Returns a persistent tensor, outside steps; the owner frees it with vt_param_free. Without data
 * it holds zeros. map asks to borrow `data`, which the caller keeps alive, instead of copying it:
 * data is borrowed if the device reads host memory, from == dtype and data is aligned to its
 * element. vt_param_mapped returns true for borrowed values. */
vt_tensor *vt_param_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, const void *data,
                        vc_dtype from, bool map, vc_err *err);
bool vt_param_mapped(const vt_tensor *t);
/* Returns a persistent tensor whose values are in a spill (spill.h), which outlives it; spill NULL:
 * as vt_param_new without data. Only where the device's memory is the host's. */
struct vc_spill;
vt_tensor *vt_param_spilled(vt_ctx *g, struct vc_spill *spill, vc_dtype dtype, int nd,
                            const int64_t *dim, vc_err *err);
/* vc_spill_want and vc_spill_rest for such a tensor's values. */
void vt_param_want(struct vc_spill *spill, const vt_tensor *t);
void vt_param_rest(struct vc_spill *spill, const vt_tensor *t);
/* Returns a frozen parameter that stays on the host, for a device with memory of its own:
 * t->data is set only while its block is entered (vt_params_place). With `borrow` and from == dtype
 * its values are borrowed from `data`, else copied. Without data its values are undefined until the
 * caller has written them (vt_param_host_memory). */
vt_tensor *vt_param_on_host(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim,
                            const void *data, vc_dtype from, bool borrow, vc_err *err);
bool vt_param_is_on_host(const vt_tensor *t);
/* Returns a persistent tensor of zeroes that stays on the host, in memory that a device with its
 * own copies from and to concurrently with kernels (hosted.h). vt_param_get and vt_param_set wait
 * for these copies. */
vt_tensor *vt_param_hosted(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim, vc_err *err);
/* The values of a parameter that owns them, where the host can write them; NULL: they are in the
 * device's own memory. */
void *vt_param_host_memory(const vt_ctx *g, vt_tensor *t);
/* Moves such a parameter to the device for good. */
int vt_param_place(vt_ctx *g, vt_tensor *t, vc_err *err);
void vt_param_free(vt_ctx *g, vt_tensor *t);           /* with its gradient; NULL is fine */
/* Outside steps: vt_param_get returns a packed parameter's values, in its own type, where the host
 * can read them; `to` has room for them and is used if the device's memory is not the host's.
 * vt_param_set copies packed host data of type `from` into a parameter, converted to its type. */
const void *vt_param_get(vt_ctx *g, const vt_tensor *t, void *to);
void vt_param_set(vt_ctx *g, vt_tensor *t, const void *data, vc_dtype from);
/* Makes a parameter trained: its values become private, f32 or bf16, with an f32 gradient. The type
 * of a parameter that is trained already is changed to dtype. */
int vt_param_train(vt_ctx *g, vt_tensor *t, vc_dtype dtype, vc_err *err);
/* Keeps the values of a trained f32 parameter in bf16 too, if activations are bf16 and the device
 * rounds the operands of its products (backend.h, rounds_products); elsewhere it does nothing. The
 * optimiser's kernels write both. Values written otherwise, vt_param_set excepted, are followed by
 * vt_param_changed, after which the next step that is not dry renews the copy as it begins. */
int vt_param_round(vt_ctx *g, vt_tensor *t, vc_err *err);
void vt_param_changed(vt_tensor *t);
/* Changes whenever vt_param_changed or vt_param_set is called for t. */
unsigned vt_param_changes(const vt_tensor *t);
/* Outside steps: puts the gradient's values at `data`, which the caller owns and may lend to
 * several parameters, one after the other; the gradient's own memory is freed. */
void vt_param_lend_grad(vt_ctx *g, vt_tensor *t, float *data);
bool vt_param_grad_lent(const vt_tensor *t);
/* Does the same for the values of a trained parameter, in its type. The values are not copied. */
void vt_param_lend_values(vt_ctx *g, vt_tensor *t, void *data);
bool vt_param_values_lent(const vt_tensor *t);

/* ---- for ops ---- */

/* Returns the gradient to accumulate into, made on first use (packed, in the tensor's own type, f32
 * for parameters); NULL if t needs none. A view's gradient is the same view of its base's gradient.
 * Its buffer is `empty` until a kernel has written it: kernels overwrite an empty gradient and add
 * to any other; the base of a view that covers it only in part is filled with zeros first. */
vt_tensor *vt_grad(vt_ctx *g, vt_tensor *t);

typedef struct vt_node vt_node;
typedef void (*vt_grad_fn)(vt_ctx *g, const vt_node *n);
enum { VT_SAVED = VT_BLOCK_IO };              /* a node of a block has all of its inputs */
struct vt_node {
    vt_grad_fn fn;
    const char *op;
    vt_tensor *out;                           /* n->out->grad is set when fn runs */
    vt_tensor *in[VT_SAVED];                  /* inputs and saved tensors, read by fn */
    int n_in;
    unsigned keep;                            /* bit i: fn reads the values of in[i] */
    bool keep_out;                            /* fn reads the values of out */
    float f[4];                               /* small numbers of the op */
    int64_t i[8];
    void *block;                              /* of block nodes (tape.c) */
    vt_node *prev;
};
/* Records y = op(in...) if the tape is recording and an input needs a gradient; returns y. NULL
 * inputs are allowed and stay NULL. If node is not NULL, *node becomes the new node, whose f and i
 * the caller fills in, or NULL if nothing was recorded. */
vt_tensor *vt_record(vt_ctx *g, vt_tensor *y, const char *op, vt_grad_fn fn, int n,
                     vt_tensor *const *in, unsigned keep, bool keep_out, vt_node **node);
/* Fails the step with "op: why: [shapes of the n tensors]" and returns NULL. */
vt_tensor *vt_bad(vt_ctx *g, const char *op, const char *why, int n, vt_tensor *const *t);

#endif
