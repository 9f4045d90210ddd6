/* update.h - a step of an optimiser's rule (formulas.h) with state in f32, bf16 and eight bits
 * (moments.h). Included by bodies.h. */
#ifndef COMMON_KERNELS_UPDATE_H
#define COMMON_KERNELS_UPDATE_H

/* A rule as a constant of its kernels. */
typedef struct vk_rule { vf_rule rule; int states, squares; } vk_rule;

VK_HD float vk_rule_one(vk_rule r, const vf_step *a, float w, float *s, float grad)
{
#define VK_RULE_ONE(with, NAME, name, states, squares)                                             \
    case VF_##NAME: return vk_##name##_rule(a, w, s, grad);
    switch (r.rule) {
        VF_RULES(VK_RULE_ONE, )
    default: return w;
    }
#undef VK_RULE_ONE
}

/* Takes the step of a pack's eight values. */
VK_HD void vk_rule_eight(vk_rule r, const vf_step *a, vk_f8 *w, vk_f8 *state, const vk_f8 *grad)
{
    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        float s[VF_STATES] = { 0 };
        VK_UNROLL
        for (int k = 0; k < r.states; k++)
            s[k] = state[k].v[j];
        w->v[j] = vk_rule_one(r, a, w->v[j], s, grad->v[j]);
        VK_UNROLL
        for (int k = 0; k < r.states; k++)
            state[k].v[j] = s[k];
    }
}

/* Writes n values of an f32 w from i on, and their copies in bf16. */
VK_HD void vk_store_both(const vk_update_args *s, int64_t i, int n, vk_f8 w)
{
    vk_store8(s->w + i * 4, VK_F32, 1, n, w);
    if (s->rounded)
        vk_store8(s->rounded + i * 2, VK_BF16, 1, n, w);
}

VK_HD void vk_update_packs(vk_rule r, const vk_update_args *s, uint32_t block, vk_team t)
{
    VK_EACH(u, (s->n + 7) / 8) {
        int64_t i = (int64_t)u * 8, at = i * vk_size(s->type);
        int n = (int)(s->n - i < 8 ? s->n - i : 8);
        vk_f8 g = vk_load8((const char *)(s->grad + i), VK_F32, 1, n);
        vk_f8 w = vk_load8(s->w + at, s->type, 1, n), state[VF_STATES];
        VK_UNROLL
        for (int k = 0; k < r.states; k++)
            state[k] = vk_load8(s->state[k] + at, s->type, 1, n);
        vk_rule_eight(r, &s->step, &w, state, &g);
        if (s->type == VK_F32)
            vk_store_both(s, i, n, w);
        else
            vk_store8_randomly(s->w + at, n, w, &s->draws, u, VK_ROUND_W);
        VK_UNROLL
        for (int k = 0; k < r.states; k++) {
            if (s->type == VK_F32)
                vk_store8(s->state[k] + at, VK_F32, 1, n, state[k]);
            else
                vk_store8_randomly(s->state[k] + at, n, state[k], &s->draws, u,
                                   VK_ROUND_STATE + k);
        }
    }
}

/* Computes the new w and states of n elements from i on; peak holds the block's largest magnitudes
 * before the step. */
VK_HD void vk_update8_pack(vk_rule r, const vk_update_args *s, int64_t i, int n, const float *peak,
                           vk_f8 *w, vk_f8 *state)
{
    vk_f8 g = vk_load8((const char *)(s->grad + i), VK_F32, 1, n);

    *w = vk_load8(s->w + i * 4, VK_F32, 1, n);
    VK_UNROLL
    for (int k = 0; k < r.states; k++) {
        uint32_t code[8];
        vk_load_bytes(s->state[k] + i, 1, n, code);
        VK_UNROLL
        for (int j = 0; j < 8; j++) {
            float x = r.squares >> k & 1 ? vk_v_value((uint8_t)code[j])
                                         : vk_m_value((uint8_t)code[j]);
            state[k].v[j] = j < n ? x * peak[k] : 0.0f;
        }
    }
    vk_rule_eight(r, &s->step, w, state, &g);
}

/* Stores the codes of n values, whose block's largest magnitude is `peak`. */
VK_HD void vk_store_codes(char *to, int n, const vk_f8 *x, float peak, int square)
{
    uint64_t all = 0;

    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        float part = vk_part_of(x->v[j], peak);
        all |= (uint64_t)(square ? vk_v_code(part) : vk_m_code(part)) << 8 * j;
    }
    if (n == 8 && ((uintptr_t)to & 7) == 0) {
        *(uint64_t *)to = all;
        return;
    }
    for (int j = 0; j < n; j++)
        to[j] = (char)(all >> 8 * j & 255u);
}

/* Lanes that have more than one pack compute states twice, first to find the largest: cheaper than
 * memory to keep them. A warp's lanes have one. */
VK_HD void vk_update8_block(vk_rule r, const vk_update_args *s, int64_t b, vk_team t)
{
    int64_t from = b * VK_MOMENT_BLOCK, end = from + VK_MOMENT_BLOCK;
    float old[VF_STATES], peak[VF_STATES] = { 0 };
    vk_f8 w = { { 0 } }, state[VF_STATES] = { { { 0 } } };
    const int kept = t.lanes * 8 >= VK_MOMENT_BLOCK;

    VK_UNROLL
    for (int k = 0; k < r.states; k++)
        old[k] = s->peak[r.states * b + k];
    end = end < s->n ? end : s->n;
    for (int64_t i = from + t.lane * 8; i < end; i += t.lanes * 8) {
        vk_update8_pack(r, s, i, (int)(end - i < 8 ? end - i : 8), old, &w, state);
        for (int j = 0; j < 8; j++) {
            VK_UNROLL
            for (int k = 0; k < r.states; k++)
                peak[k] = fmaxf(peak[k], fabsf(state[k].v[j]));
        }
    }
    VK_UNROLL
    for (int k = 0; k < r.states; k++)
        peak[k] = vk_team_max(t, peak[k]);
    for (int64_t i = from + t.lane * 8; i < end; i += t.lanes * 8) {
        int n = (int)(end - i < 8 ? end - i : 8);
        if (!kept)
            vk_update8_pack(r, s, i, n, old, &w, state);
        vk_store_both(s, i, n, w);
        VK_UNROLL
        for (int k = 0; k < r.states; k++)
            vk_store_codes(s->state[k] + i, n, &state[k], peak[k], r.squares >> k & 1);
    }
    VK_UNROLL
    for (int k = 0; k < r.states; k++)
        if (t.lane == 0)
            s->peak[r.states * b + k] = peak[k];
}

enum { VK_MOMENT_TEAMS = VK_THREADS / VK_WARP };

VK_HD void vk_update8_blocks(vk_rule r, const vk_update_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(b, part, VK_MOMENT_BLOCKS(s->n), VK_MOMENT_TEAMS)
        vk_update8_block(r, s, (int64_t)b, part);
}

/* The kernels of a rule, vk_NAME, and of eight bits vk_NAME8. */
#define VK_RULE_KERNELS(with, NAME, name, states, squares)                                         \
    VK_HD void vk_##name##_body(const vk_update_args *s, uint32_t block, vk_team t)                \
    {                                                                                              \
        const vk_rule r = { VF_##NAME, states, squares };                                          \
        vk_update_packs(r, s, block, t);                                                           \
    }                                                                                              \
    VK_KERNEL(name, vk_update_args, VK_BLOCKS((uint64_t)(s->n + 7) / 8))
#define VK_CODED_RULE_KERNELS(with, NAME, name, states, squares)                                   \
    VK_HD void vk_##name##8_body(const vk_update_args *s, uint32_t block, vk_team t)               \
    {                                                                                              \
        const vk_rule r = { VF_##NAME, states, squares };                                          \
        vk_update8_blocks(r, s, block, t);                                                         \
    }                                                                                              \
    VK_TEAM_KERNEL(name##8, vk_update_args,                                                        \
                   VK_TEAM_BLOCKS(VK_MOMENT_BLOCKS(s->n), VK_MOMENT_TEAMS))

#endif
