/* diffusion_pipe.h - what the export and the import of diffusion-pipe's cache share. See
 * diffusion_pipe.c */
#ifndef FORMATS_PEERS_CACHES_DIFFUSION_PIPE_H
#define FORMATS_PEERS_CACHES_DIFFUSION_PIPE_H

#include "formats/peers/tensor_cache.h"
#include "formats/peers/tensors.h"

typedef struct dpipe_layout {
    exchange_names names;
    const char *model;                       /* the peer's name of the model */
    bool named;                              /* other models have the same keys: the name of the
                                              * folder, or --family, chooses the row */
    bool blind;                              /* texts do not depend on the reference picture, so
                                              * that an export, whose captions the peer encodes
                                              * without media, may have one */
} dpipe_layout;

extern const dpipe_layout dpipe_layouts[];   /* ended by a NULL model */

enum { DPIPE_ENCODERS = EXCHANGE_NAMED_TEXTS };

/* An import, at one of its buckets. */
typedef struct dpipe_import {
    exchange *x;
    const dpipe_layout *l;                   /* NULL before the first text */
    vf_tensor_cache *latents, *text[DPIPE_ENCODERS];
    vf_keymap at;                            /* caption of a media file -> its item in text[0] */
} dpipe_import;

/* Finds the layout of a text: of those whose keys and width it has, that of --family, that of the
 * folder's name, or the first of those that their keys tell apart. VC_EFORMAT: there is none.
 * VC_EMISMATCH: it is of another family than --family says. */
int dpipe_guess(dpipe_import *m, const vf_pt_value *d, vc_err *err);
/* Returns an image_spec as "PATH" or "TAR/PATH"; the caller frees the text. NULL: VC_EFORMAT. */
char *dpipe_spec(const vf_pt_value *d, vc_err *err);
/* Maps each caption of a media file to its item in text[0]; captions keep their order. The first
 * text of all chooses the layout. */
int dpipe_index_texts(dpipe_import *m, vc_err *err);
/* Opens item `at` of each encoder's cache; the caller closes p[]. */
int dpipe_open_texts(const dpipe_import *m, exchange_item *item, size_t at,
                     vf_pt *p[DPIPE_ENCODERS], vc_err *err);
/* Puts the sample of an item of latents, with all its captions and their texts. */
int dpipe_put_item(dpipe_import *m, const vf_pt_value *d, const char *spec, vc_err *err);

/* Exports to the cache for `model`, with reference pictures where `names` has them. */
int exchange_dpipe_write(exchange *x, const char *model, const exchange_names *names, vc_err *err);

#endif
