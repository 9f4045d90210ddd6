/* matmul_dnnl.c - large products in f32 by oneDNN. Operands of other types are converted in slabs,
 * with columns of op(B) in the outer loop and rows of op(A) in the inner, and C is converted from
 * slabs of f32. A slab costs one pass over its elements, each of which is in hundreds of products.
 *
 * matmul.c computes small and thin products itself, and all products in bf16: its kernels are as
 * fast there (scripts/bench kernels) and take no memory. */
#include "common/cpu/dnnl.h"
#include "common/cpu/loops.h"

enum {
    LARGE = 128, WIDE = 512,                   /* least rows, columns, k; WIDE: n, k if converted */
    SLAB_B = 16 << 20, SLAB_A = 4 << 20        /* elements converted at a time; C's as A's */
};

typedef struct wide {
    vt_dev *d;
    cpu_vectors a, b;
    vt_tensor *c;
    const vt_tensor *bias;
    float alpha, beta;
    size_t m, n, k;
    size_t slabs_m, slabs_n;
    float *wide_a, *wide_b, *wide_c;           /* the converted slabs */
    bool direct_c;                             /* oneDNN writes C in place */
} wide;

static size_t parts(size_t n, size_t of) { return (n + of - 1) / of; }

/* Returns the first index of slab i of `slabs`. */
static size_t from(size_t n, size_t i, size_t slabs)
{
    return i == slabs ? n : i * n / slabs / 8 * 8;
}
static size_t longest(size_t n, size_t slabs) { return parts(n, slabs) + 8; }

static vt_tensor matrix(void *data, size_t rows, size_t cols, size_t stride)
{
    return (vt_tensor){ .dtype = VC_F32, .nd = 2, .dim = { (int64_t)rows, (int64_t)cols },
                        .stride = { (int64_t)stride, 1 }, .data = data };
}

/* Returns vectors i0..i0+n-1 of x as a matrix of f32 and of the same orientation. */
static vt_tensor convert(const wide *w, cpu_vectors x, float *to, size_t i0, size_t n)
{
    size_t rows = x.along ? n : w->k, cols = x.along ? w->k : n;
    const size_t row = x.along ? i0 : 0, from = x.along ? 0 : i0;

    if (x.type == VC_F32)
        return matrix((float *)(uintptr_t)x.data + row * x.stride + from, rows, cols, x.stride);
    if (w->d->dry)
        return matrix(NULL, rows, cols, cols);
#pragma omp parallel for num_threads(w->d->threads) schedule(static)
    for (size_t r = 0; r < rows; r++)
        cpu_unpack(w->d->rows, to + r * cols, &x, row + r, from, cols);
    return matrix(to, rows, cols, cols);
}

static char *c_at(const wide *w, size_t i, size_t j)
{
    return (char *)w->c->data + (i * (size_t)w->c->stride[0] + j) * vc_dtype_size(w->c->dtype);
}

static void store(const wide *w, size_t m0, size_t m, size_t n0, size_t n)
{
#pragma omp parallel for num_threads(w->d->threads) schedule(static)
    for (size_t i = 0; i < m; i++)
        cpu_finish_row(w->d->rows, c_at(w, m0 + i, n0), w->c->dtype, w->wide_c + i * n, n, w->bias,
                       n0, w->alpha, w->beta);
}

/* The bias of the n columns from n0. */
static vt_tensor bias_of(const wide *w, size_t n0, size_t n)
{
    vt_tensor b = w->bias ? *w->bias : (vt_tensor){ 0 };

    if (w->bias) {
        b.data = (char *)b.data + n0 * vc_dtype_size(b.dtype);
        b.dim[0] = (int64_t)n;
    }
    return b;
}

/* Multiplies slab by slab. A dry step calls oneDNN for the first slab only, to record its
 * scratch. */
static bool multiply(const wide *w)
{
    for (size_t q = 0; q < w->slabs_n; q++) {
        size_t n0 = from(w->n, q, w->slabs_n), n = from(w->n, q + 1, w->slabs_n) - n0;
        vt_tensor b = convert(w, w->b, w->wide_b, n0, n), bias = bias_of(w, n0, n);
        for (size_t p = 0; p < w->slabs_m; p++) {
            size_t m0 = from(w->m, p, w->slabs_m), m = from(w->m, p + 1, w->slabs_m) - m0;
            vt_tensor a = convert(w, w->a, w->wide_a, m0, m);
            vt_tensor c = w->direct_c
                              ? matrix(c_at(w, m0, n0), m, n, (size_t)w->c->stride[0])
                              : matrix(w->wide_c, m, n, n);
            bool done = cpu_dnnl_matmul(w->d, &c, &a, !w->a.along, &b, w->b.along,
                                        w->bias && w->direct_c ? &bias : NULL, 1,
                                        w->direct_c ? w->beta : 0, true);
            if (w->d->dry || (!done && p + q == 0))
                return done;
            if (!done)
                cpu_fault(w->d, VC_EFAIL, "oneDNN computed one part of a product but refused "
                          "another");
            else if (!w->direct_c)
                store(w, m0, m, n0, n);
        }
    }
    return true;
}

bool cpu_matmul_dnnl(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta)
{
    wide w = { .d = d, .a = cpu_rows_of(a, ta), .b = cpu_columns_of(b, tb), .c = c, .bias = bias,
               .alpha = alpha, .beta = beta, .m = (size_t)c->dim[0], .n = (size_t)c->dim[1],
               .k = (size_t)a->dim[ta ? 0 : 1] };
    bool large = w.m >= LARGE && w.n >= LARGE && w.k >= LARGE;

    if (!d->dnnl || d->own_products || cpu_gemm_of(d, a->dtype)->pair > 1 || w.k < LARGE ||
        (!large && !d->isa.avx512))
        return false;
    bool wide_a = w.a.type != VC_F32, wide_b = w.b.type != VC_F32;
    w.direct_c = c->dtype == VC_F32 && alpha == 1 && (beta == 0 || beta == 1);
    if (!wide_a && !wide_b && w.direct_c)
        return cpu_dnnl_matmul(d, c, a, ta, b, tb, bias, alpha, beta, large);
    if (!large || w.n < WIDE || w.k < WIDE)
        return false;

    w.slabs_n = wide_b ? parts(w.n * w.k, SLAB_B) : 1;
    size_t n = longest(w.n, w.slabs_n), row = !w.direct_c && n > w.k ? n : w.k;
    w.slabs_m = wide_a || !w.direct_c ? parts(w.m * row, SLAB_A) : 1;
    size_t m = longest(w.m, w.slabs_m);
    size_t room_c = w.direct_c ? 0 : m * n, room_a = wide_a ? m * w.k : 0,
           room_b = wide_b ? n * w.k : 0;
    size_t bytes = (room_c + room_a + room_b) * sizeof(float);
    if (cpu_scratch_one(d, 0, bytes)) {
        w.wide_c = cpu_scratch(d, 0, bytes);
        w.wide_a = w.wide_c + room_c;
        w.wide_b = w.wide_a + room_a;
    } else if (!d->dry) {
        return true;                           /* cpu_scratch has recorded a fault */
    }
    return multiply(&w);
}
