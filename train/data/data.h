/* data.h - what a run trains on: one or several latent datasets as one list of samples.
 *
 * Opens the datasets, checks that they fit each other and the transformer, splits held-out samples
 * off, groups the rest by stored shape and kind, and knows how raw latents become what the
 * transformer sees. Opening reads the headers of one latent a group and of the empty prompts, and
 * no other values. Samples of weight 0 are left out of the list. vtrain_data_fit comes once, right
 * after open; then the handle is immutable and may serve many threads. */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include "common/cli/flags.h"
#include "formats/dataset/dataset.h"
#include "train/models/dit.h"

enum { VTRAIN_KEY = 32 };

typedef struct vtrain_data vtrain_data;

typedef struct vtrain_data_opts {
    const vc_list *paths;        /* "DIR", "DIR:2.5" or "DIR:repeat=3": repeats of its samples;
                                  * "DIR:0.7", of all or of none: its share of the visits */
    int64_t dataset_repeat;      /* >= 1, on top of the above */
    double eval_split;           /* 0..0.5 of the samples are held out */
    uint64_t seed;               /* of the split */
    const char *model_dir;       /* vae/config.json below it, if there, gives the normalisation;
                                  * text encoders there are of the classes that made the texts */
    bool allow_mismatch;         /* a fingerprint that differs between datasets, such a class, or
                                  * another normalisation than the model's, is no error */
    const int *shards;           /* [paths]: of each dataset only so many of its first shards,
                                  * finished or not, as vtrain_data_progress told; NULL: all */
} vtrain_data_opts;

/* A text encoder's slot, the same in all datasets. */
typedef struct vtrain_slot {
    char name[32];               /* "text_encoder", "text_encoder_2" */
    int64_t width, max_length;   /* prompt_embeds [n <= max_length, width] */
    bool embeds;                 /* they are there; else the slot is pooled only, and width its */
    int64_t pooled;              /* width of `pooled`, 0: there is none */
} vtrain_slot;

/* Raw latent z of channel c <-> x of the transformer: x = (z - sub[c]) * mul[c]. From
 * scaling_factor, shift_factor, mean, std: sub = shift + mean, mul = scaling / std, computed in
 * f64. */
typedef struct vtrain_norm {
    int channels;
    float *sub, *mul;
} vtrain_norm;

/* Samples of one shape and kind: a micro-batch is of one group. */
typedef struct vtrain_group {
    int f, h, w;                 /* latent grid as stored */
    int padded;                  /* frames that the transformer gets: f, or more after a fit */
    bool video;
    uint32_t samples;            /* distinct ones to train on, without held-out ones */
    uint64_t repeats;            /* of these in an epoch; a mean where variants differ in shape */
    uint64_t most;               /* of these in any epoch, at most */
    uint32_t tokens;             /* of one sample, as its record says */
    char name[32];               /* "5x16x16" (f h w), a still "16x16" */
} vtrain_group;

/* One sample of the list. */
typedef struct vtrain_sample {
    uint16_t dataset;
    uint32_t index;              /* in that dataset: vf_dataset_entry */
    uint32_t group;
    bool held_out;
} vtrain_sample;

/* VC_EINVAL: an incomplete dataset without `shards`, no samples, nothing left to train on, an epoch
 * above 2^28 samples; VC_EFORMAT: damaged, or a sample's own weight above 10,000,000;
 * VC_EMISMATCH names both sides (family, VAE, channels, encoders, widths). *note: a malloc'ed
 * line worth telling (normalisation of the model differs from the manifest's, samples left out),
 * or NULL. */
int vtrain_data_open(vtrain_data **out, const vtrain_data_opts *o, char **note, vc_err *err);
/* How far the datasets are written: closed shards of each (none of one that is not there yet), and
 * whether all are complete. */
int vtrain_data_progress(const vc_list *paths, int *shards, bool *complete, vc_err *err);
void vtrain_data_close(vtrain_data *d);                     /* NULL is fine */

/* vf_model_hash of the weights that made the values: of "vae", or of a slot's text encoder. False:
 * that dataset does not tell. */
bool vtrain_data_weights(const vtrain_data *d, int set, const char *component, vf_key *k);

/* What the transformer wants beyond plain latents. fit->pad_front: clips get copies of their first
 * latent frame in front until their frames are a multiple of fit->mult[0]. fit->clean_first: the
 * first frame of a clip with a first-frame image is the image's mean, since samples begin with a
 * frame that was encoded alone, too. fit->roles: the
 * conditions that the loader is to bring, scaled as family->scale says; the first sample of each
 * group is looked at. VC_EMISMATCH names both sides when the dataset was made without them; errors
 * of a sample name it. *note: a malloc'ed line (conditions that nobody asks for), or NULL. */
int vtrain_data_fit(vtrain_data *d, const vtrain_family *family,
                    const vtrain_fit *fit, char **note, vc_err *err);
unsigned vtrain_data_roles(const vtrain_data *d);           /* 1 << vc_role, as fitted */
/* Scaling of a role's values, of one channel for a mask: x = (z - sub[c]) * mul[c]. */
const vtrain_norm *vtrain_data_role_norm(const vtrain_data *d, vc_role role);
/* Latent frames that the transformer gets for a clip of f. */
int vtrain_data_frames(const vtrain_data *d, int f);
/* Whether a group's first sample has a loss mask; others may have one all the same. */
bool vtrain_data_weighted(const vtrain_data *d);

const char *vtrain_data_family(const vtrain_data *d);       /* of the manifests */
const char *vtrain_data_vae(const vtrain_data *d);          /* class of the VAE */
const vtrain_norm *vtrain_data_norm(const vtrain_data *d);
int vtrain_data_slots(const vtrain_data *d);
const vtrain_slot *vtrain_data_slot(const vtrain_data *d, int i);
uint32_t vtrain_data_groups(const vtrain_data *d);
const vtrain_group *vtrain_data_group(const vtrain_data *d, uint32_t i);
uint32_t vtrain_data_samples(const vtrain_data *d);         /* distinct, held-out ones included */
uint32_t vtrain_data_held_out(const vtrain_data *d);
const vtrain_sample *vtrain_data_sample(const vtrain_data *d, uint32_t i);
/* Held-out samples: those whose number's VC_DRAW_SPLIT draw (id = number, variant = place of the
 * dataset) is below eval_split, and always the number of the least, never that of the greatest. So
 * all variants of a number go together, and a number that was trained on stays so when others join
 * (but for the greatest, while all others are below). */

/* The epoch: each sample number as often as its repeats say, each visit in the number's next
 * variant, across epochs: visit j of r in epoch e takes variant (s + e r + j) mod k of the k that
 * are in the list, where s is a draw below k (id = number, variant = place of the dataset,
 * VC_DRAW_VARIANT). A number's repeats are dataset_repeat x the dataset's weight x the own weight
 * of its first variant; a fraction f left over counts once more if a draw (id = number, variant =
 * 256 + place of the dataset, VC_DRAW_SPLIT) is below f. Every number whose weight is above 0
 * counts at least once. Writes [visits] samples and their groups. */
void vtrain_data_epoch(const vtrain_data *d, uint64_t epoch, uint32_t *row, uint32_t *group);
uint32_t vtrain_data_visits(const vtrain_data *d);
/* Whether the groups of the visits change from epoch to epoch. */
bool vtrain_data_varied(const vtrain_data *d);

/* Datasets as a checkpoint names them: path, root, plan (NULL: it names none), samples. The root is
 * that of the samples seen. */
int vtrain_data_sets(const vtrain_data *d);
const vf_dataset *vtrain_data_set(const vtrain_data *d, int i);
const char *vtrain_data_root(const vtrain_data *d, int i);
const char *vtrain_data_plan(const vtrain_data *d, int i);
/* "000000000042/000", of the second dataset "2:000000000042/000", into buf. */
char *vtrain_data_key(const vtrain_data *d, uint32_t sample, char buf[VTRAIN_KEY]);

/* ---- text ---- */

/* Embeddings of one prompt by one encoder, f32 on the host. */
typedef struct vtrain_embeds {
    int64_t n, width;            /* [n,width] */
    float *embeds;               /* NULL, n 0: the slot is pooled only */
    float *pooled;               /* [slot's pooled] or NULL */
} vtrain_embeds;

/* One prompt to sample from during training: a `validation` record of the first dataset; when there
 * is none, captions of up to four training samples (from_training). */
typedef struct vtrain_prompt {
    char *text, *negative;       /* negative: "" is the empty prompt */
    bool from_training;
    vtrain_embeds pos[VTRAIN_TEXTS], neg[VTRAIN_TEXTS];     /* neg without key: the empty prompt */
    int f, h, w;                 /* latent grid: from height, width (cut to whole latents) and
                                  * num_frames (rounded up); else that of the group with most
                                  * repeats; from_training: of its sample */
    int frames;                  /* pixel frames, to cut the decoded clip to */
    double fps;                  /* 0: not said */
    int steps;                   /* num_inference_steps; 0: not said */
    bool has_guidance;
    double guidance;             /* guidance_scale */
    bool has_seed;
    uint64_t seed;
    float *cond[VC_ROLES];       /* in raw VAE space (means of posteriors), or NULL: the first frame
                                  * [C,1,h,w], the masked clip [C,f,h,w], its mask [1,f,h,w]; the
                                  * grid's h and w are then theirs */
} vtrain_prompt;
uint32_t vtrain_data_prompts(const vtrain_data *d);
int vtrain_data_prompt(const vtrain_data *d, uint32_t i, vtrain_prompt *p, vc_err *err);
void vtrain_prompt_free(vtrain_prompt *p);                  /* an all-zero one is fine */

#endif
