/* diffsynth.h - what the export and the import of DiffSynth-Studio's data share. See diffsynth.c */
#ifndef FORMATS_PEERS_CACHES_DIFFSYNTH_H
#define FORMATS_PEERS_CACHES_DIFFSYNTH_H

#include "formats/peers/tensors.h"

extern const exchange_names diffsynth_layouts[];

/* The references of a layout with places: tokens of side x side values of each channel, and their
 * places, vectors of `numbers` numbers: the picture's, row, column, and zeros. */
typedef struct token_form {
    int side, numbers;
    vc_dtype type;                           /* of the places */
    int64_t first, step;                     /* the number of picture k is first + k * step */
    int most;                                /* pictures that the pipeline takes */
} token_form;

const token_form *diffsynth_tokens(const exchange_names *l);

/* Exports all samples by the row of diffsynth_layouts. */
int diffsynth_write(exchange *x, const exchange_names *l, vc_err *err);

#endif
