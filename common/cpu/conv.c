/* conv.c - channels-last convolution: products of input rows, or oneDNN.
 *
 * Without an im2col. The window of an output position is, in one input row, kw * C neighbouring
 * numbers; those of the next position begin stride * C further on. So an input row, between its
 * zero padding, already is a matrix A with overlapping rows, and an output row is the sum over (kt,
 * kh) of such an A times the kw C x K weights. */
#include <omp.h>
#include <string.h>

#include "common/cpu/dnnl.h"
#include "common/cpu/loops.h"

enum {
    PAD = 16,
    FEW = 16                       /* input channels: too few here; with AVX2 the rest is faster here */
};

typedef struct conv {
    vt_dev *d;
    const cpu_gemm *g;
    vt_tensor *y;
    const vt_tensor *x, *w, *b;
    const vt_conv *c;
    size_t in, out, kw, rows;                /* channels; kernel width; input rows per output row */
    size_t pb, row_weights;                    /* units: a panel; all panels of one (kt, kh) */
    size_t units, lda, ldc;               /* units of kw C; from one position to the next; of acc */
    size_t stage;                          /* units of an input row, padding and all that is read */
    size_t outputs;                            /* rows of y to compute: the first ones */
} conv;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* One panel of (kt, kh) `row`: nr output channels, gathered from [K][C][kt kh kw] to [kw][C]. */
static void pack_panel(const conv *v, uint32_t *dst, float *stage, size_t row, size_t k0)
{
    size_t n = least((size_t)v->g->nr, v->out - k0), k = v->kw * v->in;
    size_t size = vc_dtype_size(v->w->dtype), taps = v->rows * v->kw;
    size_t step = least(v->in, (CPU_SPAN - v->kw) / taps + 1);
    const char *w = (const char *)v->w->data + (k0 * v->in * taps + row * v->kw) * size;
    float buf[CPU_SPAN];

    for (size_t i = 0; i < n; i++)
        for (size_t c0 = 0, m; c0 < v->in; c0 += m, w += m * taps * size) {
            m = least(step, v->in - c0);       /* channels whose taps are read at once */
            const float *f = cpu_load(v->d->rows, buf, w, v->w->dtype, 1, (m - 1) * taps + v->kw);
            for (size_t c = 0; c < m; c++)
                for (size_t q = 0; q < v->kw; q++)
                    stage[i * k + q * v->in + c0 + c] = f[c * taps + q];
        }
    cpu_pack_b(v->g, dst, v->pb, (cpu_vectors){ stage, VC_F32, k, true }, 0, n, 0, k);
}

/* Input row (n, t, h), t < 0 being a frame in front; NULL: zeros. */
static const char *input_row(const conv *v, size_t n, long t, long h)
{
    const vt_tensor *x = v->x;

    if (t < 0 && v->c->front) {
        x = v->c->front;
        t = x->dim[1] == 1 ? 0 : t + v->c->before[0];
    }
    if (t < 0 || t >= x->dim[1] || h < 0 || h >= x->dim[2])
        return NULL;
    size_t row = (n * (size_t)x->dim[1] + (size_t)t) * (size_t)x->dim[2] + (size_t)h;
    return (const char *)x->data + row * (size_t)x->dim[3] * v->in * vc_dtype_size(x->dtype);
}

/* acc += what comes through one kernel row from input row (n, t, h), if that is not zeros */
static void add_row(const conv *v, const uint32_t *weights, uint32_t *stage, float *acc, size_t n,
                    long t, long h)
{
    const char *row = input_row(v, n, t, h);
    if (!row)
        return;
    size_t before = (size_t)v->c->before[2] * v->in / (size_t)v->g->pair;
    v->g->along(stage + before, row, v->x->dtype, (size_t)v->x->dim[3] * v->in);
    v->g->block((size_t)v->y->dim[3], v->out, v->units, stage, v->lda, weights, v->pb, acc, v->ldc,
                true);
}

/* Output row r of [N,To,Ho]. */
static void output_row(const conv *v, const uint32_t *weights, uint32_t *stage, float *acc,
                       size_t r)
{
    const int64_t *wd = v->w->dim, *yd = v->y->dim;
    const vt_conv *c = v->c;
    long ho = (long)(r % (size_t)yd[2]), to = (long)(r / (size_t)yd[2] % (size_t)yd[1]);
    size_t n = r / (size_t)(yd[1] * yd[2]), width = (size_t)yd[3];

    for (size_t i = 0; i < width; i++)
        if (v->b)
            v->d->rows->load(acc + i * v->ldc, v->b->data, v->b->dtype, v->out);
        else
            memset(acc + i * v->ldc, 0, v->out * 4);
    for (long kt = 0; kt < wd[2]; kt++)
        for (long kh = 0; kh < wd[3]; kh++, weights += v->row_weights)
            add_row(v, weights, stage, acc, n, to * c->stride[0] + kt - c->before[0],
                    ho * c->stride[1] + kh - c->before[1]);

    size_t bytes = v->out * vc_dtype_size(v->y->dtype);
    char *y = (char *)v->y->data + r * width * bytes;
    for (size_t i = 0; i < width; i++)
        v->d->rows->store(y + i * bytes, v->y->dtype, acc + i * v->ldc, v->out);
}

static void run(const conv *v)
{
    size_t nr = (size_t)v->g->nr, panels = (v->out + nr - 1) / nr;
    size_t packed = v->rows * v->row_weights, acc = (size_t)v->y->dim[3] * v->ldc;
    size_t gather = nr * v->kw * v->in, mine = acc + (v->stage > gather ? v->stage : gather);

    if (!cpu_scratch_all(v->d, v->d->threads, (packed + mine) * 4, mine * 4))
        return;
    uint32_t *weights = cpu_scratch(v->d, 0, (packed + mine) * 4);
#pragma omp parallel num_threads(v->d->threads)
    {
        int t = omp_get_thread_num();
        uint32_t *at = t ? cpu_scratch(v->d, t, mine * 4) : weights + packed, *stage = at + acc;
        v->g->begin();
#pragma omp for schedule(static) collapse(2)
        for (size_t row = 0; row < v->rows; row++)
            for (size_t p = 0; p < panels; p++)
                pack_panel(v, weights + row * v->row_weights + p * v->pb, (float *)stage, row,
                           p * nr);
        memset(stage, 0, v->stage * 4);      /* the padding; input rows overwrite what is between */
#pragma omp for schedule(dynamic, 1)
        for (size_t r = 0; r < v->outputs; r++)
            output_row(v, weights, stage, (float *)at, r);
        v->g->end();
    }
}

/* What of a tensor with one sample follows its frame `from`. */
static vt_tensor frames_from(const vt_tensor *t, int64_t from)
{
    vt_tensor p = *t;

    p.dim[1] -= from;
    p.data = (char *)p.data + from * t->stride[1] * (int64_t)vc_dtype_size(t->dtype);
    return p;
}

/* Frames of y that oneDNN leaves to the code here: it cannot read `front`, so it is given the
 * output frames that do not see it. */
static int64_t left_by_dnnl(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                            const vt_tensor *b, const vt_conv *c)
{
    int64_t all = y->dim[1], before = c->before[0], step = c->stride[0];

    bool few = w->dim[1] < FEW;
    if (!d->dnnl || (!d->isa.avx512 && !few))
        return all;
    if (!c->front)
        return cpu_dnnl_conv3d(d, y, x, w, b, c) ? 0 : all;
    int64_t head = (before + step - 1) / step, skip = head * step - before;
    if (y->dim[0] != 1 || head >= all || skip >= x->dim[1])
        return all;
    vt_tensor yt = frames_from(y, head), xt = frames_from(x, skip);
    vt_conv rest = *c;
    rest.front = NULL;
    rest.before[0] = 0;
    return cpu_dnnl_conv3d(d, &yt, &xt, w, b, &rest) ? head : all;
}

void cpu_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w, const vt_tensor *b,
                const vt_conv *c)
{
    int64_t frames = left_by_dnnl(d, y, x, w, b, c);
    if (frames == 0)
        return;

    conv v = {
        .d = d, .g = cpu_gemm_of(d, x->dtype), .y = y, .x = x, .w = w, .b = b, .c = c,
        .in = (size_t)x->dim[4], .out = (size_t)w->dim[0], .kw = (size_t)w->dim[4],
        .rows = (size_t)(w->dim[2] * w->dim[3]),
        .outputs = (size_t)(y->dim[0] * frames * y->dim[2]),
    };
    if (v.in % (size_t)v.g->pair)              /* a position would begin inside a unit */
        v.g = cpu_gemm_of(d, VC_F32);
    v.units = cpu_units(v.g, v.kw * v.in);
    v.pb = v.units * (size_t)v.g->nr;
    v.row_weights = cpu_round_up(v.out, (size_t)v.g->nr) * v.units;
    v.lda = (size_t)c->stride[2] * v.in / (size_t)v.g->pair;
    v.ldc = cpu_round_up(v.out, PAD) + PAD;

    size_t positions = cpu_round_up((size_t)y->dim[3], (size_t)v.g->mr);
    size_t padded = (size_t)(x->dim[3] + c->before[2] + c->after[2]) * v.in / (size_t)v.g->pair;
    size_t reach = (positions - 1) * v.lda + v.units;
    v.stage = padded > reach ? padded : reach;
    run(&v);
}
