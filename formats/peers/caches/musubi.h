/* musubi.h - a model of musubi-tuner, for the two files of its cache, which musubi.c describes. */
#ifndef FORMATS_PEERS_CACHES_MUSUBI_H
#define FORMATS_PEERS_CACHES_MUSUBI_H

#include "formats/peers/tensors.h"

#define MUSUBI_IMAGES "images/"              /* the folder of stills beside clips */

/* A row of the table in musubi.c. */
typedef struct musubi_arch {
    exchange_names names;
    bool normalized;                         /* latents are normalised */
    /* in the files' names, and in their metadata: of samples, and of edits; NULL: none are kept */
    struct { const char *tag, *full; } of[2];
} musubi_arch;

/* Exports the dataset as the cache of this model. VC_EMISMATCH: the model keeps edits alone, and
 * the dataset has none. */
int exchange_musubi_write(exchange *x, const musubi_arch *a, vc_err *err);

#endif
