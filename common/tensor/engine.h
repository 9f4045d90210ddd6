/* engine.h - the inside of a vt_ctx and what ops share; for common/tensor only.
 *
 * An op reads: vt_ok (operands usable?), its own shape checks (vt_bad), vt_new for the result,
 * VT_RUN for the kernel, vt_record for the gradient. */
#ifndef COMMON_TENSOR_ENGINE_H
#define COMMON_TENSOR_ENGINE_H

#include "common/tensor/arena.h"
#include "common/tensor/backend.h"
#include "common/tensor/pool.h"

struct vt_ctx {
    const vt_backend *be;
    vt_dev *dev;
    vc_dtype compute;
    char describe[480];

    vt_arena arena;                           /* descriptors and nodes of the step */
    vt_pool pool;
    char *range;                              /* where the pool's offset 0 is */
    size_t grown;                             /* its bytes that the backend made usable */

    bool in_step;
    int flags;                                /* VT_RECORD, VT_DRY */
    bool recording;                           /* ops go to the tape: off inside backward and in
                                               * blocks that will be run again */
    vt_node *tape;                            /* the newest node */
    vt_tensor **live;                         /* what scopes hold, one reference each */
    int n_live, room_live;

    const char *op;                           /* the one at work: for messages */
    bool in_grad;                             /* it is its gradient that runs */
    struct vt_profile *profile;               /* NULL: kernels are not timed */
    void (*seen)(void *arg, double flops);    /* vt_watch */
    void *seen_arg;
    vc_err err;                               /* the step's first failure */
    vt_hooks hooks;
    struct vt_swap *swap;                     /* weights that come when their block is entered, or
                                               * NULL */
    struct vt_prefetched *prefetched;           /* NULL: nothing yet */
    struct vt_offload *offload;               /* NULL: nothing yet */
    struct vt_replays *replays;               /* NULL: nothing yet */
    vt_usage usage;
    size_t kept;                              /* bytes the tape holds now */
};

/* Runs a kernel unless the step is dry or has failed. Its FLOPs are counted before. */
#define VT_RUN(g, kernel, ...)                                                                     \
    do {                                                                                           \
        if (!(g)->be->kernel) {                                                                    \
            vt_fail((g), VC_EINVAL, "%s: the %s backend has no " #kernel " yet", (g)->op,          \
                    (g)->be->name);                                                                \
        } else if (!((g)->flags & VT_DRY) && !(g)->err.code) {                                     \
            double vt_begin_ = (g)->profile ? vt_profile_now() : 0;                                \
            (g)->be->kernel((g)->dev, __VA_ARGS__);                                                \
            if ((g)->profile) vt_profile_add((g), vt_begin_);                                      \
            if ((g)->seen) (g)->seen((g)->seen_arg, (g)->usage.flops);                             \
        }                                                                                          \
    } while (0)

/* The same for kernels that take much memory of the device's own: they run in dry steps too, where they
 * only note how much (backend.h, dry). */
#define VT_RUN_HEAVY(g, kernel, ...)                                                               \
    do {                                                                                           \
        if ((g)->flags & VT_DRY && (g)->be->dry && !(g)->err.code)                                 \
            (g)->be->kernel((g)->dev, __VA_ARGS__);                                                \
        VT_RUN(g, kernel, __VA_ARGS__);                                                            \
    } while (0)

/* profile.c: seconds of a steady clock; a kernel of g->op ran since `begin`. */
double vt_profile_now(void);
void vt_profile_add(vt_ctx *g, double begin);
void vt_profile_free(struct vt_profile *p);              /* NULL is fine */

/* True if the op may go on: in a step that has not failed, no operand NULL, given back or of a type
 * ops cannot read. */
bool vt_ok(vt_ctx *g, const char *op, int n, vt_tensor *const *t);
/* Would vt_record record? For ops that keep extra results only then. */
bool vt_tracks(const vt_ctx *g, int n, vt_tensor *const *in);
/* f32 or bf16: what an op makes of x. */
vc_dtype vt_result(const vt_ctx *g, const vt_tensor *x);

/* swap.c: block `index` is entered, left, in a step that is no dry one. */
void vt_swap_in(struct vt_swap *s, int index);
void vt_swap_out(struct vt_swap *s, int index);

/* prefetch.c: if these bytes were prefetched for t, which is packed, copies them there on the
 * device and returns true. */
bool vt_prefetched_copy(vt_ctx *g, vt_tensor *t, const void *data);
void vt_prefetch_close(vt_ctx *g);

/* offload.c. In forward: a block with these inputs is about to run, is the latest on the tape. In
 * backward: n's inputs are about to be read. Then the end of a step and of g. */
void vt_offload_next(vt_ctx *g, int n, vt_tensor *const *in);
void vt_offload_last(vt_ctx *g, const vt_node *n);
void vt_offload_back(vt_ctx *g, const vt_node *n);
void vt_offload_forget(vt_ctx *g);
void vt_offload_close(vt_ctx *g);

/* replay.c: drops what is kept. */
void vt_replay_close(vt_ctx *g);

/* data.c: the host's values of a parameter that is on the host. */
const void *vt_param_host_values(const vt_tensor *t);

/* A descriptor from the step arena, nothing else; NULL fails the step. */
vt_tensor *vt_describe_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
/* A view of x with its own sizes and strides, first element `offset` elements after x's. */
vt_tensor *vt_view(vt_ctx *g, vt_tensor *x, int nd, const int64_t *dim, const int64_t *stride,
                   int64_t offset);
static inline vt_tensor *vt_root(vt_tensor *t) { return t->base ? t->base : t; }

bool vt_broadcasts(const vt_tensor *b, const vt_tensor *a);         /* b to a's shape */
/* t in the shape of `like`, repeated axes with stride 0. t broadcasts to it. */
vt_tensor vt_expand(const vt_tensor *t, const vt_tensor *like);
/* x if its last axis is packed, else a packed copy (recorded). */
vt_tensor *vt_rows_packed(vt_ctx *g, vt_tensor *x);

/* Takes and drops one reference; buf NULL and persistent ones are skipped. */
void vt_retain(vt_buf *b);
void vt_release(vt_ctx *g, vt_buf *b);
/* The same for the tape (tape.c), which knows at any time how much it holds. */
void vt_keep(vt_ctx *g, vt_buf *b);
void vt_unkeep(vt_ctx *g, vt_buf *b);
/* New memory for a tensor that owns its bytes and has given them back: one reference that the
 * caller owns. False fails the step. */
bool vt_buf_again(vt_ctx *g, vt_tensor *t);
/* Holds t until the enclosing scope ends. False fails the step. */
bool vt_hold(vt_ctx *g, vt_tensor *t);
/* a's gradient (+)= n's output gradient: handed over where nobody has written to a's yet. The last
 * thing a gradient function does with n->out->grad. */
void vt_pass_grad(vt_ctx *g, const vt_node *n, vt_tensor *a);

#endif
