/* audio_vae.h - AutoencoderKLLTX2Audio: from the log-mel spectrogram of sound to its latent, and
 * back.
 *
 * Its 2-D convolutions are causal in time: a latent depends on no later frame, so that a sound's
 * latents are a prefix of those of a longer one. One handle belongs to one thread. */
#ifndef PRECOMPUTE_SOUND_AUDIO_VAE_H
#define PRECOMPUTE_SOUND_AUDIO_VAE_H

#include "precompute/encoder.h"
#include "precompute/sound/mel.h"

/* The entry of a manifest about the autoencoder that made the latents of sound. */
typedef struct audio_info {
    const char *class;
    vf_key fingerprint;              /* of weights and of config fields that change the output */
    mel_shape mel;                   /* of the spectrogram, */
    int inputs;                      /* of so many channels of sound */
    int channels, bins;              /* of a latent [channels,frames,bins]; channels * bins is at
                                      * most VAE_MAX_CHANNELS */
    int ratio;                       /* spectrogram frames per latent frame */
    /* of channels * bins numbers, a channel's bins one behind the other: a latent is normalised
     * as (x - mean) / std */
    double mean[VAE_MAX_CHANNELS], std[VAE_MAX_CHANNELS];
} audio_info;

typedef struct audio_vae audio_vae;
/* o: dir, weights, dtype, device. VC_EUSAGE, VC_EFORMAT, VC_EMISMATCH: the folder. */
int audio_vae_open(audio_vae **out, const encoder_opts *o, audio_info *info, vc_err *err);
void audio_vae_close(audio_vae *a);                  /* NULL is fine */
/* Latent frames of t frames of a spectrogram, and the frames that l latent frames decode to. */
int audio_vae_latents(const audio_info *info, int t);
int audio_vae_frames(const audio_info *info, int l);
/* mel f32 [inputs,t,mel.bins] -> mean and logvar (clamped to -30..20; may be NULL)
 * f32 [channels,l,bins]. VC_EINVAL: t is not in 1..AUDIO_MAX_FRAMES. */
enum { AUDIO_MAX_FRAMES = 1 << 20 };
int audio_vae_encode(audio_vae *a, const float *mel, int t, float *mean, float *logvar,
                     vc_err *err);
/* z f32 [channels,l,bins], not normalised -> f32 [inputs,audio_vae_frames(l),mel.bins] */
int audio_vae_decode(audio_vae *a, const float *z, int l, float *mel, vc_err *err);
/* Sets *bytes to the device memory that encoding t frames, or decoding t latent frames, takes
 * beside the weights: by a dry step, exactly. */
int audio_vae_memory(audio_vae *a, bool decode, int t, size_t *bytes, vc_err *err);

#endif
