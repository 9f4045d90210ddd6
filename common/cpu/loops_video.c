/* loops_video.c - patches, rotary positions, noise, sinusoids; see kernel_list.h */
#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/cpu/loops.h"

/* ---- patches ---- */

typedef struct patches {
    const cpu_rows *rows;
    char *x, *tokens;
    vc_dtype x_type, token_type;
    int64_t c, t, h, w, pt, ph, pw;            /* sizes of x and of a patch */
    vt_patch_order order;
    bool to_tokens, adds;
} patches;

static int64_t in_token(const patches *s, int64_t c, int64_t t, int64_t h, int64_t w)
{
    return s->order == VT_C_FIRST ? ((c * s->pt + t) * s->ph + h) * s->pw + w
                                  : ((t * s->ph + h) * s->pw + w) * s->c + c;
}

static void move(const patches *s, char *dst, vc_dtype to, int64_t dst_step, const char *src,
                 vc_dtype from, int64_t src_step, size_t n)
{
    float buf[CPU_SPAN];
    const float *v = cpu_load(s->rows, buf, src, from, src_step, n);

    if (s->adds)
        cpu_store_add(s->rows, dst, to, dst_step, v, n);
    else
        cpu_store(s->rows, dst, to, dst_step, v, n);
}

/* Copies rows of pixels: every pw-th pixel has the same place in successive tokens. */
static void patch_part(void *arg, int part, int64_t begin, int64_t end)
{
    const patches *s = arg;
    int64_t across = s->w / s->pw, size = s->c * s->pt * s->ph * s->pw;
    int64_t xs = (int64_t)vc_dtype_size(s->x_type), ts = (int64_t)vc_dtype_size(s->token_type);

    (void)part;
    for (int64_t r = begin; r < end; r++) {
        int64_t h = r % s->h, t = r / s->h % s->t, c = r / s->h / s->t % s->c;
        int64_t b = r / s->h / s->t / s->c;
        int64_t token = ((b * (s->t / s->pt) + t / s->pt) * (s->h / s->ph) + h / s->ph) * across;
        for (int64_t i = 0; i < s->pw; i++)
            for (int64_t k = 0; k < across; k += CPU_SPAN) {
                size_t n = (size_t)(across - k < CPU_SPAN ? across - k : CPU_SPAN);
                char *px = s->x + (r * s->w + k * s->pw + i) * xs;
                char *pt = s->tokens + ((token + k) * size +
                                        in_token(s, c, t % s->pt, h % s->ph, i)) * ts;
                if (s->to_tokens)
                    move(s, pt, s->token_type, size, px, s->x_type, s->pw, n);
                else
                    move(s, px, s->x_type, s->pw, pt, s->token_type, size, n);
            }
    }
}

static void patch(vt_dev *d, const vt_tensor *x, const vt_tensor *tokens, bool to_tokens, bool adds,
                  int pt, int ph, int pw, vt_patch_order order)
{
    patches s = { .rows = d->rows, .x = x->data, .tokens = tokens->data, .x_type = x->dtype,
                  .token_type = tokens->dtype, .c = x->dim[1], .t = x->dim[2], .h = x->dim[3],
                  .w = x->dim[4], .pt = pt, .ph = ph, .pw = pw, .order = order,
                  .to_tokens = to_tokens, .adds = adds };
    int64_t rows = vt_count(x) / x->dim[4];

    cpu_share(d, cpu_parts(d, rows, 4096 / s.w + 1), rows, patch_part, &s);
}

void cpu_patchify(vt_dev *d, vt_tensor *tokens, const vt_tensor *x, int pt, int ph, int pw,
                  vt_patch_order order)
{
    patch(d, x, tokens, true, vt_adds(tokens), pt, ph, pw, order);
    vt_wrote(tokens);
}

void cpu_unpatchify(vt_dev *d, vt_tensor *x, const vt_tensor *tokens, int pt, int ph, int pw,
                    vt_patch_order order)
{
    patch(d, x, tokens, false, vt_adds(x), pt, ph, pw, order);
    vt_wrote(x);
}

/* ---- rotary positions ---- */

typedef struct rope {
    vt_walk w;                                /* y, x by rows [B,N,H] of D, axes not joined */
    const cpu_rows *rows;
    const float *c, *s;
    int64_t tokens, heads, begin, end;         /* tokens begin..end-1 of each are rotated */
    float sign;
    bool halves, adds;
} rope;

/* Stores n elements of y's row from element i on. */
static void put(const rope *s, const cpu_at *at, int64_t i, const float *x, size_t n)
{
    const vt_walk *w = &s->w;

    (s->adds ? cpu_store_add : cpu_store)(s->rows, cpu_ptr(w, at, 0, i), w->type[0], w->step[0], x,
                                          n);
}

static const float *get(const rope *s, const cpu_at *at, int64_t i, float *buf, size_t n)
{
    const vt_walk *w = &s->w;

    return cpu_load(s->rows, buf, cpu_ptr(w, at, 1, i), w->type[1], w->step[1], n);
}

/* Rotates a row whose pairs are elements half a row apart. */
static void rope_row_halves(const rope *s, const cpu_at *at, int64_t token)
{
    int64_t half = s->w.n / 2, angle = (token - s->begin) * half;
    float in[2][CPU_SPAN], out[2][CPU_SPAN];

    for (int64_t i = 0; i < half; i += CPU_SPAN) {
        size_t n = (size_t)(half - i < CPU_SPAN ? half - i : CPU_SPAN);
        const float *a = get(s, at, i, in[0], n), *b = get(s, at, half + i, in[1], n);
        s->rows->rope_halves(out[0], out[1], a, b, s->c + angle + i, s->s + angle + i, s->sign, n);
        put(s, at, i, out[0], n);
        put(s, at, half + i, out[1], n);
    }
}

static void rope_row(const rope *s, const cpu_at *at, int64_t token)
{
    const vt_walk *w = &s->w;
    bool rotated = token >= s->begin && token < s->end;
    float in[CPU_SPAN], out[CPU_SPAN];

    if (rotated && s->halves) {
        rope_row_halves(s, at, token);
        return;
    }
    for (int64_t i = 0; i < w->n; i += CPU_SPAN) {
        size_t n = (size_t)(w->n - i < CPU_SPAN ? w->n - i : CPU_SPAN);
        const float *x = get(s, at, i, in, n);
        if (rotated) {
            int64_t angle = (token - s->begin) * (w->n / 2) + i / 2;
            s->rows->rope(out, x, s->c + angle, s->s + angle, s->sign, n / 2);
            x = out;
        }
        put(s, at, i, x, n);
    }
}

static void rope_part(void *arg, int part, int64_t begin, int64_t end)
{
    const rope *s = arg;
    cpu_at at;

    (void)part;
    cpu_at_row(&s->w, &at, begin);
    for (int64_t r = begin; r < end; r++, cpu_next_row(&s->w, &at))
        rope_row(s, &at, r / s->heads % s->tokens);
}

void cpu_rope(vt_dev *d, vt_tensor *y, const vt_tensor *x, const vt_tensor *c, const vt_tensor *sn,
              int64_t begin, bool halves, float sign)
{
    rope s = { .rows = d->rows, .c = c->data, .s = sn->data, .tokens = x->dim[1],
               .heads = x->dim[2], .begin = begin, .end = begin + c->dim[0], .sign = sign,
               .halves = halves, .adds = vt_adds(y) };

    s.w = vt_walk_of(2, (const vt_tensor *const[]){ y, x }, false);
    cpu_share(d, cpu_parts(d, s.w.rows, 8192 / s.w.n + 1), s.w.rows, rope_part, &s);
    vt_wrote(y);
}

/* ---- noise and times ---- */

enum { DRAWS = 4096 };                         /* a multiple of 4 */

typedef struct draws {
    float *y;
    int64_t n, blocks;                         /* elements and blocks per outermost index */
    uint64_t seed;
    uint32_t row0, micro, purpose;
} draws;

static void draw_part(void *arg, int part, int64_t begin, int64_t end)
{
    const draws *s = arg;

    (void)part;
    for (int64_t u = begin; u < end; u++) {
        int64_t b = u / s->blocks, first = u % s->blocks * DRAWS, left = s->n - first;
        vc_train_normals(s->y + b * s->n + first, (uint64_t)first,
                         (size_t)(left < DRAWS ? left : DRAWS), s->seed, s->row0 + (uint32_t)b,
                         s->micro, s->purpose);
    }
}

void cpu_randn(vt_dev *d, vt_tensor *y, uint64_t seed, uint32_t row0, uint32_t micro,
               uint32_t purpose)
{
    int64_t n = vt_count(y) / y->dim[0], blocks = (n + DRAWS - 1) / DRAWS;
    draws s = { y->data, n, blocks, seed, row0, micro, purpose };

    cpu_share(d, cpu_parts(d, y->dim[0] * blocks, 1), y->dim[0] * blocks, draw_part, &s);
}

/* ---- dropout ---- */

typedef struct dropping {
    vt_tensor *y;
    const vt_drop *how;
    uint32_t row0, micro;
} dropping;

static void block_of(const dropping *s, uint64_t quad, uint32_t sample, uint32_t purpose,
                     uint32_t word[4])
{
    const uint32_t ctr[4] = { (uint32_t)quad, s->row0 + sample, s->micro, purpose };

    vc_philox(s->how->key, ctr, word);
}

enum { SPAN = 1024 };                          /* columns; a multiple of 4 */

/* Writes the factors of n columns of a sample's row, from `begin` on: 0, or that of what stays. */
static void row_factors(const dropping *s, uint32_t sample, int64_t row, int64_t begin, int64_t n,
                        float *factor)
{
    const vt_drop *how = s->how;
    int64_t first = row * s->y->dim[1] + begin;
    uint32_t word[4];

    for (int64_t j = 0; j < n; j++)
        factor[j] = how->factor;
    for (int64_t j = 0; how->column && j < n; j++) {
        if (j % 4 == 0)
            block_of(s, (uint64_t)(begin + j) / 4, sample, VC_DRAW_DROP_RANK, word);
        if (word[j % 4] < how->column)
            factor[j] = 0;
    }
    for (int64_t j = 0; how->element && j < n; j++) {
        if (j == 0 || (first + j) % 4 == 0)
            block_of(s, (uint64_t)(first + j) / 4, sample, how->purpose, word);
        if (word[(first + j) % 4] < how->element)
            factor[j] = 0;
    }
}

static bool drops_sample(const dropping *s, uint32_t sample)
{
    uint32_t word[4];

    if (!s->how->sample)
        return false;
    block_of(s, 0, sample, VC_DRAW_DROP_MODULE, word);
    return word[0] < s->how->sample;
}

/* y *= factor, where a factor of 0 gives 0 of any y. */
static void apply(const vt_tensor *y, int64_t at, const float *factor, int64_t n)
{
    float *v = (float *)y->data + at;
    uint16_t *half = (uint16_t *)y->data + at;

    for (int64_t j = 0; y->dtype == VC_F32 && j < n; j++)
        v[j] = factor[j] == 0 ? 0 : v[j] * factor[j];
    for (int64_t j = 0; y->dtype != VC_F32 && j < n; j++)
        half[j] = factor[j] == 0 ? 0 : vc_f32_to_bf16(vc_bf16_to_f32(half[j]) * factor[j]);
}

static void drop_part(void *arg, int part, int64_t begin, int64_t end)
{
    const dropping *s = arg;
    float factor[SPAN];
    int64_t n = s->y->dim[1], rows = s->how->rows;

    (void)part;
    for (int64_t r = begin; r < end; r++) {
        uint32_t sample = (uint32_t)(r / rows);
        bool gone = drops_sample(s, sample);
        for (int64_t i = 0; i < n; i += SPAN) {
            int64_t k = n - i < SPAN ? n - i : SPAN;
            if (gone)
                memset(factor, 0, sizeof factor);
            else
                row_factors(s, sample, r % rows, i, k, factor);
            apply(s->y, r * n + i, factor, k);
        }
    }
}

void cpu_dropout(vt_dev *d, vt_tensor *y, const vt_tensor *draw, const vt_drop *how)
{
    const int32_t *at = draw->data;
    dropping s = { y, how, (uint32_t)at[0], (uint32_t)at[1] };

    cpu_share(d, cpu_parts(d, y->dim[0], 4096 / y->dim[1] + 1), y->dim[0], drop_part, &s);
}

void cpu_timestep(vt_dev *d, vt_tensor *y, const vt_tensor *t, float max_period)
{
    int64_t half = y->dim[1] / 2;

    (void)d;
    for (int64_t b = 0; b < y->dim[0]; b++) {
        float *row = (float *)y->data + b * y->dim[1];
        float at = ((const float *)t->data)[b], period = (float)log((double)max_period);
        for (int64_t k = 0; k < half; k++) {
            double a = (double)(at * (float)exp((double)(-period * (float)k / (float)half)));
            row[k] = (float)cos(a);
            row[half + k] = (float)sin(a);
        }
    }
}
