/* noised.c - levels, noisy latents, timesteps and loss weights of a batch; see noised.h */
#include "train/steps/noised.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "train/steps/forcing.h"
#include "train/steps/step.h"

/* ---- levels ---- */

/* The number of latent frames that may stay clean in a clip of `frames`. */
static int clean_frames(const vtrain *t, int64_t frames)
{
    if (!(t->cfg.first_frame_conditioning_p > 0))
        return 0;
    const vtrain_fit fit = vtrain_fit_of(t);
    return frames > fit.mult[0] ? fit.mult[0] : 0;
}

static void set_level(vtrain_levels *v, int64_t row, const vtrain_level *l, bool clean)
{
    v->t[row] = l->t;
    v->t_next[row] = l->t_next;
    v->sigma[row] = (float)l->sigma;
    v->weight[row] = l->weight;
    v->x_of[row] = l->x_of;
    v->n_of[row] = l->n_of;
    v->tx_of[row] = l->tx_of;
    v->tn_of[row] = l->tn_of;
    v->quantile[row] = (float)l->quantile;
    v->clean[row] = clean;
}

/* Begins with noise, and has the clean latents for a target. */
static void draw_walk(vtrain_levels *v, const vtrain *t, const vtrain_micro *m, int64_t tokens)
{
    const vtrain_batch *b = m->batch;
    v->front = v->frames = 0;
    v->low = false;
    vtrain_walk_plan(&v->walk, t, tokens, NULL);      /* which the plan of the run has tried */
    for (int row = 0; row < b->rows; row++) {
        const vtrain_level l = {
            .t = v->walk.time[0], .sigma = (double)v->walk.sigma[0], .n_of = 1, .tx_of = 1,
            .weight = (float)b->share * b->loss_scale[row], .quantile = NAN,
        };
        set_level(v, row, &l, false);
    }
}

void vtrain_levels_draw(vtrain_levels *v, const vtrain *t, const vtrain_micro *m)
{
    int64_t tokens = (int64_t)m->batch->tokens / m->batch->rows;
    v->walk.n = 0;
    if (t->distill.steps) {
        draw_walk(v, t, m, tokens);
        return;
    }
    v->front = clean_frames(t, m->batch->dim[2]);
    v->frames = vtrain_forced_frames(t, m->batch->dim[2]);
    for (int row = 0; row < m->batch->rows; row++) {
        uint32_t drawn = m->batch->first + (uint32_t)row;
        vtrain_level l = m->level < 0
            ? vtrain_level_row(t->objective, tokens, m->seed, drawn, m->number)
            : vtrain_level_of(t->objective, tokens, m->level);
        v->low = vtrain_level_low(t->objective, &l);
        bool clean = v->front && vc_train_unit(m->seed, 0, drawn, (uint32_t)m->number,
                                               VC_DRAW_FIRST_FRAME) <
                                     t->cfg.first_frame_conditioning_p;
        const float share = (float)m->batch->share * m->batch->loss_scale[row];
        if (v->frames)
            vtrain_forcing_draw(v, t, m, row, &l, share, clean, vtrain_noise_grows(t));
        l.weight *= share;
        set_level(v, row, &l, clean);
        if (v->frames && m->level < 0)
            v->quantile[row] = NAN;           /* the row has several */
    }
}

void vtrain_levels_set(vtrain_levels *v, const vtrain *t, int64_t rows, const vtrain_level *l,
                       bool clean)
{
    v->front = v->walk.n = v->frames = 0;
    v->low = vtrain_level_low(t->objective, l);
    if (clean) {
        const vtrain_fit fit = vtrain_fit_of(t);
        v->front = fit.mult[0];
    }
    for (int64_t row = 0; row < rows; row++)
        set_level(v, row, l, clean);
}

void vtrain_levels_pace(vtrain_levels *v, const vtrain *t, const int64_t dim[5],
                        const vtrain_paced *p)
{
    const vtrain_fit fit = vtrain_fit_of(t);
    const int64_t n = dim[2] / fit.mult[0];
    v->front = 0;
    v->frames = (int)n;
    for (int64_t i = 0; i < dim[0] * n; i++) {
        v->frame_t[i] = p->time[i % n];
        v->frame_sigma[i] = p->time[i % n] / VTRAIN_TIMES;
    }
}

void vtrain_levels_dry(vtrain_levels *v, const vtrain *t, const int64_t dim[5])
{
    memset(v, 0, sizeof *v);
    v->front = clean_frames(t, dim[2]);
    v->frames = vtrain_forced_frames(t, dim[2]);
    v->walk.n = t->distill.steps;
}

bool vtrain_noise_grows(const vtrain *t)
{
    const vtrain_level first = vtrain_level_of(t->objective, 1, 0.5 / VTRAIN_NOISE_LEVELS);
    const vtrain_level last = vtrain_level_of(t->objective, 1, 1 - 0.5 / VTRAIN_NOISE_LEVELS);
    return first.sigma < last.sigma;
}

/* ---- tensors ---- */

static vt_tensor *rows_of(vt_ctx *g, int64_t rows, const float *v)
{
    return vt_from_host(g, VC_F32, 1, &rows, v, VC_F32);
}

/* Makes a tensor [rows,..] of n numbers a row: the first `front` are the row's first[], the others
 * its rest[]. */
static vt_tensor *two_parts(vt_ctx *g, int nd, const int64_t *dim, int64_t n, int64_t front,
                            const float *first, const float *rest)
{
    float *x = malloc((size_t)(dim[0] * n) * sizeof *x);
    if (!x)
        return vt_fail(g, VC_ENOMEM, "clean first frames: out of memory");
    for (int64_t i = 0; i < dim[0] * n; i++)
        x[i] = i % n < front ? first[i / n] : rest[i / n];
    vt_tensor *t = vt_from_host(g, VC_F32, nd, dim, x, VC_F32);
    free(x);
    return t;
}

/* Makes the noisy latents of frames with levels s of their own: (1 - s) x + s n. */
static vt_tensor *mix_frames(vt_ctx *g, vt_tensor *x, vt_tensor *n, const vtrain_levels *v)
{
    const int64_t rows = x->dim[0], patch = x->dim[2] / v->frames;
    vt_tensor *a = vtrain_forced_tensor(g, v, rows, v->frame_sigma, patch, -1, 1);
    vt_tensor *c = vtrain_forced_tensor(g, v, rows, v->frame_sigma, patch, 1, 0);
    return vt_add(g, vt_mul(g, x, a), vt_mul(g, n, c));
}

/* Makes the noisy latents x_of x + n_of n; clean frames are x itself. */
static vt_tensor *mix(vt_ctx *g, vt_tensor *x, vt_tensor *n, const vtrain_levels *v)
{
    if (!x)
        return NULL;
    if (v->frames)
        return mix_frames(g, x, n, v);
    int64_t rows = x->dim[0], f = x->dim[2], front = v->front;
    vt_tensor *a = rows_of(g, rows, v->x_of), *c = rows_of(g, rows, v->n_of), *part[2];
    if (!front)
        return vt_mix(g, x, n, a, c);
    float x_of[VTRAIN_ROWS], n_of[VTRAIN_ROWS];
    for (int64_t i = 0; i < rows; i++) {
        x_of[i] = v->clean[i] ? 1 : v->x_of[i];
        n_of[i] = v->clean[i] ? 0 : v->n_of[i];
    }
    part[0] = vt_mix(g, vt_slice(g, x, 2, 0, front), vt_slice(g, n, 2, 0, front),
                     rows_of(g, rows, x_of), rows_of(g, rows, n_of));
    part[1] = vt_mix(g, vt_slice(g, x, 2, front, f), vt_slice(g, n, 2, front, f), a, c);
    return vt_concat(g, 2, 2, part);
}

/* Makes the weights of the levels for `frames` frames or differences of frames. Clean frames, and
 * differences to a clean frame, come first. */
static vt_tensor *level_weight(vt_ctx *g, const vtrain_levels *v, int64_t rows, int64_t frames)
{
    const int64_t dim[5] = { rows, 1, v->front ? frames : 1, 1, 1 };
    if (v->frames)
        return vtrain_forced_tensor(g, v, rows, v->frame_weight, frames / v->frames, 1, 0);
    if (!v->front)
        return vt_from_host(g, VC_F32, 5, dim, v->weight, VC_F32);
    float first[VTRAIN_ROWS], rest[VTRAIN_ROWS];
    int64_t left = frames - v->front;
    for (int64_t i = 0; i < rows; i++) {
        first[i] = v->clean[i] ? 0 : v->weight[i];
        rest[i] = v->clean[i] && left > 0 ? v->weight[i] * (float)frames / (float)left
                                          : v->weight[i];
    }
    return two_parts(g, 5, dim, frames, v->front, first, rest);
}

static void load_weights(const vtrain *t, vtrain_noised *n, const vtrain_batch *b,
                         const vtrain_levels *v)
{
    vt_ctx *g = t->g;
    const int64_t *dim = b->dim, per_place[5] = { dim[0], 1, dim[2], dim[3], dim[4] };
    bool motion = t->cfg.motion_sub_loss && dim[2] >= 3;
    vt_tensor *level = level_weight(g, v, dim[0], dim[2]), *mask = NULL;
    if (b->weighted)
        mask = vt_from_host(g, VC_F32, 5, per_place, b->loss_weight, VC_F32);
    n->weight = mask ? vt_mul(g, mask, level) : level;
    n->motion_weight = motion ? n->weight : NULL;
    if (motion && v->front) {
        level = level_weight(g, v, dim[0], dim[2] - 1);
        n->motion_weight = mask ? vt_mul(g, vt_slice(g, mask, 2, 1, dim[2]), level) : level;
    } else if (motion && mask) {
        n->motion_weight = vt_slice(g, n->weight, 2, 1, dim[2]);
    }
}

void vtrain_noised_load(const vtrain *t, vtrain_noised *n, const vtrain_batch *b,
                        const vtrain_levels *v, uint64_t seed, uint64_t number)
{
    vt_ctx *g = t->g;
    const int64_t *dim = b->dim;
    n->x0 = vt_from_host(g, VC_F32, 5, dim, b->latents, VC_F32);
    n->noise = b->noise ? vt_from_host(g, VC_F32, 5, dim, b->noise, VC_F32)
                        : vt_randn(g, 5, dim, seed, b->first, (uint32_t)number, VC_DRAW_NOISE);
    n->noisy = mix(g, n->x0, n->noise, v);
    n->target = b->base ? vt_from_host(g, VC_F32, 5, dim, b->target, VC_F32)
                        : vt_mix(g, n->x0, n->noise, rows_of(g, dim[0], v->tx_of),
                                 rows_of(g, dim[0], v->tn_of));
    load_weights(t, n, b, v);
}

/* The time of a level that is rounded to bf16. */
static float rounded(float t)
{
    return vc_bf16_to_f32(vc_f32_to_bf16(t / VTRAIN_TIMES)) * VTRAIN_TIMES;
}

void vtrain_walk_load(const vtrain *t, vtrain_walk_times *times, int64_t rows,
                      const vtrain_walk *w)
{
    float time[VTRAIN_ROWS];
    for (int i = 0; i < w->n; i++) {
        for (int64_t row = 0; row < rows; row++)
            time[row] = t->cfg.timestep_dtype ? rounded(w->time[i]) : w->time[i];
        times->t[i] = rows_of(t->g, rows, time);
    }
}

/* The times of frames, and of their tokens, of which each frame has `area`. */
static void load_frame_times(const vtrain *t, vtrain_in *in, int64_t rows, int64_t area,
                             const vtrain_levels *v)
{
    const int64_t n = rows * v->frames, dim[2] = { rows, v->frames };
    const int64_t of_tokens[2] = { rows, v->frames * area };
    float *time = malloc((size_t)(n + n * area) * sizeof *time), *token = time + n;
    if (!time) {
        vt_fail(t->g, VC_ENOMEM, "timesteps of frames: out of memory");
        return;
    }
    for (int64_t i = 0; i < n; i++)
        time[i] = t->cfg.timestep_dtype
                  ? vc_bf16_to_f32(vc_f32_to_bf16(v->frame_sigma[i])) * VTRAIN_TIMES
                  : v->frame_t[i];
    for (int64_t i = 0; i < n * area; i++)
        token[i] = time[i / area];
    in->frame_t = vt_from_host(t->g, VC_F32, 2, dim, time, VC_F32);
    in->token_t = vt_from_host(t->g, VC_F32, 2, of_tokens, token, VC_F32);
    free(time);
}

void vtrain_times_load(const vtrain *t, vtrain_in *in, const int64_t dim[5],
                       const vtrain_levels *v)
{
    float time[VTRAIN_ROWS];
    for (int64_t i = 0; i < dim[0]; i++)
        time[i] = t->cfg.timestep_dtype ? rounded(v->t[i]) : v->t[i];
    in->t = rows_of(t->g, dim[0], time);
    const vtrain_fit fit = vtrain_fit_of(t);
    if (fit.next_times) {
        float next[VTRAIN_ROWS];
        for (int64_t i = 0; i < dim[0]; i++)
            next[i] = t->cfg.timestep_dtype ? rounded(v->t_next[i]) : v->t_next[i];
        in->t_next = rows_of(t->g, dim[0], next);
    }
    in->clean = v->front ? v->clean : NULL;
    if (!v->front && !v->frames)
        return;
    int64_t area = dim[3] / fit.mult[1] * (dim[4] / fit.mult[2]), n = dim[2] / fit.mult[0] * area;
    if (v->frames)
        load_frame_times(t, in, dim[0], area, v);
    if (v->frames || !fit.token_times)
        return;
    float first[VTRAIN_ROWS];
    for (int64_t i = 0; i < dim[0]; i++)
        first[i] = v->clean[i] ? 0 : time[i];
    in->token_t = two_parts(t->g, 2, (int64_t[]){ dim[0], n }, n, area, first, time);
}
