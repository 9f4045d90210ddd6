/* pictures.h - the pictures and clips that a prompt gives the model, as the model takes them.
 * Internal to train/sampling. */
#ifndef TRAIN_SAMPLING_PICTURES_H
#define TRAIN_SAMPLING_PICTURES_H

#include "train/sampling/sampling.h"

/* Makes s->cond, the conditions of all rows, from those of the prompt. */
int sampling_conditions(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err);
/* The bits of the roles that s->cond has. */
unsigned sampling_roles(const sampling *s);
/* Makes the frames that the sample begins with: the clean first latent frame of the prompt's image,
 * for a model trained on such frames, or those of its clip; and its last picture. */
int sampling_first(sampling *s, const vtrain *t, const vtrain_fit *fit, vc_err *err);
/* Puts the clean first frame, if there is one, into the sample, with a share of s->noise. */
void sampling_put_first(sampling *s, double share);
/* Mixes a share of the prompt's image into the noise of all frames, in f32 as diffusers does. */
void sampling_mix_image(sampling *s, const vtrain_fit *fit);
/* Reports, once a run, the inputs that samples lack: a clip may ignore its prompt's image. */
void sampling_report(const sampling *s, const vtrain *t, const vtrain_fit *fit);

#endif
