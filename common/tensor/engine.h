/* engine.h - the inside of a vt_ctx and the helpers that ops share; for common/tensor and
 * common/memory only.
 *
 * An op calls vt_ok (are the operands usable?), does its own shape checks (vt_bad), then calls
 * vt_new for the result, VT_RUN for the kernel and vt_record for the gradient. */
#ifndef COMMON_TENSOR_ENGINE_H
#define COMMON_TENSOR_ENGINE_H

#include "common/tensor/arena.h"
#include "common/tensor/backend.h"
#include "common/tensor/pool.h"
#include "common/tensor/walk.h"

/* What a part of common/memory does at these points; NULL: nothing. A part adds itself to a context
 * when it is first used, so that the engine names none. */
typedef struct vt_engine_part {
    void (*enter)(vt_ctx *g, int block);      /* a block is entered, and left; not in dry steps */
    void (*leave)(vt_ctx *g, int block);
    void (*before)(vt_ctx *g, int n, vt_tensor *const *in);  /* a recomputed block with these inputs
                                               * will run in forward */
    void (*recorded)(vt_ctx *g, const vt_node *n);           /* its node is on the tape */
    void (*back)(vt_ctx *g, const vt_node *n);               /* its inputs will be read in
                                               * backward */
    bool (*copy)(vt_ctx *g, vt_tensor *t, const void *data); /* copies host data to t, which is
                                               * packed and of their type; false: it has them not */
    void (*forget)(vt_ctx *g);                /* the step has ended */
    void (*finish)(vt_ctx *g);                /* parameters are read or written outside of steps */
    void (*give_back)(vt_ctx *g);             /* the pool's memory goes back to the device */
    void (*close)(vt_ctx *g);
} vt_engine_part;
enum { VT_ENGINE_PARTS = 5 };                 /* swap, prefetch, offload, replay, updates */

struct vt_ctx {
    const vt_backend *be;
    vt_dev *dev;
    vc_dtype compute;
    bool sizes_only;                          /* of vt_options */
    bool lends_grads;                         /* vt_param_train makes gradients without memory */
    const char *hooks_why;                    /* reason why steps with hooks are not replayed; NULL:
                                               * ranks work together in them */
    char describe[480];

    vt_arena arena;                           /* descriptors and nodes of the step */
    vt_pool pool;
    char *range;                              /* address of the pool's offset 0 */
    size_t grown;                             /* bytes of range that the backend made usable */

    bool in_step;
    int flags;                                /* VT_RECORD, VT_DRY, VT_OFFLOAD */
    bool recording;                           /* ops are recorded: false inside backward and in
                                               * blocks that will be recomputed */
    vt_node *tape;                            /* the newest node */
    struct vt_results *results;               /* of the block that runs, if it keeps any (tape.c) */
    vt_tensor **live;                         /* tensors that scopes hold, one reference each */
    int n_live, room_live;

    const char *op;                           /* the op that runs, for messages */
    bool in_grad;                             /* its gradient runs */
    struct vt_profile *profile;               /* NULL: kernels are not timed */
    void (*seen)(void *arg, double flops);    /* vt_watch */
    void *seen_arg;
    vc_err err;                               /* the step's first failure */
    vt_hooks hooks;
    const vt_engine_part *part[VT_ENGINE_PARTS];
    int n_parts;
    struct vt_places *swap;                   /* weights copied to the device when their block is
                                               * entered, or NULL */
    struct vt_host_update *update;            /* of trained weights by the host, or NULL */
    struct vt_prefetched *prefetched;         /* NULL until first used */
    struct vt_offload *offload;               /* NULL until first used */
    struct vt_replays *replays;               /* NULL until first used */
    const struct vt_peers *peers;             /* exchange.h; NULL: this process is alone */
    struct {
        vt_tensor *draw;                      /* of the dropout kernel; NULL: nothing is dropped */
        vt_dropout p;
        uint64_t seed;
        int64_t rows;                         /* samples of the batch */
    } dropout;                                /* until the step ends (vt_dropout_begin) */
    bool bare;                                /* linear layers leave out their LoRA */
    int64_t shared, shared_first;             /* tokens of the shared sequence, 0: none; those of
                                               * its first part, or all */
    vt_usage usage;
    size_t kept;                              /* bytes the tape holds now */
    vt_tensor *rounded;                       /* the newest parameter of vt_param_round (data.c) */
    void (*renew)(vt_ctx *g);                 /* renews stale copies of these; NULL: there are
                                               * none */
};

/* Runs a kernel unless the step is dry or has failed. The op has counted its FLOPs before. */
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

/* The same for kernels that allocate much of the device's own memory: they are called in dry steps
 * too, where they only add up its bytes (backend.h, dry). */
#define VT_RUN_HEAVY(g, kernel, ...)                                                               \
    do {                                                                                           \
        if ((g)->flags & VT_DRY && (g)->be->dry && !(g)->err.code)                                 \
            (g)->be->kernel((g)->dev, __VA_ARGS__);                                                \
        VT_RUN(g, kernel, __VA_ARGS__);                                                            \
    } while (0)

/* profile.c: vt_profile_now reads a monotonic clock in seconds; vt_profile_add records that a
 * kernel of g->op ran since `begin`. */
double vt_profile_now(void);
void vt_profile_add(vt_ctx *g, double begin);
void vt_profile_free(struct vt_profile *p);              /* NULL is fine */

/* Returns true if the op may run: the step has not failed, and no operand is NULL, released or of a
 * type that ops cannot read. Fails the step otherwise. */
bool vt_ok(vt_ctx *g, const char *op, int n, vt_tensor *const *t);
/* Returns true if vt_record would record, for ops that save extra results only then. */
bool vt_tracks(const vt_ctx *g, int n, vt_tensor *const *in);
/* tape.c: for ops whose n results a block of VT_KEEP_ATTENTION keeps, which call both only if an
 * input needs a gradient. _keep keeps them in the block's first run, and does nothing elsewhere. In
 * the second run _again sets t to those of the first run, held until the scope ends, and returns
 * true: their kernel need not run. It returns false elsewhere, and after a failure. */
void vt_results_keep(vt_ctx *g, int n, vt_tensor *const *t);
bool vt_results_again(vt_ctx *g, int n, vt_tensor **t);
/* Returns the type of an op's result for first input x: f32 or bf16. */
vc_dtype vt_result(const vt_ctx *g, const vt_tensor *x);

/* Lets the engine call the part from now on; a part is added once. */
void vt_add_part(vt_ctx *g, const vt_engine_part *part);
/* Calls a function of all parts that have it. */
#define VT_EACH_PART(g, what, ...)                                                                 \
    do {                                                                                           \
        for (int vt_part_ = 0; vt_part_ < (g)->n_parts; vt_part_++)                                \
            if ((g)->part[vt_part_]->what)                                                         \
                (g)->part[vt_part_]->what(__VA_ARGS__);                                            \
    } while (0)

/* data.c: returns the host values of a parameter that is on the host, else NULL. */
const void *vt_param_host_values(const vt_tensor *t);
/* data.c: gives a gradient without memory (vt_params_expect_host_grads) its own. */
int vt_param_own_grad(vt_ctx *g, vt_tensor *t, vc_err *err);
/* data.c: the threads of a loop on the host's memory. */
int vt_host_threads(const vt_ctx *g);

/* Returns a packed descriptor of the step arena, without bytes; NULL fails the step. */
vt_tensor *vt_describe_new(vt_ctx *g, vc_dtype dtype, int nd, const int64_t *dim);
/* Returns a view of x with its own sizes and strides; its first element lies `offset` elements
 * after x's. */
vt_tensor *vt_view(vt_ctx *g, vt_tensor *x, int nd, const int64_t *dim, const int64_t *stride,
                   int64_t offset);
static inline vt_tensor *vt_root(vt_tensor *t) { return t->base ? t->base : t; }

bool vt_broadcasts(const vt_tensor *b, const vt_tensor *a);         /* b to a's shape */
/* Adds scale * dy * other, summed over the axes along which b was repeated in dy's shape, to b's
 * gradient, if b has one; other NULL is 1. */
void vt_reduce_to(vt_ctx *g, vt_tensor *b, const vt_tensor *dy, const vt_tensor *other,
                  float scale);
/* Returns x if its last axis is packed, else a packed copy (recorded). */
vt_tensor *vt_rows_packed(vt_ctx *g, vt_tensor *x);

/* These take and drop one reference; they skip NULL and persistent buffers. */
void vt_retain(vt_buf *b);
void vt_release(vt_ctx *g, vt_buf *b);
/* These do the same for the tape (tape.c), and count in g->kept the bytes that the tape holds. */
void vt_keep(vt_ctx *g, vt_buf *b);
void vt_unkeep(vt_ctx *g, vt_buf *b);
/* Takes new pool memory for a tensor that owns its bytes and has released them; the caller owns
 * the one reference. False fails the step. */
bool vt_buf_again(vt_ctx *g, vt_tensor *t);
/* Holds t until the enclosing scope ends. False fails the step. */
bool vt_hold(vt_ctx *g, vt_tensor *t);
/* a's gradient (+)= n's output gradient, whose buffer is handed over if a has no gradient yet; so a
 * gradient function uses n->out->grad no more after this call. */
void vt_pass_grad(vt_ctx *g, const vt_node *n, vt_tensor *a);

#endif
