/* forcing.h - diffusion forcing (Chen et al. 2024): each latent frame of a clip has a noise level
 * of its own, and the model is given each frame's timestep.
 *
 * With --diffusion_forcing independent the levels of a clip's frames are drawn each for itself.
 * With increasing no frame has less noise than the one before, as where a clip is made from its
 * first frame on: one frame of a row, drawn evenly, has the level that the row draws, and the
 * others have the levels of a non-decreasing list, of which all are equally likely (the
 * frame-oriented probability propagation of Sun et al. 2025 and Chen et al. 2025, SkyReels V2, in
 * the limit of many levels: the frames before have the sorted quantiles of as many even draws below
 * the row's, the frames behind those of draws above). --diffusion_forcing_block frames have one
 * level together.
 *
 * The quantiles are of the density of levels, so that its shape, shift and range hold. They are
 * drawn by (seed, micro-batch, row, frame) with VC_DRAW_FRAMES. */
#ifndef TRAIN_STEPS_FORCING_H
#define TRAIN_STEPS_FORCING_H

#include "train/steps/noised.h"

enum { VTRAIN_FORCING_NONE, VTRAIN_FORCING_INDEPENDENT, VTRAIN_FORCING_INCREASING };

/* Checks that the model, the flags and the batches go together with --diffusion_forcing. Errors
 * name the flag. */
int vtrain_forcing_check(const vtrain *t, vc_err *err);
/* The number of a clip's frames that have levels of their own, those of tokens, of `latents` latent
 * frames; 0: rows have one level, as those of stills have. */
int vtrain_forced_frames(const vtrain *t, int64_t latents);
/* Sets the levels of the frames of v's row, whose own is l: if m gives a level, all have it. The
 * frames' weights are those of their levels times `share`; with `clean` the first frame has no
 * noise and the others have the row's weight. grows: of vtrain_noise_grows. */
void vtrain_forcing_draw(vtrain_levels *v, const vtrain *t, const vtrain_micro *m, int row,
                         const vtrain_level *l, float share, bool clean, bool grows);
/* A tensor [B,1,n,1,1] of `scale` x + `add`, where x [B,v->frames] has a number for each frame of
 * tokens and n = v->frames * patch. */
vt_tensor *vtrain_forced_tensor(vt_ctx *g, const vtrain_levels *v, int64_t rows, const float *x,
                                int64_t patch, float scale, float add);

#endif
