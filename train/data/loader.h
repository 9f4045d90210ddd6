/* loader.h - makes micro-batches ahead of time, in threads that copy them from the mapped datasets.
 *
 * Micro-batch m of the run is a pure function of (data, plan, m): order.h chooses the samples, and
 * draws of (row in the micro-batch, m) choose the caption (VC_DRAW_CAPTION), if it is dropped
 * (VC_DRAW_CAPTION_DROP), the posterior noise of stored moments (VC_DRAW_LATENT, C,f,h,w order),
 * the noised first frame (VC_DRAW_IMAGE), the noise of the first frame and of the masked clip
 * (VC_DRAW_IMAGE_LATENT, VC_DRAW_VIDEO_LATENT) and of the sound (VC_DRAW_SOUND_LATENT), and whether
 * conditions become zeros (VC_DRAW_COND_DROP). A micro-batch does not depend on the number of
 * threads or on the step where the run started.
 *
 * The loader delivers micro-batches in `parts` of equally many rows, each a batch of its own, for
 * ranks that share a micro-batch, or that have no memory for all its rows at once. Of n rows part s
 * has those from s n / parts on. A micro-batch of fewer rows than parts leaves some parts without:
 * these have its first row, with share 0.
 *
 *     vtrain_loader_next(l, &b, &waited, err);      // batches come in order of m
 *     ...
 *     vtrain_loader_give_back(l, b);                // its memory takes a later batch
 *
 * Conditions and frames in front are those of vtrain_data_fit. Posterior noise is drawn on the
 * stored grid: frames in front are copies of a drawn frame.
 *
 * Buffers are allocated at open, for the largest group, and reused; only a sample's record and the
 * headers of its values take some more KB while they are read. If a value is damaged, missing, of
 * another shape or not finite, next() returns an error for its batch, and for every later one; the
 * error names dataset, sample and key. Only one thread may call next(), peek() and give_back(). */
#ifndef TRAIN_DATA_LOADER_H
#define TRAIN_DATA_LOADER_H

#include "train/data/order.h"

typedef struct vtrain_loader vtrain_loader;

typedef enum { VTRAIN_LATENT_SAMPLE, VTRAIN_LATENT_MEAN } vtrain_latent;

typedef struct vtrain_loader_opts {
    vtrain_order_plan plan;
    uint32_t parts;              /* of a micro-batch, which divide plan.batch; 0: 1 */
    double caption_dropout;      /* 0..1 */
    double control_dropout;      /* 0..1: of control clips */
    double image_dropout;        /* 0..1: of first-frame images and of embeddings of them */
    double reference_dropout;    /* 0..1: of a micro-batch's reference pictures, all of them */
    double mask_dropout;         /* 0..1: of mask and masked clip, where the mask is everything */
    vtrain_latent latent;        /* choice for stored moments; a `sample` or a mean stored without
                                  * logvar is taken unchanged */
    bool held_out;               /* makes one pass over the held-out samples instead: batches of one
                                  * group, in list order; no dropout, first captions, clean
                                  * images */
    int64_t least_rows;          /* of a text that has states; 0: 1 */
    int distill;                 /* batches have the noise that their samples began with, from
                                  * which they take this number of steps; 0: they have none */
    bool any_steps;              /* samples whose records have another number take it too */
    bool noise_bf16;             /* this noise is rounded to bf16 */
    bool full_texts;             /* all batches of a bucket have texts of one length, the longest
                                  * that it can have, so that a token's place in a sequence of text
                                  * and clip does not depend on the other samples */
    int threads;                 /* >= 1 */
    int ahead;                   /* batches made ahead, >= 1 */
    uint64_t first, end;         /* parts of the run, number m * parts + s for part s of micro-batch
                                  * m: first, first + stride, .. below end */
    uint64_t stride;             /* number of ranks, each of which loads its own; 0: loads all */
    bool check;                  /* compare xxh3 of latent and texts the first time a sample is
                                  * read */
} vtrain_loader_opts;

/* Text of one encoder for a batch, f32, zero beyond each row's length. */
typedef struct vtrain_text {
    int64_t n, width;            /* n: the longest row, at least 1 */
    float *embeds;               /* [rows,n,width]; NULL, with n 0: pooled embeddings only */
    int32_t *length;             /* [rows] 1..n; 0 if pooled only */
    int64_t pooled_width;
    float *pooled;               /* [rows,pooled_width] or NULL */
} vtrain_text;

typedef struct vtrain_batch {
    uint64_t number;             /* of the part in the run */
    uint64_t micro;              /* number of its micro-batch in the run */
    uint32_t first;              /* row of the micro-batch that is its first row */
    uint32_t group;
    int rows;
    int counted;                 /* rows that the run counts: rows, or 0 of a part without rows */
    double share;                /* weight of its mean loss in that of the micro-batch, times parts:
                                  * rows * parts / n, or 0 */
    int64_t dim[5];              /* rows, C, f, h, w; f with the copies in front */
    float *latents;              /* x0: drawn from the posterior and normalised, packed */
    unsigned roles;              /* 1 << vc_role of the conditions below */
    vtrain_own own;              /* sizes of the references among them */
    bool paired, alone;          /* the samples have references; a draw left these out */
    float *cond[VC_ROLES];       /* as vtrain_in's: image [rows,C,1,h,w], video [rows,C,f,h,w], mask
                                  * [rows,1,f,h,w], references [rows,C,1,H,W]; NULL: none */
    bool *cond_dropped;          /* [rows]: the row's pictures are zeros */
    int64_t sound_dim[5];        /* rows, C, L, 1, bins of models with sound; else zeros */
    float *sound;                /* as latents, of sizes sound_dim, zeros behind a row's frames */
    int32_t *sound_length;       /* [rows] latent frames of the row's sound; 0: it has none */
    bool weighted;               /* a row has a loss mask */
    float *loss_weight;          /* if weighted: [rows,1,f,h,w] factor of the level's weight, 1 in
                                  * rows without a mask */
    int32_t *control_kind;       /* [rows] of the condition's picture (kinds.h); 0 where the model
                                  * reads none */
    float *fps;                  /* [rows] frames a second of the clip; 0: not known */
    int n_texts;
    vtrain_text text[VTRAIN_TEXTS];
    char (*key)[VTRAIN_KEY];     /* [rows] */
    const float *loss_scale;     /* [rows] factor of the row's loss, by its dataset */
    const bool *held;            /* [rows]: the row's dataset is not learned (sets.h) */
    bool base;                   /* the target of all rows is the base's prediction, */
    float *target;               /* which the step writes here, of sizes dim; NULL: no group has
                                  * such a target */
    float *sound_target;         /* and that of the sound, of sizes sound_dim; NULL: as target, or
                                  * the model has no sound */
    float *noise;                /* of sizes dim: the noise that each row began with (starts.h);
                                  * NULL: the step draws noise */
    bool *dropped;               /* [rows]: the empty prompt replaces the row's caption, if it has
                                  * one, by a draw */
    uint64_t tokens;             /* transformer tokens of all rows, without text */
} vtrain_batch;

/* Counts the micro-batches of a pass over the held-out samples. */
int vtrain_loader_pass(const vtrain_data *d, uint32_t batch, uint64_t *n, vc_err *err);

int vtrain_loader_open(vtrain_loader **out, const vtrain_data *d, const vtrain_loader_opts *o,
                       vc_err *err);
void vtrain_loader_close(vtrain_loader *l);                 /* stops the threads; NULL is fine */
/* The next batch, borrowed until given back; *waited: seconds spent waiting. *b NULL past the
 * end. At most `ahead` batches may be out at a time. */
int vtrain_loader_next(vtrain_loader *l, const vtrain_batch **b, double *waited, vc_err *err);
void vtrain_loader_give_back(vtrain_loader *l, const vtrain_batch *b);
/* The batch that next() would return without waiting, or NULL; the loader owns the batch until
 * next() returns it to the caller. */
const vtrain_batch *vtrain_loader_peek(vtrain_loader *l);
/* Bytes of all buffers and of the order, for the prediction of memory. */
size_t vtrain_loader_bytes(const vtrain_loader *l);

#endif
