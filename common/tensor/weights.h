/* weights.h - parameters bound by tables to the names of a checkpoint.
 *
 * A block of a model is a struct of vt_lin and vt_tensor * fields and a const table of vt_weight
 * rows, each of which gives a tensor's name, field, sizes and initial values. Loading, saving, LoRA
 * targets, freezing, the optimiser and shape errors all walk the table, so a model has no code for
 * them. None of these functions is called inside a step, except vt_params_settle. */
#ifndef COMMON_TENSOR_WEIGHTS_H
#define COMMON_TENSOR_WEIGHTS_H

#include "common/tensor/ops.h"

typedef enum vt_init {                        /* initial values of a weight without a source */
    VT_INIT_ZERO, VT_INIT_ONE,
    VT_INIT_XAVIER,                           /* uniform +-sqrt(6 / (in + out)) */
    VT_INIT_KAIMING,                          /* uniform +-1/sqrt(in): PyTorch's Linear default */
    VT_INIT_NORMAL,                           /* N(0, 0.02^2) */
    VT_INIT_BIAS,                             /* uniform +-1/sqrt(n): PyTorch's default for the n
                                               * biases of a square linear layer */
    VT_INIT_TENTH,                            /* 0.1 */
    VT_INIT_UNIT_NORMAL, VT_INIT_TENTH_NORMAL,          /* N(0, 1), N(0, 0.1^2) */
    VT_INIT_ROWS                              /* of an adapter's factor: the lengths of the rows of
                                               * the layer's weight */
} vt_init;                                    /* in: elements per row of the first axis */

typedef struct vt_weight {
    const char *name;                         /* below the prefix: "attn1.to_q", "norm1.weight" */
    enum { VT_W_TENSOR, VT_W_LINEAR, VT_W_LINEAR_NO_BIAS,
           VT_W_CONV,                         /* a linear without bias that is stored as a
                                               * convolution (out, in, kernel), never converted */
           VT_W_BUFFER } kind;                /* a tensor that is loaded and saved, never trained */
    size_t offset;                            /* of the vt_tensor * or the vt_lin in the struct */
    int dim[VT_DIMS];                         /* positive: a size; -i: sizes[i]; 0 ends the list;
                                               * out, in of a linear. A model with a size that is
                                               * VT_ABSENT lacks the weight: its row is skipped */
    vt_init init;                             /* of the weight; a linear's bias starts at zero */
} vt_weight;                                  /* a table ends with a NULL name */
enum { VT_ABSENT = -1 };                      /* among sizes */

typedef struct vt_params vt_params;

typedef struct vt_param {
    char *name;                               /* full: "transformer_blocks.3.attn1.to_q.weight" */
    vt_tensor *t;                             /* the values as stored; f32 or bf16 if trained */
    vt_tensor *grad;                          /* f32, packed; NULL if frozen */
    vt_tensor *scale;                         /* t->scale, owned, or NULL */
    vt_lin *lin;                              /* the linear that it is part of, or NULL */
    char *module;                             /* a linear's name without .weight, or NULL */
    int block;                                /* vt_block.index of its block, or -1 */
    int model;                                /* of vt_params_model */
    int64_t missed;                           /* steps that the optimiser took without it, which its
                                               * moments do not count */
    /* of the weights, or 1 + the index of an adapter's factor */
    enum { VT_P_BASE, VT_P_LORA_A, VT_P_LORA_B } role;
    const struct vt_opt_rate *rate;           /* own rate and decay, borrowed; NULL: the step's */
    bool buffer, trained;
} vt_param;

/* Values of one tensor in host memory, borrowed from a source. */
typedef struct vt_host {
    vc_dtype dtype;
    int nd;
    int64_t dim[8];
    const void *data;
    /* NULL, or numbers that the values are multiplied by, as files of codes have them: scales[0]
     * is 1 or dim[0], and scales[1] divides the size of a row. Each row of the numbers is that of
     * one row of the values, or of all, and its numbers belong to equal blocks of the row. */
    const void *scale;
    vc_dtype scale_type;
    int64_t scales[2];
} vt_host;
/* Writes one row of the first axis to `to`: the values in f32, times their scales. */
void vt_host_row(float *to, const vt_host *h, int64_t row);
typedef struct vt_source {
    /* Returns 0 and a borrowed view, or VC_ENOENT; get NULL: values start from the table's init. */
    int (*get)(void *arg, const char *name, vt_host *view, vc_err *err);
    void *arg;
    uint64_t seed;                            /* of VC_DRAW_INIT draws, keyed by XXH3-64 of the full
                                               * name, so that the order of binding is irrelevant */
    /* Returns true if the model has this weight and the source has not, so that the weight starts
     * from the table's init although others have values; NULL: there is no such weight. */
    bool (*lacks)(const void *arg, const char *name);
    const void *lacks_arg;
    bool mapped;                              /* views outlive the params, so that frozen weights
                                               * may borrow them */
    bool converts;                            /* linears' weights of another type than `to` become
                                               * private copies of type `to`, packed if the type
                                               * is one of packing.h and packs rows of that
                                               * length. A linear's weight of codes that has
                                               * scales is held with them; all else with scales
                                               * becomes a copy in f32, or in `to` */
    vc_dtype to;
    bool on_host;                             /* weights of blocks' linears (a prefix with %d) stay
                                               * on the host until vt_params_place, where the
                                               * device's memory is not the host's */
} vt_source;

/* Writes a shape for messages: "[64,4096]". nd is at most 8, as in files. */
enum { VT_SHAPE_TEXT = 176 };
void vt_shape_text(char text[VT_SHAPE_TEXT], int nd, const int64_t *dim);

int vt_params_open(vt_params **out, vt_ctx *g, vc_err *err);
void vt_params_close(vt_params *p);           /* frees the tensors; NULL is fine */

/* From here on vt_params_bind and vt_params_train call `loaded` after each parameter whose values
 * they have copied or converted, with the bytes of the values before. A result other than 0 ends
 * the call with this result. */
typedef int vt_loaded_fn(void *arg, size_t bytes, vc_err *err);
void vt_params_watch(vt_params *p, vt_loaded_fn *loaded, void *arg);

/* Binds a table's rows into the struct at base, whose address must not change. prefix is "" or as
 * "transformer_blocks.%d.", whose one %d becomes index. sizes gives the values of negative dims
 * (sizes[0] is unused). A missing tensor (VC_ENOENT), a wrong shape or a type that is no float
 * (VC_EMISMATCH) is an error that names the tensor, the value found and the value expected. Values
 * that start from init are f32. */
int vt_params_bind(vt_params *p, const vt_weight *table, const char *prefix, int index, void *base,
                   const int64_t *sizes, const vt_source *src, vc_err *err);

/* Weights bound from here on are those of model i, at first 0, whose names may be those of another
 * model's. A LoRA's pairs belong to the model of their linear. */
void vt_params_model(vt_params *p, int i);

vt_ctx *vt_params_context(const vt_params *p);
int vt_params_count(const vt_params *p);
vt_param *vt_params_at(vt_params *p, int i);  /* in the order bound */
/* Finds a parameter of the model of vt_params_model; NULL: there is none. */
vt_param *vt_params_find(vt_params *p, const char *name);

/* Trained parameters become f32 copies with an f32 gradient; all others stay frozen. Call before
 * the first step. match NULL: everything but buffers is trained. Values with scales are multiplied
 * by them. */
int vt_params_train(vt_params *p, bool (*match)(void *arg, const char *name), void *arg,
                    vc_err *err);
/* Before vt_params_train: the gradients of blocks will be on the host (host_grads.h), and have no
 * memory until vt_params_host_grads, which makes both. The caller's hooks (vt_set_hooks) tell of
 * each block's backward by vt_params_grads_enter and _ready. vt_params_host_grads returns the bytes
 * on the host in *bytes. For one context's one model, in which no weights are swapped. */
void vt_params_expect_host_grads(vt_params *p);
int vt_params_host_grads(vt_params *p, size_t *bytes, vc_err *err);
void vt_params_grads_enter(vt_params *p, int block);
void vt_params_grads_ready(vt_params *p, int block);
/* Places the weights that are on the host. Those of the first `blocks` blocks stay there and are
 * copied to the device when their block is entered, into two places alternately: while the kernels
 * of one block run, the weights of the next are copied. All others move to the device for good. A
 * later call may give fewer blocks. Trained weights are never on the host. */
int vt_params_place(vt_params *p, int blocks, vc_err *err);

/* Marks all gradients empty: the next backward overwrites them. */
void vt_params_zero_grad(vt_params *p);
/* Writes zeros into gradients that are still empty since vt_params_zero_grad, so that each
 * grad->data may be read. The optimiser and the norm call it themselves. */
void vt_params_settle(vt_params *p);
/* After vt_params_settle: returns true if a backward wrote the gradient since vt_params_zero_grad.
 * The optimiser changes no parameter whose gradient is missing, and no moment of it, as torch.optim
 * does where grad is None. */
bool vt_param_reached(const vt_param *p);
/* After vt_params_settle: counts the parameter as reached, because another rank's backward wrote
 * its gradient, with which this rank's was summed. */
void vt_param_reach(const vt_param *p);

/* Memory of parameters. Lent memory (vt_param_lend_grad, vt_param_lend_values) is not counted. */
typedef struct vt_param_bytes {
    size_t mapped;                            /* bytes of borrowed frozen values */
    size_t values;                            /* of private values and of the places of swapping */
    size_t grads;                             /* of gradients */
    size_t on_host;                           /* of weights that stay on the host */
    int64_t trained, frozen;                  /* elements */
} vt_param_bytes;
vt_param_bytes vt_params_bytes(const vt_params *p);

/* Returns the gradient norm over all trained parameters: an f64 sum of f32 squares in a fixed
 * order. */
double vt_params_grad_norm(vt_params *p);
/* The same sum for tensors that are added one after another; they live until vt_squares_sum, which
 * returns the sum of all. The device is waited for once for VT_SQUARES tensors. */
enum { VT_SQUARES = 1024 };
typedef struct vt_squares {
    vt_ctx *g;
    const vt_tensor *x[VT_SQUARES];           /* those whose squares are not in `sum` yet */
    int n;
    double sum;
} vt_squares;
void vt_squares_add(vt_squares *s, const vt_tensor *x);
double vt_squares_sum(vt_squares *s);

/* ---- moving averages ---- */

/* ema = decay * ema + (1 - decay) * values: f32 copies in trained order, NULL-ended. */
/* They start as the values. spill: where they are (vt_param_spilled), or NULL; it needs room for
 * vt_ema_spill_bytes. */
struct vc_spill;
int vt_ema_open(vt_tensor ***ema, vt_params *p, struct vc_spill *spill, vc_err *err);
size_t vt_ema_spill_bytes(const vt_params *p);
void vt_ema_update(vt_tensor **ema, vt_params *p, struct vc_spill *spill, double decay);
void vt_ema_values(vt_ctx *g, vt_tensor *ema, const vt_tensor *w, double decay);
void vt_ema_swap(vt_tensor **ema, vt_params *p);                    /* values <-> averages */
void vt_ema_close(vt_tensor **ema, vt_params *p);                   /* NULL is fine */

#endif
