/* sound.h - the sound of clips in peers' files: latents [C,f,1,bins] beside those of the video.
 *
 * Each of a frame's C * bins numbers has its own mean and std, which lie in the weights of the
 * autoencoder of sound: an export has them in the manifest, an import from --audio_vae. See
 * exchange.h */
#ifndef FORMATS_PEERS_SOUND_H
#define FORMATS_PEERS_SOUND_H

#include "formats/peers/exchange.h"

/* Reads x->sound of the manifest; without sound its channels stay 0. */
int exchange_sound_manifest(exchange *x, vc_err *err);
/* Before the first item: the files have sound of these sizes, whose constants --audio_vae gives.
 * VC_EUSAGE: it is not given; VC_EMISMATCH: it has constants of other sizes. */
int exchange_sound_begin(exchange *x, int64_t channels, int64_t bins, vc_err *err);
void exchange_sound_free(exchange_sound *s);

/* Makes the f32 latents [C,f,1,bins] of a sample's sound, normalised if x->normalized, which no
 * longer count as left out; the caller frees *out. It is NULL for a sample without sound. */
int exchange_sound_of(exchange *x, const exchange_sample *s, float **out, vf_view *v, vc_err *err);

/* Adds `audio_vae` to the manifest of an import. */
void exchange_sound_head(const exchange *x, cJSON *manifest);
/* Puts the item's sound, if it has some, and adds its key to the record's conditions. Frames that
 * begin behind the clip's end, of which the trainers have up to one, are left out; VC_EMISMATCH:
 * the sound is longer or shorter than that. */
int exchange_sound_put(exchange *x, const exchange_item *m, cJSON *record, vc_err *err);

#endif
