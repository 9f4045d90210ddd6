/* optimizer.h - optimisers, and the state that they keep of trained parameters.
 *
 * An optimiser is a row of optimizers.def: the rule by which a value changes (formulas.h), the type
 * of the values, the tensors of state that belong to each parameter, and the numbers of the run.
 * Whatever opens, counts, saves, reads or splits state walks these rows, so none of it knows an
 * optimiser by name. */
#ifndef COMMON_TENSOR_OPTIMIZER_H
#define COMMON_TENSOR_OPTIMIZER_H

#include "common/kernels/formulas.h"
#include "common/tensor/weights.h"

/* Those of --optimizer come first, then rows that serve some of their parameters. */
typedef enum vt_optimizer {
#define OPTIMIZER(NAME, name, about, ...) VT_##NAME,
#include "common/tensor/optimizers.def"
    VT_OPTIMIZERS, VT_BEFORE_SERVING = VT_OPTIMIZERS - 1,
#define SERVING(NAME, name, ...) VT_##NAME,
#include "common/tensor/optimizers.def"
    VT_OPTIMIZER_ROWS
} vt_optimizer;

enum {
    VT_OPT_STATES = VF_STATES + 1,            /* most tensors of state of a parameter */
    VT_OPT_NUMBERS = 6,                       /* most numbers of a run */
    VT_OPT_SUMS = 2,                          /* most sums of a step */
    VT_OPT_SMALL = 4096,                      /* smaller parameters have the row's `small` */
    VT_OPT_BLOCK = 256                        /* elements that share a peak */
};

/* A tensor of state has the parameter's shape; or a number for each block of VT_OPT_BLOCK elements
 * and each state in codes: [blocks, codes], their largest magnitudes; or a number for each row or
 * column of its matrices, which are its last two axes: its shape without the last axis, or without
 * the one before. */
typedef enum { VT_OF_VALUES, VT_OF_BLOCKS, VT_OF_ROWS, VT_OF_COLUMNS } vt_state_shape;

typedef struct vt_state_row {
    const char *name;                         /* "m": checkpoints have m/PARAMETER; NULL: none */
    vc_dtype type;                            /* f32, the values' bf16, or u8: codes */
    vt_state_shape shape;
    bool as_values;                           /* it begins as the parameter's values, not as 0 */
} vt_state_row;

struct vt_opt_part;
struct vt_opt_step;
struct vt_update_args;

/* What a rule needs beyond its own value. A step measures all parts of parameters and adds up their
 * sums, those of all ranks; settles the numbers of the run by these sums; and updates all parts. */
typedef struct vt_opt_run {
    const char *number[VT_OPT_NUMBERS];       /* names of the numbers that checkpoints have; each is
                                               * 0 before step 1. The others are of one step */
    bool logged;                              /* the first number is in the log */
    /* Adds to sum; may change the states. */
    void (*measure)(vt_ctx *g, const struct vt_opt_part *x, const struct vt_opt_step *o,
                    const double *number, double *sum);
    /* false: the step changes no value */
    bool (*settle)(const struct vt_opt_step *o, const double *sum, double *number);
    /* Takes a parameter's step in place of the rule, which sees one value. Such a parameter is not
     * split. scratch: number of f32 values that the step needs beside its state. */
    void (*whole)(vt_ctx *g, const struct vt_opt_part *x, const struct vt_opt_step *o,
                  const double *number);
    int64_t (*scratch)(const vt_tensor *w);
    /* 1 + k: files and samples have other weights than those trained: these times 1 / beta1, and
     * state k times 1 - 1 / beta1. */
    int shown;
    /* Changes the numbers of the rule's kernel. */
    void (*adjust)(struct vt_update_args *a, const struct vt_opt_step *o, const double *number);
} vt_opt_run;
extern const vt_opt_run vt_prodigy, vt_adafactor, vt_schedule_free, vt_muon;

typedef struct vt_optimizer_row {
    const char *name;                         /* the word of --optimizer */
    vf_rule rule;
    vc_dtype value;                           /* of trained values; bf16 is rounded stochastically
                                               * in a step */
    vt_state_row state[VT_OPT_STATES];        /* those of the rule in its order, then others */
    vt_optimizer small;                       /* row of parameters below VT_OPT_SMALL elements */
    int least_axes, most_axes;                /* 0; or `small` is the row of those with others */
    const vt_opt_run *run;                    /* NULL: the rule needs nothing more */
    const char *less;                         /* the same rule in less memory, or NULL */
    const char *flags;                        /* vtrain's flags of the rule's numbers: "a b" */
    const char *defaults;                     /* of those, where the flags' own do not fit: "a=1" */
    double least, most;                       /* rates outside of these are unusual; 0: no bound */
    const char *usual;                        /* the usual rate */
    bool one_rate;                            /* all parameters have the run's rate */
} vt_optimizer_row;

/* The table, by vt_optimizer. */
extern const vt_optimizer_row vt_optimizers[VT_OPTIMIZER_ROWS];
/* "|adamw|adamw_bf16|..", and the sentence that --help has of them. */
extern const char vt_optimizer_words[], vt_optimizer_help[];
/* Words that stand for another: index VT_OPTIMIZERS + i of the words, after those of the rows. */
typedef struct vt_optimizer_alias { const char *name; vt_optimizer how; } vt_optimizer_alias;
extern const vt_optimizer_alias vt_optimizer_aliases[];

/* The row of a parameter: `small` of the optimiser's, if it is small, or no matrix. */
vt_optimizer vt_opt_of(vt_optimizer how, const vt_tensor *t);
/* Number of elements of state k for n values, which begin at a block. */
size_t vt_opt_elements(const vt_optimizer_row *o, int k, size_t n);
/* The shape of state k of a parameter; returns the number of dimensions. */
int vt_opt_shape(const vt_optimizer_row *o, int k, const vt_tensor *t, int64_t dim[VT_DIMS]);

/* The numbers of a step. grad_scale multiplies gradients first (accumulation mean, clipping). step
 * counts from 1. seed keys stochastic rounding, whose draws are pure functions of seed, name,
 * element and step. */
typedef struct vt_opt_step {
    double lr, beta1, beta2, eps, weight_decay, grad_scale;
    int64_t step;
    uint64_t seed;
    struct {
        double d0, coef, growth, beta3;       /* beta3 0: the root of beta2; growth 0: no limit */
        bool bias_correction, safeguard_warmup;
    } prodigy;
    struct {
        double clip, power;                   /* beta2 of step t is 1 - t^power */
        bool relative_step, scale_parameter, warmup_init;
    } adafactor;
    struct { double r, power; } schedule_free;      /* the weight of step t is t^r lr^power */
    struct {
        double momentum;
        bool nesterov;
        int steps;                            /* of the iteration */
        enum { VT_MUON_MATCH_RMS, VT_MUON_ORIGINAL } rate;  /* factor of the rate by the shape */
    } muon;
} vt_opt_step;
/* A rate and a decay that parameters of a group have instead of the step's (vt_param.rate). */
typedef struct vt_opt_rate { double lr, weight_decay; } vt_opt_rate;
/* The numbers of a step for one parameter. */
vt_opt_step vt_opt_step_of(const vt_param *p, const vt_opt_step *o);

/* Whole state: of[k] has a tensor of state k for each trained parameter, in bound order, or NULL
 * where the parameter's row has no such state. */
typedef struct vt_opt_state {
    vt_tensor **of[VT_OPT_STATES];
    int n;
    vt_optimizer how;
    struct vc_spill *spill;                   /* the file where they are, borrowed, or NULL */
    struct vt_hosted *hosted;                 /* the copies of those on the host, or NULL */
    struct vt_host_update *update;            /* the host updates; NULL: the device does */
    double number[VT_OPT_NUMBERS];            /* of the run */
    vt_tensor *scratch;                       /* of a step, or NULL */
} vt_opt_state;
/* Where states are that are not in the device's memory. spill: a file with room for
 * vt_opt_spill_bytes, of a device whose memory is the host's. host: in the host's memory, of a
 * device with its own; the updates take place on the device all the same (hosted.h), so that states
 * have no data outside of them; or, with `update`, on the host, by `threads` threads, of rows
 * without a `run`, beside the next forward (host_update.h): gradients of blocks are on the host
 * then (host_grads.h). */
typedef struct vt_opt_home {
    struct vc_spill *spill;
    bool host, update;
    int threads;                              /* as in vt_options */
} vt_opt_home;
/* Makes states that begin, and converts values to the row's type by vt_opt_convert. home NULL: they
 * are in the device's memory. */
int vt_opt_open(vt_opt_state *s, vt_params *p, vt_optimizer how, const vt_opt_home *home,
                vc_err *err);
void vt_opt_close(vt_opt_state *s, vt_params *p);                   /* an all-zero one is fine */
size_t vt_opt_bytes(const vt_opt_state *s);   /* of the device's memory */
size_t vt_opt_spill_bytes(const vt_params *p, vt_optimizer how);
size_t vt_opt_host_bytes(const vt_opt_state *s);                    /* of states on the host */
size_t vt_opt_copies_bytes(const vt_opt_state *s);                  /* of what the host updates */
/* Takes a step: changes every trained parameter that a backward reached, one after the other; of a
 * spill, the state of two parameters is in memory at a time. */
void vt_opt_apply(vt_params *p, vt_opt_state *s, const vt_opt_step *o);

/* ---- parts of the state, for ranks that shard it (train/parallel/zero.h) ---- */

/* Converts the trained values that are not small to the row's type, rounded to the nearest. */
int vt_opt_convert(vt_params *p, vt_optimizer how, vc_err *err);
/* A part of a parameter and of its state: whole blocks (VT_OPT_BLOCK), or up to the parameter's
 * end. The bits of the result, draws included, do not depend on the partition. */
typedef struct vt_opt_part {
    vt_optimizer how;            /* the parameter's row */
    const char *name;            /* the parameter's */
    uint64_t first;              /* index of the part's first element in the parameter */
    vt_tensor *w, *state[VT_OPT_STATES];
    const vt_tensor *grad;       /* f32 */
    const vt_tensor *scratch;    /* f32, of vt_opt_scratch_new; NULL where the row needs none */
} vt_opt_part;
/* True if parameters of the row are not split: a part is one of them. */
bool vt_opt_whole(vt_optimizer how);
/* Makes the scratch of a step of any trained parameter; *out is NULL where none needs it. */
int vt_opt_scratch_new(vt_tensor **out, vt_params *p, vt_optimizer how, vc_err *err);
/* A step: _measure for all parts that a backward reached, then, with the sums of all of them,
 * _settle, then _apply_part for the same parts, unless it returned false. */
void vt_opt_measure(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o, const double *number,
                    double *sum);
bool vt_opt_settle(vt_optimizer how, const vt_opt_step *o, const double *sum, double *number);
void vt_opt_apply_part(vt_ctx *g, const vt_opt_part *x, const vt_opt_step *o,
                       const double *number);
/* The step's numbers for a part, without a rule; and a rule's run on its values and first states,
 * which are not in codes. */
struct vt_update_args vt_opt_update_args(const vt_opt_part *x, const vt_opt_step *o);
void vt_opt_update(vt_ctx *g, const vt_opt_part *x, const struct vt_update_args *a);
/* The root of the sum of squares of a packed f32 tensor. */
double vt_opt_length(vt_ctx *g, const vt_tensor *x);

#endif
