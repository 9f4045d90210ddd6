/* ttt.h - the inner scan of test-time training (vt_ttt_scan of ops.h), included by bodies.h.
 *
 * A block computes one pair of sample and head, mini-batch after mini-batch. Its state and its
 * buffers are in the device's memory, of which caches hold the parts in use; a lane computes 4 x 4
 * elements of a product in registers, and a warp normalises a row. Sums have a fixed order, so the
 * same operands give the same bits. A state is w1 [d][ep], b1 [ep], w2 [e][dp], b2 [dp]. */
#ifndef COMMON_KERNELS_TTT_H
#define COMMON_KERNELS_TTT_H

enum { VK_TTT_TEAMS = VK_THREADS / VK_WARP, VK_TTT_TILE = 4 };

/* The buffers of a block: rows of a mini-batch, of dp numbers or, for the hidden layer, ep, with
 * the names of common/cpu/ttt.h. With one layer z1, g1 and their gradients are z2, g2 and
 * theirs. */
typedef struct vk_ttt_at {
    vk_team t;
    uint32_t pair, b, h;
    float *q, *k, *target, *z2, *error, *g2, *a2, *dout, *da2, *dq, *dk, *dtarget, *dg2, *dz2, *da;
    float *z1, *x2, *hid, *g1, *slope, *curve, *a1, *y2, *slope_a, *da1, *dy2, *dg1, *dx2, *dz1;
    float *scaled;                             /* of ep, or dp, whichever is wider */
    float *eta, *deta, *stats;                 /* [m], [m], [m][2] */
    float *state;                              /* forward's */
} vk_ttt_at;

VK_HD vk_ttt_at vk_ttt_place(const vk_ttt_args *s, uint32_t pair, vk_team t)
{
    uint64_t narrow = (uint64_t)s->m * s->dp, hidden = (uint64_t)s->m * s->ep;
    float *p = s->scratch + pair * s->buffers;
    vk_ttt_at w;

    w.t = t;
    w.pair = pair;
    w.b = pair / s->heads;
    w.h = pair % s->heads;
    float **const narrows[VK_TTT_NARROW] = { &w.q, &w.k, &w.target, &w.z2, &w.error, &w.g2, &w.a2,
        &w.dout, &w.da2, &w.dq, &w.dk, &w.dtarget, &w.dg2, &w.dz2, &w.da };
    float **const hiddens[VK_TTT_HIDDEN] = { &w.z1, &w.x2, &w.hid, &w.g1, &w.slope, &w.curve, &w.a1,
        &w.y2, &w.slope_a, &w.da1, &w.dy2, &w.dg1, &w.dx2, &w.dz1 };
    for (int i = 0; i < VK_TTT_NARROW; i++, p += narrow)
        *narrows[i] = p;
    for (int i = 0; i < VK_TTT_HIDDEN; i++, p += s->mlp ? hidden : 0)
        *hiddens[i] = p;
    if (!s->mlp) {
        w.z1 = w.z2, w.g1 = w.g2, w.a1 = w.a2;
        w.da1 = w.da2, w.dg1 = w.dg2, w.dz1 = w.dz2;
    }
    w.scaled = p;
    w.eta = p + (narrow > hidden ? narrow : hidden);
    w.deta = w.eta + s->m;
    w.stats = w.deta + s->m;
    w.state = w.stats + 2 * s->m;
    return w;
}

/* A loop over this lane's elements u = 0..n-1. */
#define VK_LANES(u, n, t)                                                                          \
    for (uint64_t u = (uint32_t)(t).lane; u < (uint64_t)(n); u += (uint32_t)(t).lanes)

/* ---- operands ---- */

VK_HD char *vk_ttt_token(const vk_ttt_at *w, const vk_heads *x, uint32_t token)
{
    return x->data + ((int64_t)w->b * x->b + (int64_t)w->h * x->h + (int64_t)token * x->s) *
                         vk_size(x->type);
}

VK_CALL void vk_ttt_read(const vk_ttt_args *s, const vk_ttt_at *w, float *to, const vk_heads *x,
                         uint32_t step)
{
    VK_LANES(u, (uint64_t)s->m * s->d, w->t) {
        uint32_t i = (uint32_t)(u / s->d), j = (uint32_t)(u % s->d);
        to[(uint64_t)i * s->dp + j] = vk_get(vk_ttt_token(w, x, step * s->m + i), x->type, j);
    }
}

VK_CALL void vk_ttt_write(const vk_ttt_args *s, const vk_ttt_at *w, const vk_heads *x,
                          const float *from, uint32_t step)
{
    if (!x->data)
        return;
    VK_LANES(u, (uint64_t)s->m * s->d, w->t) {
        uint32_t i = (uint32_t)(u / s->d), j = (uint32_t)(u % s->d);
        char *p = vk_ttt_token(w, x, step * s->m + i);
        float v = from[(uint64_t)i * s->dp + j];
        vk_put(p, x->type, j, x->adds ? vk_get(p, x->type, j) + v : v);
    }
}

VK_HD void vk_ttt_read_inputs(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t step)
{
    vk_ttt_read(s, w, w->k, &s->k, step);
    vk_ttt_read(s, w, w->target, &s->target, step);
    VK_LANES(i, s->m, w->t)
        w->eta[i] = vk_get(vk_ttt_token(w, &s->eta, step * s->m + (uint32_t)i), s->eta.type, 0);
    vk_team_sync(w->t);
}

/* Returns number j of a head's row of gamma or beta. */
VK_HD float vk_ttt_param(const vk_ttt_args *s, const vk_ttt_at *w, const vk_heads *x, uint32_t j)
{
    return vk_get(x->data, x->type, (int64_t)w->h * s->d + j);
}

/* Reads the matrix [rows,n] of a head as rows of `pitch` numbers. */
VK_CALL void vk_ttt_matrix(const vk_ttt_at *w, float *to, const vk_heads *x, uint32_t rows,
                           uint32_t n, uint32_t pitch)
{
    VK_LANES(u, (uint64_t)rows * n, w->t)
        to[u / n * pitch + u % n] =
            vk_get(x->data, x->type, (int64_t)((uint64_t)w->h * rows * n + u));
}

/* ---- products ---- */

/* Element i, j of a matrix is at p[i row + j column]. */
typedef struct vk_matrix {
    float *p;
    uint32_t row, column;
} vk_matrix;

VK_HD vk_matrix vk_rows_of(const float *p, uint32_t pitch)
{
    vk_matrix x = { (float *)p, pitch, 1 };

    return x;
}

VK_HD vk_matrix vk_turned(const float *p, uint32_t pitch)
{
    vk_matrix x = { (float *)p, 1, pitch };

    return x;
}

/* c = a b + bias, or c += a b; a [rows,n], b [n,columns]. A lane's columns lie a quarter of all
 * columns apart, so that a warp reads neighbours. */
VK_CALL void vk_product(vk_team t, uint32_t rows, uint32_t columns, uint32_t n, vk_matrix a,
                        vk_matrix b, vk_matrix c, const float *bias, int adds)
{
    uint32_t across = (columns + VK_TTT_TILE - 1) / VK_TTT_TILE;
    uint32_t down = (rows + VK_TTT_TILE - 1) / VK_TTT_TILE;

    VK_LANES(u, (uint64_t)across * down, t) {
        uint32_t i0 = (uint32_t)(u / across) * VK_TTT_TILE, j0 = (uint32_t)(u % across);
        float sum[VK_TTT_TILE][VK_TTT_TILE], x[VK_TTT_TILE], y[VK_TTT_TILE];
        uint32_t ai[VK_TTT_TILE], bj[VK_TTT_TILE];
        VK_UNROLL
        for (int i = 0; i < VK_TTT_TILE; i++) {              /* past the end the last is read */
            ai[i] = (i0 + i < rows ? i0 + i : rows - 1) * a.row;
            bj[i] = (j0 + i * across < columns ? j0 + i * across : columns - 1) * b.column;
            VK_UNROLL
            for (int j = 0; j < VK_TTT_TILE; j++)
                sum[i][j] = 0;
        }
        for (uint32_t k = 0; k < n; k++) {
            VK_UNROLL
            for (int i = 0; i < VK_TTT_TILE; i++) {
                x[i] = a.p[ai[i] + k * a.column];
                y[i] = b.p[bj[i] + k * b.row];
            }
            VK_UNROLL
            for (int i = 0; i < VK_TTT_TILE; i++)
                VK_UNROLL
                for (int j = 0; j < VK_TTT_TILE; j++)
                    sum[i][j] += x[i] * y[j];
        }
        VK_UNROLL
        for (int i = 0; i < VK_TTT_TILE; i++)
            VK_UNROLL
            for (int j = 0; j < VK_TTT_TILE; j++) {
                uint32_t row = i0 + i, column = j0 + j * across;
                if (row >= rows || column >= columns)
                    continue;
                float *to = c.p + (uint64_t)row * c.row + column;
                *to = sum[i][j] + (adds ? *to : bias ? bias[column] : 0.0f);
            }
    }
    vk_team_sync(t);
}

/* sum += the sum of m rows of n numbers, times -eta if `steps`. */
VK_CALL void vk_ttt_sum(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t n, uint32_t pitch,
                        float *sum, const float *x, int steps)
{
    VK_LANES(j, n, w->t) {
        float total = 0;
        for (uint32_t i = 0; i < s->m; i++)
            total += (steps ? -w->eta[i] : 1.0f) * x[(uint64_t)i * pitch + j];
        sum[j] += total;
    }
    vk_team_sync(w->t);
}

/* w->scaled = rows of x times -eta. */
VK_CALL void vk_ttt_scale(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t n, uint32_t pitch,
                          const float *x)
{
    VK_LANES(u, (uint64_t)s->m * n, w->t) {
        uint64_t at = u / n * pitch + u % n;
        w->scaled[at] = -w->eta[u / n] * x[at];
    }
    vk_team_sync(w->t);
}

/* ---- rows: a warp each ---- */

#define VK_TTT_EACH_ROW(i, part)                                                                   \
    vk_team part = vk_team_part(w->t, VK_TTT_TEAMS);                                               \
    for (uint32_t i = (uint32_t)(w->t.lane / part.lanes); i < s->m;                                \
         i += (uint32_t)(w->t.lanes / part.lanes))

/* Sets w->stats to the mean and 1 / deviation of row i of z. */
VK_HD void vk_ttt_stats(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t i, const float *z,
                        vk_team part, float stats[2])
{
    float sum = 0, square = 0;

    VK_LANES(j, s->d, part)
        sum += z[j];
    stats[0] = vk_team_sum(part, sum) / (float)s->d;
    VK_LANES(j, s->d, part)
        square += (z[j] - stats[0]) * (z[j] - stats[0]);
    stats[1] = 1.0f / sqrtf(vk_team_sum(part, square) / (float)s->d + s->eps);
    if (part.lane == 0) {
        w->stats[2 * i] = stats[0];
        w->stats[2 * i + 1] = stats[1];
    }
}

/* to = the gradient g of a normalised row through the norm: rstd (g - mean g - n mean(g n)), n the
 * normalised z, g = x, times gamma if `gamma`; minus `less` rstd n. to may be x. */
VK_CALL void vk_ttt_project(const vk_ttt_args *s, const vk_ttt_at *w, vk_team part, float *to,
                            const float *x, const float *z, const float stats[2], int gamma,
                            float less)
{
    float sum = 0, along = 0;

    VK_LANES(j, s->d, part) {
        float g = x[j] * (gamma ? vk_ttt_param(s, w, &s->gamma, (uint32_t)j) : 1.0f);
        sum += g;
        along += g * (z[j] - stats[0]) * stats[1];
    }
    sum = vk_team_sum(part, sum) / (float)s->d;
    along = vk_team_sum(part, along) / (float)s->d + less;
    VK_LANES(j, s->d, part) {
        float g = x[j] * (gamma ? vk_ttt_param(s, w, &s->gamma, (uint32_t)j) : 1.0f);
        to[j] = stats[1] * (g - sum - (z[j] - stats[0]) * stats[1] * along);
    }
}

/* ---- the inner model ---- */

/* Computes the inner model at rows x. slope and curve may be NULL. */
VK_CALL void vk_ttt_model(const vk_ttt_args *s, const vk_ttt_at *w, const float *state,
                          const float *x, float *z1, float *x2, float *z2, float *slope,
                          float *curve)
{
    vk_product(w->t, s->m, s->e, s->d, vk_rows_of(x, s->dp), vk_rows_of(state, s->ep),
               vk_rows_of(z1, s->ep), state + s->b1, 0);
    if (!s->mlp)
        return;
    VK_LANES(u, (uint64_t)s->m * s->e, w->t) {
        uint64_t at = u / s->e * s->ep + u % s->e;
        float d1, d2;
        x2[at] = vk_gelu_tanh_jet(z1[at], &d1, &d2);
        if (slope)
            slope[at] = d1;
        if (curve)
            curve[at] = d2;
    }
    vk_team_sync(w->t);
    vk_product(w->t, s->m, s->d, s->e, vk_rows_of(x2, s->ep), vk_rows_of(state + s->w2, s->dp),
               vk_rows_of(z2, s->dp), state + s->b2, 0);
}

/* hidden (+)= narrow w2' of m rows. */
VK_HD void vk_ttt_through_w2(const vk_ttt_args *s, const vk_ttt_at *w, float *hidden,
                             const float *narrow, const float *w2, int adds)
{
    vk_product(w->t, s->m, s->e, s->d, vk_rows_of(narrow, s->dp), vk_turned(w2, s->dp),
               vk_rows_of(hidden, s->ep), 0, adds);
}

/* to = a * b, or to += a * b, of m hidden rows. */
VK_CALL void vk_ttt_times(const vk_ttt_args *s, const vk_ttt_at *w, float *to, const float *a,
                          const float *b, int adds)
{
    VK_LANES(u, (uint64_t)s->m * s->e, w->t) {
        uint64_t at = u / s->e * s->ep + u % s->e;
        to[at] = a[at] * b[at] + (adds ? to[at] : 0.0f);
    }
    vk_team_sync(w->t);
}

VK_CALL void vk_ttt_slopes(const vk_ttt_args *s, const vk_ttt_at *w, const float *state)
{
    vk_ttt_model(s, w, state, w->k, w->z1, w->x2, w->z2, w->slope, w->curve);
    VK_TTT_EACH_ROW(i, part) {
        uint64_t at = (uint64_t)i * s->dp;
        const float *z = w->z2 + at;
        float stats[2];
        vk_ttt_stats(s, w, i, z, part, stats);
        VK_LANES(j, s->d, part)
            w->error[at + j] = (z[j] - stats[0]) * stats[1] *
                                   vk_ttt_param(s, w, &s->gamma, (uint32_t)j) +
                               vk_ttt_param(s, w, &s->beta, (uint32_t)j) - w->target[at + j];
        vk_ttt_project(s, w, part, w->g2 + at, w->error + at, z, stats, 1, 0);
    }
    vk_team_sync(w->t);
    if (!s->mlp)
        return;
    vk_ttt_through_w2(s, w, w->hid, w->g2, state + s->w2, 0);
    vk_ttt_times(s, w, w->g1, w->hid, w->slope, 0);
}

/* c [rows,n] += x' y for m rows of x and y. */
VK_HD void vk_ttt_outer(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t rows, uint32_t pitch,
                        const float *x, uint32_t n, uint32_t wide, const float *y, float *c)
{
    vk_product(w->t, rows, n, s->m, vk_turned(x, pitch), vk_rows_of(y, wide), vk_rows_of(c, wide),
               0, 1);
}

VK_CALL void vk_ttt_learn(const vk_ttt_args *s, const vk_ttt_at *w, float *state)
{
    vk_ttt_scale(s, w, s->e, s->ep, w->g1);
    vk_ttt_outer(s, w, s->d, s->dp, w->k, s->e, s->ep, w->scaled, state);
    vk_ttt_sum(s, w, s->e, s->ep, state + s->b1, w->g1, 1);
    if (!s->mlp)
        return;
    vk_ttt_scale(s, w, s->d, s->dp, w->g2);
    vk_ttt_outer(s, w, s->e, s->ep, w->x2, s->d, s->dp, w->scaled, state + s->w2);
    vk_ttt_sum(s, w, s->d, s->dp, state + s->b2, w->g2, 1);
}

/* ---- forward ---- */

VK_CALL void vk_ttt_output(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t step)
{
    vk_ttt_read(s, w, w->q, &s->q, step);
    vk_team_sync(w->t);
    vk_ttt_model(s, w, w->state, w->q, w->a1, w->y2, w->a2, 0, 0);
    VK_TTT_EACH_ROW(i, part) {
        uint64_t at = (uint64_t)i * s->dp;
        float stats[2];
        vk_ttt_stats(s, w, i, w->a2 + at, part, stats);
        VK_LANES(j, s->d, part)
            w->q[at + j] += (w->a2[at + j] - stats[0]) * stats[1] *
                                vk_ttt_param(s, w, &s->gamma, (uint32_t)j) +
                            vk_ttt_param(s, w, &s->beta, (uint32_t)j);
    }
    vk_team_sync(w->t);
    vk_ttt_write(s, w, &s->o, w->q, step);
    vk_team_sync(w->t);
}

VK_HD void vk_ttt_scan_body(const vk_ttt_args *s, uint32_t block, vk_team t)
{
    const vk_ttt_at place = vk_ttt_place(s, block, t), *w = &place;

    vk_ttt_matrix(w, w->state, &s->start_w1, s->d, s->e, s->ep);
    vk_ttt_matrix(w, w->state + s->b1, &s->start_b1, 1, s->e, s->ep);
    if (s->mlp) {
        vk_ttt_matrix(w, w->state + s->w2, &s->start_w2, s->e, s->d, s->dp);
        vk_ttt_matrix(w, w->state + s->b2, &s->start_b2, 1, s->d, s->dp);
    }
    vk_team_sync(t);
    for (uint32_t step = 0; step < s->steps; step++) {
        if (s->states && step % s->group == 0) {
            float *kept = s->states + ((uint64_t)(step / s->group) * s->pairs + block) * s->state;
            VK_LANES(u, s->state, t)
                kept[u] = w->state[u];
        }
        vk_ttt_read_inputs(s, w, step);
        vk_ttt_slopes(s, w, w->state);
        vk_ttt_learn(s, w, w->state);
        vk_ttt_output(s, w, step);
    }
}

#endif
