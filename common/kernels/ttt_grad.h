/* ttt_grad.h - the gradient of the inner scan of test-time training, included by bodies.h after
 * ttt.h. Its order of calculation is that of common/cpu/ttt_grad.c. */
#ifndef COMMON_KERNELS_TTT_GRAD_H
#define COMMON_KERNELS_TTT_GRAD_H

/* A pair's memory of the gradient: the states of a group, then the gradients of its state, gamma
 * and beta. */
VK_HD float *vk_ttt_of_pair(const vk_ttt_args *s, uint32_t pair)
{
    return s->work + pair * s->each;
}

/* w1's part of the way back from m rows dz of a layer's result: rows (+)= dz w1', and the gradients
 * of w1 and b1 by x. */
VK_CALL void vk_ttt_first_layer(const vk_ttt_args *s, const vk_ttt_at *w, const float *state,
                                float *grad, const float *x, const float *dz, float *rows)
{
    vk_product(w->t, s->m, s->d, s->e, vk_rows_of(dz, s->ep), vk_turned(state, s->ep),
               vk_rows_of(rows, s->dp), 0, 1);
    vk_ttt_outer(s, w, s->d, s->dp, x, s->e, s->ep, dz, grad);
    vk_ttt_sum(s, w, s->e, s->ep, grad + s->b1, dz, 0);
}

/* Adds to dgamma and dbeta the sums of dout n and dout over rows, n the normalised a2. */
VK_HD void vk_ttt_output_norm(const vk_ttt_args *s, const vk_ttt_at *w, float *grad)
{
    VK_LANES(j, s->d, w->t) {
        float dgamma = 0, dbeta = 0;
        for (uint32_t i = 0; i < s->m; i++) {
            uint64_t at = (uint64_t)i * s->dp + j;
            dgamma += w->dout[at] * (w->a2[at] - w->stats[2 * i]) * w->stats[2 * i + 1];
            dbeta += w->dout[at];
        }
        grad[s->state + j] += dgamma;
        grad[s->state + s->dp + j] += dbeta;
    }
}

VK_CALL void vk_ttt_output_grad(const vk_ttt_args *s, const vk_ttt_at *w, const float *state,
                                float *grad)
{
    vk_ttt_model(s, w, state, w->q, w->a1, w->y2, w->a2, w->slope_a, 0);
    VK_TTT_EACH_ROW(i, part) {
        uint64_t at = (uint64_t)i * s->dp;
        float stats[2];
        vk_ttt_stats(s, w, i, w->a2 + at, part, stats);
        VK_LANES(j, s->d, part)
            w->dq[at + j] = w->dout[at + j];
        vk_ttt_project(s, w, part, w->da2 + at, w->dout + at, w->a2 + at, stats, 1, 0);
    }
    vk_team_sync(w->t);
    vk_ttt_output_norm(s, w, grad);
    if (s->mlp) {
        vk_ttt_through_w2(s, w, w->dy2, w->da2, state + s->w2, 0);
        vk_ttt_times(s, w, w->da1, w->dy2, w->slope_a, 0);
        vk_ttt_outer(s, w, s->e, s->ep, w->y2, s->d, s->dp, w->da2, grad + s->w2);
        vk_ttt_sum(s, w, s->d, s->dp, grad + s->b2, w->da2, 0);
    }
    vk_ttt_first_layer(s, w, state, grad, w->q, w->da1, w->dq);
}

/* Computes dg [m,n] and dx [m,k] of a layer's step, whose weights have the gradients u and ub, and
 * subtracts from deta. */
VK_CALL void vk_ttt_step_grad(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t n, uint32_t wide,
                              uint32_t k, uint32_t pitch, const float *x, const float *g,
                              const float *u, const float *ub, float *dg, float *dx)
{
    vk_product(w->t, s->m, n, k, vk_rows_of(x, pitch), vk_rows_of(u, wide), vk_rows_of(dg, wide),
               ub, 0);
    VK_TTT_EACH_ROW(i, part) {
        float sum = 0;
        VK_LANES(j, n, part) {
            uint64_t at = (uint64_t)i * wide + j;
            sum += g[at] * dg[at];
            dg[at] *= -w->eta[i];
        }
        sum = vk_team_sum(part, sum);
        if (part.lane == 0)
            w->deta[i] -= sum;
    }
    vk_ttt_scale(s, w, n, wide, g);
    vk_product(w->t, s->m, k, n, vk_rows_of(w->scaled, wide), vk_turned(u, wide),
               vk_rows_of(dx, pitch), 0, 0);
}

VK_CALL void vk_ttt_hidden_grad(const vk_ttt_args *s, const vk_ttt_at *w, const float *state,
                                float *grad)
{
    VK_LANES(u, (uint64_t)s->m * s->e, w->t) {
        uint64_t at = u / s->e * s->ep + u % s->e;
        w->dz1[at] = w->curve[at] * w->hid[at] * w->dg1[at];
        w->dg1[at] *= w->slope[at];            /* now the hidden slope's gradient */
    }
    vk_team_sync(w->t);
    vk_product(w->t, s->m, s->d, s->e, vk_rows_of(w->dg1, s->ep), vk_rows_of(state + s->w2, s->dp),
               vk_rows_of(w->dg2, s->dp), 0, 1);
    vk_ttt_outer(s, w, s->e, s->ep, w->dg1, s->d, s->dp, w->g2, grad + s->w2);
}

/* Row i of dz2 and dtarget from dg2: g2 = P a with the norm's projection P, a = gamma error. */
VK_HD void vk_ttt_loss_row(const vk_ttt_args *s, const vk_ttt_at *w, uint32_t i, vk_team part)
{
    uint64_t at = (uint64_t)i * s->dp;
    const float *z = w->z2 + at, *u = w->dg2 + at, *stats = w->stats + 2 * i;
    float an = 0, un = 0, ug = 0;

    VK_LANES(j, s->d, part) {
        float n = (z[j] - stats[0]) * stats[1];
        an += w->error[at + j] * vk_ttt_param(s, w, &s->gamma, (uint32_t)j) * n;
        un += u[j] * n;
        ug += u[j] * w->g2[at + j];
    }
    an = vk_team_sum(part, an) / (float)s->d;
    un = vk_team_sum(part, un) / (float)s->d;
    ug = vk_team_sum(part, ug) / (float)s->d;
    vk_ttt_project(s, w, part, w->da + at, u, z, stats, 0, 0);
    VK_LANES(j, s->d, part) {
        float gamma = vk_ttt_param(s, w, &s->gamma, (uint32_t)j), derror = w->da[at + j] * gamma;
        w->dtarget[at + j] = -derror;
        w->dz2[at + j] = derror * gamma -
                         stats[1] * (an * u[j] + un * w->error[at + j] * gamma);
    }
    vk_ttt_project(s, w, part, w->dz2 + at, w->dz2 + at, z, stats, 0, ug);
}

VK_CALL void vk_ttt_loss_grad(const vk_ttt_args *s, const vk_ttt_at *w, float *grad)
{
    VK_TTT_EACH_ROW(row, part)
        vk_ttt_loss_row(s, w, row, part);
    vk_team_sync(w->t);
    VK_LANES(j, s->d, w->t) {
        float dgamma = 0, dbeta = 0;
        for (uint32_t i = 0; i < s->m; i++) {
            uint64_t at = (uint64_t)i * s->dp + j;
            float n = (w->z2[at] - w->stats[2 * i]) * w->stats[2 * i + 1];
            dgamma += w->da[at] * w->error[at] - w->dtarget[at] * n;
            dbeta -= w->dtarget[at];
        }
        grad[s->state + j] += dgamma;
        grad[s->state + s->dp + j] += dbeta;
    }
}

VK_CALL void vk_ttt_model_grad(const vk_ttt_args *s, const vk_ttt_at *w, const float *state,
                               float *grad)
{
    if (s->mlp) {
        vk_ttt_outer(s, w, s->e, s->ep, w->x2, s->d, s->dp, w->dz2, grad + s->w2);
        vk_ttt_sum(s, w, s->d, s->dp, grad + s->b2, w->dz2, 0);
        vk_ttt_through_w2(s, w, w->dx2, w->dz2, state + s->w2, 1);
        vk_ttt_times(s, w, w->dz1, w->dx2, w->slope, 1);
    }
    vk_ttt_first_layer(s, w, state, grad, w->k, w->dz1, w->dk);
}

/* Computes one mini-batch with the states before and after it. */
VK_CALL void vk_ttt_step_back(const vk_ttt_args *s, const vk_ttt_at *w, const float *before,
                              const float *after, float *grad, uint32_t step)
{
    vk_ttt_read(s, w, w->q, &s->q, step);
    vk_ttt_read(s, w, w->dout, &s->o, step);
    vk_ttt_read_inputs(s, w, step);
    vk_ttt_output_grad(s, w, after, grad);
    vk_ttt_slopes(s, w, before);
    VK_LANES(i, s->m, w->t)
        w->deta[i] = 0;
    vk_team_sync(w->t);
    if (s->mlp)
        vk_ttt_step_grad(s, w, s->d, s->dp, s->e, s->ep, w->x2, w->g2, grad + s->w2, grad + s->b2,
                         w->dg2, w->dx2);
    vk_ttt_step_grad(s, w, s->e, s->ep, s->d, s->dp, w->k, w->g1, grad, grad + s->b1, w->dg1,
                     w->dk);
    if (s->mlp)
        vk_ttt_hidden_grad(s, w, before, grad);
    vk_ttt_loss_grad(s, w, grad);
    vk_ttt_model_grad(s, w, before, grad);

    vk_ttt_write(s, w, &s->dq, w->dq, step);
    vk_ttt_write(s, w, &s->dk, w->dk, step);
    vk_ttt_write(s, w, &s->dtarget, w->dtarget, step);
    if (s->deta.data)
        VK_LANES(i, s->m, w->t) {
            char *p = vk_ttt_token(w, &s->deta, step * s->m + (uint32_t)i);
            vk_put(p, s->deta.type, 0,
                   w->deta[i] + (s->deta.adds ? vk_get(p, s->deta.type, 0) : 0.0f));
        }
    vk_team_sync(w->t);
}

VK_HD void vk_ttt_scan_grad_body(const vk_ttt_args *s, uint32_t block, vk_team t)
{
    const vk_ttt_at place = vk_ttt_place(s, block, t), *w = &place;
    float *at = vk_ttt_of_pair(s, block), *grad = at + s->slope;

    VK_LANES(u, s->each - s->slope, t)
        grad[u] = 0;
    for (uint32_t n = s->groups; n-- > 0;) {
        uint32_t first = n * s->group, end = first + s->group;
        end = end < s->steps ? end : s->steps;
        const float *kept = s->states + ((uint64_t)n * s->pairs + block) * s->state;
        VK_LANES(u, s->state, t)
            at[u] = kept[u];
        for (uint32_t step = first; step < end; step++) {
            float *state = at + (uint64_t)(step - first) * s->state, *next = state + s->state;
            vk_ttt_read_inputs(s, w, step);
            vk_ttt_slopes(s, w, state);
            VK_LANES(u, s->state, t)
                next[u] = state[u];
            vk_team_sync(t);
            vk_ttt_learn(s, w, next);
        }
        for (uint32_t step = end; step-- > first;) {
            const float *state = at + (uint64_t)(step - first) * s->state;
            vk_ttt_step_back(s, w, state, state + s->state, grad, step);
        }
    }
}

/* ---- sums over samples ---- */

/* Stores a head's gradient of a parameter [rows,n]: the sum over samples of the numbers at `offset`
 * in a pair's gradients, which are rows of `pitch`. */
VK_CALL void vk_ttt_store(const vk_ttt_args *s, uint32_t h, vk_team t, const vk_heads *to,
                          uint32_t offset, uint32_t rows, uint32_t n, uint32_t pitch)
{
    if (!to->data)
        return;
    VK_LANES(u, (uint64_t)rows * n, t) {
        int64_t i = (int64_t)((uint64_t)h * rows * n + u);
        float sum = to->adds ? vk_get(to->data, to->type, i) : 0.0f;
        for (uint32_t b = 0; b < s->pairs / s->heads; b++)
            sum += vk_ttt_of_pair(s, b * s->heads + h)[s->slope + offset + u / n * pitch + u % n];
        vk_put(to->data, to->type, i, sum);
    }
}

VK_HD void vk_ttt_sums_body(const vk_ttt_args *s, uint32_t block, vk_team t)
{
    vk_ttt_store(s, block, t, &s->dgamma, s->state, 1, s->d, s->dp);
    vk_ttt_store(s, block, t, &s->dbeta, s->state + s->dp, 1, s->d, s->dp);
    vk_ttt_store(s, block, t, &s->dw1, 0, s->d, s->e, s->ep);
    vk_ttt_store(s, block, t, &s->db1, s->b1, 1, s->e, s->ep);
    vk_ttt_store(s, block, t, &s->dw2, s->w2, s->e, s->d, s->dp);
    vk_ttt_store(s, block, t, &s->db2, s->b2, 1, s->d, s->dp);
}

#endif
