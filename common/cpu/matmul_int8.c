/* matmul_int8.c - products with a frozen weight of int8 codes (tensor/packing.h) where the other
 * operand is rounded to int8 too: LLM.int8() (Dettmers et al. 2022) without its outliers, in the
 * forward pass and for the gradient of what a layer is given.
 *
 * Every row of A becomes codes with a scale of its own, its largest value / 127. The scales of the
 * weight's rows belong to C's columns in the forward pass; in the backward one they lie along k, so
 * A is multiplied by them before it is rounded. oneDNN multiplies the codes where the processor has
 * products of int8 (AVX512-VNNI, AVX-VNNI, AMX-INT8). Elsewhere matmul.c does, in f32, where sums
 * of whole numbers are exact up to 2^24: the results are the same, and take the time of f32. */
#include "common/cpu/dnnl.h"
#include "common/cpu/loops.h"

#include <omp.h>

enum {
    SLAB = 1 << 19, SLAB_M = 256               /* sums held at a time; but at least these rows */
};

typedef struct coded {
    vt_dev *d;
    cpu_vectors a;
    const vt_tensor *b, *bias;
    vt_tensor *c;
    bool tb;
    float alpha, beta;
    size_t m, n, k;
    size_t slab, wide;                         /* rows of a slab; numbers of a thread's row */
    float *row, *scale;                        /* [threads][wide], [slab] */
    void *sums;                                /* [slab][n] i32 or f32 */
    int8_t *code;                              /* [slab][k] */
} coded;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Gives rows m0.. of A codes and scales. */
static void round_rows(const coded *p, size_t m0, size_t m)
{
    const cpu_rows *r = p->d->rows;

#pragma omp parallel for num_threads(p->d->threads) schedule(static)
    for (size_t i = 0; i < m; i++) {
        float *row = p->row + (size_t)omp_get_thread_num() * p->wide;
        cpu_unpack(r, row, &p->a, m0 + i, 0, p->k);
        if (!p->tb)
            r->mul(row, row, p->b->scale->data, p->k);
        p->scale[i] = r->store_i8(p->code + i * p->k, row, p->k);
    }
}

/* Stores rows m0.. of C from the sums of their codes. */
static void finish(const coded *p, size_t m0, size_t m, bool whole)
{
    const cpu_rows *r = p->d->rows;
    const size_t stride = (size_t)p->c->stride[0] * vc_dtype_size(p->c->dtype);

#pragma omp parallel for num_threads(p->d->threads) schedule(static)
    for (size_t i = 0; i < m; i++) {
        float *row = p->row + (size_t)omp_get_thread_num() * p->wide;
        if (whole)
            r->load_i32(row, (const int32_t *)p->sums + i * p->n, p->scale[i], p->n);
        else
            r->axpby(row, p->scale[i], (const float *)p->sums + i * p->n, 0, p->n);
        if (p->tb)
            r->mul(row, row, p->b->scale->data, p->n);
        cpu_finish_row(r, (char *)p->c->data + (m0 + i) * stride, p->c->dtype, row, p->n, p->bias,
                       0, p->alpha, p->beta);
    }
}

static vt_tensor matrix(vc_dtype type, void *data, size_t rows, size_t cols)
{
    return (vt_tensor){ .dtype = type, .nd = 2, .dim = { (int64_t)rows, (int64_t)cols },
                        .stride = { (int64_t)cols, 1 }, .data = data };
}

/* Multiplies the codes of m rows. Returns true if the sums are i32, false if they are f32. */
static bool multiply(const coded *p, size_t m)
{
    const vt_tensor a = matrix(VC_I8, p->code, m, p->k);
    vt_tensor b = *p->b, c = matrix(VC_I32, p->sums, m, p->n);

    b.scale = NULL;
    if (cpu_dnnl_matmul(p->d, &c, &a, false, &b, p->tb, NULL, 1, 0, false))
        return true;
    c.dtype = VC_F32;
    cpu_product(p->d, &c, &a, false, &b, p->tb, NULL, 1, 0);
    return false;
}

/* Cuts the scratch of codes for `slab` rows; a step that is dry records its size. */
static bool place(coded *p)
{
    const size_t line = 64 / sizeof(float), threads = (size_t)p->d->threads;
    p->wide = cpu_round_up(p->n > p->k ? p->n : p->k, line);
    const size_t rows = threads * p->wide, scales = cpu_round_up(p->slab, line),
                 sums = cpu_round_up(p->slab * p->n, line);

    if (!cpu_scratch_one(p->d, cpu_codes_area(p->d),
                         (rows + scales + sums) * sizeof(float) + p->slab * p->k))
        return p->d->dry;
    p->row = cpu_scratch(p->d, cpu_codes_area(p->d), 0);
    p->scale = p->row + rows;
    p->sums = p->scale + scales;
    p->code = (int8_t *)((float *)p->sums + sums);
    return true;
}

bool cpu_matmul_int8(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b,
                     bool tb, const vt_tensor *bias, float alpha, float beta)
{
    coded p = { .d = d, .a = cpu_rows_of(a, ta), .b = b, .bias = bias, .c = c, .tb = tb,
                .alpha = alpha, .beta = beta, .m = (size_t)c->dim[0], .n = (size_t)c->dim[1],
                .k = (size_t)a->dim[1] };

    if (!d->int8_products || ta || b->dtype != VC_I8 || !b->scale ||
        vt_count(b->scale) != b->dim[0] || p.m == 0 || p.n == 0 || p.k == 0)
        return false;
    p.slab = least(p.m, SLAB / p.n > SLAB_M ? SLAB / p.n : SLAB_M);
    if (!place(&p))
        return true;                           /* cpu_scratch has recorded a fault */
    for (size_t m0 = 0; m0 < p.m; m0 += p.slab) {
        const size_t m = least(p.slab, p.m - m0);
        if (!d->dry)
            round_rows(&p, m0, m);
        const bool whole = multiply(&p, m);
        if (!d->dry)
            finish(&p, m0, m, whole);
    }
    return true;
}
