/* grid.h - kernels of channels-last video: group norm, nearest resizing, means of frame pairs.
 * Included by bodies.h. */
#ifndef COMMON_KERNELS_GRID_H
#define COMMON_KERNELS_GRID_H

/* ---- group norm ---- */

/* Returns the group's first element, which the sums subtract: they keep their precision when the
 * mean is far from 0. */
VK_HD float vk_group_first(const vk_group_args *s, uint32_t n, uint32_t g)
{
    int64_t at = (int64_t)n * s->positions * s->c + g * (s->c / s->groups);

    return vk_get(s->x, s->x_type, at);
}

VK_HD void vk_group_part(const vk_group_args *s, uint32_t ng, uint32_t part, vk_team t)
{
    uint32_t n = ng / s->groups, g = ng % s->groups, each = s->c / s->groups;
    uint32_t begin = (uint32_t)((uint64_t)s->positions * part / s->parts);
    uint32_t end = (uint32_t)((uint64_t)s->positions * (part + 1) / s->parts);
    uint32_t packs = (each + 7) / 8, size = (uint32_t)vk_size(s->x_type);
    uint32_t ahead = (uint32_t)t.lanes / packs, aside = (uint32_t)t.lanes % packs;
    uint32_t at = begin + (uint32_t)t.lane / packs, pack = (uint32_t)t.lane % packs;
    const char *from = s->x + ((int64_t)n * s->positions * s->c + g * each) * size;
    float first = vk_group_first(s, n, g), sum = 0, square = 0;

    while (at < end) {
        int k = each - pack * 8 < 8 ? (int)(each - pack * 8) : 8;
        vk_f8 x = vk_load8(from + ((int64_t)at * s->c + pack * 8) * size, s->x_type, 1, k);
        VK_UNROLL
        for (int j = 0; j < 8; j++) {
            float d = j < k ? x.v[j] - first : 0.0f;
            sum += d;
            square += d * d;
        }
        at += ahead, pack += aside;            /* the lane's next pack is `lanes` packs further */
        if (pack >= packs)
            pack -= packs, at++;
    }
    sum = vk_team_sum(t, sum);
    square = vk_team_sum(t, square);
    if (t.lane == 0) {
        double *to = s->part + ((uint64_t)ng * s->parts + part) * 2;
        to[0] = (double)sum;
        to[1] = (double)square;
    }
}

VK_HD void vk_group_sums_body(const vk_group_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(at, part, (uint64_t)s->n * s->groups * s->parts, 1)
        vk_group_part(s, (uint32_t)(at / s->parts), (uint32_t)(at % s->parts), part);
}

/* Computes mean and 1/sqrt(var + eps) of a sample's group. */
VK_HD void vk_group_stats_body(const vk_group_args *s, uint32_t block, vk_team t)
{
    VK_EACH(ng, (uint64_t)s->n * s->groups) {
        double count = (double)s->positions * (double)(s->c / s->groups), sum = 0, square = 0;
        for (uint32_t p = 0; p < s->parts; p++) {
            sum += s->part[(ng * s->parts + p) * 2];
            square += s->part[(ng * s->parts + p) * 2 + 1];
        }
        double mean = sum / count, var = square / count - mean * mean;
        float first = vk_group_first(s, (uint32_t)ng / s->groups, (uint32_t)ng % s->groups);
        s->stats[2 * ng] = (float)((double)first + mean);
        s->stats[2 * ng + 1] = (float)(1.0 / sqrt((var > 0 ? var : 0) + (double)s->eps));
    }
}

/* Returns the position in scale and shift for position i of sample n. */
VK_HD int64_t vk_group_place(const vk_group_args *s, uint32_t n, uint32_t i)
{
    uint32_t w = i % s->w, h = i / s->w % s->h, t = i / s->w / s->h, f;

    if (s->first)
        f = t ? 1 + (t - 1) * (s->mt - 1) / (s->t - 1) : 0;
    else
        f = t * s->mt / s->t;
    return (((int64_t)n * s->mt + f) * s->mh + h * s->mh / s->h) * s->mw + w * s->mw / s->w;
}

/* What the positions of a sample share for a pack of channels: k channels from c on. */
typedef struct vk_group_pack {
    uint32_t n, c;
    int k;
    vk_f8 w, b, mean, rstd;
} vk_group_pack;

VK_HD vk_group_pack vk_group_pack_of(const vk_group_args *s, uint32_t n, uint32_t c)
{
    uint32_t each = s->c / s->groups, g = c / each, end = (g + 1) * each - c;
    const float *stats = s->stats + 2 * ((uint64_t)n * s->groups + g);
    float mean = stats[0], rstd = stats[1];
    vk_group_pack p;

    p.n = n;
    p.c = c;
    p.k = s->c - c < 8 ? (int)(s->c - c) : 8;
    p.w = vk_load8(s->weight + c * vk_size(s->w_type), s->w_type, 1, p.k);
    p.b = vk_load8(s->bias + c * vk_size(s->b_type), s->b_type, 1, p.k);
    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        if ((uint32_t)j == end && j < p.k) {   /* the next group begins */
            end += each;
            stats += 2;
            mean = stats[0], rstd = stats[1];
        }
        p.mean.v[j] = mean;
        p.rstd.v[j] = rstd;
    }
    return p;
}

/* y = silu(((x - mean) rstd w + b) scale + shift) at a position */
VK_HD void vk_group_at(const vk_group_args *s, const vk_group_pack *p, uint32_t i)
{
    int64_t at = ((int64_t)p->n * s->positions + i) * s->c + p->c;
    vk_f8 v = vk_load8(s->x + at * vk_size(s->x_type), s->x_type, 1, p->k);

    VK_UNROLL
    for (int j = 0; j < 8; j++)
        v.v[j] = (v.v[j] - p->mean.v[j]) * p->rstd.v[j] * p->w.v[j] + p->b.v[j];
    if (s->scale) {
        int64_t z = (vk_group_place(s, p->n, i) * s->c + p->c) * vk_size(s->m_type);
        vk_f8 scale = vk_load8(s->scale + z, s->m_type, 1, p->k);
        vk_f8 shift = vk_load8(s->shift + z, s->m_type, 1, p->k);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            v.v[j] = v.v[j] * scale.v[j] + shift.v[j];
    }
    VK_UNROLL
    for (int j = 0; j < 8; j++)
        v.v[j] = s->silu ? vk_silu(v.v[j]) : v.v[j];
    vk_store8(s->y + at * vk_size(s->y_type), s->y_type, 1, p->k, v);
}

/* A lane takes a pack of VK_GROUP_RUN successive positions. */
#define VK_GROUP_RUNS(s) (((s)->positions + VK_GROUP_RUN - 1) / VK_GROUP_RUN)
enum { VK_GROUP_RUN = 4 };
VK_HD void vk_group_apply_body(const vk_group_args *s, uint32_t block, vk_team t)
{
    uint32_t packs = (s->c + 7) / 8, runs = VK_GROUP_RUNS(s);

    VK_EACH(u, (uint64_t)s->n * runs * packs) {
        uint64_t run = u / packs;
        uint32_t n = (uint32_t)(run / runs);
        uint32_t i = (uint32_t)(run - (uint64_t)n * runs) * VK_GROUP_RUN;
        vk_group_pack p = vk_group_pack_of(s, n, (uint32_t)(u - run * packs) * 8);
        VK_UNROLL
        for (uint32_t k = 0; k < VK_GROUP_RUN; k++)
            if (i + k < s->positions)
                vk_group_at(s, &p, i + k);
    }
}

/* ---- sizes ---- */

VK_HD void vk_nearest_body(const vk_resize_args *s, uint32_t block, vk_team t)
{
    uint32_t packs = (s->c + 7) / 8;

    VK_EACH(u, (uint64_t)s->n * s->t * s->h * s->w * packs) {
        uint64_t at = u / packs, i = at;
        uint32_t c = (uint32_t)(u - at * packs) * 8;
        int k = s->c - c < 8 ? (int)(s->c - c) : 8;
        uint32_t w = (uint32_t)(i % s->w), h = (uint32_t)((i /= s->w) % s->h);
        uint32_t f = (uint32_t)((i /= s->h) % s->t);
        int64_t from = (((int64_t)(i / s->t) * s->xt + (uint64_t)f * s->xt / s->t) * s->xh +
                        (uint64_t)h * s->xh / s->h) * s->xw + (uint64_t)w * s->xw / s->w;
        vk_f8 v = vk_load8(s->x + (from * s->c + c) * vk_size(s->x_type), s->x_type, 1, k);
        vk_store8(s->y + ((int64_t)at * s->c + c) * vk_size(s->y_type), s->y_type, 1, k, v);
    }
}

/* Computes means of pairs of frames; with an odd number of frames the first is copied. */
VK_HD void vk_pool_frames_body(const vk_resize_args *s, uint32_t block, vk_team t)
{
    int64_t frame = (int64_t)s->h * s->w * s->c, packs = (frame + 7) / 8;
    uint32_t odd = s->xt % 2;

    VK_EACH(u, (uint64_t)s->n * s->t * (uint64_t)packs) {
        int64_t at = (int64_t)u / packs, i = ((int64_t)u - at * packs) * 8;
        uint32_t f = (uint32_t)(at % s->t);
        int k = frame - i < 8 ? (int)(frame - i) : 8;
        int64_t from = at / s->t * s->xt + (odd && f == 0 ? 0 : 2 * f - odd);
        vk_f8 a = vk_load8(s->x + (from * frame + i) * vk_size(s->x_type), s->x_type, 1, k);
        if (!odd || f > 0) {
            vk_f8 b = vk_load8(s->x + ((from + 1) * frame + i) * vk_size(s->x_type), s->x_type, 1,
                               k);
            VK_UNROLL
            for (int j = 0; j < 8; j++)
                a.v[j] = 0.5f * a.v[j] + 0.5f * b.v[j];
        }
        vk_store8(s->y + (at * frame + i) * vk_size(s->y_type), s->y_type, 1, k, a);
    }
}

#endif
