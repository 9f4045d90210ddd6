/* mel.h - sound to the log-mel spectrogram that audio autoencoders read.
 *
 * As torchaudio's MelSpectrogram with centred frames, reflected ends, magnitudes (power 1), Hann's
 * window and Slaney's scale and norm (Slaney 1998, Auditory Toolbox), then
 * log(max(mel, 1e-5)), which is what the trainers of LTX-2 compute. */
#ifndef PRECOMPUTE_SOUND_MEL_H
#define PRECOMPUTE_SOUND_MEL_H

#include <stdint.h>

#include "common/base/err.h"

typedef struct mel_maker mel_maker;

/* window: samples of a frame, a power of two of 16 to 65536; hop: samples from frame to frame;
 * bins: at most 1024. VC_EINVAL otherwise. One handle belongs to one thread. */
typedef struct mel_shape {
    int rate, window, hop, bins;
} mel_shape;
int mel_open(mel_maker **out, const mel_shape *shape, vc_err *err);
void mel_close(mel_maker *m);                              /* NULL is fine */
/* Frames of n samples. */
int64_t mel_frames(const mel_shape *shape, int64_t n);
/* x f32 [n], n > 0 -> y f32 [mel_frames,bins]. */
void mel_run(mel_maker *m, const float *x, int64_t n, float *y);
/* The filters f32 [window/2+1,bins], borrowed. */
const float *mel_filters(const mel_maker *m);

#endif
