/* update.c - a step of an optimiser's rule with state in f32, in bf16 with stochastic rounding, and
 * in codes of eight bits; see common/kernels/moments.h */
#include <math.h>

#include "common/base/rng.h"
#include "common/cpu/loops.h"
#include "common/kernels/moments.h"

enum { BLOCK = VK_MOMENT_BLOCK, GRAIN = 64 };  /* elements of a block; least blocks per thread */

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
    const cpu_codes *codes[2];                 /* of states with a sign, of squares; or NULL */
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

static void update_bf16(const rule_step *u, int64_t at, size_t n)
{
    const vk_draws d = { { u->a->key[0], u->a->key[1] }, u->a->step, VC_DRAW_ROUND,
                         u->a->first / 8 };
    float w[BLOCK], x[VF_STATES][BLOCK], *s[VF_STATES];

    u->rows->load(w, u->w + 2 * at, VC_BF16, n);
    for (int k = 0; k < u->rule.states; k++) {
        s[k] = x[k];
        u->rows->load(x[k], u->state[k] + 2 * at, VC_BF16, n);
    }
    u->rule.step(w, s, u->grad + at, n, &u->factors);
    u->rows->store_randomly(u->w + 2 * at, w, n, &d, (uint64_t)at / 8, VK_ROUND_W);
    for (int k = 0; k < u->rule.states; k++)
        u->rows->store_randomly(u->state[k] + 2 * at, x[k], n, &d, (uint64_t)at / 8,
                                VK_ROUND_STATE + k);
}

static void update_8bit(const rule_step *u, int64_t at, size_t n)
{
    float *peak = u->peak + u->rule.states * (at / BLOCK), x[VF_STATES][BLOCK], *s[VF_STATES];

    for (int k = 0; k < u->rule.states; k++) {
        s[k] = x[k];
        u->rows->load_codes(x[k], (const uint8_t *)u->state[k] + at, n, peak[k],
                            u->codes[u->rule.squares >> k & 1]);
    }
    u->rule.step((float *)u->w + at, s, u->grad + at, n, &u->factors);
    for (int k = 0; k < u->rule.states; k++)
        peak[k] = u->rows->store_codes((uint8_t *)u->state[k] + at, x[k], n,
                                       u->codes[u->rule.squares >> k & 1]);
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
    cpu_codes with_sign, square;

    for (int k = 0; k < u.rule.states; k++)
        u.state[k] = state[k]->data;
    if (peak) {
        cpu_codes_of(&with_sign, vk_m_value, false);
        cpu_codes_of(&square, vk_v_value, true);
        u.codes[0] = &with_sign;
        u.codes[1] = &square;
    }
    cpu_share(d, cpu_parts(d, n, GRAIN), n, update_blocks, &u);
}
