/* matmul.c - matrix products of any mix of types, by blocks (Goto & van de Geijn 2008).
 *
 * All threads pack B, or as many of its columns as a slab holds. Then C is divided into tiles, each
 * computed by one thread, which walks along k in steps, packs A's rows of the step and multiplies.
 * If a tile has all rows, no other tile reads its part of B: it uses f32 rows of B in place,
 * prefetching them (a LoRA's gradients: packing costs as much as their products), and packs any
 * other B itself, a step at a time, so that B passes through the cache once. Operands of any type
 * are converted while they are packed, so no copy of a weight outlives the call. k is never divided
 * between threads and the steps do not depend on the tile, so a result has the same bits for any
 * number of threads. Products with very few rows and a B stored by rows are sums of single rows of
 * B.
 *
 * With AMX or AVX512-BF16, products whose A (the activations) is bf16 are computed in bf16, with B
 * rounded to bf16; all others are computed in f32. Large products in f32 are oneDNN's
 * (matmul_dnnl.c). */
#include "common/cpu/dnnl.h"
#include "common/cpu/loops.h"

#include <omp.h>
#include <string.h>

enum {
    DIRECT_STEP = 128,                         /* elements of k at a time if B is used in place */
    TILE_M = 192,                              /* most rows of a tile; twice as many for pairs of
                                                * bf16: A's step is about 210 KB, and stays in L2 */
    OWN_M = 320, OWN_M_PAIRS = 512,            /* most rows of products that pack B in tiles: f32,
                                                * and pairs of bf16 */
    DIRECT_M = 192,                            /* and of those that use it in place, in f32: more
                                                * would change the bits of gradients */
    OWN_TILE = 2 * TILE_M * 768,               /* most elements of a tile that has all rows */
    OWN_N = 128,                               /* columns such a tile packs at a time, in L2 */
    PACK_N = 256,                              /* columns of B packed by a thread at a time */
    SLAB = 8 << 20,                            /* units of packed B: 32 MB */
    PAD = 16,                                  /* units, so that rows are no power of two apart */
    TRANSPOSE_N = 128,                         /* most columns of a C computed transposed */
    THIN = 4, THIN_N = 128, THIN_ROW = 4096    /* most rows of thin products; columns of tiles */
};

typedef struct product {
    vt_dev *d;
    const cpu_gemm *g;
    cpu_vectors a, b;
    size_t m, n, k, kc;                        /* kc in elements */
    vt_tensor *c;
    const vt_tensor *bias;
    float alpha, beta;
    size_t slab;                               /* columns of B packed at a time */
    size_t tm, tn, tiles_m, tiles_n;           /* size and number of a slab's tiles */
    uint32_t *packed;                          /* B's panels: [steps of k][slab / nr][units][nr] */
    bool own_b;                                /* tiles have all rows and pack their part of B */
    bool direct_a, direct_b, direct_c;         /* used in place: not packed, no block for C */
    bool thin;                                 /* few rows: sums of single rows of B */
    bool transposed;                           /* a and b are exchanged: C' is computed */
} product;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static size_t parts(size_t n, size_t of) { return (n + of - 1) / of; }

/* Divides a C with few rows: one tile per thread, at most as wide as the cache holds its C. */
static void cut_own(product *j)
{
    size_t each = parts(j->n, (size_t)j->d->threads);

    j->own_b = true;
    j->slab = j->n;
    j->tm = j->m;
    j->tn = cpu_round_up(parts(each, parts(j->m * each, OWN_TILE)), CPU_NR);
    j->tiles_m = 1;
    j->tiles_n = parts(j->n, j->tn);
}

/* Chooses the tiles with the least estimated time: the number of rounds of tiles times a tile's
 * products and packing of A. The unit of time is 16 products (about a cycle); packing an element
 * costs about one unit. */
static void cut(product *j)
{
    size_t threads = (size_t)j->d->threads, best = SIZE_MAX;
    size_t rows = (size_t)j->g->rows, slabs = parts(j->n * (cpu_units(j->g, j->k) + 1), SLAB);

    j->slab = cpu_round_up(parts(j->n, slabs), CPU_NR);
    size_t m0 = parts(j->m, TILE_M * (size_t)j->g->pair);
    size_t n0 = parts(j->slab, (size_t)j->g->columns), tries = least(threads, 16);

    for (size_t pm = m0; pm <= m0 + tries; pm++)
        for (size_t pn = n0; pn <= n0 + tries; pn++) {
            size_t tm = cpu_round_up(parts(j->m, pm), rows),
                   tn = cpu_round_up(parts(j->slab, pn), CPU_NR);
            size_t tiles = parts(j->m, tm) * parts(j->slab, tn);
            size_t time = parts(tiles, threads) * (tm * tn / 16 + tm);
            if (time < best) {
                best = time;
                j->tm = tm;
                j->tn = tn;
            }
        }
    j->tiles_m = parts(j->m, j->tm);
    j->tiles_n = parts(j->slab, j->tn);
}

static void cut_thin(product *j)
{
    size_t each = cpu_round_up(parts(j->n, (size_t)j->d->threads), CPU_NR);

    j->slab = j->n;
    j->tm = j->m;
    j->tn = j->b.along ? THIN_N : least(each, THIN_ROW);     /* long runs of B's rows */
    j->tiles_m = 1;
    j->tiles_n = parts(j->n, j->tn);
}

/* A thread's scratch, in units: a row of B (if B is not packed) or B's panels, A's rows, C's block,
 * the bias. */
typedef struct places {
    uint32_t *b, *a;
    float *c, *bias;
} places;

typedef struct sizes { size_t b, a, c, bias; } sizes;

static sizes sizes_of(const product *j)
{
    if (j->thin)                               /* for a row of B, all of A, C's block */
        return (sizes){ .b = j->k > j->tn ? j->k : j->tn, .a = j->m * j->k,
                        .c = j->m * (j->tn + PAD), .bias = j->tn };
    size_t units = cpu_units(j->g, least(j->kc, j->k));
    return (sizes){
        .b = j->own_b ? OWN_N * units : 0,
        .a = j->direct_a ? 0 : cpu_round_up(j->tm, CPU_MR) * (units + PAD),
        .c = j->direct_c ? 0 : j->tm * (j->tn + PAD),
        .bias = j->tn,
    };
}

static places place(const product *j, void *scratch)
{
    sizes z = sizes_of(j);
    uint32_t *b = scratch, *a = b + z.b;
    float *c = (float *)(a + z.a);

    return (places){ .b = b, .a = a, .c = c, .bias = c + z.c };
}

static char *c_row(const product *j, size_t i, size_t n0)
{
    return (char *)j->c->data + (i * (size_t)j->c->stride[0] + n0) * vc_dtype_size(j->c->dtype);
}

static void load_bias(const product *j, const places *p, size_t n0, size_t n)
{
    if (j->bias)
        j->d->rows->load(p->bias,
                         (const char *)j->bias->data + n0 * vc_dtype_size(j->bias->dtype),
                         j->bias->dtype, n);
}

/* Sets c = beta c + bias before products are added to c; false if products overwrite c. */
static bool prepare(const product *j, const places *p, size_t m0, size_t m, size_t n0, size_t n)
{
    const cpu_rows *r = j->d->rows;

    if (!j->direct_c || (j->beta == 0 && !j->bias))
        return false;
    if (j->beta == 1 && !j->bias)
        return true;
    load_bias(j, p, n0, n);
    for (size_t i = 0; i < m; i++) {
        float *c = (float *)c_row(j, m0 + i, n0);
        if (j->bias)
            r->axpby(c, 1, p->bias, j->beta, n);
        else
            r->axpby(c, j->beta, c, 0, n);
    }
    return true;
}

/* Stores C's columns m0.. and rows n0.. from a block of C'. */
static void finish_transposed(const product *j, const places *p, size_t m0, size_t m, size_t n0,
                              size_t n)
{
    float sums[TRANSPOSE_N];

    for (size_t q = 0; q < n; q++) {
        for (size_t i = 0; i < m; i++)
            sums[i] = p->c[i * (j->tn + PAD) + q];
        cpu_finish_row(j->d->rows, c_row(j, n0 + q, m0), j->c->dtype, sums, m, NULL, 0, j->alpha,
                       j->beta);
    }
}

/* c = alpha block + beta c + bias */
static void finish(const product *j, const places *p, size_t m0, size_t m, size_t n0, size_t n)
{
    if (j->direct_c)
        return;
    if (j->transposed) {
        finish_transposed(j, p, m0, m, n0, n);
        return;
    }
    for (size_t i = 0; i < m; i++)
        cpu_finish_row(j->d->rows, c_row(j, m0 + i, n0), j->c->dtype, p->c + i * (j->tn + PAD), n,
                       j->bias, n0, j->alpha, j->beta);
}

/* Returns the panels of slab column q at step k0, whose panels are `units` long. */
static uint32_t *panels(const product *j, size_t k0, size_t q, size_t units)
{
    size_t before = k0 / j->kc * cpu_units(j->g, j->kc) * j->slab;

    return j->packed + before + q * units;
}

static void pack_columns(const product *j, size_t n1, size_t k0, size_t q)
{
    size_t k = least(j->kc, j->k - k0), units = cpu_units(j->g, k), end = least(j->slab, j->n - n1);

    if (q < end)
        cpu_pack_b(j->g, panels(j, k0, q, units), units * (size_t)j->g->nr, j->b, n1 + q,
                   least(PACK_N, end - q), k0, k);
}

/* Multiplies one step of k for all rows: columns of B are packed and used while in the cache. */
static void multiply_own(const product *j, const places *p, size_t m, size_t n, size_t n0,
                         size_t k0, const uint32_t *a, size_t lda, float *c, size_t ldc, bool add)
{
    size_t k = least(j->kc, j->k - k0), units = cpu_units(j->g, k), nr = (size_t)j->g->nr;
    size_t pb = units * nr, direct = j->direct_b ? n / nr * nr : 0;

    if (direct)
        j->g->block_as_is(m, direct, k, a, lda, (const float *)j->b.data + k0 * j->b.stride + n0,
                          j->b.stride, c, ldc, add);
    for (size_t q = direct; q < n; q += OWN_N) {
        size_t nq = least(OWN_N, n - q);
        cpu_pack_b(j->g, p->b, pb, j->b, n0 + q, nq, k0, k);
        j->g->block(m, nq, units, a, lda, p->b, pb, c + q, ldc, add);
    }
}

/* Computes the tile at row m0 and column q of the slab that begins at n1. */
static void tile(const product *j, const places *p, size_t m0, size_t n1, size_t q)
{
    const cpu_gemm *g = j->g;
    size_t end = least(j->slab, j->n - n1);

    if (q >= end)
        return;
    size_t n0 = n1 + q, m = least(j->tm, j->m - m0), n = least(j->tn, end - q);
    size_t ldc = j->direct_c ? (size_t)j->c->stride[0] : j->tn + PAD;
    float *c = j->direct_c ? (float *)c_row(j, m0, n0) : p->c;
    bool add = prepare(j, p, m0, m, n0, n);

    if (j->k == 0)
        memset(c, 0, m * ldc * 4);
    for (size_t k0 = 0; k0 < j->k; k0 += j->kc, add = true) {
        size_t k = least(j->kc, j->k - k0), units = cpu_units(g, k), lda = units + PAD;
        const uint32_t *a = p->a;
        if (j->direct_a) {
            size_t pair = (size_t)g->pair;
            a = (const uint32_t *)j->a.data + (m0 * j->a.stride + k0) / pair;
            lda = j->a.stride / pair;
        } else {
            cpu_pack_a(g, p->a, lda, j->a, m0, m, k0, k);
        }
        if (j->own_b)
            multiply_own(j, p, m, n, n0, k0, a, lda, c, ldc, add);
        else
            g->block(m, n, units, a, lda, panels(j, k0, q, units), units * (size_t)g->nr, c, ldc,
                     add);
    }
    finish(j, p, m0, m, n0, n);
}

/* Returns n elements of row i of B as stored, in f32. */
static const float *row_of_b(const product *j, const places *p, size_t i, size_t from, size_t n)
{
    if (j->b.type == VC_F32)
        return (const float *)j->b.data + i * j->b.stride + from;
    cpu_unpack(j->d->rows, (float *)p->b, &j->b, i, from, n);
    return (const float *)p->b;
}

static void thin_tile(const product *j, const places *p, size_t n0)
{
    const cpu_rows *r = j->d->rows;
    size_t n = least(j->tn, j->n - n0), ldc = j->tn + PAD;
    const float *a = (const float *)p->a;

    cpu_pack_a(j->g, p->a, j->k, j->a, 0, j->m, 0, j->k);
    memset(p->c, 0, j->m * ldc * 4);
    for (size_t q = 0; q < (j->b.along ? n : j->k); q++) {
        const float *b = j->b.along ? row_of_b(j, p, n0 + q, 0, j->k) : row_of_b(j, p, q, n0, n);
        for (size_t i = 0; i < j->m; i++)
            if (j->b.along)                    /* a column of op(B) gives a whole sum */
                p->c[i * ldc + q] = r->dot(a + i * j->k, b, j->k);
            else                               /* a row of op(B) adds one product to every sum */
                r->axpby(p->c + i * ldc, a[i * j->k + q], b, 1, n);
    }
    finish(j, p, 0, j->m, n0, n);
}

static void run_thin(const product *j, const places *p)
{
#pragma omp for schedule(dynamic, 1)
    for (size_t t = 0; t < j->tiles_n; t++)
        thin_tile(j, p, t * j->tn);
}

static void run_slabs(const product *j, const places *p)
{
    for (size_t n1 = 0; n1 < j->n; n1 += j->slab) {
        if (!j->own_b) {
#pragma omp for schedule(static) collapse(2)
            for (size_t k0 = 0; k0 < j->k; k0 += j->kc)
                for (size_t q = 0; q < j->slab; q += PACK_N)
                    pack_columns(j, n1, k0, q);
        }
#pragma omp for schedule(dynamic, 1) collapse(2)
        for (size_t q = 0; q < j->slab; q += j->tn)
            for (size_t m0 = 0; m0 < j->m; m0 += j->tm)
                tile(j, p, m0, n1, q);
    }
}

static void run(product *j)
{
    sizes z = sizes_of(j);
    size_t mine = (z.b + z.a + z.c + z.bias) * 4;
    size_t shared = j->thin || j->own_b ? 0 : j->slab * cpu_units(j->g, j->k) * 4;
    int threads = (int)least((size_t)j->d->threads, j->tiles_m * j->tiles_n);

    if (!cpu_scratch_all(j->d, threads, shared + mine, mine))
        return;
    char *first = cpu_scratch(j->d, 0, shared + mine);
    j->packed = (uint32_t *)first;
#pragma omp parallel num_threads(threads)
    {
        int t = omp_get_thread_num();
        places p = place(j, t ? cpu_scratch(j->d, t, mine) : first + shared);
        j->g->begin();
        if (j->thin)
            run_thin(j, &p);
        else
            run_slabs(j, &p);
        j->g->end();
    }
}

/* Returns true if A's rows in memory are rows of whole units already. */
static bool has_units(const product *j)
{
    const cpu_gemm *g = j->g;
    size_t pair = (size_t)g->pair;

    return g->kr == 1 && j->a.type == (pair == 1 ? VC_F32 : VC_BF16) && j->a.along &&
           j->k % pair == 0 && j->a.stride % pair == 0 && (uintptr_t)j->a.data % 4 == 0;
}

void cpu_product(vt_dev *d, vt_tensor *c, const vt_tensor *a, bool ta, const vt_tensor *b, bool tb,
                 const vt_tensor *bias, float alpha, float beta)
{
    product j = {
        .d = d, .g = cpu_gemm_of(d, a->dtype), .a = cpu_rows_of(a, ta), .b = cpu_columns_of(b, tb),
        .m = (size_t)c->dim[0], .n = (size_t)c->dim[1], .k = (size_t)a->dim[ta ? 0 : 1],
        .c = c, .bias = bias, .alpha = alpha, .beta = beta,
    };

    if (j.m == 0 || j.n == 0)
        return;
    if (cpu_matmul_dnnl(d, c, a, ta, b, tb, bias, alpha, beta))
        return;
    /* To transpose a tall A for a product with few columns costs more than the products; as the
     * right operand of C' it needs no transposition. */
    j.transposed = ta && j.n <= TRANSPOSE_N && j.n < j.m && !bias;
    if (j.transposed) {
        j.m = (size_t)c->dim[1];
        j.n = (size_t)c->dim[0];
        j.a = cpu_columns_of(b, tb);
        j.b = cpu_rows_of(a, ta);
    }
    j.direct_b = j.g->block_as_is && j.b.type == VC_F32 && !j.b.along && j.m <= DIRECT_M;
    j.thin = j.m <= THIN && !j.direct_b;
    if (j.thin)
        j.g = cpu_gemm_of(d, VC_F32);
    j.kc = j.direct_b ? DIRECT_STEP : (size_t)j.g->step;
    j.direct_c = c->dtype == VC_F32 && alpha == 1 && j.k > 0 && !j.thin && !j.transposed;
    /* With few columns packing A would cost more than the products; its rows are read in place. */
    j.direct_a = has_units(&j) && j.n <= 4 * (size_t)j.g->nr;
    if (j.thin)
        cut_thin(&j);
    else if (j.m <= (j.g->pair == 1 ? OWN_M : OWN_M_PAIRS))
        cut_own(&j);
    else
        cut(&j);
    run(&j);
}

/* The sums of our own products do not depend on the other rows. In f32 the large products are
 * oneDNN's, which divides a long sum by a rule that depends on the number of rows. */
bool cpu_batch_keeps_bits(const vt_dev *d, vc_dtype compute)
{
    return d->own_products || cpu_gemm_of(d, compute)->pair > 1;
}
