/* update.c - a step of an optimiser's rule with state in f32, in bf16 with stochastic rounding, and
 * in codes of eight bits; see common/kernels/moments.h */
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

/* What the update needs to know of a rule (VF_RULES). */
typedef struct rule_row {
    void (*step)(float *w, float *const *s, const float *grad, size_t n, const vf_step *a);
    int states, squares;
} rule_row;

static rule_row rule_of(const cpu_rows *rows, vf_rule rule)
{
#define RULE(with, NAME, name, n, bits)                                                            \
    case VF_##NAME: return (rule_row){ rows->name, n, bits };
    switch (rule) {
        VF_RULES(RULE, )
    default: return (rule_row){ 0 };
    }
#undef RULE
}

typedef struct rule_step {
    const cpu_rows *rows;
    rule_row rule;
    vf_step factors;
    char *w, *state[VF_STATES];
    vc_dtype type;                             /* of w */
    float *peak;                               /* NULL: the states have w's type */
    const float *grad;
    int64_t n;
    const vt_update_args *a;
    const codes *with_sign, *square;           /* set if peak is */
} rule_step;

/* Updates a block of n elements from `at` on: BLOCK, or fewer at the end. */
typedef void (*block_update)(const rule_step *u, int64_t at, size_t n);

static void update_f32(const rule_step *u, int64_t at, size_t n)
{
    float *s[VF_STATES] = { 0 };

    for (int k = 0; k < u->rule.states; k++)
        s[k] = (float *)u->state[k] + at;
    u->rule.step((float *)u->w + at, s, u->grad + at, n, &u->factors);
}

static void store_bf16(const rule_step *u, char *to, const float *x, int64_t at, size_t n,
                       int value)
{
    const vk_draws d = { { u->a->key[0], u->a->key[1] }, u->a->step, VC_DRAW_ROUND,
                         u->a->first / 8 };

    for (size_t i = 0; i < n; i += 8) {
        int some = n - i < 8 ? (int)(n - i) : 8;
        vk_f8 pack = vk_load8((const char *)(x + i), VK_F32, 1, some);
        vk_store8_randomly(to + 2 * i, some, pack, &d, ((uint64_t)at + i) / 8, value);
    }
}

static void update_bf16(const rule_step *u, int64_t at, size_t n)
{
    float w[BLOCK], x[VF_STATES][BLOCK], *s[VF_STATES];

    u->rows->load(w, u->w + 2 * at, VC_BF16, n);
    for (int k = 0; k < u->rule.states; k++) {
        s[k] = x[k];
        u->rows->load(x[k], u->state[k] + 2 * at, VC_BF16, n);
    }
    u->rule.step(w, s, u->grad + at, n, &u->factors);
    store_bf16(u, u->w + 2 * at, w, at, n, VK_ROUND_W);
    for (int k = 0; k < u->rule.states; k++)
        store_bf16(u, u->state[k] + 2 * at, x[k], at, n, VK_ROUND_STATE + k);
}

/* Stores state k, whose codes are `code`, and its largest magnitude. */
static void store_codes(const rule_step *u, int k, uint8_t *code, const float *x, float *peak,
                        size_t n)
{
    bool square = u->rule.squares >> k & 1;
    const codes *c = square ? u->square : u->with_sign;

    *peak = 0;
    for (size_t i = 0; i < n; i++)
        *peak = larger(fabsf(x[i]), *peak);
    for (size_t i = 0; i < n; i++) {
        code[i] = code_of(c, vk_part_of(x[i], *peak));
        code[i] += square && code[i] == 0 && x[i] > 0;       /* as vk_v_code */
    }
}

static void update_8bit(const rule_step *u, int64_t at, size_t n)
{
    float *peak = u->peak + u->rule.states * (at / BLOCK), x[VF_STATES][BLOCK], *s[VF_STATES];

    for (int k = 0; k < u->rule.states; k++) {
        const codes *c = u->rule.squares >> k & 1 ? u->square : u->with_sign;
        const uint8_t *code = (const uint8_t *)u->state[k] + at;
        s[k] = x[k];
        for (size_t i = 0; i < n; i++)
            x[k][i] = c->value[code[i]] * peak[k];
    }
    u->rule.step((float *)u->w + at, s, u->grad + at, n, &u->factors);
    for (int k = 0; k < u->rule.states; k++)
        store_codes(u, k, (uint8_t *)u->state[k] + at, x[k], &peak[k], n);
}

static void update_blocks(void *arg, int part, int64_t begin, int64_t end)
{
    const rule_step *u = arg;
    block_update f = u->peak ? update_8bit : u->type == VC_BF16 ? update_bf16 : update_f32;

    (void)part;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i * BLOCK;
        f(u, at, (size_t)(u->n - at < BLOCK ? u->n - at : BLOCK));
    }
}

void cpu_update(vt_dev *d, vt_tensor *w, vt_tensor *const *state, vt_tensor *peak,
                const vt_tensor *grad, const vt_update_args *a)
{
    rule_step u = {
        .rows = d->rows, .rule = rule_of(d->rows, a->rule), .factors = vt_step_factors(a),
        .w = w->data, .type = w->dtype, .peak = peak ? peak->data : NULL, .grad = grad->data,
        .n = vt_count(w), .a = a,
    };
    int64_t n = (u.n + BLOCK - 1) / BLOCK;
    codes with_sign, square;

    for (int k = 0; k < u.rule.states; k++)
        u.state[k] = state[k]->data;
    if (peak) {
        make_codes(&with_sign, vk_m_value);
        make_codes(&square, vk_v_value);
        u.with_sign = &with_sign;
        u.square = &square;
    }
    cpu_share(d, cpu_parts(d, n, GRAIN), n, update_blocks, &u);
}
