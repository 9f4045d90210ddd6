/* cpu_conv.c - channels-last convolution: by oneDNN where it is built in, else as products of rows.
 *
 * Without an im2col: an output row is a sum over taps of (input row, shifted) times (the tap's C x K
 * weights), and a shifted row of a channels-last tensor is the same rows of A at another place. */
#include <omp.h>
#include <string.h>

#include "common/cpu/cpu_dnnl.h"
#include "common/cpu/cpu_gemm.h"

enum { PAD = 16 };

typedef struct conv {
    vt_dev *d;
    const cpu_gemm *g;
    vt_tensor *y;
    const vt_tensor *x, *w, *b;
    const vt_conv *c;
    size_t in, out, taps;                      /* channels, kernel positions */
    size_t units, pb, tap_units;               /* C in units; a panel; a tap's panels */
    size_t lda, ldc;
    bool direct;                               /* input rows are read where they lie */
} conv;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* One panel of one tap: the weights of nr output channels, gathered from [K][C][taps]. */
static void pack_panel(const conv *v, uint32_t *dst, float *stage, size_t tap, size_t k0)
{
    size_t nr = (size_t)v->g->nr, n = least(nr, v->out - k0), size = vc_dtype_size(v->w->dtype);
    const char *w = (const char *)v->w->data + (k0 * v->in * v->taps + tap) * size;

    for (size_t i = 0; i < n * v->in; i++)
        v->d->rows->load(stage + i, w + i * v->taps * size, v->w->dtype, 1);
    cpu_pack_b(v->g, dst, v->pb, (cpu_vectors){ stage, VC_F32, v->in, true }, 0, n, 0, v->in);
}

/* acc += input row (n,t,h) times the kw taps that start at `tap`; ow: of the output row */
static void add_row(const conv *v, const uint32_t *weights, uint32_t *stage, float *acc, size_t row,
                    size_t tap)
{
    const vt_conv *c = v->c;
    long width = (long)v->x->dim[3], kw = (long)v->w->dim[4], out_w = (long)v->y->dim[3];
    long step = c->stride[2], before = c->before[2];
    cpu_vectors x = { v->x->data, v->x->dtype, v->in, true };
    const uint32_t *a = stage;

    if (v->direct)
        a = (const uint32_t *)v->x->data + row * (size_t)width * v->in;
    else
        cpu_pack_a(v->g, stage, v->lda, x, row * (size_t)width, (size_t)width, 0, v->in);
    for (long k = 0; k < kw; k++) {
        long lo = before > k ? (before - k + step - 1) / step : 0;
        long hi = width - 1 + before - k < 0 ? 0 : (width - 1 + before - k) / step + 1;
        if (hi > out_w)
            hi = out_w;
        if (lo >= hi)
            continue;
        v->g->block((size_t)(hi - lo), v->out, v->units, a + (size_t)(lo * step + k - before) * v->lda,
                    (size_t)step * v->lda, weights + (tap + (size_t)k) * v->tap_units, v->pb,
                    acc + (size_t)lo * v->ldc, v->ldc, true);
    }
}

/* Output row r of [N,To,Ho]. */
static void output_row(const conv *v, const uint32_t *weights, uint32_t *stage, float *acc, size_t r)
{
    const int64_t *xd = v->x->dim, *wd = v->w->dim, *yd = v->y->dim;
    long ho = (long)(r % (size_t)yd[2]), to = (long)(r / (size_t)yd[2] % (size_t)yd[1]);
    size_t n = r / (size_t)(yd[1] * yd[2]), width = (size_t)yd[3];

    for (size_t i = 0; i < width; i++)
        if (v->b)
            v->d->rows->load(acc + i * v->ldc, v->b->data, v->b->dtype, v->out);
        else
            memset(acc + i * v->ldc, 0, v->out * 4);
    for (long kt = 0; kt < wd[2]; kt++)
        for (long kh = 0; kh < wd[3]; kh++) {
            long t = to * v->c->stride[0] + kt - v->c->before[0];
            long h = ho * v->c->stride[1] + kh - v->c->before[1];
            if (t < 0 || t >= xd[1] || h < 0 || h >= xd[2])
                continue;
            add_row(v, weights, stage, acc, (n * (size_t)xd[1] + (size_t)t) * (size_t)xd[2] + (size_t)h,
                    (size_t)((kt * wd[3] + kh) * wd[4]));
        }
    char *y = (char *)v->y->data + r * width * v->out * vc_dtype_size(v->y->dtype);
    for (size_t i = 0; i < width; i++)
        v->d->rows->store(y + i * v->out * vc_dtype_size(v->y->dtype), v->y->dtype, acc + i * v->ldc,
                          v->out);
}

static void run(const conv *v)
{
    size_t nr = (size_t)v->g->nr, panels = (v->out + nr - 1) / nr, rows = 1;
    size_t packed = v->taps * v->tap_units, acc = (size_t)v->y->dim[3] * v->ldc;
    size_t input = v->direct ? 0 : ((size_t)v->x->dim[3] + CPU_MR * (size_t)v->c->stride[2]) * v->lda;
    size_t mine = acc + (input > nr * v->in ? input : nr * v->in);
    uint32_t *weights = cpu_scratch(v->d, 0, (packed + mine) * 4);

    for (int t = 1; weights && t < v->d->threads; t++)
        if (!cpu_scratch(v->d, t, mine * 4))
            return;
    if (!weights)
        return;
    for (int i = 0; i < 3; i++)
        rows *= (size_t)v->y->dim[i];
#pragma omp parallel num_threads(v->d->threads)
    {
        int t = omp_get_thread_num();
        uint32_t *at = t ? cpu_scratch(v->d, t, mine * 4) : weights + packed, *stage = at + acc;
        v->g->begin();
#pragma omp for schedule(static) collapse(2)
        for (size_t tap = 0; tap < v->taps; tap++)
            for (size_t p = 0; p < panels; p++)
                pack_panel(v, weights + tap * v->tap_units + p * v->pb, (float *)stage, tap, p * nr);
#pragma omp for schedule(dynamic, 1)
        for (size_t r = 0; r < rows; r++)
            output_row(v, weights, stage, (float *)at, r);
        v->g->end();
    }
}

void cpu_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w, const vt_tensor *b,
                const vt_conv *c)
{
    if (vt_count(y) == 0 || cpu_dnnl_conv3d(d, y, x, w, b, c))
        return;

    conv v = {
        .d = d, .g = cpu_gemm_of(d, x->dtype), .y = y, .x = x, .w = w, .b = b, .c = c,
        .in = (size_t)x->dim[4], .out = (size_t)w->dim[0],
        .taps = (size_t)(w->dim[2] * w->dim[3] * w->dim[4]),
    };
    v.units = cpu_units(v.g, v.in);
    v.pb = v.units * (size_t)v.g->nr;
    v.tap_units = cpu_round_up(v.out, (size_t)v.g->nr) * v.units;
    v.direct = v.g->pair == 1 && x->dtype == VC_F32;
    v.lda = v.direct ? v.in : v.units + PAD;
    v.ldc = cpu_round_up(v.out, PAD) + PAD;
    run(&v);
}
