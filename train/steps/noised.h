/* noised.h - makes noisy latents, targets, timesteps and loss weights of a micro-batch of clean
 * latents.
 *
 * Each row has a noise level of its own. With --first_frame_conditioning_p some rows, drawn by
 * (seed, micro-batch, row) with VC_DRAW_FIRST_FRAME, keep their first latent frame clean, as
 * image-to-video models take their first frame: the frame's tokens have timestep 0, and the row's
 * loss is the mean over its other frames. A still has no other frame and is never drawn. A model
 * that takes a timestep for each token then gets vtrain_in.token_t in every batch of clips.
 *
 * With --diffusion_forcing each frame of a clip has a level of its own, and the model gets
 * vtrain_in.frame_t (forcing.h). */
#ifndef TRAIN_STEPS_NOISED_H
#define TRAIN_STEPS_NOISED_H

#include "train/steps/distill.h"
#include "train/steps/step.h"
#include "train/vtrain.h"

/* Levels of a micro-batch's rows, on the host. */
typedef struct vtrain_levels {
    float t[VTRAIN_ROWS], t_next[VTRAIN_ROWS], weight[VTRAIN_ROWS], sigma[VTRAIN_ROWS];
    float x_of[VTRAIN_ROWS], n_of[VTRAIN_ROWS], tx_of[VTRAIN_ROWS], tn_of[VTRAIN_ROWS];
    float quantile[VTRAIN_ROWS];              /* of the density of levels; NaN: not drawn */
    vtrain_walk walk;                         /* of all rows, in place of a level */
    bool low;                                 /* of all rows, where two transformers are trained:
                                               * the levels are those of low noise */
    bool clean[VTRAIN_ROWS];                  /* the row's first frames have no noise */
    int frames;                               /* of tokens in a row, each of which has a level of
                                               * its own (forcing.h); 0: a row has one */
    float frame_t[VTRAIN_FRAMES];             /* [B,frames], as are sigmas and weights */
    float frame_sigma[VTRAIN_FRAMES], frame_weight[VTRAIN_FRAMES];
    int front;                                /* number of such frames in a clean row: the latent
                                               * frames of a token; 0: no row may be clean */
} vtrain_levels;

/* Draws the levels of m's rows; if m gives a level, all rows have m's level. In a distillation the
 * rows have the level of pure noise instead, and the walk of its steps. */
void vtrain_levels_draw(vtrain_levels *v, const vtrain *t, const vtrain_micro *m);
/* Sets the same level l for all rows, with clean first frames if `clean`. */
void vtrain_levels_set(vtrain_levels *v, const vtrain *t, int64_t rows, const vtrain_level *l,
                       bool clean);
/* Gives the frames of all rows, which have one level, the times of p. */
void vtrain_levels_pace(vtrain_levels *v, const vtrain *t, const int64_t dim[5],
                        const vtrain_paced *p);
/* Sets levels for a dry step of latents dim, which makes the same tensors as a real batch. */
void vtrain_levels_dry(vtrain_levels *v, const vtrain *t, const int64_t dim[5]);
/* Whether a quantile's noise grows with the quantile: with some densities it falls. */
bool vtrain_noise_grows(const vtrain *t);

/* Tensors of the current step. */
typedef struct vtrain_noised {
    vt_tensor *x0, *noise, *noisy, *target;   /* f32 [B,C,f,h,w] */
    vt_tensor *weight;                        /* of the squared errors (broadcasts to them): the
                                               * level's weight times the loss mask; 0 in clean
                                               * frames, and scaled in a clean row's other frames
                                               * so that the row's loss is their mean */
    vt_tensor *motion_weight;                 /* of the differences of neighbouring frames, 0 beside
                                               * a clean frame; NULL without --motion_sub_loss */
} vtrain_noised;
void vtrain_noised_load(const vtrain *t, vtrain_noised *n, const vtrain_batch *b,
                        const vtrain_levels *v, uint64_t seed, uint64_t number);
/* Makes the timesteps of the steps of a walk. */
void vtrain_walk_load(const vtrain *t, vtrain_walk_times *times, int64_t rows,
                      const vtrain_walk *w);
/* Makes in->t, of models with next times in->t_next, and, if rows may have clean frames or frames
 * have levels of their own, in->token_t for latents dim; in the latter case in->frame_t too. */
void vtrain_times_load(const vtrain *t, vtrain_in *in, const int64_t dim[5],
                       const vtrain_levels *v);

#endif
