/* parts.h - an open LoRA file, for lora.c and train.c. */
#ifndef TRAIN_LORA_PARTS_H
#define TRAIN_LORA_PARTS_H

#include "train/lora/lora.h"
#include "train/lora/alpha.h"

typedef struct vtrain_lora_entry {
    char *module;                /* without prefix and suffix */
    bool flat;                   /* module has underscores in place of dots */
    bool second;                 /* of the second of two transformers */
    bool known;                  /* the transformer has the module, or a part of it */
    unsigned used;               /* a bit for each part that vtrain_lora_get returned */
    int parts;                   /* number of our modules that are fused in this module */
    const vf_view *a, *b, *alpha, *magnitude;
    const vf_view *more[VTRAIN_PARTS];       /* the other parts */
    bool used_bias;              /* more[VTRAIN_PART_DIFF_B] was added */
    vtrain_renamed row;          /* of a fused module; row.row NULL: of one module */
} vtrain_lora_entry;

struct vtrain_lora {
    char *path, *note;
    vf_safetensors *file;
    const vtrain_rename *renames[2];
    vtrain_lora_alpha alpha;
    bool root;                   /* it was trained as an rsLoRA */
    bool comfyui;                /* magnitudes are ComfyUI's (train/output/export_lora.c) */
    vtrain_lora_entry *entry;
    int n;
    vt_source base;              /* of vtrain_lora_source */
    double strength;             /* factor of what is folded in */
    bool sizes_only;
    void **merged;               /* the weights that the source has made, and that are in use: of
                                  * those of its base that it changed it has freed the copies */
    int n_merged, room_merged;
    size_t merged_bytes;
};

/* Sets *p to the pair of a module, and *e to its entry, which is not marked as used. VC_ENOENT: the
 * file has no such module. */
int vtrain_lora_pair_of(vtrain_lora *l, const char *module, vtrain_lora_pair *p,
                        vtrain_lora_entry **e, vc_err *err);
/* Sets *e to the entry with our name of a module or a tensor, or with one of the tables, and leaves
 * *r as its row; NULL: the file has none. */
int vtrain_lora_find(vtrain_lora *l, const char *module, vtrain_lora_entry **e, vtrain_renamed *r,
                     vc_err *err);
/* Lets v have the rows of a factor whose layer's halves the first authors have in the other order,
 * in ours: a copy, which l frees. */
int vtrain_lora_swap(vtrain_lora *l, const vtrain_lora_entry *e, vf_view *v, vc_err *err);
/* Lets l free `made` when it is closed. */
int vtrain_lora_keep(vtrain_lora *l, void *made, vc_err *err);
/* magnitudes.c. Metadata that say DoRA need magnitudes in the file. */
int vtrain_lora_check_dora(const vtrain_lora *l, vc_err *err);
/* Checks an entry's magnitudes, which are those of the rows: [out], [out,1] or [1,out,1,1]. */
int vtrain_lora_check_magnitude(const vtrain_lora *l, const vtrain_lora_entry *e, vc_err *err);
/* Checks the types and the magnitudes of an entry without a pair. */
int vtrain_lora_check_more(const vtrain_lora *l, const vtrain_lora_entry *e, vc_err *err);
/* Sets the magnitudes [out] of one of our modules, whose row is r. */
void vtrain_lora_magnitudes(const vtrain_lora_entry *e, const vtrain_renamed *r,
                            vtrain_lora_pair *p);
/* VC_EFORMAT: the tensor holds no floating-point numbers. */
int vtrain_lora_check_type(const vtrain_lora *l, const vf_view *v, vc_err *err);
/* alpha / r by the entry's own alpha, or else by the metadata. */
double vtrain_lora_scale(const vtrain_lora *l, const vtrain_lora_entry *e, const char *module,
                         double r);
/* The scale that a module of the rank was trained with, whose file has the scale `own`. */
double vtrain_lora_trained(const vtrain_lora *l, double own, double rank);
/* What an entry has beside a pair, as "a LoKr"; NULL: nothing. */
const char *vtrain_lora_more(const vtrain_lora_entry *e);
/* The number in the entry's alpha, or `none`. */
double vtrain_lora_own_alpha(const vtrain_lora_entry *e, double none);
/* Whether B's rows of one part of a fused module are zero, although those of others are not: the
 * part was not trained. */
bool vtrain_lora_is_zero(const vtrain_lora_entry *e, int part);
/* n values in f32, malloc'ed. */
float *vtrain_lora_floats(const void *data, vc_dtype t, int64_t n);

#endif
