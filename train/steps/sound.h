/* sound.h - the sound of a micro-batch: its noise, target and loss beside the video's.
 *
 * A row's sound has the level of the row's video, and noise of its own (VC_DRAW_SOUND). Its loss is
 * the mean over its own frames, and 0 for a row without sound. The loss of a row is
 * --video_loss_weight times the video's and --audio_loss_weight times the sound's. The target of a
 * batch whose target is the base's prediction is that of both. */
#ifndef TRAIN_STEPS_SOUND_H
#define TRAIN_STEPS_SOUND_H

#include "train/diffusion/loss.h"
#include "train/steps/noised.h"

/* Tensors of the current step; all NULL of models without sound. */
typedef struct vtrain_heard {
    vt_tensor *noisy, *target;                /* f32 [B,C,L,1,bins] */
    vt_tensor *weight;                        /* [B,1,L,1,1]: of the squared errors */
    vt_tensor *pred;                          /* the model's prediction, after the forward */
} vtrain_heard;

void vtrain_heard_load(const vtrain *t, vtrain_heard *s, vtrain_in *in, const vtrain_batch *b,
                       const vtrain_levels *v, uint64_t seed, uint64_t number);
/* The loss of the sound, without its factor. */
vt_tensor *vtrain_heard_loss(vt_ctx *g, const vtrain_heard *s, const vtrain_loss_opts *o);
/* Gives a dry batch the longest sound beside its latents; length, [rows], lives as long as it. */
void vtrain_heard_dry(const vtrain *t, vtrain_batch *b, int32_t *length);

#endif
