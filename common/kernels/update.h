/* update.h - AdamW with state in f32, bf16 and eight bits (moments.h). Included by bodies.h. */
#ifndef COMMON_KERNELS_UPDATE_H
#define COMMON_KERNELS_UPDATE_H

VK_HD void vk_adamw_body(const vk_adamw_args *s, uint32_t block, vk_team t)
{
    VK_EACH(u, (s->n + 7) / 8) {
        int64_t i = (int64_t)u * 8, at = i * vk_size(s->type);
        int n = (int)(s->n - i < 8 ? s->n - i : 8);
        vk_f8 g = vk_load8((const char *)(s->grad + i), VK_F32, 1, n);
        vk_f8 w = vk_load8(s->w + at, s->type, 1, n);
        vk_f8 m = vk_load8(s->m + at, s->type, 1, n);
        vk_f8 v = vk_load8(s->v + at, s->type, 1, n);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            w.v[j] = vk_adamw_one(&s->step, w.v[j], &m.v[j], &v.v[j], g.v[j]);
        if (s->type == VK_F32) {
            vk_store8(s->w + at, VK_F32, 1, n, w);
            vk_store8(s->m + at, VK_F32, 1, n, m);
            vk_store8(s->v + at, VK_F32, 1, n, v);
        } else {
            vk_store8_randomly(s->w + at, n, w, &s->draws, u, VK_ROUND_W);
            vk_store8_randomly(s->m + at, n, m, &s->draws, u, VK_ROUND_M);
            vk_store8_randomly(s->v + at, n, v, &s->draws, u, VK_ROUND_V);
        }
    }
}

/* Computes the new w, m and v of n elements from i on; peak holds the block's largest magnitudes
 * before the step. */
VK_HD void vk_adamw8_pack(const vk_adamw_args *s, int64_t i, int n, const float peak[2], vk_f8 *w,
                          vk_f8 *m, vk_f8 *v)
{
    vk_f8 g = vk_load8((const char *)(s->grad + i), VK_F32, 1, n);

    *w = vk_load8(s->w + i * 4, VK_F32, 1, n);
    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        m->v[j] = j < n ? vk_m_value(((const uint8_t *)s->m)[i + j]) * peak[0] : 0.0f;
        v->v[j] = j < n ? vk_v_value(((const uint8_t *)s->v)[i + j]) * peak[1] : 0.0f;
        w->v[j] = vk_adamw_one(&s->step, w->v[j], &m->v[j], &v->v[j], g.v[j]);
    }
}

/* Moments are computed twice, first to find the largest: cheaper than memory to keep them. */
VK_HD void vk_adamw8_block(const vk_adamw_args *s, int64_t b, vk_team t)
{
    int64_t from = b * VK_MOMENT_BLOCK, end = from + VK_MOMENT_BLOCK;
    float old[2] = { s->peak[2 * b], s->peak[2 * b + 1] }, peak[2] = { 0, 0 };
    vk_f8 w, m, v;

    end = end < s->n ? end : s->n;
    for (int64_t i = from + t.lane * 8; i < end; i += t.lanes * 8) {
        vk_adamw8_pack(s, i, (int)(end - i < 8 ? end - i : 8), old, &w, &m, &v);
        for (int j = 0; j < 8; j++) {
            peak[0] = fmaxf(peak[0], fabsf(m.v[j]));
            peak[1] = fmaxf(peak[1], v.v[j]);
        }
    }
    peak[0] = vk_team_max(t, peak[0]);
    peak[1] = vk_team_max(t, peak[1]);
    for (int64_t i = from + t.lane * 8; i < end; i += t.lanes * 8) {
        int n = (int)(end - i < 8 ? end - i : 8);
        vk_adamw8_pack(s, i, n, old, &w, &m, &v);
        vk_store8(s->w + i * 4, VK_F32, 1, n, w);
        for (int j = 0; j < n; j++) {
            ((uint8_t *)s->m)[i + j] = vk_m_code(vk_part_of(m.v[j], peak[0]));
            ((uint8_t *)s->v)[i + j] = vk_v_code(vk_part_of(v.v[j], peak[1]));
        }
    }
    if (t.lane == 0) {
        s->peak[2 * b] = peak[0];
        s->peak[2 * b + 1] = peak[1];
    }
}

enum { VK_MOMENT_TEAMS = VK_THREADS / VK_WARP };

VK_HD void vk_adamw8_body(const vk_adamw_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(b, part, VK_MOMENT_BLOCKS(s->n), VK_MOMENT_TEAMS)
        vk_adamw8_block(s, (int64_t)b, part);
}

#endif
