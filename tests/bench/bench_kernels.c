/* bench_kernels.c - speed of the CPU's products: the kernels of this library, its plain kernels,
 * and oneDNN. scripts/bench runs this program.
 *
 *     bench_kernels [threads] [seconds for each row] [peak|codes]
 *
 * With `peak` the program prints only the rates of products that stay in the cache, and with
 * `codes` only those of weights in fp8, int8 and nf4, beside the same weights in bf16.
 *
 * The contenders of a row alternate on the same random operands, so that a busy machine disturbs
 * all of them alike, and the least time of each counts. Rates are in GFLOP/s; a multiplication and
 * an addition are two operations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cpu/dnnl.h"
#include "common/cpu/gemm/gemm.h"
#include "common/tensor/packing.h"
#include "common/tensor/ttt.h"

#include <omp.h>
#if defined(VLT_ONEDNN)
#include "common/cpu/dnnl_api.h"
#endif

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Returns the time in seconds. One thread measures its own processor time, so that the time of
 * other processes does not count. */
static double now(int threads)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct bench {
    const vt_backend *be;
    vt_dev *best, *plain, *int8;               /* int8: rounds what a layer is given too */
    int threads;
    double seconds;
} bench;

static vt_dev *open_set(const vt_backend *be, int threads, const char *set, bool int8)
{
    vt_options o = { .threads = threads, .kernels = set, .int8_activations = int8 };
    vt_dev *d = NULL;
    vc_err err = { 0 };

    if (be->open(&d, &o, 0, &err)) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    return d;
}

static void *or_die(void *p)
{
    if (!p) {
        fputs("bench_kernels: out of memory\n", stderr);
        exit(1);
    }
    return p;
}

/* Makes a packed tensor of values in -1..1. */
static vt_tensor tensor(vc_dtype t, int nd, const int64_t *dim)
{
    vt_tensor x = { .dtype = t, .nd = nd };
    int64_t n = 1;
    uint32_t r = 1;

    for (int i = nd - 1; i >= 0; i--) {
        x.dim[i] = dim[i];
        x.stride[i] = n;
        n *= dim[i];
    }
    x.data = or_die(malloc((size_t)n * vc_dtype_size(t)));
    for (int64_t i = 0; i < n; i++) {
        r = r * 1664525u + 1013904223u;
        float v = (float)(int32_t)r * 0x1p-31f;
        vc_from_f32((char *)x.data + (size_t)i * vc_dtype_size(t), t, &v, 1);
    }
    return x;
}

/* A call, its device, and the least time of this call. */
typedef struct contender {
    void (*run)(void *arg, vt_dev *d);
    vt_dev *dev;
    double least;
} contender;

static void time_contenders(const bench *b, contender *t, size_t n, void *arg)
{
    double until = now(b->threads) + b->seconds;

    for (int round = 0; round < 3 || now(b->threads) < until; round++)
        for (size_t i = 0; i < n; i++) {
            if (i == 1 && round >= 2)         /* the plain kernels are slow: two rounds suffice */
                continue;
            double start = now(b->threads);
            t[i].run(arg, t[i].dev);
            double took = now(b->threads) - start;
            if (round == 0 || took < t[i].least)
                t[i].least = took;
        }
}

static void show(const char *name, double flop, const contender *t, size_t n)
{
    printf("%-40s %8.2f ms %7.1f GF   %5.2fx of plain", name, 1e3 * t[0].least,
           1e-9 * flop / t[0].least, t[1].least / t[0].least);
    if (n > 2)
        printf("   %5.2fx of oneDNN", t[2].least / t[0].least);
    putchar('\n');
    fflush(stdout);
}

/* ---- the upper bound of all products ---- */

static bool computes_bf16(const bench *b) { return cpu_gemm_of(b->best, VC_BF16)->pair > 1; }

/* All threads multiply blocks that stay in the cache, without packing: this rate is the peak of
 * these kernels on the machine. */
static void bench_peak(const bench *b, vc_dtype t)
{
    enum { M = 96, N = 64, K = 256, TIMES = 200 };
    const cpu_gemm *g = cpu_gemm_of(b->best, t);
    size_t units = cpu_units(g, K);
    double least = 0;
    char name[40];

    snprintf(name, sizeof name, "%s blocks in the cache: the peak", vc_dtype_name(t));
    for (int round = 0; round < 9; round++) {
        double start = now(b->threads);
#pragma omp parallel num_threads(b->threads)
        {
            uint32_t *a = or_die(calloc(M * K, 4)), *w = or_die(calloc(N * K, 4));
            float *c = or_die(calloc(M * N, 4));
            for (size_t i = 0; i < M * K; i++)             /* random: zeros take less power */
                a[i] = 0x3f003f80u + (uint32_t)(i * 2654435761u >> 16 & 0x7f);
            for (size_t i = 0; i < N * K; i++)
                w[i] = 0xbf003f80u + (uint32_t)(i * 2246822519u >> 16 & 0x7f);
            g->begin();
            for (int i = 0; i < TIMES; i++)
                g->block(M, N, units, a, units, w, units * (size_t)g->nr, c, N, true);
            g->end();
            free(a);
            free(w);
            free(c);
        }
        double took = now(b->threads) - start;
        if (round == 0 || took < least)
            least = took;
    }
    printf("%-40s %8.2f ms %7.1f GF\n", name, 1e3 * least,
           1e-9 * 2 * M * N * K * TIMES * b->threads / least);
}

/* ---- matmul ---- */

typedef struct mm {
    const bench *b;
    int64_t m, n, k;
    bool ta, tb;
    vt_tensor a, w, c;
#if defined(VLT_ONEDNN)
    dnnl_primitive_t bf16;                    /* oneDNN's product in bf16, or NULL */
    dnnl_stream_t stream;
    dnnl_memory_t mem[3];
#endif
} mm;

static void run_mm(void *arg, vt_dev *d)
{
    mm *x = arg;
    x->b->be->matmul(d, &x->c, &x->a, x->ta, &x->w, x->tb, NULL, 1, 0);
}

#if defined(VLT_ONEDNN)
static void run_sgemm(void *arg, vt_dev *d)
{
    mm *x = arg;
    (void)d;
    omp_set_num_threads(x->b->threads);
    dnnl_sgemm(x->ta ? 'T' : 'N', x->tb ? 'T' : 'N', x->m, x->n, x->k, 1, x->a.data, x->a.stride[0],
               x->w.data, x->w.stride[0], 0, x->c.data, x->n);
}

static void run_bf16(void *arg, vt_dev *d)
{
    mm *x = arg;
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, x->mem[0] }, { DNNL_ARG_WEIGHTS, x->mem[1] },
                                     { DNNL_ARG_DST, x->mem[2] } };

    (void)d;
    omp_set_num_threads(x->b->threads);
    dnnl_primitive_execute(x->bf16, x->stream, 3, args);
    dnnl_stream_wait(x->stream);
}

/* Makes oneDNN's product; false: it has none. */
static bool open_bf16(mm *x, dnnl_engine_t engine)
{
    const vt_tensor *all[] = { &x->a, &x->w, &x->c };
    const bool turned[] = { x->ta, x->tb, false };
    dnnl_primitive_desc_t pd = NULL;
    dn_desc d[3];

    memset(d, 0, sizeof d);
    omp_set_num_threads(x->b->threads);
    dnnl_status_t rc = dnnl_stream_create(&x->stream, engine, dnnl_stream_default_flags);
    for (int i = 0; i < 3 && !rc; i++) {
        const vt_tensor *t = all[i];
        dnnl_dims_t dim = { t->dim[turned[i]], t->dim[!turned[i]] },
                    stride = { t->stride[turned[i]], t->stride[!turned[i]] };
        rc = dn_desc_open_strided(&d[i], 2, dim, dnnl_bf16, stride);
        if (!rc)
            rc = dnnl_memory_create(&x->mem[i], dn_view(&d[i]), engine, t->data);
    }
    if (!rc)
        rc = dn_matmul_desc(&pd, engine, dn_view(&d[0]), dn_view(&d[1]), NULL, dn_view(&d[2]),
                            NULL);
    if (!rc)
        rc = dnnl_primitive_create(&x->bf16, pd);
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < 3; i++)
        dn_desc_close(&d[i]);
    return !rc;
}

static void close_bf16(mm *x)
{
    if (x->bf16)
        dnnl_primitive_destroy(x->bf16);
    for (int i = 0; i < 3; i++)
        if (x->mem[i])
            dnnl_memory_destroy(x->mem[i]);
    if (x->stream)
        dnnl_stream_destroy(x->stream);
}
#endif

static void bench_mm(const bench *b, int64_t m, int64_t n, int64_t k, bool ta, bool tb, vc_dtype t)
{
    mm x = { .b = b, .m = m, .n = n, .k = k, .ta = ta, .tb = tb,
             .a = tensor(t, 2, (int64_t[]){ ta ? k : m, ta ? m : k }),
             .w = tensor(t, 2, (int64_t[]){ tb ? n : k, tb ? k : n }),
             .c = tensor(t, 2, (int64_t[]){ m, n }) };
    contender contenders[3] = { { run_mm, b->best, 0 }, { run_mm, b->plain, 0 } };
    size_t count = 2;
    char name[80];

#if defined(VLT_ONEDNN)
    dnnl_engine_t engine = NULL;
    if (t == VC_F32)
        contenders[count++] = (contender){ run_sgemm, NULL, 0 };
    else if (computes_bf16(b) && !dnnl_engine_create(&engine, dnnl_cpu, 0) &&
             open_bf16(&x, engine))
        contenders[count++] = (contender){ run_bf16, NULL, 0 };
#endif
    time_contenders(b, contenders, count, &x);
    snprintf(name, sizeof name, "matmul %s %s %dx%dx%d", vc_dtype_name(t),
             ta ? "wgrad" : tb ? "forward" : "dgrad", (int)m, (int)n, (int)k);
    show(name, 2.0 * (double)m * (double)n * (double)k, contenders, count);
#if defined(VLT_ONEDNN)
    close_bf16(&x);
    if (engine)
        dnnl_engine_destroy(engine);
#endif
    free(x.a.data);
    free(x.w.data);
    free(x.c.data);
}

/* ---- weights in fewer bits ---- */

static void run_full(void *arg, vt_dev *d)
{
    run_mm((mm *)arg + 1, d);
}

/* Makes the weight's codes and scales, as the loader does. */
static vt_tensor codes_of(const vt_tensor *w, vc_dtype type, vt_tensor *scale)
{
    const vt_packing *p = vt_packing_of(type);
    const int64_t out = w->dim[0], in = w->dim[1], scales = vt_packing_scales(p, in);
    const size_t bytes = vc_dtype_bytes(type, (size_t)in);
    vt_tensor c = *w;
    float *row = or_die(malloc((size_t)in * sizeof *row));

    *scale = tensor(VC_F32, 2, (int64_t[]){ out, scales });
    c.dtype = type;
    c.scale = scale;
    c.data = or_die(malloc(bytes * (size_t)out));
    for (int64_t o = 0; o < out; o++) {
        vc_to_f32(row, (const char *)w->data + (size_t)(o * in) * vc_dtype_size(w->dtype), w->dtype,
                  (size_t)in);
        vt_pack_codes(p, (char *)c.data + (size_t)o * bytes, (float *)scale->data + o * scales,
                      row, in);
    }
    free(row);
    return c;
}

/* A product of bf16 with a weight of codes, forward or (back) for the inputs' gradient. */
static void bench_codes(const bench *b, int64_t m, bool back, vc_dtype type)
{
    enum { N = 1536, K = 1536 };
    vt_tensor scale, full = tensor(VC_BF16, 2, (int64_t[]){ N, K });
    mm x[2] = { { .b = b, .m = m, .n = N, .k = K, .tb = !back,
                  .a = tensor(VC_BF16, 2, (int64_t[]){ m, back ? N : K }), .w = full,
                  .c = tensor(VC_BF16, 2, (int64_t[]){ m, back ? K : N }) } };
    contender contenders[] = { { run_mm, b->best, 0 }, { run_mm, b->best, 0 },
                               { run_full, b->best, 0 }, { run_mm, b->int8, 0 } };

    x[1] = x[0];
    x[0].w = codes_of(&full, type, &scale);
    time_contenders(b, contenders, type == VC_I8 ? 4 : 3, x);
    printf("%s %s, %4d tokens, %dx%d: %8.3f ms, of bf16 %8.3f ms: %5.2f times as fast\n",
           back ? "dgrad  " : "forward", vc_dtype_name(type), (int)m, N, K,
           1e3 * contenders[0].least, 1e3 * contenders[2].least,
           contenders[2].least / contenders[0].least);
    if (type == VC_I8)
        printf("%s i8, activations too, %4d tokens: %8.3f ms: %5.2f times as fast as bf16\n",
               back ? "dgrad  " : "forward", (int)m, 1e3 * contenders[3].least,
               contenders[2].least / contenders[3].least);
    fflush(stdout);
    free(x[0].w.data);
    free(scale.data);
    free(full.data);
    free(x[0].a.data);
    free(x[0].c.data);
}

/* ---- attention ---- */

typedef struct at {
    const bench *b;
    vt_tensor q, k, v, o, lse, dout, dq, dk, dv;
    struct vt_buf empty[3];
    float scale;
} at;

static void run_forward(void *arg, vt_dev *d)
{
    at *x = arg;
    x->b->be->attention(d, &x->o, &x->lse, &x->q, &x->k, &x->v,
                        &(vt_attn){ .scale = x->scale });
}

static void run_backward(void *arg, vt_dev *d)
{
    at *x = arg;
    for (int i = 0; i < 3; i++)
        x->empty[i].empty = true;
    x->b->be->attention_grad(d, &x->dq, &x->dk, &x->dv, &x->dout, &x->q, &x->k, &x->v, &x->o,
                             &x->lse, &(vt_attn){ .scale = x->scale });
}

static void bench_attention(const bench *b, int64_t h, int64_t s, int64_t d, vc_dtype t)
{
    const int64_t dim[] = { 1, s, h, d };
    at x = { .b = b, .scale = 1 / sqrtf((float)d) };
    vt_tensor *all[] = { &x.q, &x.k, &x.v, &x.o, &x.dout, &x.dq, &x.dk, &x.dv };
    contender contenders[2] = { { run_forward, b->best, 0 }, { run_forward, b->plain, 0 } };
    double flop = 4.0 * (double)(h * s * s * d);
    char name[80];

    for (size_t i = 0; i < COUNT(all); i++)
        *all[i] = tensor(t, 4, dim);
    for (int i = 0; i < 3; i++)
        all[5 + i]->buf = &x.empty[i];
    x.lse = tensor(VC_F32, 3, (int64_t[]){ 1, h, s });
    time_contenders(b, contenders, 2, &x);
    snprintf(name, sizeof name, "attention %s forward %dx%dx%d", vc_dtype_name(t), (int)h, (int)s,
             (int)d);
    show(name, flop, contenders, 2);

    contenders[0].run = contenders[1].run = run_backward;
    time_contenders(b, contenders, 2, &x);
    snprintf(name, sizeof name, "attention %s backward %dx%dx%d", vc_dtype_name(t), (int)h, (int)s,
             (int)d);
    show(name, 2.5 * flop, contenders, 2);
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]->data);
    free(x.lse.data);
}

/* ---- the inner scan of test-time training ---- */

enum { TTT_OPERANDS = 10 };

typedef struct tt {
    const bench *b;
    vt_tensor x[TTT_OPERANDS], d[TTT_OPERANDS], o, dout, states, work;
    struct vt_buf empty[TTT_OPERANDS];
    vt_ttt t, grad;
} tt;

static void run_scan(void *arg, vt_dev *d)
{
    tt *x = arg;
    x->b->be->ttt_scan(d, &x->o, &x->states, &x->t);
}

static void run_scan_grad(void *arg, vt_dev *d)
{
    tt *x = arg;
    for (int i = 0; i < TTT_OPERANDS; i++)
        x->empty[i].empty = true;
    x->b->be->ttt_scan_grad(d, &x->grad, &x->dout, &x->states, &x->work, &x->t);
}

static vt_ttt scan_of(vt_tensor *x, bool mlp, int64_t m, int64_t group)
{
    return (vt_ttt){ .q = x, .k = x + 1, .target = x + 2, .eta = x + 3, .gamma = x + 4,
                     .beta = x + 5, .w1 = x + 6, .b1 = x + 7, .w2 = mlp ? x + 8 : NULL,
                     .b2 = mlp ? x + 9 : NULL, .mini_batch = m, .group = group };
}

/* Times h heads of 64 over n tokens in mini-batches of m; with two layers the hidden one is 4 times
 * as wide. The operands in -1..1 are scaled where the inner model would diverge. */
static void bench_ttt(const bench *b, bool mlp, int64_t h, int64_t n, int64_t m, int64_t group)
{
    const int64_t d = 64, e = mlp ? 4 * d : d, products = mlp ? 7 : 3, backward = mlp ? 24 : 10;
    const struct { int nd; int64_t dim[4]; } s[TTT_OPERANDS] = {
        { 4, { 1, n, h, d } }, { 4, { 1, n, h, d } }, { 4, { 1, n, h, d } }, { 3, { 1, n, h } },
        { 2, { h, d } }, { 2, { h, d } }, { 3, { h, d, e } }, { 2, { h, e } },
        { 3, { h, e, d } }, { 2, { h, d } } };
    tt x = { .b = b };
    contender contenders[2] = { { run_scan, b->best, 0 }, { run_scan, b->plain, 0 } };
    double flop = 2.0 * (double)(h * n * d * e);
    char name[80];

    for (int i = 0; i < TTT_OPERANDS; i++) {
        x.x[i] = tensor(VC_F32, s[i].nd, s[i].dim);
        x.d[i] = tensor(VC_F32, s[i].nd, s[i].dim);
        x.d[i].buf = &x.empty[i];
    }
    for (int64_t i = 0; i < n * h; i++)
        ((float *)x.x[3].data)[i] *= 1e-5f;
    x.t = scan_of(x.x, mlp, m, group);
    x.grad = scan_of(x.d, mlp, m, group);
    const vt_ttt_size z = vt_ttt_size_of(&x.t);
    x.o = tensor(VC_F32, 4, s[0].dim);
    x.dout = tensor(VC_F32, 4, s[0].dim);
    x.states = tensor(VC_F32, 1, &(int64_t){ (int64_t)(z.groups * z.pairs * z.state) });
    x.work = tensor(VC_F32, 1, &(int64_t){ (int64_t)(z.pairs * z.work) });

    time_contenders(b, contenders, 2, &x);
    snprintf(name, sizeof name, "ttt %s forward %dx%d in %d", mlp ? "mlp" : "linear", (int)h,
             (int)n, (int)m);
    show(name, flop * (double)products, contenders, 2);
    contenders[0].run = contenders[1].run = run_scan_grad;
    time_contenders(b, contenders, 2, &x);
    snprintf(name, sizeof name, "ttt %s backward %dx%d in %d", mlp ? "mlp" : "linear", (int)h,
             (int)n, (int)m);
    show(name, flop * (double)backward, contenders, 2);
    vt_tensor *const others[] = { &x.o, &x.dout, &x.states, &x.work };
    for (size_t i = 0; i < COUNT(others); i++)
        free(others[i]->data);
    for (int i = 0; i < TTT_OPERANDS; i++) {
        free(x.x[i].data);
        free(x.d[i].data);
    }
}

/* ---- convolution: this library's code on one device, oneDNN on another ---- */

typedef struct cv {
    const bench *b;
    vt_tensor x, w, y;
    vt_conv c;
} cv;

static void run_dnnl(void *arg, vt_dev *d)
{
    cv *x = arg;
    cpu_dnnl_conv3d(d, &x->y, &x->x, &x->w, NULL, &x->c);
}

static void run_conv(void *arg, vt_dev *d)
{
    cv *x = arg;
    x->b->be->conv3d(d, &x->y, &x->x, &x->w, NULL, &x->c);
}

/* Times a kernel k x k x k on [1,T,H,W,C] that keeps the numbers of frames, rows and columns. */
static void bench_conv(const bench *b, vc_dtype type, int64_t t, int64_t h, int64_t w, int64_t in,
                       int64_t out, int k)
{
    int p = k / 2;
    cv x = { b, tensor(type, 5, (int64_t[]){ 1, t, h, w, in }),
             tensor(type, 5, (int64_t[]){ out, in, k, k, k }),
             tensor(type, 5, (int64_t[]){ 1, t, h, w, out }),
             { { 1, 1, 1 }, { 2 * p, p, p }, { 0, p, p }, NULL, { 0 } } };
    cpu_dnnl *dnnl = b->best->dnnl;
    contender contenders[3] = { { run_conv, b->best, 0 }, { run_conv, b->plain, 0 } };
    double flop = 2.0 * (double)(t * h * w * in * out) * k * k * k;
    vt_dev own = *b->best;                    /* the same device without oneDNN */
    char name[80];

    own.dnnl = NULL;
    contenders[0].dev = &own;
    if (dnnl)
        contenders[2] = (contender){ run_dnnl, b->best, 0 };
    time_contenders(b, contenders, dnnl ? 3 : 2, &x);
    snprintf(name, sizeof name, "conv %s %d->%d %d^3 %dx%dx%d", vc_dtype_name(type), (int)in,
             (int)out, k, (int)t, (int)h, (int)w);
    show(name, flop, contenders, dnnl ? 3 : 2);
    free(x.x.data);
    free(x.w.data);
    free(x.y.data);
}

int main(int argc, char **argv)
{
    static const int64_t mms[][3] = {
        { 256, 256, 256 },    { 256, 1536, 384 },   { 1024, 384, 1536 },  { 1024, 1024, 1024 },
        { 1024, 1920, 1920 }, { 1024, 7680, 1920 }, { 1024, 1920, 7680 }, { 4096, 512, 512 },
        { 4096, 1536, 384 },  { 4096, 2048, 512 },  { 4096, 16, 1536 },   { 4096, 1536, 16 },
        { 1, 9216, 1536 },    { 4, 1536, 256 },
    };
    bench b = { .threads = argc > 1 ? atoi(argv[1]) : 0, .seconds = argc > 2 ? atof(argv[2]) : 1 };

    for (const vt_backend *const *be = vt_backends(); *be; be++)
        if (!strcmp((*be)->name, "cpu"))
            b.be = *be;
    b.best = open_set(b.be, b.threads, NULL, false);
    b.int8 = open_set(b.be, b.threads, NULL, true);
    b.plain = open_set(b.be, b.threads, "plain", false);
    b.threads = b.best->threads;
    printf("%s\n", b.be->describe(b.best));
    bench_peak(&b, VC_F32);
    if (computes_bf16(&b))
        bench_peak(&b, VC_BF16);
    for (int i = 0; argc > 3 && !strcmp(argv[3], "codes") && i < 24; i++) {
        static const vc_dtype types[] = { VC_F8E4M3, VC_I8, VC_NF4 };
        bench_codes(&b, (int64_t[]){ 1, 32, 512, 4096 }[i % 4], i / 4 % 2, types[i / 8]);
    }
    if (argc > 3)
        return 0;
    for (size_t i = 0; i < COUNT(mms); i++) {
        int64_t m = mms[i][0], n = mms[i][1], k = mms[i][2];
        bench_mm(&b, m, n, k, false, true, VC_F32);
        for (int type = 0; m == 1024 && type < 2; type++) {
            vc_dtype t = type ? VC_BF16 : VC_F32;
            if (type)
                bench_mm(&b, m, n, k, false, true, t);
            bench_mm(&b, m, k, n, false, false, t);
            bench_mm(&b, n, k, m, true, false, t);
        }
    }
    bench_mm(&b, 16, 1536, 4096, true, false, VC_F32);       /* gradients of a LoRA */
    bench_mm(&b, 1536, 16, 4096, true, false, VC_F32);
    bench_mm(&b, 64, 1920, 4096, true, false, VC_F32);
    for (int type = 0; type < 2; type++) {
        bench_attention(&b, 8, 1024, 64, type ? VC_BF16 : VC_F32);
        bench_attention(&b, 4, 2048, 128, type ? VC_BF16 : VC_F32);
    }
    bench_ttt(&b, true, 4, 1024, 64, 4);
    bench_ttt(&b, true, 4, 1024, 16, 8);
    bench_ttt(&b, false, 4, 1024, 16, 8);
    for (int type = 0; type < 2; type++) {
        vc_dtype t = type ? VC_BF16 : VC_F32;
        bench_conv(&b, t, 4, 60, 92, 128, 128, 3);
        bench_conv(&b, t, 4, 30, 46, 256, 256, 3);
        bench_conv(&b, t, 4, 60, 92, 3, 128, 3);
        bench_conv(&b, t, 4, 60, 92, 128, 3, 3);
        bench_conv(&b, t, 4, 30, 46, 512, 512, 1);
    }
    b.be->close(b.plain);
    b.be->close(b.int8);
    b.be->close(b.best);
    return 0;
}
