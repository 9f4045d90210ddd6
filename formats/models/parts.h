/* parts.h - the table of transformers.h: a row a class. Internal to formats/models. */
#ifndef FORMATS_MODELS_PARTS_H
#define FORMATS_MODELS_PARTS_H

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
/* The lists of names of the table; first: as first authors have them. */
extern const char *const vf_names_cogvideox[], *const vf_names_hunyuan[],
    *const vf_names_hunyuan_first[], *const vf_names_hunyuan15[], *const vf_names_hunyuan15_first[],
    *const vf_names_ltx[], *const vf_names_wan[], *const vf_names_skyreels2[],
    *const vf_names_wan_first[], *const vf_names_skyreels2_first[], *const vf_names_wan_vace[],
    *const vf_names_wan_vace_first[], *const vf_names_qwen[], *const vf_names_flux[],
    *const vf_names_flux_first[], *const vf_names_chroma[], *const vf_names_chroma_first[],
    *const vf_names_flux2[], *const vf_names_flux2_first[], *const vf_names_zimage[],
    *const vf_names_krea2[], *const vf_names_ernie[], *const vf_names_kandinsky5[],
    *const vf_names_cosmos2[], *const vf_names_ideogram4[], *const vf_names_sd3[],
    *const vf_names_sd3_first[];

#endif
