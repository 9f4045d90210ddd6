/* conv.c - channels-last convolution, by products of input rows, by Winograd's transforms
 * (winograd.c) or by oneDNN.
 *
 * The products need no im2col. In one input row the window of an output position is kw * C adjacent
 * numbers, and the next position's window begins stride * C later. So an input row with its zero
 * padding is already a matrix A with overlapping rows, and an output row is the sum over (kt, kh)
 * of such an A times the kw C x K weights.
 *
 * In a still all frames of a causal kernel read the same frame, or zeros. Then a kernel of one
 * frame has the same result: the sum of the kernel's frames, which is rounded once. */
#include <omp.h>
#include <string.h>

#include "common/cpu/conv.h"
#include "common/cpu/dnnl.h"

enum {
    PAD = 16,
    FEW = 16,                      /* input channels below which oneDNN is faster, even with AVX2 */
    MOST_TAPS = CPU_SPAN / 4       /* of kernels whose frames are summed */
};

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

void cpu_conv_sizes(cpu_conv *v, vt_conv *plane)
{
    const int64_t frames = v->w->dim[2];
    const vt_conv *c = v->c;
    int64_t first = c->edge[0] ? 0 : c->before[0], end = c->edge[0] ? frames : c->before[0] + 1;

    v->in = (size_t)v->x->dim[4];
    v->out = (size_t)v->w->dim[0];
    v->kw = (size_t)v->w->dim[4];
    v->frames = (size_t)frames;
    v->first = 0;
    v->sum = 1;
    end = end < frames ? end : frames;
    if (frames > 1 && v->x->dim[1] == 1 && v->y->dim[1] == 1 && !c->front && first < end &&
        cpu_conv_taps(v) <= MOST_TAPS) {
        *plane = *c;
        plane->stride[0] = 1;
        plane->before[0] = plane->after[0] = 0;
        plane->edge[0] = false;
        v->c = plane;
        v->frames = 1;
        v->first = (size_t)first;
        v->sum = (size_t)(end - first);
    }
    v->rows = v->frames * (size_t)v->w->dim[3];
}

/* Packs one panel of (kt, kh) `row`: nr output channels, gathered from [K][C][kt kh kw] to
 * [kw][C]. */
static void pack_panel(const cpu_conv *v, uint32_t *dst, float *stage, size_t row, size_t k0)
{
    size_t n = least((size_t)v->g->nr, v->out - k0), k = v->kw * v->in;
    size_t size = vc_dtype_size(v->w->dtype), taps = cpu_conv_taps(v), plane = cpu_conv_plane(v);
    size_t reach = (v->sum - 1) * plane + v->kw, step = least(v->in, (CPU_SPAN - reach) / taps + 1);
    const char *w = (const char *)v->w->data +
                    (k0 * v->in * taps + v->first * plane + row * v->kw) * size;
    float buf[CPU_SPAN];

    for (size_t i = 0; i < n; i++)
        for (size_t c0 = 0, m; c0 < v->in; c0 += m, w += m * taps * size) {
            m = least(step, v->in - c0);       /* channels whose taps are converted together */
            const float *f = cpu_load(v->d->rows, buf, w, v->w->dtype, 1, (m - 1) * taps + reach);
            for (size_t c = 0; c < m; c++, f += taps)
                for (size_t q = 0; q < v->kw; q++) {
                    float sum = f[q];
                    for (size_t t = 1; t < v->sum; t++)
                        sum += f[t * plane + q];
                    stage[i * k + q * v->in + c0 + c] = sum;
                }
        }
    const cpu_vectors rows = { .data = stage, .type = VC_F32, .stride = k, .along = true };
    cpu_pack_b(v->g, dst, v->pb, rows, 0, n, 0, k);
}

/* Copies the first and last position of a staged row into its padding, where the convolution
 * repeats the edges of rows. */
static void repeat_edges(const cpu_conv *v, uint32_t *stage)
{
    if (!v->c->edge[2])
        return;
    size_t each = v->in / (size_t)v->g->pair, before = (size_t)v->c->before[2];
    size_t width = (size_t)v->x->dim[3];

    for (size_t i = 0; i < before; i++)
        memcpy(stage + i * each, stage + before * each, each * 4);
    for (size_t i = before + width; i < before + width + (size_t)v->c->after[2]; i++)
        memcpy(stage + i * each, stage + (before + width - 1) * each, each * 4);
}

/* acc += the product of input row (n, t, h) and one kernel row, unless the input row is zeros. */
static void add_row(const cpu_conv *v, const uint32_t *weights, uint32_t *stage, float *acc,
                    size_t n, long t, long h)
{
    const char *row = cpu_conv_row(v, n, t, h);

    if (!row)
        return;
    size_t before = (size_t)v->c->before[2] * v->in / (size_t)v->g->pair;
    v->g->along(stage + before, row, v->x->dtype, (size_t)v->x->dim[3] * v->in);
    repeat_edges(v, stage);
    v->g->block((size_t)v->y->dim[3], v->out, v->units, stage, v->lda, weights, v->pb, acc, v->ldc,
                true);
}

/* Computes output row r, counted over [N,To,Ho] without the rows that oneDNN has computed. */
static void output_row(const cpu_conv *v, const uint32_t *weights, uint32_t *stage, float *acc,
                       size_t r)
{
    const int64_t *yd = v->y->dim;
    const vt_conv *c = v->c;

    r += r < v->head ? 0 : v->done;
    long ho = (long)(r % (size_t)yd[2]), to = (long)(r / (size_t)yd[2] % (size_t)yd[1]);
    size_t n = r / (size_t)(yd[1] * yd[2]), width = (size_t)yd[3];

    for (size_t i = 0; i < width; i++)
        if (v->b)
            v->d->rows->load(acc + i * v->ldc, v->b->data, v->b->dtype, v->out);
        else
            memset(acc + i * v->ldc, 0, v->out * 4);
    for (long kt = 0; kt < (long)v->frames; kt++)
        for (long kh = 0; kh < v->w->dim[3]; kh++, weights += v->row_weights)
            add_row(v, weights, stage, acc, n, to * c->stride[0] + kt - c->before[0],
                    ho * c->stride[1] + kh - c->before[1]);

    size_t bytes = v->out * vc_dtype_size(v->y->dtype);
    char *y = (char *)v->y->data + r * width * bytes;
    for (size_t i = 0; i < width; i++)
        v->d->rows->store(y + i * bytes, v->y->dtype, acc + i * v->ldc, v->out);
}

static void run(const cpu_conv *v)
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
        memset(stage, 0, v->stage * 4);      /* for the padding; input rows overwrite the rest */
#pragma omp for schedule(dynamic, 1)
        for (size_t r = 0; r < v->outputs; r++)
            output_row(v, weights, stage, (float *)at, r);
        v->g->end();
    }
}

/* Frames of a tensor with one sample. */
typedef struct frames { int64_t begin, end; } frames;

static vt_tensor frames_of(const vt_tensor *t, frames f)
{
    vt_tensor p = *t;

    p.dim[1] = f.end - f.begin;
    p.data = (char *)p.data + f.begin * t->stride[1] * (int64_t)vc_dtype_size(t->dtype);
    return p;
}

/* Lets oneDNN compute frames of y and returns them; none if it cannot. oneDNN pads with zeros and
 * cannot read `front`, so it computes the frames that depend on neither front nor a repeated
 * frame. */
static frames by_dnnl(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w,
                      const vt_tensor *b, const vt_conv *c)
{
    const frames none = { 0, 0 };
    int64_t before = c->before[0], step = c->stride[0], in = x->dim[1];
    frames f = { 0, y->dim[1] };

    bool few = w->dim[1] < FEW;
    if (!d->dnnl || (!d->isa.avx512 && !few) || c->edge[1] || c->edge[2])
        return none;
    if (!c->front && !c->edge[0])
        return cpu_dnnl_conv3d(d, y, x, w, b, c) ? f : none;
    f.begin = (before + step - 1) / step;
    int64_t skip = f.begin * step - before;
    if (c->edge[0]) {
        f.end = in + before < w->dim[2] ? 0 : (in + before - w->dim[2]) / step + 1;
        in = (f.end - 1) * step - before + w->dim[2];
    }
    if (y->dim[0] != 1 || f.begin >= f.end || skip >= in)
        return none;
    vt_tensor yt = frames_of(y, f), xt = frames_of(x, (frames){ skip, in });
    vt_conv rest = { .before = { 0, c->before[1], c->before[2] } };
    for (int i = 0; i < 3; i++) {
        rest.stride[i] = c->stride[i];
        rest.after[i] = i == 0 && c->edge[0] ? 0 : c->after[i];
    }
    return cpu_dnnl_conv3d(d, &yt, &xt, w, b, &rest) ? f : none;
}

void cpu_conv3d(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *w, const vt_tensor *b,
                const vt_conv *c)
{
    cpu_conv v = {
        .d = d, .g = cpu_gemm_of(d, x->dtype), .y = y, .x = x, .w = w, .b = b, .c = c,
    };
    vt_conv plane;

    cpu_conv_sizes(&v, &plane);
    c = v.c;
    if (cpu_winograd_suits(&v)) {
        cpu_winograd(&v);
        return;
    }
    frames dnnl = { 0, 0 };
    if (v.frames == (size_t)w->dim[2])
        dnnl = by_dnnl(d, y, x, w, b, c);
    int64_t done = dnnl.begin < dnnl.end ? dnnl.end - dnnl.begin : 0;
    if (done == y->dim[1])
        return;

    v.head = done ? (size_t)(dnnl.begin * y->dim[2]) : SIZE_MAX;
    v.done = (size_t)(done * y->dim[2]);
    v.outputs = (size_t)(y->dim[0] * (y->dim[1] - done) * y->dim[2]);
    if (v.in % (size_t)v.g->pair)              /* positions must begin at whole units */
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
