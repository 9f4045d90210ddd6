/* objective.h - training objectives: noise levels, and the noisy latents, targets and weights that
 * follow from them.
 *
 * Flow matching (Lipman et al. 2023; Liu et al. 2023) has levels s in (0,1], t = 1000 s and
 *
 *     x_s = (1-s) x + s n, target n - x.
 *
 * A level is drawn from a density over u in (0,1), then shifted by the model's factor, or by a
 * factor that follows from the sample's tokens (shift.h). With `grid` N, a level is rounded up to a
 * multiple of 1/N before the shift, so that all levels are those of a table of N: with 1000 these
 * are the levels that a trainer with diffusers' table draws. The terminal stretch of a scheduler's
 * file is for samplers alone; `terminal` stretches the levels of training. A range of levels, least
 * to most, may be given: either the drawn level is scaled into it, or only levels within it are
 * drawn, with the distribution that they have among all draws.
 *
 * v-prediction (Salimans & Ho 2022) over the discrete schedule of DDPM has t uniform in 0..999 and,
 * with A = alphas_cumprod[t],
 *
 *     x_t = sqrt(A) x + sqrt(1-A) n, target sqrt(A) n - sqrt(1-A) x.
 *
 * Two transformers may divide the levels between them, at a boundary. A run that trains one of them
 * draws its levels alone. A run that trains both draws all levels, but the rows of a micro-batch
 * belong to one transformer: the first row's level decides which, and the levels of the other rows
 * have the distribution of all draws on that side of the boundary, so that over many micro-batches
 * each row has the distribution of all draws.
 *
 * A draw is a pure function of (seed, micro-batch, row): VC_DRAW_SIGMA. An objective is immutable
 * after open. */
#ifndef TRAIN_DIFFUSION_OBJECTIVE_H
#define TRAIN_DIFFUSION_OBJECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/err.h"
#include "train/diffusion/shift.h"

typedef enum { VTRAIN_FLOW, VTRAIN_V } vtrain_kind;

/* Densities of u and loss weights, with the names of Esser et al. 2024 (SD3) in the spelling of
 * other trainers. */
typedef enum vtrain_density {
    VTRAIN_UNIFORM,              /* u uniform, weight 1 */
    VTRAIN_LOGIT_NORMAL,         /* u = sigmoid(N(mean, std^2)), weight 1; larger: more noise */
    VTRAIN_MODE,                 /* u = 1 - r - scale (cos^2(pi r / 2) - 1 + r), weight 1 */
    VTRAIN_SIGMA_SQRT,           /* uniform, weight s^-2 */
    VTRAIN_COSMAP,               /* uniform, weight 2 / (pi (1 - 2 s + 2 s^2)) */
    VTRAIN_BELL,                 /* uniform, weight exp(-2 (s - 1/2)^2) less its value at s = 1,
                                  * divided by its mean over a table of 1000 shifted levels */
    VTRAIN_WEIGHTED,             /* uniform, weights as of ai-toolkit's timestep_type weighted, by
                                  * the level after the shift */
    VTRAIN_STRETCHED             /* weight 1: nine of ten levels are logit-normal and, after the
                                  * shift, stretched so that the quantiles 0.005 and 0.999 of the
                                  * normal become 0 and 1; those below 1e-3 are mirrored there,
                                  * those above 1 are 1. One of ten is uniform from 1e-3 on */
} vtrain_density;

typedef struct vtrain_objective_opts {
    vtrain_kind kind;
    vtrain_density density;
    double logit_mean, logit_std, mode_scale;
    /* flow: the factor of the shift; 0: it follows from a sample's tokens */
    double shift;
    vtrain_by_tokens by_tokens;
    int64_t grid;                /* flow: levels of a table; 0: every level */
    bool clean;                  /* flow: the loss is that of the clean sample, noisy - s output,
                                  * whose weight is s^2 times that of the velocity's */
    double terminal;             /* flow: the last level of the table, or of one of 1000, to which
                                  * the shifted levels are stretched; 0: they are not */
    /* The range of t that is trained; most 0: all of it. Flow: a shifted level s becomes
     * least + s (most - least), or (keep_shape) s is one of those draws that lie within the range.
     * v: t is uniform from least on, below most. */
    double least, most;
    bool keep_shape;
    /* The part of the list of levels that is drawn, as shares of the list, which begins with most
     * noise: DiffSynth-Studio's and ai-toolkit's range of its indices. list_to 0: all of it. */
    double list_from, list_to;
    /* Levels are scaled into this range of (0,1) before the shift, as OneTrainer does; draw_most 0:
     * they are not. */
    double draw_least, draw_most;
    /* flow: where one of two transformers is trained, only levels from the boundary on, or (low)
     * only those below the boundary, are drawn. 0: all levels are. */
    double boundary;
    bool low;
    double divide;               /* flow: the boundary where both are trained; 0: they are not */
    /* --uniform_sampling: micro-batch m of a step of `micros` draws from its own part of u */
    bool stratified;
    int64_t micros;
    /* v: the ends of the scaled-linear schedule, the s of A / (s + (1-s) A), and whether the last
     * step is pure noise (zero terminal SNR, Lin et al. 2024) */
    double beta_start, beta_end, snr_shift;
    bool zero_snr;
} vtrain_objective_opts;

typedef struct vtrain_objective vtrain_objective;
int vtrain_objective_open(vtrain_objective **out, const vtrain_objective_opts *o, vc_err *err);
void vtrain_objective_close(vtrain_objective *o);            /* NULL is fine */
vtrain_kind vtrain_objective_kind(const vtrain_objective *o);
/* flow: whether the shift follows from the number of tokens. */
bool vtrain_objective_by_tokens(const vtrain_objective *o);
/* flow: the factor of the shift for a sample of `tokens` tokens. */
double vtrain_objective_shift(const vtrain_objective *o, int64_t tokens);

/* One row's noise level and the factors that follow from it. */
typedef struct vtrain_level {
    double sigma;                /* flow: s; v: sqrt(1-A) */
    float t, t_next;             /* for the timestep embedder: of the level, and of that which a
                                  * sample's step leads to; in training t twice */
    float x_of, n_of;            /* noisy = x_of x + n_of n */
    float tx_of, tn_of;          /* target = tx_of x + tn_of n */
    float weight;                /* of the row's loss */
    double quantile;             /* r of vtrain_level_of; NaN: the level was given */
} vtrain_level;

/* The level of quantile r in [0,1) of the density, shifted for a sample of `tokens` tokens. */
vtrain_level vtrain_level_of(const vtrain_objective *o, int64_t tokens, double r);
/* The quantile that row `row` of micro-batch `micro` draws, stratified or not. */
double vtrain_level_draw(const vtrain_objective *o, uint64_t seed, uint32_t row, uint64_t micro);
/* The level that the row draws; with opts.divide a level on the side of the boundary on which the
 * micro-batch's row 0 has its level. */
vtrain_level vtrain_level_row(const vtrain_objective *o, int64_t tokens, uint64_t seed,
                              uint32_t row, uint64_t micro);
/* True for a level below opts.divide. */
bool vtrain_level_low(const vtrain_objective *o, const vtrain_level *l);
/* With opts.divide: the share of levels from the boundary on among those drawn for a sample of
 * `tokens` tokens. */
double vtrain_share_high(const vtrain_objective *o, int64_t tokens);
/* For sampling: the level of a shifted sigma (flow) or of an integer t (v). */
vtrain_level vtrain_level_at(const vtrain_objective *o, double sigma_or_t);
/* alphas_cumprod[t], and all 1000 of them; v only. */
double vtrain_alpha_bar(const vtrain_objective *o, int t);
const double *vtrain_alpha_bars(const vtrain_objective *o);
/* The number of groups that `ranks` places of a step form over `steps` times
 * (docs/sampling.md). */
int64_t vtrain_strata(int64_t ranks, int64_t steps);

#endif
