/* noised.h - from a micro-batch of clean latents to noisy latents, targets, timesteps, and the
 * weights of the loss.
 *
 * Each row has a noise level of its own. With --first_frame_conditioning_p some rows, drawn by
 * (seed, micro-batch, row) with VC_DRAW_FIRST_FRAME, keep their first latent frame clean, as an
 * image-to-video model gets it: the frame's tokens have timestep 0, and the row's loss is the mean
 * over its other frames. A still has no other frame and is never drawn. A model that takes a
 * timestep for each token then gets vtrain_in.token_t in every batch of clips. */
#ifndef TRAIN_NOISED_H
#define TRAIN_NOISED_H

#include "train/vtrain.h"

/* Levels of a micro-batch's rows, on the host. */
typedef struct vtrain_levels {
    float t[VTRAIN_ROWS], weight[VTRAIN_ROWS], sigma[VTRAIN_ROWS];
    float x_of[VTRAIN_ROWS], n_of[VTRAIN_ROWS], tx_of[VTRAIN_ROWS], tn_of[VTRAIN_ROWS];
    bool clean[VTRAIN_ROWS];                  /* the row's first frames have no noise */
    int front;                                /* how many frames those are: the latent frames of a
                                               * token; 0: no row may have any */
} vtrain_levels;

/* Draws the levels of m's rows; if m names a level, all rows have it. */
void vtrain_levels_draw(vtrain_levels *v, const vtrain *t, const vtrain_micro *m);
/* All rows have level l, and clean first frames or not. */
void vtrain_levels_set(vtrain_levels *v, const vtrain *t, int64_t rows, const vtrain_level *l,
                       bool clean);
/* For a dry step of latents dim: the levels lead to the same tensors as those of a real batch. */
void vtrain_levels_dry(vtrain_levels *v, const vtrain *t, const int64_t dim[5]);

/* Of the step in progress. */
typedef struct vtrain_noised {
    vt_tensor *x0, *noise, *noisy, *target;   /* f32 [B,C,f,h,w] */
    vt_tensor *weight;                        /* of the squared errors, to which it broadcasts: the
                                               * level's weight times the loss mask. Clean frames
                                               * have 0, and the other frames of their row as much
                                               * more as makes the mean theirs */
    vt_tensor *motion_weight;                 /* of the differences of neighbouring frames, 0 beside
                                               * a clean one; NULL without --motion_sub_loss */
} vtrain_noised;
void vtrain_noised_load(const vtrain *t, vtrain_noised *n, const vtrain_batch *b,
                        const vtrain_levels *v, uint64_t seed, uint64_t number);
/* Makes in->t and in->token_t for latents dim. */
void vtrain_times_load(const vtrain *t, vtrain_in *in, const int64_t dim[5],
                       const vtrain_levels *v);

#endif
