/* ops.h - what a row of test_ops.c is: an op, its inputs, an independent f64 loop, a tolerance.
 *
 * ops_check.c runs a row in f32 or bf16, with packed, sliced or permuted inputs, on a context, and
 * compares the value with the loop and the gradient with central differences of the loop. */
#ifndef TESTS_OPS_H
#define TESTS_OPS_H

#include "common/tensor/ops.h"

enum { OP_INPUTS = 7, OP_SAMPLES = 16 };       /* gradient elements compared per input */

typedef struct op_shape {
    int nd;
    int64_t dim[VT_DIMS];
} op_shape;

typedef struct op_case op_case;
typedef struct op_args {
    const op_case *c;
    int n;
    op_shape s[OP_INPUTS];
} op_args;

struct op_case {
    const char *name;
    vt_tensor *(*run)(vt_ctx *g, vt_tensor *const *x, const op_args *a);
    /* Fills y (NULL: only counts) and returns its number of elements. */
    int64_t (*ref)(double *y, const double *const *x, const op_args *a);
    const char *in[OP_INPUTS];                 /* "2 3 64"; "" is a scalar */
    float tol, tol16;                          /* largest error over largest value; f32, bf16 */
    double arg[8];
    unsigned weights;                          /* bit i: input i is a parameter: f32, packed */
    unsigned fixed;                            /* bit i: no gradient is asked for */
    vc_dtype stored;                           /* type of the inputs in `weights` (then fixed) */
};

static inline int64_t op_count(const op_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->nd; i++)
        n *= s->dim[i];
    return n;
}

/* What a row should give in a compute type, by its loop: made once, checked on many contexts. */
typedef struct op_want op_want;
op_want *op_want_open(const op_case *c, vc_dtype type);
void op_want_close(op_want *w);

/* How inputs lie in memory: as they are, cut out of larger tensors, with their axes reversed. */
enum { OP_PACKED, OP_SLICED, OP_PERMUTED, OP_LAYOUTS };
/* Runs the row on g; 0, or -1 with what differs in why. */
int op_check(vt_ctx *g, op_want *w, int layout, char why[256]);

/* ops_ref.c: the loops */
typedef int64_t op_ref(double *y, const double *const *x, const op_args *a);
op_ref ref_add, ref_sub, ref_mul, ref_scale, ref_silu, ref_gelu, ref_gelu_erf, ref_quick_gelu,
    ref_sigmoid, ref_tanh, ref_gated_add, ref_mix, ref_posterior, ref_timestep, ref_layer_norm,
    ref_rms_norm, ref_layer_modulate, ref_rms_modulate, ref_modulate_two, ref_gated_two,
    ref_linear, ref_lora, ref_feed_forward, ref_attention, ref_rope, ref_rope_halves, ref_mse,
    ref_sum, ref_same, ref_distances, ref_embedding, ref_permute, ref_slice, ref_chunk,
    ref_concat, ref_patchify, ref_unpatchify, ref_conv3d, ref_group_norm, ref_nearest,
    ref_pool_frames;

#endif
