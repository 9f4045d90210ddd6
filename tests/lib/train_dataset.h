/* train_dataset.h - small datasets whose every value a test can recompute, and damaged ones. */
#ifndef TESTS_LIB_TRAIN_DATASET_H
#define TESTS_LIB_TRAIN_DATASET_H

#include "common/roles.h"
#include "formats/dataset/dataset.h"

enum { TOY_CAPTIONS = 3, TOY_TOKENS = 12 };
#define TOY_PLAN "fedcba9876543210fedcba9876543210"      /* `plan` of the manifest */

typedef struct toy_sample {
    uint32_t number, variant;
    int f, h, w;                             /* latent grid; f 0: a still */
    const char *caption[TOY_CAPTIONS];       /* NULL-ended */
    double weight;                           /* 0: the field is left out */
    bool unwanted;                           /* weight 0 in the record */
    bool mask_all, loss_mask;                /* in the record; has a loss mask */
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
    int channels, width, pooled, encoders;   /* 0: 2, 4, 0, 1 */
    /* 1 << encoder: of whose texts only `pooled` is there */
    unsigned pooled_only;
    const char *family, *vae, *fingerprint;  /* NULL: "builtin", "VaeBuiltin", 32 digits */
    double scaling, shift;                   /* 0: 1, 0 */
    bool per_channel;                        /* mean c, std 1 + c */
    bool invert;                             /* invert_scale_latents */
    const char *train_mode;                  /* NULL: "normal" */
    /* 1 << vc_role, of each sample, whole or damaged as `damage` says */
    unsigned conditions;
    int noised;                              /* variants of image_noised */
    toy_store store;
    int prompts;                             /* validation records */
    const char *own;                         /* JSON: further fields of the odd ones, or NULL */
    const toy_sample *image;                 /* a still that even prompts begin with, or NULL */
    const toy_sample *masked;                /* a sample whose masked clip and mask they have */
    bool unfinished;                         /* vprep was killed: committed, never finished */
    uint32_t bad;                            /* number of the sample that has the damage */
    toy_damage damage;
} toy;

/* Makes it anew; fails the test if that cannot be done. */
void toy_make(const toy *t);
/* The same in steps: a writer, t's zeros filled in, with nothing put yet but the empty prompt; then
 * samples of one's own; then the end. */
vf_writer *toy_open(toy *t, double shard_seconds, bool overwrite);
void toy_put(vf_writer *w, const toy *t, const toy_sample *s);
void toy_finish(vf_writer *w);

/* Of a sample's record. */
static inline double toy_fps(uint32_t number)
{
    return 20 + number % 8;
}

/* What is stored: exact in f16. i counts elements in C,f,h,w order. */
float toy_mean(uint32_t number, uint32_t variant, int64_t i);
float toy_logvar(int64_t i);
float toy_condition(vc_role what, uint32_t number, int64_t i);    /* `mean`, or `mask` */
int toy_tokens(const char *prompt);          /* 1..TOY_TOKENS */
float toy_embed(const char *prompt, int encoder, int64_t i);
float toy_pooled(const char *prompt, int encoder, int64_t i);

/* A folder of its own, removed with all in it. */
void toy_dir_make(char dir[256]);
void toy_dir_remove(const char *dir);
/* The same as cmocka's fixtures: *state is the folder. */
int toy_dir_setup(void **state);
int toy_dir_teardown(void **state);

#endif
