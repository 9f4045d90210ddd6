/* musubi.h - a model of musubi-tuner, for the two files of its cache, which musubi.c describes. */
#ifndef FORMATS_PEERS_CACHES_MUSUBI_H
#define FORMATS_PEERS_CACHES_MUSUBI_H

#include "formats/peers/tensors.h"

#define MUSUBI_LTX2 "ltx2"                   /* in the names of the files of LTX-2 */
#define MUSUBI_IMAGES "images/"              /* the folder of stills beside clips */

/* A row of the table in musubi.c. */
typedef struct musubi_arch {
    exchange_names names;
    bool normalized;                         /* latents are normalised */
    /* in the files' names, and in their metadata: of samples, and of edits; NULL: none are kept */
    struct { const char *tag, *full; } of[2];
} musubi_arch;

/* Sets the item's sound, and its rate, to those of a file of LTX-2's sound. */
int musubi_take_sound(exchange_item *m, exchange *x, const vf_safetensors *st, vc_err *err);
/* Writes the file of a sample's sound, if it has some, as `name`. */
int musubi_write_sound(exchange *x, const exchange_sample *s, const char *full, const char *name,
                       vc_err *err);
/* Exports the dataset as the cache of this model. VC_EMISMATCH: the model keeps edits alone, and
 * the dataset has none. */
int exchange_musubi_write(exchange *x, const musubi_arch *a, vc_err *err);

#endif
