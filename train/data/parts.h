/* parts.h - the opened datasets, and checked access to their values, shared by the files that
 * implement data.h and by the loader. Internal to train/data. */
#ifndef TRAIN_DATA_PARTS_H
#define TRAIN_DATA_PARTS_H

#include "formats/tensors/values.h"
#include "train/data/data.h"

/* Normalisation of a manifest or a config. mean, std: arrays of `channels` numbers, borrowed, or
 * NULL. */
typedef struct vtrain_norm_fields {
    double scaling, shift;
    bool invert;                         /* invert_scale_latents: of a first frame, see dit.h */
    const cJSON *mean, *std;
} vtrain_norm_fields;

/* A manifest's record of how the dataset was made; strings are borrowed from the manifest. */
typedef struct vtrain_head {
    bool black;                          /* masked pixels are black, as ControlNets have them, in
                                          * data of a family whose are grey */
    const char *family, *train_mode, *vae_class, *vae_fingerprint;
    int channels, ratio[3];
    vtrain_norm_fields norm;
    int n_slots;
    vtrain_slot slot[VTRAIN_TEXTS];
    const char *text_fingerprint[VTRAIN_TEXTS], *tokenizer[VTRAIN_TEXTS];
    const char *text_class[VTRAIN_TEXTS];    /* NULL: not recorded */
    const char *vision_fingerprint;          /* NULL: no sample has states of a vision model */
    vf_key empty[VTRAIN_TEXTS];          /* text keys of the empty prompt */
} vtrain_head;

typedef struct vtrain_set {
    vf_dataset *data;
    double weight;                       /* repeats; below 1, as given with the path, a share */
    const vtrain_set_kind *kind;         /* how its samples are taken */
    double loss;                         /* factor of their loss */
    unsigned marked;                     /* VF_ENTRY_REG and VF_ENTRY_PRIOR of any sample, in a
                                          * dataset without a kind */
    char root[VF_KEY_HEX];
    const char *plan;                    /* borrowed from the manifest; NULL: not recorded */
    vtrain_head head;
    unsigned stand_ins;                  /* 1 << vc_role of values that replace other roles' values
                                          * in training */
} vtrain_set;

typedef struct vtrain_visited {          /* a sample number in the epoch */
    uint32_t first;                      /* its samples in the list: first..first+variants-1 */
    uint16_t variants, start;            /* start: variant of the very first visit */
    uint32_t repeats;                    /* visits an epoch */
} vtrain_visited;

struct vtrain_data {
    vtrain_set *set;
    int n_sets;
    bool growing;                        /* samples may join it (vtrain_data_opts.shards) */
    double prior_loss;                   /* factor of the loss of samples that vprep has marked */
    vtrain_norm norm;
    double scaling;                      /* the factor in norm, and for conditions */
    bool invert;                         /* vtrain_norm_fields' */
    unsigned roles;                      /* 1 << vc_role of the transformer's conditions, and of */
    unsigned mean_roles;                 /* those that are their posterior's mean; roles has the */
    unsigned references;                 /* transformer's references that samples have, of these */
    vtrain_norm role_norm[VC_ROLES];     /* sub NULL: the transformer does not take the role */
    vc_mode mode;                        /* vtrain_fit's, as are the next */
    int64_t embeds[2];
    int mask_channels;                   /* at least 1 */
    bool needs_mask;                     /* vtrain_fit's */
    bool references_in_front;            /* likewise */
    int control_kinds;                   /* likewise, */
    int32_t control_kind;                /* as is that of samples without one (kinds.h) */
    vtrain_sound sound;                  /* channels 0: the model has none */
    int frame_multiple;                  /* 0 before a fit */
    bool weighted;                       /* a group's first sample has a loss mask */
    int clean_frames;                    /* latent frames in front of each clip that take the values
                                          * of its image, where it has one */
    vtrain_slot slot[VTRAIN_TEXTS];
    int n_slots;
    vtrain_sample *sample;
    uint32_t n_samples, n_held_out;
    vtrain_group *group;
    uint32_t n_groups;
    vtrain_visited *visited;
    uint32_t n_visited, n_visits;        /* sample numbers; sum of their repeats */
    bool varied;                         /* a number's variants lie in several groups */
};

/* ---- facts.c ---- */

enum { VTRAIN_RELEASE_EVERY = 1 << 20 }; /* samples that are read before their pages are released */
const vf_entry *vtrain_data_entry(const vtrain_data *d, const vtrain_sample *s);
/* The kind of a sample: its dataset's, or that of its mark; and the factor of its loss. */
const vtrain_set_kind *vtrain_sample_kind(const vtrain_data *d, uint32_t i);
double vtrain_sample_loss(const vtrain_data *d, uint32_t i);
/* Returns the entry of sample i to a pass over all samples. The pages that the pass has read are
 * released again and again, as those of millions of samples would fill the memory. */
const vf_entry *vtrain_data_scan(const vtrain_data *d, uint32_t i);
/* Channels of a role's values; embeddings have one. */
int vtrain_role_channels(const vtrain_data *d, vc_role role);

/* ---- sound.c ---- */

/* Reads how the sound of the datasets was made, for a transformer that takes fit->sound numbers for
 * each latent frame of it, and finds the groups' longest. VC_EMISMATCH: no dataset has sound, or
 * two differ in it. */
int vtrain_sound_fit(vtrain_data *d, const vtrain_fit *fit, vc_err *err);

/* ---- lengths.c ---- */

/* Finds the longest text of each slot, among all that the datasets have: the slots' `longest`. It
 * stays 0 where texts are damaged or too many, where samples may join, and where texts have a fixed
 * number of rows in any case. */
int vtrain_lengths_measure(vtrain_data *d, vc_err *err);

/* ---- groups.c ---- */

/* Makes the groups of the listed samples. The first sample of each group must have a latent of the
 * group's shape: buffers are sized by groups, and a hostile index could claim any shape. */
int vtrain_groups_make(vtrain_data *d, vc_err *err);

/* ---- fit.c: reads and compares manifests ---- */

int vtrain_head_read(vtrain_head *h, const cJSON *manifest, vc_err *err);
/* VC_EMISMATCH names the field and both values. Families may differ, because values depend on the
 * encoders only. allow: a fingerprint may differ. same_norm: the normalisation must be the same. */
int vtrain_head_compare(const vtrain_head *a, const vtrain_head *b, bool allow, bool same_norm,
                        vc_err *err);
/* VC_EMISMATCH names all fields that differ, with b's value before a's. */
int vtrain_norm_compare(const vtrain_norm_fields *a, const vtrain_norm_fields *b, vc_err *err);
/* VC_EMISMATCH: a text encoder of model_dir has another class than the dataset's. An encoder
 * without config.json is not checked. */
int vtrain_texts_check(const vtrain_head *h, const char *model_dir, vc_err *err);
/* Replaces the fields of f that model_dir/vae/config.json has. VC_EMISMATCH: the file is of another
 * VAE class. *config: the file's JSON, borrowed by f and freed by the caller; NULL if the file does
 * not exist. */
int vtrain_norm_config(vtrain_norm_fields *f, const char *model_dir, const vtrain_head *h,
                       cJSON **config, vc_err *err);
/* Allocates norm's two arrays as one; the caller frees sub. */
int vtrain_norm_alloc(vtrain_norm *norm, int channels, vc_err *err);
int vtrain_norm_make(vtrain_norm *norm, const vtrain_norm_fields *f, int channels, vc_err *err);

/* ---- read.c: reads values, and checks each against its dataset's records ---- */

typedef struct vtrain_latent_value {
    vf_safetensors *st;                  /* the caller closes it after the views' last use */
    vf_view mean;                        /* [C,f,h,w]: `mean`, or `sample` if `mean` is missing;
                                          * `mask`; `image_embeds` [n,D] */
    vf_view logvar;                      /* [C,f,h,w] or [1,f,h,w]; nd 0: not stored */
    size_t variants;                     /* noised first frames: size of an additional first axis of
                                          * both; else 1 */
} vtrain_latent_value;
/* Opens a sample's latent. check: compares the value's xxh3 too. Errors name shard and key;
 * vtrain_name_sample adds dataset and sample. */
int vtrain_latent_open(const vtrain_data *d, uint32_t sample, bool check, vtrain_latent_value *v,
                       vc_err *err);

/* The `conditions` of a record, by role (common/roles.h). */
typedef struct vtrain_conditions {
    vf_key key[VC_ROLES];
    unsigned has;                        /* 1 << vc_role of the keys that are set */
    bool mask_all;                       /* inpaint: every pixel is to be generated */
} vtrain_conditions;
/* Reads the conditions of a record; unknown roles are ignored. VC_EFORMAT: a value is no key. */
int vtrain_conditions_read(vtrain_conditions *c, const cJSON *record, vc_err *err);
/* Reads the latent sizes of a record's `references`. VC_EFORMAT: too many, or no size. */
int vtrain_own_read(vtrain_own *own, const cJSON *record, vc_err *err);
/* Opens a role's value as vtrain_latent_open does. VC_ENOENT: the sample has no value of the role.
 * Errors begin with the role's name. */
int vtrain_condition_open(const vtrain_data *d, uint32_t sample, const vtrain_conditions *c,
                          vc_role role, bool check, vtrain_latent_value *v, vc_err *err);

/* Puts "DIR: sample 2:000000000042/000: " before the error's text; returns rc. */
int vtrain_name_sample(const vtrain_data *d, uint32_t sample, int rc, vc_err *err);

typedef struct vtrain_text_value {
    vf_safetensors *st;
    vf_view embeds;                      /* [n,width], 1 <= n <= segments * max_length; nd 0: pooled
                                          * only */
    vf_view pooled;                      /* [pooled]; nd 0: the slot has none */
} vtrain_text_value;
/* segments: of the text, or 0, which means 1. */
int vtrain_text_open(const vtrain_data *d, int set, int slot, vf_key key, int segments, bool check,
                     vtrain_text_value *v, vc_err *err);
/* Does the same for a text of a sample of the list, in whose shard it is searched first. */
int vtrain_text_of(const vtrain_data *d, uint32_t sample, int slot, vf_key key, int segments,
                   bool check, vtrain_text_value *v, vc_err *err);

/* Reads `text_chunks` of a record: the segments of its texts, or 0 where it has none. */
int vtrain_segments_read(int *segments, const cJSON *record, vc_err *err);
/* Sets the segments of a group from the record of its first sample. */
int vtrain_group_segments(vtrain_data *d, uint32_t sample, vc_err *err);

/* Reads the keys of one caption of a sample's record (vf_dataset_sample), one key for each slot.
 * VC_EFORMAT: the caption or a key is missing or damaged. */
int vtrain_caption_keys(const vtrain_data *d, const cJSON *record, int caption,
                        vf_key key[VTRAIN_TEXTS], vc_err *err);
/* Those of the caption with a class in place of the trigger word. VC_ENOENT: the record has
 * none. */
int vtrain_preserved_keys(const vtrain_data *d, const cJSON *record, int caption,
                          vf_key key[VTRAIN_TEXTS], vc_err *err);
/* Those of the sample's own empty prompt, or of its dataset's. */
int vtrain_empty_keys(const vtrain_data *d, int set, const cJSON *record, vf_key key[VTRAIN_TEXTS],
                      vc_err *err);
/* Reads the keys of any object with an array `field` of text keys. */
int vtrain_keys_read(const vtrain_data *d, const cJSON *o, const char *field,
                     vf_key key[VTRAIN_TEXTS], vc_err *err);

#endif
