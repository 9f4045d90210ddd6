/* sound.h - the sound of a clip: from its file to a spectrogram, and to a stored latent.
 *
 * The span of sound begins when the clip's first frame is shown, and lasts as long as its frames at
 * their rate. Its latent has as many frames as the pipeline of the model makes for that time. */
#ifndef PRECOMPUTE_ENCODE_SOUND_H
#define PRECOMPUTE_ENCODE_SOUND_H

#include "precompute/encode/encode.h"

/* Fills j->sound with the spectrogram and the wave of the clip's sound; mel is NULL after a
 * failure. Thread-safe. Its errors are those of media_open, sound_read and prep_identity_check. */
int prep_sound_read(const vprep *p, prep_job *j, vc_err *err);
/* Opens the autoencoder of sound, and checks that it is that of vprep_identify. */
int prep_sound_open(prep_encoder *e, vc_err *err);
/* *bytes: the device memory that the sound of n samples takes in the autoencoder, beside the
 * weights. */
int prep_sound_memory(prep_encoder *e, int64_t n, size_t *bytes, vc_err *err);
/* Makes value v of the job's spectrogram. */
int prep_sound_encode(prep_encoder *e, prep_job *j, int v, vc_err *err);

#endif
