/* train_dataset.h - small datasets, whole or damaged, whose every value a test can recompute. */
#ifndef TESTS_LIB_TRAIN_DATASET_H
#define TESTS_LIB_TRAIN_DATASET_H

#include "common/roles.h"
#include "formats/dataset/dataset.h"

enum { TOY_CAPTIONS = 3, TOY_TOKENS = 12, TOY_EMBEDS = 5, TOY_EMBED_WIDTH = 40 };
#define TOY_PLAN "fedcba9876543210fedcba9876543210"      /* `plan` of the manifest */

typedef struct toy_sample {
    uint32_t number, variant;
    int f, h, w;                             /* latent grid; f is 0 for a still */
    const char *caption[TOY_CAPTIONS];       /* NULL after the last one */
    double weight;                           /* with 0 the record has no weight */
    bool unwanted;                           /* the record's weight is 0 */
    bool mask_all;                           /* field of the record */
    bool loss_mask;                          /* the sample has a loss mask */
    const char *extra;                       /* JSON of the record's field of this name, or NULL */
    int frames;                              /* pixel frames of the record; 0: it has none */
    int sound;                               /* latent frames of its sound; 0: it has none */
    int segments;                            /* of TOY_TOKENS rows each in its texts; 0: the record
                                              * has no text_chunks */
} toy_sample;

typedef enum toy_store { TOY_MOMENTS, TOY_SHARED_LOGVAR, TOY_SAMPLE, TOY_MODE } toy_store;

typedef enum toy_damage {
    TOY_WHOLE, TOY_NAN_MEAN, TOY_INF_LOGVAR, TOY_WRONG_SHAPE, TOY_INTEGERS, TOY_OTHER_NAME,
    TOY_LATENT_SUM, TOY_TEXT_WIDTH, TOY_TEXT_LONG, TOY_TEXT_NAN, TOY_TEXT_SUM,
    TOY_NO_POOLED, TOY_FEW_KEYS,
    TOY_NO_CONDITION, TOY_COND_NAN, TOY_COND_SHAPE, TOY_COND_NO_VARIANT, TOY_COND_SUM,
    TOY_COND_NEGATIVE
} toy_damage;

typedef struct toy {
    const char *path;
    const toy_sample *sample;
    int n;
    int channels, width, pooled, encoders;   /* 0 means 2, 4, 0, 1 */
    const int *widths, *pooleds;             /* [encoders] in place of width and pooled; or NULL */
    unsigned pooled_only;                    /* bits 1 << encoder: its texts have only `pooled` */
    int interleave;                          /* of the first encoder's texts; 0: without picture */
    const char *family, *vae, *fingerprint;  /* NULL means "builtin", "VaeBuiltin", 32 digits */
    double scaling, shift;                   /* scaling 0 means 1 */
    bool per_channel;                        /* channel c has the mean c and the std 1 + c */
    bool invert;                             /* invert_scale_latents */
    const char *train_mode;                  /* NULL means "normal" */
    unsigned conditions;                     /* bits 1 << vc_role: conditions of each sample;
                                              * references have the clip's size */
    int mask_channels, embeds;               /* 0 means 1, TOY_EMBEDS */
    bool black;                              /* masked pixels are black, in the manifest */
    int sound_channels, sound_bins;          /* of the sound that the manifest describes, whose
                                              * number k of a frame has the mean k and the std
                                              * 1 + k; 0: none */
    int noised;                              /* variants of image_noised */
    toy_store store;
    int prompts;                             /* number of validation records */
    const char *own;                         /* JSON: more fields of odd validation records */
    const toy_sample *image;                 /* a still, first image of even validation records */
    const toy_sample *masked;                /* sample whose conditions but the image these have */
    bool unfinished;                         /* the dataset is committed, but not finished */
    uint32_t bad;                            /* number of the sample that has the damage */
    toy_damage damage;
} toy;

/* Makes the dataset in place of an older one; an error fails the test. */
void toy_make(const toy *t);
/* Do the same in steps: toy_open() replaces t's zeros by their meanings and opens a writer, which
 * has only the empty prompt; toy_put() adds a sample; toy_finish() finishes and closes. */
vf_writer *toy_open(toy *t, double shard_seconds, bool overwrite);
void toy_put(vf_writer *w, const toy *t, const toy_sample *s);
void toy_finish(vf_writer *w);

/* Returns the fps of a sample's record. */
static inline double toy_fps(uint32_t number)
{
    return 20 + number % 8;
}

/* Return the stored values, which are exact in f16. i counts elements in C,f,h,w order. */
float toy_mean(uint32_t number, uint32_t variant, int64_t i);
float toy_logvar(int64_t i);
float toy_condition(vc_role role, uint32_t number, int64_t i);    /* of `mean`, or of `mask` */
int toy_tokens(const char *prompt);          /* 1..TOY_TOKENS */
float toy_embed(const char *prompt, int encoder, int64_t i);
float toy_pooled(const char *prompt, int encoder, int64_t i);

/* Make a folder for one test; remove it with its files. */
void toy_dir_make(char dir[256]);
void toy_dir_remove(const char *dir);
/* Do the same as cmocka's fixtures: *state, and toy_dir, is the folder. */
extern char toy_dir[256];
int toy_dir_setup(void **state);
int toy_dir_teardown(void **state);

#endif
