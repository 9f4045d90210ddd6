/* ops.h - the rows of test_ops.c: an op, its inputs, an independent f64 loop, a tolerance.
 *
 * ops_check.c runs a row in f32 or bf16, with packed, sliced or permuted inputs, on a context, and
 * compares the value with the loop and the gradient with central differences of the loop. */
#ifndef TESTS_TENSOR_OPS_H
#define TESTS_TENSOR_OPS_H

#include <math.h>

#include "common/tensor/ops.h"

enum { OP_INPUTS = 10, OP_SAMPLES = 16 };       /* gradient elements compared per input */

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
    /* Fills y, unless it is NULL, and returns its number of elements. */
    int64_t (*ref)(double *y, const double *const *x, const op_args *a);
    const char *in[OP_INPUTS];                 /* shapes, as "2 3 64"; "" is a scalar */
    float tol, tol16;                          /* largest error / largest value, in f32, bf16 */
    double arg[8];
    unsigned weights;                          /* bit i: input i is a packed f32 parameter */
    unsigned fixed;                            /* bit i: input i gets no gradient */
    vc_dtype stored;                           /* type of the inputs in `weights` (then fixed) */
};

static inline int64_t op_count(const op_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->nd; i++)
        n *= s->dim[i];
    return n;
}

/* The results that a row must have in a compute type, computed by its loop: made once, and compared
 * on many contexts. */
typedef struct op_want op_want;
op_want *op_want_open(const op_case *c, vc_dtype type);
void op_want_close(op_want *w);

/* Layouts of inputs in memory: packed, slices of larger tensors, with reversed axes. */
enum { OP_PACKED, OP_SLICED, OP_PERMUTED, OP_LAYOUTS };
/* Runs the row on g. Returns 0, or -1 with the difference in `why`. */
int op_check(vt_ctx *g, op_want *w, int layout, char why[256]);

/* ---- rows by subject, in ops_elem.c and so on; the last row of each list has no name ---- */

extern const op_case ops_elem[], ops_norm[], ops_matmul[], ops_attn[], ops_shape[], ops_conv[],
    ops_ttt[];

/* ---- for writing rows ---- */

/* Defines a function `name` that runs an op: x are its inputs, a is the row. */
#define OP_RUN(name, expr)                                                                         \
    static vt_tensor *name(vt_ctx *g, vt_tensor *const *x, const op_args *a)                       \
    {                                                                                              \
        (void)a;                                                                                   \
        return expr;                                                                               \
    }
#define OP_ARG(i) ((float)a->c->arg[i])
#define OP_OPT(i) (a->n > (i) ? x[i] : NULL)

/* Tolerances are relative to the largest value. bf16 has 8 bits, so that one rounding changes an
 * element by up to 2^-9 = 2e-3; a gradient may be rounded several times in a chain. */
#define EXACT .tol = 0, .tol16 = 0             /* copies */
#define ROUND .tol = 3e-7f, .tol16 = 5e-3f     /* one or two f32 operations, one bf16 rounding */
#define CHAIN .tol = 2e-6f, .tol16 = 1.5e-2f   /* tens of f32 operations, 2 or 3 roundings */
#define SUMS .tol = 1e-5f, .tol16 = 1.5e-2f    /* f32 sums of hundreds of terms */
#define SOFT .tol = 2e-5f, .tol16 = 4e-2f      /* softmax; its backward subtracts sums over
                                                * rounded outputs */

/* ---- for writing loops ---- */

/* Returns the element of b, broadcast to a, that belongs to element i of a. */
static inline int64_t op_broadcast(const op_shape *a, const op_shape *b, int64_t i)
{
    int64_t at = 0, stride = 1;

    for (int k = 1; k <= a->nd; k++) {
        int64_t n = a->dim[a->nd - k], j = i % n;
        i /= n;
        if (k > b->nd)
            continue;
        int64_t m = b->dim[b->nd - k];
        at += (m == 1 ? 0 : j) * stride;
        stride *= m;
    }
    return at;
}

static inline int64_t op_last(const op_shape *s) { return s->nd ? s->dim[s->nd - 1] : 1; }

/* Computes the indices of element i of a tensor. */
static inline void op_unravel(const op_shape *s, int64_t i, int64_t at[VT_DIMS])
{
    for (int k = s->nd; k-- > 0; i /= s->dim[k])
        at[k] = i % s->dim[k];
}

static inline int64_t op_ravel(const op_shape *s, const int64_t at[VT_DIMS])
{
    int64_t i = 0;
    for (int k = 0; k < s->nd; k++)
        i = i * s->dim[k] + at[k];
    return i;
}

static inline double op_dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* GELU in its tanh form. */
static inline double op_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/* The body of a reference: y[i] = value for n elements i. */
#define OP_EACH(y, n, value)                                                                       \
    do {                                                                                           \
        for (int64_t i = 0; (y) && i < (n); i++)                                                   \
            (y)[i] = (value);                                                                      \
        return (n);                                                                                \
    } while (0)

#endif
