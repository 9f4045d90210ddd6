/* forcing.c - see forcing.h */
#include "train/steps/forcing.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/rng.h"

int vtrain_forced_frames(const vtrain *t, int64_t latents)
{
    if (t->cfg.diffusion_forcing == VTRAIN_FORCING_NONE)
        return 0;
    const vtrain_fit fit = vtrain_fit_of(t);
    const int64_t n = latents / fit.mult[0];
    return n > 1 ? (int)n : 0;
}

int vtrain_forcing_check(const vtrain *t, vc_err *err)
{
    const vtrain_config *c = &t->cfg;
    const vtrain_fit fit = vtrain_fit_of(t);
    if (!c->diffusion_forcing)
        return c->diffusion_forcing_block == 1 ? 0 : vc_fail(err, VC_EUSAGE,
            "--diffusion_forcing_block: has no effect without --diffusion_forcing: give "
            "--diffusion_forcing increasing, or leave the flag out");
    const struct { bool is; const char *what; } without[] = {
        { c->motion_sub_loss, "--motion_sub_loss compares frames of one level" },
        { c->sp > 1, "--sp divides the tokens of a frame" },
        { c->with_audio || fit.sound, "--with_audio: the sound has one level" },
        { c->boundary_type == VTRAIN_SIDE_BOTH, "--boundary_type both: the frames of a clip "
          "would belong to both transformers" },
        { t->distill.steps > 0, "--task direct_distill: the steps go from noise to clean clips" },
        { c->objective == 1 + VTRAIN_V, "--objective v: the levels are those of a flow" },
    };
    if (!fit.frame_times)
        return vc_fail(err, VC_EUSAGE, "--diffusion_forcing: %s takes one timestep for all frames "
                       "of a sample: leave the flag out, or give a --model of SkyReels V2, Wan or "
                       "LTX-Video", t->model.family->class_name);
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (without[i].is)
            return vc_fail(err, VC_EUSAGE, "--diffusion_forcing: %s: leave one of them out",
                           without[i].what);
    int longest = 0;
    for (uint32_t i = 0; i < vtrain_data_groups(t->data); i++) {
        const vtrain_group *g = vtrain_data_group(t->data, i);
        const int n = (int)(g->padded / fit.mult[0]);
        longest = n > longest ? n : longest;
        if (c->train_batch_size * n > VTRAIN_FRAMES)
            return vc_fail(err, VC_EUSAGE, "--diffusion_forcing: bucket %s: %lld samples of %d "
                           "frames; at most %d frames of a batch have levels of their own: lower "
                           "--train_batch_size", g->name, (long long)c->train_batch_size, n,
                           VTRAIN_FRAMES);
    }
    if (c->diffusion_forcing_block > 1 && c->diffusion_forcing_block >= longest)
        return vc_fail(err, VC_EUSAGE, "--diffusion_forcing_block %lld: all frames of a clip would "
                       "have one level, since the longest clip has %d latent frames: give fewer, "
                       "or leave --diffusion_forcing out", (long long)c->diffusion_forcing_block,
                       longest);
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Draws n quantiles that grow with the noise; `own` is the row's. */
static void draw_quantiles(double *u, int n, const vtrain *t, const vtrain_micro *m, uint32_t row,
                           double own)
{
    const uint32_t number = (uint32_t)m->number;
    const bool rising = t->cfg.diffusion_forcing == VTRAIN_FORCING_INCREASING;
    const double where = vc_train_unit(m->seed, (uint32_t)n, row, number, VC_DRAW_FRAMES);
    const int at = rising ? (int)(where * n) : 0;
    for (int i = 0; i < n; i++)
        u[i] = vc_train_unit(m->seed, (uint32_t)i, row, number, VC_DRAW_FRAMES);
    u[at] = own;
    if (!rising)
        return;
    for (int i = 0; i < n; i++)
        u[i] = i < at ? u[i] * own : i > at ? own + u[i] * (1 - own) : own;
    qsort(u, (size_t)at, sizeof *u, by_size);
    qsort(u + at + 1, (size_t)(n - at - 1), sizeof *u, by_size);
}

void vtrain_forcing_draw(vtrain_levels *v, const vtrain *t, const vtrain_micro *m, int row,
                         const vtrain_level *l, float share, bool clean, bool grows)
{
    double u[VTRAIN_FRAMES];
    const int n = v->frames, each = (int)t->cfg.diffusion_forcing_block;
    const int64_t tokens = (int64_t)m->batch->tokens / m->batch->rows;
    const bool drawn = m->level < 0;
    const float rest = clean ? (float)n / (float)(n - 1) : 1;
    if (drawn)
        draw_quantiles(u, (n + each - 1) / each, t, m, m->batch->first + (uint32_t)row,
                       grows ? l->quantile : 1 - l->quantile);
    for (int i = 0; i < n; i++) {
        const double r = !drawn ? 0 : grows ? u[i / each] : fmin(1 - u[i / each], 1 - 0x1p-53);
        const vtrain_level own = drawn ? vtrain_level_of(t->objective, tokens, r) : *l;
        const bool whole = clean && i == 0;
        const int at = row * n + i;
        v->frame_sigma[at] = whole ? 0 : (float)own.sigma;
        v->frame_t[at] = VTRAIN_TIMES * v->frame_sigma[at];
        v->frame_weight[at] = whole ? 0 : own.weight * share * rest;
    }
}

vt_tensor *vtrain_forced_tensor(vt_ctx *g, const vtrain_levels *v, int64_t rows, const float *x,
                                int64_t patch, float scale, float add)
{
    const int64_t n = v->frames * patch, dim[5] = { rows, 1, n, 1, 1 };
    float *all = malloc((size_t)(rows * n) * sizeof *all);
    if (!all)
        return vt_fail(g, VC_ENOMEM, "levels of frames: out of memory");
    for (int64_t i = 0; i < rows * n; i++)
        all[i] = scale * x[i / patch] + add;
    vt_tensor *y = vt_from_host(g, VC_F32, 5, dim, all, VC_F32);
    free(all);
    return y;
}
