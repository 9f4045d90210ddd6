/* adamw.c - AdamW with state in f32, in bf16 with stochastic rounding, and with moments of eight
 * bits; see common/kernels/moments.h */
#include <math.h>

#include "common/base/rng.h"
#include "common/cpu/loops.h"
#include "common/kernels/moments.h"

enum { BLOCK = VK_MOMENT_BLOCK, GRAIN = 64 };  /* elements of a block; least blocks per thread */

/* The values of codes in ascending order, and the midpoints between neighbours. */
typedef struct codes { float value[256], border[255]; } codes;

static void make_codes(codes *c, float (*value)(uint8_t))
{
    for (int i = 0; i < 256; i++)
        c->value[i] = value((uint8_t)i);
    for (int i = 0; i < 255; i++)
        c->border[i] = 0.5f * (c->value[i] + c->value[i + 1]);
}

/* Returns the code of the value nearest to x, which is the number of borders below x. The search
 * has no branches, since half of them would be mispredicted. */
static uint8_t code_of(const codes *c, float x)
{
    unsigned n = 0;

    for (int bit = 7; bit >= 0; bit--)
        n += (unsigned)(x > c->border[n + (1u << bit) - 1]) << bit;
    return (uint8_t)n;
}

static float larger(float a, float b) { return a > b ? a : b; }

typedef struct update {
    const cpu_rows *rows;
    char *w, *m, *v;
    vc_dtype type;                             /* of w */
    float *peak;                               /* NULL: m and v have w's type */
    const float *grad;
    int64_t n;
    const vt_adamw_args *a;
    const codes *cm, *cv;                      /* set if peak is */
} update;

/* Updates a block of n elements from `at` on: BLOCK, or fewer at the end. */
typedef void (*block_update)(const update *s, int64_t at, size_t n);

static void update_f32(const update *s, int64_t at, size_t n)
{
    s->rows->adamw((float *)s->w + at, (float *)s->m + at, (float *)s->v + at, s->grad + at, n,
                   s->a);
}

static void store_bf16(const update *s, char *to, const float *x, int64_t at, size_t n, int value)
{
    const vk_draws d = { { s->a->key[0], s->a->key[1] }, s->a->step, VC_DRAW_ROUND,
                         s->a->first / 8 };

    for (size_t i = 0; i < n; i += 8) {
        int some = n - i < 8 ? (int)(n - i) : 8;
        vk_f8 pack = vk_load8((const char *)(x + i), VK_F32, 1, some);
        vk_store8_randomly(to + 2 * i, some, pack, &d, ((uint64_t)at + i) / 8, value);
    }
}

static void update_bf16(const update *s, int64_t at, size_t n)
{
    char *p[] = { s->w + 2 * at, s->m + 2 * at, s->v + 2 * at };
    float x[3][BLOCK];

    for (int i = 0; i < 3; i++)
        s->rows->load(x[i], p[i], VC_BF16, n);
    s->rows->adamw(x[0], x[1], x[2], s->grad + at, n, s->a);
    for (int i = 0; i < 3; i++)
        store_bf16(s, p[i], x[i], at, n, (int[]){ VK_ROUND_W, VK_ROUND_M, VK_ROUND_V }[i]);
}

static void update_8bit(const update *s, int64_t at, size_t n)
{
    uint8_t *mc = (uint8_t *)s->m + at, *vc = (uint8_t *)s->v + at;
    float *peak = s->peak + 2 * (at / BLOCK), m[BLOCK], v[BLOCK];

    for (size_t i = 0; i < n; i++) {
        m[i] = s->cm->value[mc[i]] * peak[0];
        v[i] = s->cv->value[vc[i]] * peak[1];
    }
    s->rows->adamw((float *)s->w + at, m, v, s->grad + at, n, s->a);
    peak[0] = peak[1] = 0;
    for (size_t i = 0; i < n; i++) {
        peak[0] = larger(fabsf(m[i]), peak[0]);
        peak[1] = larger(v[i], peak[1]);
    }
    for (size_t i = 0; i < n; i++) {
        mc[i] = code_of(s->cm, vk_part_of(m[i], peak[0]));
        vc[i] = code_of(s->cv, vk_part_of(v[i], peak[1]));
        vc[i] += vc[i] == 0 && v[i] > 0;       /* as vk_v_code */
    }
}

static void update_blocks(void *arg, int part, int64_t begin, int64_t end)
{
    const update *s = arg;
    block_update f = s->peak ? update_8bit : s->type == VC_BF16 ? update_bf16 : update_f32;

    (void)part;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * BLOCK;
        f(s, at, (size_t)(s->n - at < BLOCK ? s->n - at : BLOCK));
    }
}

void cpu_adamw(vt_dev *d, vt_tensor *w, vt_tensor *m, vt_tensor *v, vt_tensor *peak,
               const vt_tensor *grad, const vt_adamw_args *a)
{
    update s = {
        .rows = d->rows, .w = w->data, .m = m->data, .v = v->data, .type = w->dtype,
        .peak = peak ? peak->data : NULL, .grad = grad->data, .n = vt_count(w), .a = a,
    };
    int64_t n = (s.n + BLOCK - 1) / BLOCK;
    codes cm, cv;

    if (peak) {
        make_codes(&cm, vk_m_value);
        make_codes(&cv, vk_v_value);
        s.cm = &cm;
        s.cv = &cv;
    }
    cpu_share(d, cpu_parts(d, n, GRAIN), n, update_blocks, &s);
}
