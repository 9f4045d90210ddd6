/* decode.h - what vdecode was asked for, its VAE, and the decoding of one latent. */
#ifndef PRECOMPUTE_VDECODE_DECODE_H
#define PRECOMPUTE_VDECODE_DECODE_H

#include "common/cli/flags.h"
#include "common/os/progress.h"
#include "formats/tensors/safetensors.h"
#include "precompute/vae/vae.h"
#include "precompute/vdecode/picture.h"

typedef struct options {
    char *out, *model, *vae, *samples, *device;
    vc_dtype vae_dtype;                  /* VC_DTYPE_NONE: bf16 */
    bool vae_tiling;
    double decode_timestep, decode_noise_scale;
    int format;                          /* as in picture.h: auto | png | jpg | mp4 */
    int log_format;
    double fps;
    bool sheet, overwrite, quiet;
} options;

typedef struct decoder {
    options o;
    const vae_class *class;
    char *dir;                               /* of the weights; NULL: built in */
    vae *vae;
    vae_info info;
    struct decode_sound *sound;              /* of the dataset in hand, or of files (sound.h); NULL:
                                              * none */
    vc_progress *progress;
    bool by_frames;                          /* the progress counts the frames of one latent; */
    double place, each;                      /* else: where the next latent is in it, and the share
                                              * of a unit that the latent is */
    uint64_t done, there;                    /* latents decoded now, and before */
    char *where;                             /* the folder of the last input's pictures */
    bool of_run;                             /* it is a run's, whose report shows them */
} decoder;

/* The frames of a latent that are written. */
typedef struct chosen {
    int most;                                /* cut to so many; 0: all */
    double skip;                             /* of these the first ones that are left out */
    double fps;                              /* the stored rate; 0: none */
    const media_wave *sound;                 /* of a clip, from its first frame on; NULL: none */
} chosen;

/* Decodes a latent of st into files, and adds a strip of frames to the sheet if there is one. name:
 * of the tensor; NULL: latents, mean or sample. */
int decode_latent(decoder *d, const vf_safetensors *st, const char *name, const char *stem,
                  chosen c, sheet *s, vc_err *err);
/* The frames, and their rate, that a file of latents asks for. */
chosen decode_chosen(const vf_safetensors *st);

#endif
