/* norm.h - layer norm and RMS norm with modulation, and the gradient of their input. Included by
 * bodies.h. */
#ifndef COMMON_KERNELS_NORM_H
#define COMMON_KERNELS_NORM_H

/* In what follows `whole` is a constant of the kernel: rows consist of whole packs. */
#define VK_EACH_PACK(i, n, w, t, whole)                                                            \
    for (int64_t i = (int64_t)(t).lane * 8, n;                                                     \
         i < (w)->n && (n = (whole) ? 8 : vk_left((w), i)); i += (int64_t)(t).lanes * 8)

VK_HD void vk_write_row(const vk_walk *w, int o, char *p, int64_t i, int n, vk_f8 x, int adds,
                        int whole)
{
    p += whole ? vk_whole_bytes(w, o, i) : i * w->size[o];
    if (!whole) {
        vk_write(w, o, p, n, x, adds);
        return;
    }
    if (adds) {
        vk_f8 old = vk_load8_whole(p, w->type[o]);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            x.v[j] += old.v[j];
    }
    vk_store8_whole(p, w->type[o], x);
}

/* Two f32: memcpy would become eight accesses of a byte. */
VK_HD void vk_get_pair(float to[2], const char *from)
{
    to[0] = ((const float *)from)[0];
    to[1] = ((const float *)from)[1];
}

VK_HD void vk_put_pair(char *to, const float from[2])
{
    ((float *)to)[0] = from[0];
    ((float *)to)[1] = from[1];
}

/* stats = mean and 1/sqrt(var + eps), or for rms 0 and 1/sqrt(mean(x^2) + eps) */
VK_HD void vk_norm_stats(const vk_walk *w, const char *x, float eps, int rms, vk_team t,
                         float stats[2], int whole)
{
    vk_f8 sum = { { 0 } }, square = { { 0 } };

    stats[0] = 0;
    if (!rms) {
        VK_EACH_PACK(i, n, w, t, whole) {
            vk_f8 v = vk_load_row(w, VK_NORM_X, x, i, (int)n, 0, whole);
            VK_UNROLL
            for (int j = 0; j < 8; j++)
                sum.v[j] += v.v[j];
        }
        stats[0] = vk_team_sum(t, vk_sum8(sum)) / (float)w->n;
    }
    VK_EACH_PACK(i, n, w, t, whole) {
        vk_f8 v = vk_load_row(w, VK_NORM_X, x, i, (int)n, 0, whole);
        VK_UNROLL
        for (int j = 0; j < 8; j++) {
            float d = j < n ? v.v[j] - stats[0] : 0.0f;
            square.v[j] += d * d;
        }
    }
    stats[1] = 1.0f / sqrtf(vk_team_sum(t, vk_sum8(square)) / (float)w->n + eps);
}

/* The packs of a row that a lane keeps in registers, if no lane has more. */
enum { VK_KEPT = 2 };
VK_HD int vk_keeps(const vk_walk *w, vk_team t)
{
    return w->packs <= VK_KEPT * (uint32_t)t.lanes;
}

/* The number of elements, 0..8, of this lane's kept pack k, which begins at element i. */
#define VK_EACH_KEPT(k, i, n, w, t, whole)                                                         \
    VK_UNROLL                                                                                      \
    for (int k = 0; k < VK_KEPT; k++)                                                              \
        for (int i = ((t).lane + k * (t).lanes) * 8,                                               \
                 n = (uint32_t)i >= (w)->packs * 8 ? 0 : (whole) ? 8 : vk_left((w), i);            \
             n > 0; n = 0)

/* stats of a row of kept packs x, as vk_norm_stats computes them. */
VK_HD void vk_norm_stats_kept(const vk_walk *w, const char *p, float eps, int rms, vk_team t,
                              float stats[2], vk_f8 *x, int whole)
{
    vk_f8 sum = { { 0 } }, square = { { 0 } };

    VK_EACH_KEPT(k, i, n, w, t, whole) {
        x[k] = vk_load_row(w, VK_NORM_X, p, i, n, 0, whole);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            sum.v[j] += x[k].v[j];
    }
    stats[0] = rms ? 0.0f : vk_team_sum(t, vk_sum8(sum)) / (float)w->n;
    VK_EACH_KEPT(k, i, n, w, t, whole) {
        VK_UNROLL
        for (int j = 0; j < 8; j++) {
            float d = j < n ? x[k].v[j] - stats[0] : 0.0f;
            square.v[j] += d * d;
        }
    }
    stats[1] = 1.0f / sqrtf(vk_team_sum(t, vk_sum8(square)) / (float)w->n + eps);
}

/* Computes a pack of y from x: ((x - mean) rstd w + b)(1 + scale) + shift */
VK_HD void vk_norm_pack(const vk_walk *w, char *const *p, const float *stats, int64_t i, int n,
                        vk_f8 x, int whole)
{
    vk_f8 wi = vk_load_row(w, VK_NORM_W, p[VK_NORM_W], i, n, 1, whole), y;
    vk_f8 b = vk_load_row(w, VK_NORM_B, p[VK_NORM_B], i, n, 0, whole);
    vk_f8 shift = vk_load_row(w, VK_NORM_SHIFT, p[VK_NORM_SHIFT], i, n, 0, whole);
    vk_f8 scale = vk_load_row(w, VK_NORM_SCALE, p[VK_NORM_SCALE], i, n, 0, whole);

    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        float v = (x.v[j] - stats[0]) * stats[1] * wi.v[j] + b.v[j];
        y.v[j] = v + v * scale.v[j] + shift.v[j];
    }
    vk_write_row(w, VK_NORM_Y, p[VK_NORM_Y], i, n, y, 0, whole);
}

VK_HD void vk_norm_row(const vk_norm_args *s, uint32_t row, vk_team t, int whole)
{
    const vk_walk *w = &s->w;
    char *p[VK_NORM_OPERANDS];
    float stats[2];

    vk_place(w, VK_NORM_OPERANDS, row, 0, p);
    if (vk_keeps(w, t)) {
        vk_f8 x[VK_KEPT];
        vk_norm_stats_kept(w, p[VK_NORM_X], s->eps, s->rms, t, stats, x, whole);
        VK_EACH_KEPT(k, i, n, w, t, whole)
            vk_norm_pack(w, p, stats, i, n, x[k], whole);
    } else {
        vk_norm_stats(w, p[VK_NORM_X], s->eps, s->rms, t, stats, whole);
        VK_EACH_PACK(i, n, w, t, whole)
            vk_norm_pack(w, p, stats, i, (int)n,
                         vk_load_row(w, VK_NORM_X, p[VK_NORM_X], i, (int)n, 0, whole), whole);
    }
    if (w->data[VK_NORM_STATS] && t.lane == 0)
        vk_put_pair(p[VK_NORM_STATS], stats);
}

VK_HD void vk_norm_body(const vk_norm_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, s->w.rows, s->teams)
        vk_norm_row(s, (uint32_t)row, part, 0);
}

VK_HD void vk_norm_whole_body(const vk_norm_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, s->w.rows, s->teams)
        vk_norm_row(s, (uint32_t)row, part, 1);
}

/* xhat and g = dy (1 + scale) w of a pack; lanes past the end have g = 0 */
VK_HD void vk_norm_terms(const vk_walk *w, char *const *p, const float *stats, int64_t i, int n,
                         vk_f8 *xhat, vk_f8 *g, int whole)
{
    vk_f8 dy = vk_load_row(w, VK_DX_DY, p[VK_DX_DY], i, n, 0, whole);
    vk_f8 x = vk_load_row(w, VK_DX_X, p[VK_DX_X], i, n, 0, whole);
    vk_f8 wi = vk_load_row(w, VK_DX_W, p[VK_DX_W], i, n, 1, whole);
    vk_f8 scale = vk_load_row(w, VK_DX_SCALE, p[VK_DX_SCALE], i, n, 0, whole);

    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        xhat->v[j] = (x.v[j] - stats[0]) * stats[1];
        g->v[j] = (dy.v[j] + dy.v[j] * scale.v[j]) * wi.v[j];
    }
}

/* Adds the terms of dx's two means. */
VK_HD void vk_norm_dx_add(vk_f8 *sum, vk_f8 *product, vk_f8 xhat, vk_f8 g)
{
    VK_UNROLL
    for (int j = 0; j < 8; j++) {
        sum->v[j] += g.v[j];
        product->v[j] += g.v[j] * xhat.v[j];
    }
}

/* dx = rstd (g - mean(g) - xhat mean(g xhat)); rms: without mean(g) */
VK_HD void vk_norm_dx_row(const vk_norm_dx_args *s, uint32_t row, vk_team t, int whole)
{
    const vk_walk *w = &s->w;
    const int keeps = vk_keeps(w, t);
    char *p[VK_DX_OPERANDS];
    vk_f8 sum = { { 0 } }, product = { { 0 } }, xhat[VK_KEPT], g[VK_KEPT], dx;
    float stats[2];

    vk_place(w, VK_DX_OPERANDS, row, 0, p);
    vk_get_pair(stats, p[VK_DX_STATS]);
    if (keeps) {
        VK_EACH_KEPT(k, i, n, w, t, whole) {
            vk_norm_terms(w, p, stats, i, n, &xhat[k], &g[k], whole);
            vk_norm_dx_add(&sum, &product, xhat[k], g[k]);
        }
    } else {
        VK_EACH_PACK(i, n, w, t, whole) {
            vk_norm_terms(w, p, stats, i, (int)n, &xhat[0], &g[0], whole);
            vk_norm_dx_add(&sum, &product, xhat[0], g[0]);
        }
    }
    float mean = s->rms ? 0.0f : vk_team_sum(t, vk_sum8(sum)) / (float)w->n;
    float slope = vk_team_sum(t, vk_sum8(product)) / (float)w->n;
    if (keeps) {
        VK_EACH_KEPT(k, i, n, w, t, whole) {
            VK_UNROLL
            for (int j = 0; j < 8; j++)
                dx.v[j] = stats[1] * (g[k].v[j] - mean - xhat[k].v[j] * slope);
            vk_write_row(w, VK_DX_DX, p[VK_DX_DX], i, n, dx, s->adds, whole);
        }
        return;
    }
    VK_EACH_PACK(i, n, w, t, whole) {
        vk_norm_terms(w, p, stats, i, (int)n, &xhat[0], &g[0], whole);
        VK_UNROLL
        for (int j = 0; j < 8; j++)
            dx.v[j] = stats[1] * (g[0].v[j] - mean - xhat[0].v[j] * slope);
        vk_write_row(w, VK_DX_DX, p[VK_DX_DX], i, (int)n, dx, s->adds, whole);
    }
}

VK_HD void vk_norm_dx_body(const vk_norm_dx_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, s->w.rows, s->teams)
        vk_norm_dx_row(s, (uint32_t)row, part, 0);
}

VK_HD void vk_norm_dx_whole_body(const vk_norm_dx_args *s, uint32_t block, vk_team t)
{
    VK_EACH_TEAM(row, part, s->w.rows, s->teams)
        vk_norm_dx_row(s, (uint32_t)row, part, 1);
}

#endif
