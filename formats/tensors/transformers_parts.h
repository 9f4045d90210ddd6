/* transformers_parts.h - the table of transformers.h: a row a class. Internal to
 * formats/tensors. */
#ifndef FORMATS_TENSORS_TRANSFORMERS_PARTS_H
#define FORMATS_TENSORS_TRANSFORMERS_PARTS_H

#include <stdint.h>

#include "formats/json/config.h"

enum { VF_CHANNELS = 4 };

/* A transformer that reads more than a dataset has. */
typedef struct vf_variant {
    const char *sign;                        /* a tensor of its files, with '*' as in file names;
                                              * NULL ends the table */
    const char *field;                       /* or a field of config.json that is true, */
    const char *word;                        /* or has this word; NULL: it is true */
    int64_t channels;                        /* or in_channels that no trained model has */
    const char *reads;
} vf_variant;

/* in_channels are out_channels times `times`, plus `plus`. */
typedef struct vf_channels { int times, plus; } vf_channels;

typedef struct vf_transformer_kind {
    const char *class;                       /* NULL ends the table */
    const char *const *names;                /* modules and tensors, ended by NULL: '#' is a number,
                                              * "{a,b}" one of these; ".weight" or ".bias" may
                                              * follow. NULL: any name */
    const vf_config_row *fields;             /* fields that have one value; NULL: none */
    const char *in, *out;                    /* fields of the channels; NULL: they are not read */
    int64_t in_default, out_default;         /* 0: as many as in */
    vf_channels channels[VF_CHANNELS];           /* a row of zeros ends them */
    const vf_variant *variants;
    const char *trained;                     /* the models of this class that vtrain trains */
} vf_transformer_kind;
extern const vf_transformer_kind vf_transformer_kinds[];

#endif
