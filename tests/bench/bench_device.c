/* bench_device.c - speed of a device's kernels at CogVideoX's sizes, as shares of the best product
 * and of the best copy in the same run. `scripts/bench gpu` runs this program.
 *
 *     bench_device [device] [seconds for each row] [divisor of the number of tokens]
 *
 * Activations are bf16. A row repeats an op in one step, which ends when the device is idle; the
 * best of several steps counts. Rates of products, attention and convolution are in TFLOP/s
 * (backward counts 3.5 times the work of forward), other rates in GB/s of operands and results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"
#include "common/tensor/ops.h"

enum { ROUNDS = 3, MOST = 4, PARTS = 64 };

typedef struct bench {
    vt_ctx *g;
    double seconds;
    int64_t divisor;
    double product, copy;                      /* best rates so far, in FLOP/s and bytes/s */
} bench;

/* An op and its sizes. The number of tokens is divided by the program's divisor. */
typedef struct row {
    const char *name;
    enum { PRODUCT, ATTENTION, BACKWARD, CONV, COPY, NORM, GELU, GATED, ROPE } kind;
    int64_t tokens, width, more;               /* `more` is the op's third size, e.g. heads */
} row;

static const row rows[] = {
    { "product 8192 x 8192 x 8192", PRODUCT, 8192, 8192, 8192 },
    { "2B to_q: 17776 x 1920 x 1920", PRODUCT, 17776, 1920, 1920 },
    { "2B ff up: 17776 x 1920 x 7680", PRODUCT, 17776, 1920, 7680 },
    { "2B ff down: 17776 x 7680 x 1920", PRODUCT, 17776, 7680, 1920 },
    { "5B to_q: 17776 x 3072 x 3072", PRODUCT, 17776, 3072, 3072 },
    { "5B ff up: 17776 x 3072 x 12288", PRODUCT, 17776, 3072, 12288 },
    { "LoRA down: 17776 x 3072 x 64", PRODUCT, 17776, 3072, 64 },
    { "2B attention, 30 heads of 64", ATTENTION, 17776, 64, 30 },
    { "2B attention, with backward", BACKWARD, 17776, 64, 30 },
    { "5B attention, 48 heads of 64", ATTENTION, 17776, 64, 48 },
    { "5B attention, with backward", BACKWARD, 17776, 64, 48 },
    { "VAE convolution 3x3x3, 128 channels, 8 x 240 x 360", CONV, 8 * 240, 128, 360 },
    { "VAE convolution 3x3x3, 512 channels, 2 x 60 x 90", CONV, 2 * 60, 512, 90 },
    { "copy", COPY, 17776, 3072, 0 },
    { "layer norm with modulation", NORM, 17776, 3072, 0 },
    { "GELU", GELU, 17776, 12288, 0 },
    { "gated residual", GATED, 17776, 3072, 0 },
    { "rope", ROPE, 17776, 64, 48 },
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *name, const vc_err *err)
{
    fprintf(stderr, "bench_device: %s: %s\n", name, err->text);
    exit(1);
}

/* Makes a persistent tensor of standard normals, drawn by all threads. */
static vt_tensor *normals(bench *b, vc_dtype type, int nd, const int64_t *dim, uint32_t id)
{
    size_t n = 1;
    vc_err err = { 0 };
    for (int i = 0; i < nd; i++)
        n *= (size_t)dim[i];
    float *x = malloc(n * sizeof *x);
#pragma omp parallel for
    for (size_t part = 0; part < (x ? PARTS : 0); part++) {
        size_t from = n * part / PARTS, to = n * (part + 1) / PARTS;
        vc_draw_normals(x + from, to - from, 0, id, (uint32_t)part, VC_DRAW_INIT);
    }
    vt_tensor *t = x ? vt_param_new(b->g, type, nd, dim, x, VC_F32, false, &err) : NULL;
    if (!t)
        die("a tensor of normals", &err);
    free(x);
    return t;
}

/* Makes the operands of a row, x first, and returns the FLOPs or bytes of one run. */
static double prepare(bench *b, const row *r, vt_tensor *t[MOST])
{
    int64_t n = r->tokens / b->divisor > 16 ? r->tokens / b->divisor : 16, m = r->more;
    double elements = (double)n * (double)r->width;
    const int64_t x[] = { 1, n, r->width }, one[] = { 1, 1, r->width }, w[] = { m, r->width };
    const int64_t heads[] = { 1, n, m, r->width }, angles[] = { n, r->width / 2 };
    const int64_t video[] = { 1, n / 8 > 2 ? n / 8 : 2, 8, m, r->width };
    const int64_t kernel[] = { r->width, r->width, 3, 3, 3 };
    vc_err err = { 0 };

    memset(t, 0, MOST * sizeof *t);
    switch (r->kind) {
    case PRODUCT:
        t[0] = normals(b, VC_BF16, 3, x, 1), t[1] = normals(b, VC_BF16, 2, w, 2);
        return 2 * elements * (double)m;
    case ATTENTION: case BACKWARD:
        for (int i = 0; i < 3; i++) {
            t[i] = normals(b, VC_BF16, 4, heads, (uint32_t)i);
            if (r->kind == BACKWARD && vt_param_train(b->g, t[i], VC_BF16, &err))
                die("q", &err);
        }
        return 4 * elements * (double)n * (double)m * (r->kind == BACKWARD ? 3.5 : 1);
    case CONV:
        t[0] = normals(b, VC_BF16, 5, video, 1), t[1] = normals(b, VC_BF16, 5, kernel, 2);
        return 2 * 27.0 * (double)vt_count(t[0]) * (double)r->width;
    case ROPE:
        t[0] = normals(b, VC_BF16, 4, heads, 1);
        t[1] = normals(b, VC_F32, 2, angles, 2), t[2] = normals(b, VC_F32, 2, angles, 3);
        return 4 * elements * (double)m;
    default:
        t[0] = normals(b, VC_BF16, 3, x, 1), t[1] = normals(b, VC_BF16, 3, x, 2);
        t[2] = normals(b, VC_F32, 3, one, 3);
        return elements * (r->kind == GATED ? 6 : 4);
    }
}

static void once(vt_ctx *g, const row *r, vt_tensor *const t[MOST])
{
    switch (r->kind) {
    case PRODUCT: vt_linear(g, t[0], &(vt_lin){ .w = t[1] }); break;
    case ATTENTION: vt_attention(g, t[0], t[1], t[2], NULL); break;
    case BACKWARD: vt_backward(g, vt_sum(g, vt_attention(g, t[0], t[1], t[2], NULL))); break;
    case CONV:
        vt_conv3d(g, t[0], t[1], NULL, &(vt_conv){ .stride = { 1, 1, 1 }, .before = { 2, 1, 1 },
                                                .after = { 0, 1, 1 } });
        break;
    case COPY: vt_assign(g, vt_new_like(g, t[0]), t[0]); break;
    case NORM: vt_layer_norm_modulate(g, t[0], NULL, NULL, t[2], t[2], 1e-5f); break;
    case GELU: vt_gelu(g, t[0]); break;
    case GATED: vt_gated_add(g, t[0], t[1], t[2]); break;
    case ROPE: vt_rope(g, t[0], t[1], t[2], 0); break;
    }
}

/* Returns the seconds of n runs. */
static double run(bench *b, const row *r, vt_tensor *const t[MOST], int n)
{
    double begin = now();
    vc_err err = { 0 };
    for (int i = 0; i < n && r->kind == BACKWARD; i++) {
        vt_step_begin(b->g, VT_RECORD);
        once(b->g, r, t);
        if (vt_step_end(b->g, &err))
            die(r->name, &err);
    }
    if (r->kind == BACKWARD)
        return now() - begin;
    vt_step_begin(b->g, 0);
    vt_scope s = vt_scope_begin(b->g);
    for (int i = 0; i < n; i++) {
        once(b->g, r, t);
        vt_scope_end(b->g, s, 0, NULL);
    }
    if (vt_step_end(b->g, &err))
        die(r->name, &err);
    return now() - begin;
}

static void measure(bench *b, const row *r)
{
    vt_tensor *t[MOST];
    double work = prepare(b, r, t), first = run(b, r, t, 1), least = run(b, r, t, 1);
    int n = (int)(b->seconds / ROUNDS / least) + 1;

    for (int i = 0; i < ROUNDS; i++) {
        double each = run(b, r, t, n) / n;
        least = each < least ? each : least;
    }
    bool heavy = r->kind <= CONV;
    double rate = work / least, *best = heavy ? &b->product : &b->copy;
    if ((r->kind == PRODUCT || r->kind == COPY) && rate > *best)
        *best = rate;
    printf("%-52s %9.3f ms %9.2f %s %5.1f%%   first %.0f ms\n", r->name, 1e3 * least,
           rate / (heavy ? 1e12 : 1e9), heavy ? "TFLOP/s" : "GB/s   ", 100 * rate / *best,
           1e3 * first);
    fflush(stdout);
    for (int i = 0; i < MOST; i++)
        vt_param_free(b->g, t[i]);
}

int main(int argc, char **argv)
{
    bench b = { .seconds = argc > 2 ? atof(argv[2]) : 1, .divisor = argc > 3 ? atoll(argv[3]) : 1 };
    const vt_options o = { .device = argc > 1 ? argv[1] : "cuda", .compute = VC_BF16 };
    vc_err err = { 0 };

    if (b.divisor < 1 || b.seconds <= 0) {
        fputs("usage: bench_device [device] [seconds above 0] [divisor from 1]\n", stderr);
        return 2;
    }
    if (vt_open(&b.g, &o, &err))
        die(o.device, &err);
    printf("%s\n", vt_describe(b.g));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        measure(&b, &rows[i]);
    printf("peak of products %.4g TFLOP/s, of copies %.4g GB/s\n", b.product / 1e12, b.copy / 1e9);
    vt_close(b.g);
    return 0;
}
