/* data.h - the training data: one or several latent datasets as one list of samples.
 *
 * Opens the datasets, checks that they fit each other and the transformer, holds samples out,
 * groups the others by stored shape, kind and target, and has the normalisation of raw latents.
 * Opening reads the headers of one latent a group and of the empty prompts, and the fit those of
 * one text of each size; no other values.
 * Samples of weight 0 are left out of the list. vtrain_data_fit is called once, right after open;
 * from then on several threads may use the immutable handle. */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include "common/cli/flags.h"
#include "formats/dataset/dataset.h"
#include "train/data/sets.h"
#include "train/models/dit.h"

enum { VTRAIN_KEY = 32 };

typedef struct vtrain_data vtrain_data;

typedef struct vtrain_data_opts {
    const vc_list *paths;        /* "DIR", "DIR:repeat=3" and others of sets.h */
    int64_t dataset_repeat;      /* >= 1, on top of the above */
    double eval_split;           /* 0..0.5 of the samples are held out */
    uint64_t seed;               /* of the split */
    const char *model_dir;       /* its vae/config.json, if present, gives the normalisation; its
                                  * text encoders need the classes of the datasets' */
    double scale;                /* of latents, instead of the VAE's scaling_factor; 0: none */
    bool allow_mismatch;         /* fingerprints that differ between datasets, other classes of text
                                  * encoders, or another normalisation are no errors */
    double prior_loss;           /* factor of the loss of samples that vprep has marked; 0: 1 */
    const int *shards;           /* [paths] number of each dataset's first shards to open, finished
                                  * or not (vtrain_data_progress); NULL: all */
} vtrain_data_opts;

/* A text encoder's slot, the same in all datasets. */
typedef struct vtrain_slot {
    char name[32];               /* "text_encoder", "text_encoder_2" */
    int64_t width, max_length;   /* prompt_embeds [n <= max_length, width] */
    int64_t interleave;          /* every interleave-th state of the clip's first frame stands in
                                  * front of texts; 0: they have none; -1: not known */
    bool embeds;                 /* false: the slot has pooled embeddings only, of this width */
    int64_t pooled;              /* width of `pooled`; 0: not stored */
    int64_t rows;                /* as fitted: rows of zeros follow a prompt up to this number; 0:
                                  * up to the longest of the batch */
    bool absent;                 /* as fitted: a text of one row of zeros is none */
    int64_t longest;             /* as fitted: rows of the longest stored text; 0: not known, since
                                  * texts may still come, or not needed */
} vtrain_slot;
/* The most rows that texts of these segments (0: of the whole clip) have in a batch. full: all
 * batches have the rows that the longest possible text has (loader.h). */
int64_t vtrain_data_longest(const vtrain_slot *s, int segments, bool full);
/* The number of tokens of a text x [n,width] of the slot. */
int64_t vtrain_slot_length(const vtrain_slot *s, const float *x, int64_t n);

/* Raw latent z of channel c <-> x of the transformer: x = (z - sub[c]) * mul[c]. From
 * scaling_factor, shift_factor, mean, std: sub = shift + mean, mul = scaling / std, computed in
 * f64. */
typedef struct vtrain_norm {
    int channels;
    float *sub, *mul;
} vtrain_norm;

/* The sound of clips: latents [C,L,1,bins] of L frames. */
typedef struct vtrain_sound {
    int channels, bins;          /* 0: the model has no sound */
    double rate;                 /* latent frames a second */
    vtrain_norm norm;            /* of the channels * bins numbers of a frame, a channel's bins one
                                  * behind the other */
} vtrain_sound;

/* Latent rows and columns of a sample's reference pictures; 0: it has none of that place. */
typedef struct vtrain_own {
    uint16_t size[VC_REFERENCES][2];
} vtrain_own;

/* Samples of one shape and kind, with references of the same sizes: a micro-batch is of one
 * group. */
typedef struct vtrain_group {
    int f, h, w;                 /* latent grid as stored */
    int padded;                  /* frames that the transformer gets: f, or more after a fit */
    bool video;
    uint32_t samples;            /* distinct training samples, without held-out ones */
    uint64_t repeats;            /* visits in an epoch; a mean where variants differ in shape */
    uint64_t most;               /* visits in any epoch, at most */
    uint32_t tokens;             /* of one sample, from its record */
    int64_t text_rows;           /* as fitted: tokens of a caption of the first slot, where
                                  * fit->whole_texts; else 0 */
    bool base;                   /* the target is the base's prediction (sets.h) */
    int sound;                   /* as fitted: latent frames of the longest sound that a sample of
                                  * its frames and rate can have, at least 1 and
                                  * fit->sound_least; 0: the model has no sound */
    int segments;                /* of each text (`text_chunks`), all of the same number of rows; 0:
                                  * texts are of the whole clip */
    vtrain_own own;
    char name[80];               /* "5x16x16" (f h w), a still "16x16", beside a
                                  * reference "16x16+12x20", with `base` "5x16x16-prior" */
} vtrain_group;

/* One sample of the list. */
typedef struct vtrain_sample {   /* 8 bytes, since there may be millions */
    uint32_t index;              /* in the dataset: vf_dataset_entry's */
    uint32_t dataset : 10;
    uint32_t group : 21;
    uint32_t held_out : 1;
} vtrain_sample;

/* VC_EINVAL: an incomplete dataset without `shards`, no samples, nothing left to train on, an epoch
 * above 2^28 samples; VC_EFORMAT: damaged, or a sample's own weight above 10,000,000;
 * VC_EMISMATCH names both values (family, VAE, channels, encoders, widths). *note: a malloc'ed
 * message for the user (normalisation of the model differs from the manifest's, samples left out),
 * or NULL. */
int vtrain_data_open(vtrain_data **out, const vtrain_data_opts *o, char **note, vc_err *err);
/* Finds how far the datasets are written: the closed shards of each (0 of a dataset that does not
 * exist yet), and whether all are complete. */
int vtrain_data_progress(const vc_list *paths, int *shards, bool *complete, vc_err *err);
/* Finds whether samples that are waited for can still come. VC_ENOENT names a dataset whose vprep
 * has ended: one without a closed shard, or any if nobody writes the others either. */
int vtrain_data_awaited(const vc_list *paths, const int *shards, vc_err *err);
void vtrain_data_close(vtrain_data *d);                     /* NULL is fine */

/* Finds the hash (vf_model_hash) of the weights of a dataset's "vae", or of a slot's text encoder.
 * Returns false if the dataset does not record the hash. */
bool vtrain_data_weights(const vtrain_data *d, int set, const char *component, vf_key *k);

/* Fits the data to a transformer. fit->pad_front: clips get copies of their first latent frame in
 * front until their frames are a multiple of fit->mult[0]. fit->clean_first: the first frame of a
 * clip with a first-frame image becomes the image's mean, since samples begin with a frame that was
 * encoded alone, too. fit->roles: the conditions that the loader adds to batches, scaled by
 * family->scale; the first sample of each group is checked for them. fit->text_rows, whole_texts,
 * mean_roles and embeds say how batches hold prompts and conditions (dit.h). fit->sound: batches
 * have the sound of clips, where samples have some. VC_EMISMATCH names
 * dataset and transformer if the dataset was made without them; errors of a sample name the sample.
 * *note: a malloc'ed message (the transformer takes no conditions, but the dataset has some), or
 * NULL. */
int vtrain_data_fit(vtrain_data *d, const vtrain_family *family,
                    const vtrain_fit *fit, char **note, vc_err *err);
unsigned vtrain_data_roles(const vtrain_data *d);           /* 1 << vc_role, as fitted */
/* Those of samples whose references have these sizes. */
unsigned vtrain_data_roles_of(const vtrain_data *d, const vtrain_own *own);
/* Scaling of a role's values: x = (z - sub[c]) * mul[c]. */
const vtrain_norm *vtrain_data_role_norm(const vtrain_data *d, vc_role role);
/* The sizes of a role's values for latents of sizes x: a first frame, a clip of x's size, a mask of
 * the transformer's channels, a reference of its own size, or embeddings [B,n,D]. Returns how many
 * sizes of `of` are set, 5 or 3. */
int vtrain_data_role_dim(const vtrain_data *d, vc_role role, const int64_t x[5],
                         const vtrain_own *own, int64_t of[5]);
/* The sound, as fitted, and the latent frames of that of `frames` pixel frames at a rate, from 1
 * on. */
const vtrain_sound *vtrain_data_sound(const vtrain_data *d);
/* Before the fit: VC_EMISMATCH if no dataset has sound. */
int vtrain_data_sound_check(const vtrain_data *d, vc_err *err);
int vtrain_data_sound_frames(const vtrain_data *d, double frames, double fps);
/* Latent frames that the transformer gets for a clip of f. */
int vtrain_data_frames(const vtrain_data *d, int f);
/* True if a group's first sample has a loss mask; if false, other samples may still have one. */
bool vtrain_data_weighted(const vtrain_data *d);

const char *vtrain_data_family(const vtrain_data *d);       /* of the manifests */
vc_mode vtrain_data_mode(const vtrain_data *d);             /* of the first manifest */
const char *vtrain_data_vae(const vtrain_data *d);          /* class of the VAE */
const vtrain_norm *vtrain_data_norm(const vtrain_data *d);
int vtrain_data_slots(const vtrain_data *d);
const vtrain_slot *vtrain_data_slot(const vtrain_data *d, int i);
uint32_t vtrain_data_groups(const vtrain_data *d);
const vtrain_group *vtrain_data_group(const vtrain_data *d, uint32_t i);
uint32_t vtrain_data_samples(const vtrain_data *d);         /* distinct, held-out ones included */
uint32_t vtrain_data_held_out(const vtrain_data *d);
const vtrain_sample *vtrain_data_sample(const vtrain_data *d, uint32_t i);
/* Held-out samples are those whose number's VC_DRAW_SPLIT draw (id = number, variant = place of the
 * dataset) is below eval_split, and always the number with the least draw, never that with the
 * greatest. So all variants of a number are held out together, and a number that was trained on is
 * not held out when others join (except the one with the greatest draw, if all others are below
 * eval_split). */

/* Writes the [visits] samples of an epoch and, unless `group` is NULL, their groups: each sample
 * number as often as its repeats, each visit in the number's next variant, across epochs: visit j
 * of r in epoch e takes variant (s + e r + j) mod k of the k variants in the list, where s is a
 * draw below k (id = number, variant = place of the dataset, VC_DRAW_VARIANT). A number's repeats
 * are dataset_repeat x the dataset's weight x the weight of the number's first variant; a remaining
 * fraction f counts as one more repeat if a draw (id = number, variant = 256 + place of the
 * dataset, VC_DRAW_SPLIT) is below f. Every number whose weight is above 0 is visited at least
 * once. */
void vtrain_data_epoch(const vtrain_data *d, uint64_t epoch, uint32_t *row, uint32_t *group);
uint32_t vtrain_data_visits(const vtrain_data *d);
/* True if the groups of the visits change from epoch to epoch. */
bool vtrain_data_varied(const vtrain_data *d);

/* Datasets as a checkpoint records them: path, root, plan (NULL: not recorded), samples. The root
 * is that of the opened shards. */
int vtrain_data_sets(const vtrain_data *d);
const vf_dataset *vtrain_data_set(const vtrain_data *d, int i);
/* How its samples are taken, and the factor of their loss, but for those that are marked. */
const vtrain_set_kind *vtrain_data_kind(const vtrain_data *d, int set, double *loss);
/* The kinds of its samples that vprep has marked, i from 0 to 1, and the factor of their loss;
 * NULL: it has none of them. */
const vtrain_set_kind *vtrain_data_marked(const vtrain_data *d, int set, int i, double *loss);
/* True if a sample is of a kind with a name; with `base`, if one has the base as target. */
bool vtrain_data_holds(const vtrain_data *d, bool base);
const char *vtrain_data_root(const vtrain_data *d, int i);
const char *vtrain_data_plan(const vtrain_data *d, int i);
/* Writes a sample's key to buf: "000000000042/000", of the second dataset "2:000000000042/000". */
char *vtrain_data_key(const vtrain_data *d, uint32_t sample, char buf[VTRAIN_KEY]);

/* ---- text ---- */

/* Embeddings of one prompt by one encoder, f32 on the host. */
typedef struct vtrain_embeds {
    int64_t n, width;            /* [n,width] */
    float *embeds;               /* NULL, with n 0: the slot has pooled embeddings only */
    float *pooled;               /* [slot's pooled] or NULL */
} vtrain_embeds;

/* What stands beside a prompt's sample, by its name in the record's `conditions`; the transformer
 * does not take it as a condition. */
typedef enum vtrain_asides {
    VTRAIN_TARGET,               /* `target`: the clip that the sample is compared with */
    VTRAIN_START,                /* `start`: the end of a clip, with which the sample begins */
    VTRAIN_LAST,                 /* `last`: a picture behind the sample's last frame */
    VTRAIN_ASIDES
} vtrain_asides;
extern const char *const vtrain_aside_names[VTRAIN_ASIDES];
typedef struct vtrain_aside {
    float *x;                    /* [C,f,h,w] in raw VAE space, or NULL */
    int64_t dim[4];
} vtrain_aside;

/* One prompt to sample from during training: a `validation` record of the first dataset or, if the
 * dataset has none, a caption of one of up to four training samples (from_training), with the
 * sample's first frame where the transformer takes one. */
typedef struct vtrain_prompt {
    char *text, *negative;       /* negative: "" is the empty prompt */
    bool from_training;
    vtrain_embeds pos[VTRAIN_TEXTS], neg[VTRAIN_TEXTS];     /* neg: the empty prompt if not given */
    int f, h, w;                 /* latent grid: from height, width (cut to whole latents) and
                                  * num_frames (rounded up); else of the group with most repeats;
                                  * from_training: of its sample */
    int frames;                  /* pixel frames, to cut the decoded clip to */
    int32_t control_kind;        /* of the control picture (kinds.h), where the model reads it */
    double fps;                  /* 0: not given */
    int steps;                   /* num_inference_steps; 0: not given */
    bool has_guidance;
    double guidance;             /* guidance_scale */
    bool has_seed;
    uint64_t seed;
    float *cond[VC_ROLES];       /* in raw VAE space (means of posteriors), or NULL: the first frame
                                  * [C,1,h,w], the masked clip [C,f,h,w], its mask [..,f,h,w]; the
                                  * grid's h and w are then theirs; embeddings [n,D] where the
                                  * transformer takes some */
    vtrain_own own;              /* sizes of the references among cond, [C,1,H,W] */
    vtrain_aside aside[VTRAIN_ASIDES];     /* from_training: the sample's own latents are its
                                  * target. `start` and `last` [C,1,h,w] have the grid's h and w */
} vtrain_prompt;
uint32_t vtrain_data_prompts(const vtrain_data *d);
/* The latent frames of a sample of `frames` frames. */
int64_t vtrain_data_latents(const vtrain_data *d, int64_t frames);
int vtrain_data_prompt(const vtrain_data *d, uint32_t i, vtrain_prompt *p, vc_err *err);
void vtrain_prompt_free(vtrain_prompt *p);                  /* an all-zero one is fine */

#endif
