/* vocoder.h - from the log-mel spectrogram that an audio autoencoder decodes to a waveform.
 *
 * LTX2Vocoder of LTX-2.0 is a HiFi-GAN (Kong et al. 2020). LTX2VocoderWithBWE of LTX-2.3 is a
 * BigVGAN (Lee et al. 2023) at the spectrogram's rate, whose waveform a second one of the same kind
 * extends to a higher rate. Both compute in f32. One handle belongs to one thread. */
#ifndef PRECOMPUTE_SOUND_VOCODER_H
#define PRECOMPUTE_SOUND_VOCODER_H

#include "precompute/encoder.h"

typedef struct vocoder_info {
    const char *class;
    int rate;                        /* samples a second of the waveform */
    int inputs;                      /* bins of the spectrogram of all channels together */
    int channels;                    /* of the waveform */
    int hop;                         /* samples of the waveform per frame of the spectrogram */
} vocoder_info;

typedef struct vocoder vocoder;
/* o: dir, device. The class is that of the folder's config.json. */
int vocoder_open(vocoder **out, const encoder_opts *o, vocoder_info *info, vc_err *err);
void vocoder_close(vocoder *v);                      /* NULL is fine */
/* mel f32 [channels,t,bins], channels * bins = inputs -> x f32 [channels,t*hop] in -1..1 (a vocoder
 * without a last function may exceed that). VC_EINVAL: t or bins. */
enum { VOCODER_MAX_FRAMES = 1 << 18 };
int vocoder_run(vocoder *v, const float *mel, int t, int bins, float *x, vc_err *err);

#endif
