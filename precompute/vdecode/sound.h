/* sound.h - the sound of a dataset's samples: latents to a waveform, by the audio_vae and the
 * vocoder of the model's folder. */
#ifndef PRECOMPUTE_VDECODE_SOUND_H
#define PRECOMPUTE_VDECODE_SOUND_H

#include "formats/dataset/dataset.h"
#include "precompute/vdecode/decode.h"

typedef struct decode_sound decode_sound;
/* Opens the decoders of the dataset's latents of sound. *out stays NULL where it has none, where no
 * MP4 is written, or (with a warning) where there is no --model. VC_EMISMATCH: the model's
 * audio_vae has other latents; VC_EUSAGE: the model lacks a folder. */
int decode_sound_open(decode_sound **out, const decoder *d, const vf_dataset *set, vc_err *err);
void decode_sound_close(decode_sound *s);            /* NULL is fine */
const char *decode_sound_dir(const decode_sound *s); /* of the audio_vae */
/* wave: the sound of sample i for `seconds`, whose x is malloc'ed; NULL where the sample has none.
 * s may be NULL. */
int decode_sound_run(decode_sound *s, const vf_dataset *set, uint32_t i, const cJSON *record,
                     double seconds, media_wave *wave, vc_err *err);
/* The same of a file of latents, which holds its sound as `audio`; *s is opened where it is NULL.
 * Without --model a sound is left out with a warning. */
int decode_sound_file(decode_sound **s, const decoder *d, const vf_safetensors *st,
                      double seconds, media_wave *wave, vc_err *err);

#endif
